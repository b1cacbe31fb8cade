//! A captured request to a model, cut into the items that its prefix is made of.
//!
//! Owns what counts as the prefix and in which order, per API. Items are ranges of the body as it was sent: nothing is
//! parsed into values and written again. Must never know: how requests are compared or where they come from.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::api::Api;
use crate::scan::{ScanError, Scanner};
use crate::visible::visible;

/// Ends every item of the serialised prefix. No JSON text holds this byte.
pub const ITEM_END: u8 = 0x1e;
/// Stands between an Anthropic message's own members and one of its content blocks. No JSON text holds this byte.
pub const HEAD_END: u8 = 0x1f;

/// Members that steer the cache and that no model reads. They move from request to request by design.
const MARKER_KEYS: [&[u8]; 2] = [b"cache_control", b"prompt_cache_breakpoint"];

/// Members of the body that say how an answer travels or who pays, not what the model reads.
const SILENT_KEYS: [&[u8]; 10] = [
    b"stream",
    b"stream_options",
    b"metadata",
    b"user",
    b"store",
    b"include",
    b"service_tier",
    b"safety_identifier",
    b"prompt_cache_retention",
    b"cache_control",
];

/// Why a body cannot be measured.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError {
    /// It is compressed, so that nothing can be said of what it holds.
    #[error("the body is compressed ({kind}); let the host send its requests uncompressed")]
    Compressed {
        /// The compression, by how the body begins.
        kind: &'static str,
    },
    /// It is no JSON, or a part has another form than the API has.
    #[error("the body is no {api} request: {cause}")]
    Malformed {
        /// The API that was expected.
        api: Api,
        /// Where and what.
        cause: ScanError,
    },
    /// A member that has to be there is missing.
    #[error("the body is no {api} request: it has no `{member}`")]
    Missing {
        /// The API that was expected.
        api: Api,
        /// The member.
        member: &'static str,
    },
    /// A member is there twice: two readers may take two different ones.
    #[error("the body is no {api} request: `{member}` stands in it twice")]
    Repeated {
        /// The API that was expected.
        api: Api,
        /// The member.
        member: &'static str,
    },
}

/// A body that cannot be measured, given back.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{error}")]
pub struct Unmeasurable {
    /// Why.
    pub error: RequestError,
    /// The body.
    pub body: Vec<u8>,
}

/// Where an item stands in its request. Indexes are zero-based and count within the request's own lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Position {
    /// An element of `tools`.
    Tool(usize),
    /// The system prompt beside the messages: `instructions`, or `system` and its blocks.
    System(usize),
    /// An element of `messages` or `input`.
    Message {
        /// The element.
        message: usize,
        /// The content block in it; 0 where the API's unit is the whole message.
        block: usize,
    },
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(index) => write!(f, "tool {index}"),
            Self::System(0) => f.write_str("system prompt"),
            Self::System(index) => write!(f, "system prompt, block {index}"),
            Self::Message { message, block: 0 } => write!(f, "message {message}"),
            Self::Message { message, block } => write!(f, "message {message}, block {block}"),
        }
    }
}

/// How long a cache marker asks an entry to live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker {
    /// The API's ordinary time.
    Short,
    /// `"ttl": "1h"`.
    Hour,
}

/// Who a message is from, as far as caches care.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Maker {
    /// The model itself: an earlier output.
    Model,
    /// The person, or a host's own words in that role.
    Input,
    /// A tool: its result.
    Tool,
    /// Instructions and tools.
    Setup,
}

/// One piece of the prefix.
#[derive(Clone, Debug)]
pub struct Item {
    /// Where it stands.
    pub position: Position,
    /// Who it is from.
    pub maker: Maker,
    /// The marker on it.
    pub marker: Option<Marker>,
    /// A word for the reader: a tool's name, or a message's role and type.
    pub label: String,
    text: Range<usize>,
    cuts: Vec<Range<usize>>,
    head: Vec<Range<usize>>,
}

