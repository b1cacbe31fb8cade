//! The identity of the messages that a turn begins with, and which of them a history still lacks.
//!
//! Must never know: what the messages say, or how a checkpoint is encoded.

use sha2::{Digest, Sha256};

use crate::cursor::proto::agent::UserMessage;
use crate::model::{Message, MessageBody, MessageId, Part, UserOrigin};

const CONTEXT_PREFIX: &str = "request-context:";
const TURN_PREFIX: &str = "runtime:";
const SUMMARY_PREFIX: &str = "summary:";
/// Hex digits of the content's hash in a message id.
const HASH_DIGITS: usize = 16;

/// The stable id of the event that a user message is: its own id, else the id of the request that brought it.
pub fn event_id<'a>(message: &'a UserMessage, request_id: &'a str) -> &'a str {
    if message.message_id.is_empty() {
        request_id
    } else {
        &message.message_id
    }
}

/// The id that a message of this origin has in the client's checkpoint; none for imported ones.
pub fn wire_id(origin: &UserOrigin) -> Option<String> {
    match origin {
        UserOrigin::Turn { event_id } => Some(format!("{TURN_PREFIX}{event_id}")),
        UserOrigin::RequestContext { event_id } => Some(format!("{CONTEXT_PREFIX}{event_id}")),
        UserOrigin::Summary { event_id } => Some(format!("{SUMMARY_PREFIX}{event_id}")),
        UserOrigin::SummaryRequest | UserOrigin::Imported => None,
    }
}

/// The origin that an id in the client's checkpoint stands for.
pub fn origin_of_wire_id(id: &str) -> UserOrigin {
    if let Some(event_id) = id.strip_prefix(CONTEXT_PREFIX) {
        UserOrigin::RequestContext {
            event_id: event_id.into(),
        }
    } else if let Some(event_id) = id.strip_prefix(TURN_PREFIX) {
        UserOrigin::Turn {
            event_id: event_id.into(),
        }
    } else if let Some(event_id) = id.strip_prefix(SUMMARY_PREFIX) {
        UserOrigin::Summary {
            event_id: event_id.into(),
        }
    } else {
        UserOrigin::Imported
    }
}

/// What a turn brings to the history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TurnEvent<'a> {
    /// The event's stable id: see [`event_id`].
    pub id: &'a str,
    /// The compiled request context, if the request has any.
    pub context: Option<&'a str>,
    /// The compiled message of the turn.
    pub runtime: Vec<Part>,
}

/// The messages that a turn appends to its base history, in order.
///
/// A context is appended only if its text is not that of the latest one in the base, right before the turn's message.
/// A base that already holds the turn's message gets nothing: this is a repeat of the event, and the stored rendering
/// stands. (An edit of that message starts from a base before it.)
pub fn initial_messages<'a>(
    base: impl IntoIterator<Item = &'a Message>,
    event: TurnEvent<'_>,
) -> Vec<Message> {
    let mut latest = None;
    for message in base {
        match origin_of(message) {
            Some(UserOrigin::Turn { event_id }) if **event_id == *event.id => return Vec::new(),
            Some(UserOrigin::RequestContext { .. }) => latest = context_text(message),
            _ => {}
        }
    }
    let context = event
        .context
        .filter(|context| latest != Some(context))
        .map(|context| {
            let origin = UserOrigin::RequestContext {
                event_id: event.id.into(),
            };
            message(
                format!("{CONTEXT_PREFIX}{}", event.id),
                origin,
                vec![Part::Text(context.into())],
            )
        });
    let origin = UserOrigin::Turn {
        event_id: event.id.into(),
    };
    let runtime = message(format!("{TURN_PREFIX}{}", event.id), origin, event.runtime);
    context.into_iter().chain([runtime]).collect()
}

/// The text of the latest request context in a history.
pub fn latest_context<'a>(history: impl IntoIterator<Item = &'a Message>) -> Option<&'a str> {
    history.into_iter().filter_map(context_text).last()
}

fn origin_of(message: &Message) -> Option<&UserOrigin> {
    match &message.body {
        MessageBody::User { origin, .. } => Some(origin),
        MessageBody::Assistant(_) | MessageBody::ToolCall { .. } | MessageBody::ToolResult { .. } => None,
    }
}

