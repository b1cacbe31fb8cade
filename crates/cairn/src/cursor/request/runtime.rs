//! The message of one turn: what the person said, with everything that belongs to this turn only.
//!
//! Rendered once, then stored and replayed as it is. Must never know: rules, skills, MCP servers or anything else
//! that holds for the conversation.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use prost::Message as _;

use super::attachments::{attachments, editor_state};
use super::images::{BlobNeed, BlobResolver, image_needs, image_parts};
use super::{Mode, RequestError};
use crate::cursor::prompting::{PromptAssets, RuntimeSlots};
use crate::cursor::proto::agent::invocation_context::Data;
use crate::cursor::proto::agent::{InvocationContext, SelectedContext, UserMessage};
use crate::model::Part;

/// What a turn's message is made of.
pub struct RuntimeInput<'a> {
    /// The mode of the turn.
    pub mode: Mode,
    /// What the person sent.
    pub user_message: &'a UserMessage,
    /// When it was sent.
    pub now: Timestamp,
    /// The person's IANA time zone. Without a known one the time is given in UTC and says so.
    pub time_zone: Option<&'a str>,
    /// What a change of mode has to tell the model; the caller knows whether there was one.
    pub mode_reminder: Option<&'a str>,
    /// The blobs of [`needed_blobs`].
    pub blobs: &'a BlobResolver<'a>,
}

impl fmt::Debug for RuntimeInput<'_> {
    /// Says nothing of what the person wrote.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeInput")
            .field("mode", &self.mode)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// The blobs that must be at hand before the message can be compiled.
pub fn needed_blobs(message: &UserMessage) -> Vec<BlobNeed> {
    let context = message.selected_context.as_ref();
    let images = context.into_iter().flat_map(image_needs);
    text_need(message)
        .into_iter()
        .chain(editor_need(context))
        .chain(images)
        .collect()
}

/// Compiles the message of a turn: one text, then the images in the order in which they were attached.
pub fn compile_runtime_message(
    assets: &PromptAssets,
    input: &RuntimeInput<'_>,
) -> Result<Vec<Part>, RequestError> {
    let message = input.user_message;
    let nothing = SelectedContext::default();
    let context = message.selected_context.as_ref().unwrap_or(&nothing);
    let text_blob = match text_need(message) {
        Some(need) => {
            let bytes = need.resolve(input.blobs)?;
            Some(String::from_utf8(bytes.into()).map_err(|_| need.undecodable())?)
        }
        None => None,
    };
    let reminder = message.subagent_system_reminder.as_deref().unwrap_or_default();
    let text = assets.mode(input.mode).runtime.render(&RuntimeSlots {
        current_time: &local_time(input.now, input.time_zone),
        editor_state: &editor(context, input.blobs)?,
        attachments: &attachments(context, reminder),
        mode_reminder: input.mode_reminder.unwrap_or_default(),
        user_query: text_blob.as_deref().unwrap_or(&message.text),
    });
    let mut parts = vec![Part::Text(Arc::from(text))];
    parts.extend(image_parts(context, input.blobs)?);
    Ok(parts)
}

/// Large text travels as a blob in place of the field.
fn text_need(message: &UserMessage) -> Option<BlobNeed> {
    let id = message.text_blob_id.as_ref().filter(|id| !id.is_empty())?;
    message.text.is_empty().then(|| BlobNeed {
        id: id.clone(),
        field: "text_blob_id",
        what: "text of the message".to_owned(),
    })
}

fn editor_need(context: Option<&SelectedContext>) -> Option<BlobNeed> {
    match context?.invocation_context.as_ref()?.data.as_ref()? {
        Data::BlobId(id) => Some(BlobNeed {
            id: id.clone(),
            field: "selected_context",
            what: "editor state".to_owned(),
        }),
        Data::IdeState(_) => None,
    }
}

fn editor(context: &SelectedContext, blobs: &BlobResolver<'_>) -> Result<String, RequestError> {
    let fetched;
    let invocation = match editor_need(Some(context)) {
        Some(need) => {
            let bytes = need.resolve(blobs)?;
            fetched = InvocationContext::decode(bytes).map_err(|_| need.undecodable())?;
            if matches!(fetched.data, Some(Data::BlobId(_))) {
                return Err(need.undecodable());
            }
            Some(&fetched)
        }
        None => context.invocation_context.as_ref(),
    };
    Ok(match invocation.and_then(|invocation| invocation.data.as_ref()) {
        Some(Data::IdeState(state)) => editor_state(state),
        Some(Data::BlobId(_)) | None => String::new(),
    })
}

/// The time to the minute, as a person in that zone would read it.
fn local_time(now: Timestamp, zone: Option<&str>) -> String {
    // The bundled database, not the machine's: the same input gives the same text everywhere.
    let zones = TimeZoneDatabase::bundled();
    let known = zone.and_then(|name| Some((name, zones.get(name).ok()?)));
    let (name, zone) = known.unwrap_or(("UTC", TimeZone::UTC));
    let local = now.to_zoned_datetime(zone);
    format!("{} {name}", local.strftime("%A, %Y-%m-%d %H:%M %:z"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_time_is_the_persons_own_and_says_its_zone() {
        let check = |now: &str, zone: Option<&str>, expected: &str| {
            assert_eq!(local_time(now.parse().unwrap(), zone), expected);
        };
        let summer = "2026-07-01T22:30:59Z";
        check(
            summer,
            Some("Europe/Berlin"),
            "Thursday, 2026-07-02 00:30 +02:00 Europe/Berlin",
        );
        check(
            "2026-01-01T22:30:00Z",
            Some("Europe/Berlin"),
            "Thursday, 2026-01-01 23:30 +01:00 Europe/Berlin",
        );
        check(
            summer,
            Some("Asia/Kathmandu"),
            "Thursday, 2026-07-02 04:15 +05:45 Asia/Kathmandu",
        );
        check(summer, None, "Wednesday, 2026-07-01 22:30 +00:00 UTC");
        check(
            summer,
            Some("Mars/Olympus"),
            "Wednesday, 2026-07-01 22:30 +00:00 UTC",
        );
    }
}