/// A captured request.
#[derive(Clone, Debug)]
pub struct Request {
    api: Api,
    body: Vec<u8>,
    items: Vec<Item>,
    messages: Vec<Range<usize>>,
    parameters: Vec<(Range<usize>, Range<usize>)>,
    automatic_marker: Option<Marker>,
}

impl Request {
    /// Cuts a body into items.
    ///
    /// # Errors
    /// If the body is no request of the API; see [`RequestError`].
    pub fn parse(api: Api, body: Vec<u8>) -> Result<Self, Unmeasurable> {
        let mut found = Found::default();
        let error = match read_body(api, &body, &mut found) {
            Err(_) if body.starts_with(&[0x1f, 0x8b]) => Some(RequestError::Compressed { kind: "gzip" }),
            Err(_) if body.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) => {
                Some(RequestError::Compressed { kind: "zstd" })
            }
            Err(cause) => Some(RequestError::Malformed { api, cause }),
            Ok(()) => match found.repeated {
                Some(member) => Some(RequestError::Repeated { api, member }),
                None if !found.has_messages => Some(RequestError::Missing {
                    api,
                    member: messages_key(api),
                }),
                None => None,
            },
        };
        if let Some(error) = error {
            return Err(Unmeasurable { error, body });
        }
        let Found {
            mut tools,
            system,
            messages,
            message_ranges,
            parameters,
            automatic_marker,
            ..
        } = found;
        tools.extend(system);
        tools.extend(messages);
        Ok(Self {
            api,
            body,
            items: tools,
            messages: message_ranges,
            parameters,
            automatic_marker,
        })
    }

    /// The API.
    pub fn api(&self) -> Api {
        self.api
    }

    /// The body as it was sent.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Gives the body back, to be written into again.
    pub fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// The items in the order of the prefix: tools, system, messages.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Number of elements of `messages` or `input`.
    pub fn message_count(&self) -> usize {
        self.messages.len()
    }

    /// An element of `messages` or `input` as it was sent.
    pub fn message(&self, index: usize) -> Option<&[u8]> {
        self.messages.get(index).map(|range| &self.body[range.clone()])
    }

    /// The marker that a top-level `cache_control` asks to be put on the last block.
    pub fn automatic_marker(&self) -> Option<Marker> {
        self.automatic_marker
    }

    /// An item's bytes in the serialised prefix, without its kind and its end.
    pub fn text(&self, item: &Item) -> Cow<'_, [u8]> {
        if item.cuts.is_empty() {
            return Cow::Borrowed(&self.body[item.text.clone()]);
        }
        let mut text = Vec::with_capacity(item.text.len());
        let mut at = item.text.start;
        for cut in &item.cuts {
            text.extend_from_slice(&self.body[at..cut.start]);
            at = cut.end;
        }
        text.extend_from_slice(&self.body[at..item.text.end]);
        Cow::Owned(text)
    }

    /// The members of an Anthropic message beside its content, joined by commas; empty for any other item.
    pub fn head(&self, item: &Item) -> Vec<u8> {
        let members: Vec<&[u8]> = item.head.iter().map(|range| &self.body[range.clone()]).collect();
        members.join(&b',')
    }

    /// An item's length in the serialised prefix, in bytes.
    pub fn length(&self, item: &Item) -> usize {
        let cut: usize = item.cuts.iter().map(Range::len).sum();
        let head = match item.head.len() {
            0 => 0,
            members => item.head.iter().map(Range::len).sum::<usize>() + members,
        };
        1 + head + item.text.len() - cut + 1
    }

    /// The value of a top-level string member among the parameters, such as `model`.
    pub fn parameter(&self, key: &str) -> Option<&[u8]> {
        self.parameters()
            .find(|(name, _)| *name == key.as_bytes())
            .map(|(_, value)| value)
    }

    /// The body's other members that a model's answer may depend on, as they were sent.
    pub fn parameters(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.parameters
            .iter()
            .map(|(key, value)| (&self.body[key.clone()], &self.body[value.clone()]))
    }

    /// The names of the parameters that the two requests do not share, sorted.
    pub fn changed_parameters(&self, later: &Self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (one, other) in [(self, later), (later, self)] {
            for (key, value) in one.parameters() {
                if !other.parameters().any(|pair| pair == (key, value)) {
                    names.push(visible(&String::from_utf8_lossy(key)));
                }
            }
        }
        names.sort();
        names.dedup();
        names
    }
}