/// The text of a request-context message; nothing of any other.
fn context_text(message: &Message) -> Option<&str> {
    match &message.body {
        MessageBody::User {
            origin: UserOrigin::RequestContext { .. },
            parts,
        } => match parts.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// The id of a message that an event brought: the event's wire id with a hash of the content behind it, so that an
/// edited message, which keeps its event id, never meets the id of what it was. A message without a wire id has none.
pub fn message_id(origin: &UserOrigin, parts: &[Part]) -> Option<MessageId> {
    let hash = content_hash(parts);
    wire_id(origin).map(|wire_id| MessageId::new(format!("{wire_id}#{}", &hash[..HASH_DIGITS])))
}

fn message(wire_id: String, origin: UserOrigin, parts: Vec<Part>) -> Message {
    let hash = content_hash(&parts);
    Message {
        id: MessageId::new(format!("{wire_id}#{}", &hash[..HASH_DIGITS])),
        body: MessageBody::User { origin, parts },
    }
}

/// A hash over the parts. Kinds and lengths go in, so that no two lists of parts share an input.
fn content_hash(parts: &[Part]) -> String {
    let mut hash = Sha256::new();
    let mut add = |kind: u8, data: &[u8]| {
        hash.update([kind]);
        hash.update((data.len() as u64).to_be_bytes());
        hash.update(data);
    };
    for part in parts {
        match part {
            Part::Text(text) => add(b't', text.as_bytes()),
            Part::Image(image) => {
                add(b'm', image.mime_type.as_bytes());
                add(b'i', &image.data);
            }
        }
    }
    hex::encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Image;

    fn text(text: &str) -> Vec<Part> {
        vec![Part::Text(text.into())]
    }

    fn append(base: &mut Vec<Message>, id: &str, context: Option<&str>, runtime: &str) -> usize {
        let event = TurnEvent {
            id,
            context,
            runtime: text(runtime),
        };
        let new = initial_messages(&*base, event);
        base.extend(new.clone());
        new.len()
    }

    fn wire_ids(messages: &[Message]) -> Vec<String> {
        let ids = messages.iter().filter_map(origin_of).filter_map(wire_id);
        ids.collect()
    }

    #[test]
    fn a_context_stands_right_before_the_turn_that_brought_it_and_is_not_repeated() {
        let mut base = Vec::new();
        assert_eq!(append(&mut base, "e1", Some("A"), "one"), 2);
        assert_eq!(append(&mut base, "e2", Some("A"), "two"), 1);
        assert_eq!(append(&mut base, "e3", None, "three"), 1);
        assert_eq!(
            wire_ids(&base),
            ["request-context:e1", "runtime:e1", "runtime:e2", "runtime:e3"]
        );
    }

    #[test]
    fn a_context_that_changes_and_changes_back_is_three_events() {
        let mut base = Vec::new();
        for (id, context) in [("e1", "A"), ("e2", "B"), ("e3", "A")] {
            let before = base.clone();
            assert_eq!(append(&mut base, id, Some(context), id), 2);
            assert_eq!(base[..before.len()], before[..]);
            assert_eq!(latest_context(&base), Some(context));
        }
        assert_eq!(
            wire_ids(&base),
            [
                "request-context:e1",
                "runtime:e1",
                "request-context:e2",
                "runtime:e2",
                "request-context:e3",
                "runtime:e3"
            ]
        );
        let ids: std::collections::BTreeSet<_> = base.iter().map(|message| &message.id).collect();
        assert_eq!(ids.len(), base.len());
    }

    #[test]
    fn a_repeat_of_an_event_adds_nothing() {
        let mut base = Vec::new();
        append(&mut base, "e1", Some("A"), "at 10:00");
        append(&mut base, "e2", Some("B"), "at 10:01");
        assert_eq!(append(&mut base, "e2", Some("B"), "at 10:02"), 0);
        assert_eq!(append(&mut base, "e2", Some("C"), "at 10:02"), 0);
        assert_eq!(append(&mut base, "e1", Some("A"), "at 10:02"), 0);
    }

    #[test]
    fn the_same_event_on_the_same_base_gives_the_same_messages() {
        let event = || TurnEvent {
            id: "e",
            context: Some("A"),
            runtime: text("one"),
        };
        assert_eq!(initial_messages([], event()), initial_messages([], event()));
        let ids: Vec<String> = initial_messages([], event())
            .iter()
            .map(|m| m.id.to_string())
            .collect();
        // Pinned: another hash would give stored messages a second identity.
        assert_eq!(
            ids,
            ["request-context:e#59d0cf37c85ae652", "runtime:e#fa7d35dafa0ccaab"]
        );
    }

    #[test]
    fn an_edited_message_keeps_its_event_and_gets_an_id_of_its_own() {
        let of = |parts: Vec<Part>| {
            let event = TurnEvent {
                id: "e",
                context: None,
                runtime: parts,
            };
            initial_messages([], event).remove(0)
        };
        let image = |data: &'static [u8]| {
            Part::Image(Image {
                mime_type: "image/png".into(),
                data: bytes::Bytes::from_static(data),
            })
        };
        let versions = [
            of(text("one")),
            of(text("two")),
            of([text("one"), text("")].concat()),
            of([text("one"), vec![image(b"x")]].concat()),
            of([text("one"), vec![image(b"y")]].concat()),
            of([vec![image(b"x")], text("one")].concat()),
        ];
        let ids: std::collections::BTreeSet<_> = versions.iter().map(|message| &message.id).collect();
        assert_eq!(ids.len(), versions.len());
        assert!(
            versions
                .iter()
                .all(|message| origin_of(message) == origin_of(&versions[0]))
        );
    }

    #[test]
    fn a_wire_id_stands_for_its_origin() {
        let origins = [
            UserOrigin::Turn {
                event_id: "a:b#c".into(),
            },
            UserOrigin::RequestContext {
                event_id: "runtime:x".into(),
            },
            UserOrigin::Summary {
                event_id: "run/2".into(),
            },
        ];
        for origin in origins {
            assert_eq!(wire_id(&origin).as_deref().map(origin_of_wire_id), Some(origin));
        }
        assert_eq!(wire_id(&UserOrigin::Imported), None);
        assert_eq!(origin_of_wire_id("1"), UserOrigin::Imported);
    }

    #[test]
    fn an_event_is_named_by_its_message_else_by_its_request() {
        let named = UserMessage {
            message_id: "m".to_owned(),
            ..UserMessage::default()
        };
        assert_eq!(event_id(&named, "r"), "m");
        assert_eq!(event_id(&UserMessage::default(), "r"), "r");
    }
}
