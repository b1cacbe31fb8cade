//! The end of work that went on in the background, as messages for the model.
//!
//! Each piece of work ends once: its message has an identity of its own, so that a repeat is recognised wherever it
//! comes from. Must never know: whether the agent is at work or has to be woken.

use std::borrow::Cow;

use bytes::Bytes;
use prost::Message as _;
use sha2::{Digest, Sha256};

use super::text::{Tagged, one_line};
use super::{Mode, RequestError, TurnEvent, initial_messages};
use crate::cursor::proto::agent::{
    BackgroundTaskCompletion, BackgroundTaskCompletionAction, BackgroundTaskCompletionReason,
    BackgroundTaskKind, BackgroundTaskStatus, SimulatedMsgReason, UserMessage,
};
use crate::model::keep_inside;
use crate::model::{Message, MessageBody, Part};

/// Hex digits of the hash that tells one report of progress from the next.
const HASH_DIGITS: usize = 16;

/// The tag around what is told of one piece of work: whatever it says stays inside.
const TAG: &str = "background_task";

/// The messages of an action, in its order. Of words longer than `limit` characters head and tail enter the history.
///
/// # Errors
/// If a completion names nothing that it could be told by.
pub fn completion_messages(
    action: &BackgroundTaskCompletionAction,
    limit: usize,
) -> Result<Vec<Message>, RequestError> {
    new_completions([], action, limit)
}

/// The messages of an action that this history lacks, in the action's order, as [`completion_messages`] makes them.
///
/// # Errors
/// If a completion names nothing that it could be told by.
pub fn new_completions<'a>(
    base: impl IntoIterator<Item = &'a Message>,
    action: &BackgroundTaskCompletionAction,
    limit: usize,
) -> Result<Vec<Message>, RequestError> {
    let base: Vec<&Message> = base.into_iter().collect();
    let mut new: Vec<Message> = Vec::new();
    for completion in &action.completions {
        let id = event_of(completion)?;
        let event = TurnEvent {
            id: &id,
            context: None,
            runtime: vec![Part::Text(text_of(completion, limit).into())],
        };
        let message = initial_messages(base.iter().copied().chain(&new), event);
        new.extend(message);
    }
    Ok(new)
}

/// The user message that stands in the client's turn for what woke the agent. Nobody wrote it, and it says so.
pub fn simulated_message(messages: &[Message], mode: Mode) -> Bytes {
    let texts: Vec<&str> = messages.iter().filter_map(text).collect();
    let message = UserMessage {
        text: texts.join("\n"),
        mode: mode.to_wire().into(),
        is_simulated_msg: Some(true),
        simulated_msg_reason: Some(SimulatedMsgReason::BackgroundTaskCompletion.into()),
        ..UserMessage::default()
    };
    message.encode_to_vec().into()
}

fn text(message: &Message) -> Option<&str> {
    match &message.body {
        MessageBody::User { parts, .. } => match parts.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// What the end of this work is known by: the call that started it, else the work itself. It may get on many times,
/// and ends once.
fn event_of(completion: &BackgroundTaskCompletion) -> Result<String, RequestError> {
    let names = [
        completion.tool_call_id.as_deref(),
        completion.subagent_id.as_deref(),
        Some(completion.task_id.as_str()),
    ];
    let name = names.into_iter().flatten().find(|name| !name.is_empty());
    let name = name.ok_or(RequestError::NamelessCompletion)?;
    if completion.reason == i32::from(BackgroundTaskCompletionReason::TaskProgress) {
        let digest = Sha256::digest(completion.encode_to_vec());
        return Ok(format!("task:{name}:{}", &hex::encode(digest)[..HASH_DIGITS]));
    }
    Ok(event_of_call(name))
}

/// What the end of work that this call started is known by.
pub(super) fn event_of_call(call: &str) -> String {
    format!("task:{call}")
}

fn text_of(completion: &BackgroundTaskCompletion, limit: usize) -> String {
    let kind = match BackgroundTaskKind::try_from(completion.kind) {
        Ok(BackgroundTaskKind::Shell) => "shell",
        Ok(BackgroundTaskKind::Subagent) => "subagent",
        Ok(BackgroundTaskKind::Unspecified) | Err(_) => "",
    };
    let progress = completion.reason == i32::from(BackgroundTaskCompletionReason::TaskProgress);
    let status = match BackgroundTaskStatus::try_from(completion.status) {
        _ if progress => "running",
        Ok(BackgroundTaskStatus::Success) => "success",
        Ok(BackgroundTaskStatus::Error) => "error",
        Ok(BackgroundTaskStatus::Aborted) => "aborted",
        Ok(BackgroundTaskStatus::Unspecified) | Err(_) => "",
    };
    let id = match completion.subagent_id.as_deref() {
        Some(id) if !id.is_empty() => id,
        _ => &completion.task_id,
    };
    let mut body = Tagged::default();
    if !completion.title.trim().is_empty() {
        body.line(&one_line(&completion.title));
    }
    if let Some(words) = completion.detail.as_deref().filter(|words| !words.is_empty()) {
        body.line(&bounded(words, limit));
    }
    if let Some(path) = completion.output_path.as_deref().filter(|path| !path.is_empty()) {
        body.line(&format!("output: {path}"));
    }
    let mut out = Tagged::default();
    out.element(
        TAG,
        &[("kind", kind), ("id", id), ("status", status)],
        &keep_inside(TAG, &body.finish()),
    );
    out.finish()
}

/// The words, or their first 70 % and last 30 % of the limit around a note: as it is with results of tools.
fn bounded(words: &str, limit: usize) -> Cow<'_, str> {
    let left_out = words.chars().count().saturating_sub(limit);
    if left_out == 0 {
        return Cow::Borrowed(words);
    }
    let place = |character: usize| {
        let found = words.char_indices().nth(character);
        found.map_or(words.len(), |(at, _)| at)
    };
    let head = limit / 10 * 7;
    let (head_end, tail_start) = (place(head), place(head + left_out));
    Cow::Owned(format!(
        "{}\n[{left_out} characters are left out here; ask for them where this came from.]\n{}",
        &words[..head_end],
        &words[tail_start..]
    ))
}