/// The kind byte that an item's serialisation begins with.
pub(crate) fn kind(position: Position) -> u8 {
    match position {
        Position::Tool(_) => b'T',
        Position::System(_) => b'S',
        Position::Message { .. } => b'M',
    }
}

fn messages_key(api: Api) -> &'static str {
    match api {
        Api::OpenAiChat | Api::Anthropic => "messages",
        Api::OpenAiResponses => "input",
    }
}

fn system_key(api: Api) -> Option<&'static str> {
    match api {
        Api::OpenAiChat => None,
        Api::OpenAiResponses => Some("instructions"),
        Api::Anthropic => Some("system"),
    }
}

#[derive(Default)]
struct Found {
    tools: Vec<Item>,
    system: Vec<Item>,
    messages: Vec<Item>,
    message_ranges: Vec<Range<usize>>,
    parameters: Vec<(Range<usize>, Range<usize>)>,
    automatic_marker: Option<Marker>,
    has_messages: bool,
    has_tools: bool,
    has_system: bool,
    repeated: Option<&'static str>,
}

fn read_body(api: Api, body: &[u8], found: &mut Found) -> Result<(), ScanError> {
    let mut scanner = Scanner::new(body);
    scanner.object(|scanner, key| {
        let name = &body[key.clone()];
        if name == b"tools" {
            if std::mem::replace(&mut found.has_tools, true) {
                found.repeated = Some("tools");
            }
            read_tools(body, scanner, &mut found.tools)
        } else if name == messages_key(api).as_bytes() {
            if std::mem::replace(&mut found.has_messages, true) {
                found.repeated = Some(messages_key(api));
            }
            read_messages(api, body, scanner, found)
        } else if let Some(system) = system_key(api).filter(|system| name == system.as_bytes()) {
            if std::mem::replace(&mut found.has_system, true) {
                found.repeated = Some(system);
            }
            read_system(body, scanner, &mut found.system)
        } else {
            let value = scanner.value()?;
            if api == Api::Anthropic && name == b"cache_control" {
                found.automatic_marker = marker(&body[value.clone()]);
            }
            if !SILENT_KEYS.contains(&name) {
                found.parameters.push((key, value));
            }
            Ok(())
        }
    })?;
    scanner.end()
}

fn read_tools(body: &[u8], scanner: &mut Scanner<'_>, tools: &mut Vec<Item>) -> Result<(), ScanError> {
    if scanner.peek() == Some(b'n') {
        return scanner.value().map(drop);
    }
    scanner.array(|scanner, index| {
        let object = Object::read(body, scanner, |key, value| match key {
            b"name" => Some(value),
            // A function's name stands one level deeper in Chat.
            b"function" => inner_name(body, value),
            _ => None,
        })?;
        tools.push(object.item(body, Position::Tool(index), Maker::Setup, "tool"));
        Ok(())
    })
}

fn inner_name(body: &[u8], object: Range<usize>) -> Option<Range<usize>> {
    let mut name = None;
    let mut scanner = Scanner::new(&body[..object.end]);
    scanner.skip_to(object.start);
    scanner
        .object(|scanner, key| {
            let value = scanner.value()?;
            if &body[key] == b"name" {
                name = Some(value);
            }
            Ok(())
        })
        .ok()?;
    name
}

fn read_system(body: &[u8], scanner: &mut Scanner<'_>, system: &mut Vec<Item>) -> Result<(), ScanError> {
    match scanner.peek() {
        Some(b'[') => scanner.array(|scanner, index| {
            let object = Object::read(body, scanner, |_, _| None)?;
            system.push(object.item(body, Position::System(index), Maker::Setup, "system"));
            Ok(())
        }),
        Some(b'n') => scanner.value().map(drop),
        _ => {
            let text = scanner.value()?;
            system.push(Object::plain(text).item(body, Position::System(0), Maker::Setup, "system"));
            Ok(())
        }
    }
}

fn read_messages(
    api: Api,
    body: &[u8],
    scanner: &mut Scanner<'_>,
    found: &mut Found,
) -> Result<(), ScanError> {
    if api == Api::OpenAiResponses && scanner.peek() == Some(b'"') {
        let text = scanner.value()?;
        found.message_ranges.push(text.clone());
        let position = Position::Message { message: 0, block: 0 };
        let item = Object::plain(text).item(body, position, Maker::Input, "user");
        found.messages.push(item);
        return Ok(());
    }
    scanner.array(|scanner, message| {
        let start = scanner.position();
        if api == Api::Anthropic {
            read_blocks(body, scanner, message, &mut found.messages)?;
        } else {
            found.messages.push(read_message(body, scanner, message)?);
        }
        found.message_ranges.push(start..scanner.offset());
        Ok(())
    })
}

/// A message whose unit is the whole element.
fn read_message(body: &[u8], scanner: &mut Scanner<'_>, message: usize) -> Result<Item, ScanError> {
    let mut role = None;
    let mut kind = None;
    let mut object = Object::read_with(body, scanner, |scanner, key, object| {
        match &body[key] {
            b"content" if scanner.peek() == Some(b'[') => {
                scanner.array(|scanner, _| {
                    if scanner.peek() != Some(b'{') {
                        return scanner.value().map(drop);
                    }
                    let block = Object::read(body, scanner, |_, _| None)?;
                    object.cuts.extend(block.cuts);
                    object.marker = block.marker.or(object.marker);
                    Ok(())
                })?;
                return Ok(());
            }
            b"role" => role = Some(scanner.value()?),
            b"type" => kind = Some(scanner.value()?),
            _ => {
                scanner.value()?;
            }
        }
        Ok(())
    })?;
    object.cuts.sort_by_key(|cut| cut.start);
    let role = role.map_or(&b""[..], |range| unquoted(body, range));
    let kind = kind.map_or(&b""[..], |range| unquoted(body, range));
    let maker = match (role, kind) {
        (b"assistant", _) => Maker::Model,
        (b"system" | b"developer", _) => Maker::Setup,
        (b"user", _) => Maker::Input,
        (b"tool" | b"function", _) => Maker::Tool,
        (_, kind) if kind.ends_with(b"_output") => Maker::Tool,
        (_, b"message") => Maker::Input,
        _ => Maker::Model,
    };
    let label = if role.is_empty() { kind } else { role };
    let label = String::from_utf8_lossy(label).into_owned();
    Ok(object.item(body, Position::Message { message, block: 0 }, maker, &label))
}

/// A message whose unit is the content block with the message's role.
fn read_blocks(
    body: &[u8],
    scanner: &mut Scanner<'_>,
    message: usize,
    items: &mut Vec<Item>,
) -> Result<(), ScanError> {
    let first = items.len();
    let mut head = Vec::new();
    let mut role = None;
    scanner.object(|scanner, key| {
        let start = key.start - 1;
        if &body[key.clone()] == b"content" {
            if scanner.peek() != Some(b'[') {
                let text = scanner.value()?;
                let position = Position::Message { message, block: 0 };
                items.push(Object::plain(text).item(body, position, Maker::Input, "text"));
                return Ok(());
            }
            return scanner.array(|scanner, block| {
                let mut kind = None;
                let object = Object::read(body, scanner, |key, value| {
                    if key == b"type" {
                        kind = Some(value);
                    }
                    None
                })?;
                let kind = kind.map_or("block".into(), |range| {
                    String::from_utf8_lossy(unquoted(body, range))
                });
                let maker = if kind == "tool_result" {
                    Maker::Tool
                } else {
                    Maker::Input
                };
                items.push(object.item(body, Position::Message { message, block }, maker, &kind));
                Ok(())
            });
        }
        let value = scanner.value()?;
        if &body[key] == b"role" {
            role = Some(value.clone());
        }
        head.push(start..value.end);
        Ok(())
    })?;
    let role = role.map_or(&b""[..], |range| unquoted(body, range));
    for item in &mut items[first..] {
        item.head.clone_from(&head);
        item.label = format!("{} {}", String::from_utf8_lossy(role), item.label);
        if role == b"assistant" {
            item.maker = Maker::Model;
        }
    }
    Ok(())
}

/// An object that may carry a marker, while it is read.
struct Object {
    text: Range<usize>,
    cuts: Vec<Range<usize>>,
    marker: Option<Marker>,
    name: Option<Range<usize>>,
}

impl Object {
    fn plain(text: Range<usize>) -> Self {
        Self {
            text,
            cuts: Vec::new(),
            marker: None,
            name: None,
        }
    }

    /// Reads an object; the closure names the range of the value that is the object's name, if it is this one.
    fn read(
        body: &[u8],
        scanner: &mut Scanner<'_>,
        mut name: impl FnMut(&[u8], Range<usize>) -> Option<Range<usize>>,
    ) -> Result<Self, ScanError> {
        Self::read_with(body, scanner, |scanner, key, object| {
            let value = scanner.value()?;
            if let Some(found) = name(&body[key], value) {
                object.name = Some(found);
            }
            Ok(())
        })
    }

    /// Reads an object, cutting its markers out; the closure consumes every other value.
    fn read_with(
        body: &[u8],
        scanner: &mut Scanner<'_>,
        mut member: impl FnMut(&mut Scanner<'_>, Range<usize>, &mut Self) -> Result<(), ScanError>,
    ) -> Result<Self, ScanError> {
        let start = scanner.position();
        let mut object = Self::plain(start..start);
        // The end of the member before; a marker is cut together with one comma.
        let mut before: Option<usize> = None;
        scanner.object(|scanner, key| {
            if MARKER_KEYS.contains(&&body[key.clone()]) {
                let value = scanner.value()?;
                object.marker = marker(&body[value.clone()]);
                match before {
                    Some(end) => object.cuts.push(end..value.end),
                    None => {
                        let mut after = scanner.clone();
                        let end = if after.peek() == Some(b',') {
                            after.skip_to(after.offset() + 1);
                            after.position()
                        } else {
                            value.end
                        };
                        object.cuts.push(key.start - 1..end);
                    }
                }
                // Where the marker was first, the next member has no comma before it any more.
                before = before.map(|_| value.end);
                return Ok(());
            }
            member(scanner, key, &mut object)?;
            before = Some(scanner.offset());
            Ok(())
        })?;
        object.text.end = scanner.offset();
        Ok(object)
    }

    fn item(self, body: &[u8], position: Position, maker: Maker, label: &str) -> Item {
        let label = self.name.map_or(label.into(), |range| {
            String::from_utf8_lossy(unquoted(body, range))
        });
        Item {
            position,
            maker,
            marker: self.marker,
            label: label.into_owned(),
            text: self.text,
            cuts: self.cuts,
            head: Vec::new(),
        }
    }
}

fn unquoted(body: &[u8], range: Range<usize>) -> &[u8] {
    let text = &body[range];
    text.strip_prefix(b"\"")
        .and_then(|text| text.strip_suffix(b"\""))
        .unwrap_or(text)
}

fn marker(value: &[u8]) -> Option<Marker> {
    match value {
        b"null" => None,
        value if value.windows(4).any(|window| window == b"\"1h\"") => Some(Marker::Hour),
        _ => Some(Marker::Short),
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
