//! How large a conversation is, in tokens: as an endpoint reported it, or, where it reports nothing, as an estimate that
//! says that it is one.
//!
//! An estimate decides when a history is summarised and how full a client shows the context; it is never usage. Must never
//! know: any model's tokeniser.

use std::sync::Arc;

use super::{Assistant, HistoryItem, Part, PromptSpec, ToolCall};

/// Bytes of text that count as one token. English prose has about four, program text three to four, Chinese and Japanese
/// about three (one character): the least of them, so that an estimate is rather too large than too small.
pub const BYTES_PER_TOKEN: u64 = 3;

/// What a picture counts as. Endpoints count by the picture's size, and 1,600 at most for one of the size that pictures
/// are fitted to at entry.
pub const TOKENS_PER_PICTURE: u64 = 1_600;

/// What the marks around a message or a tool count as.
const TOKENS_AROUND: u64 = 4;

/// How large a conversation is, in tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConversationSize {
    /// What the last model call held and said, by its endpoint's own word.
    Reported(u64),
    /// An estimate, because the endpoint said nothing.
    Estimated(u64),
}

impl ConversationSize {
    /// The number of tokens, whoever counted them.
    pub fn tokens(self) -> u64 {
        match self {
            Self::Reported(tokens) | Self::Estimated(tokens) => tokens,
        }
    }

    /// Whether nobody counted them.
    pub fn is_estimate(self) -> bool {
        match self {
            Self::Reported(_) => false,
            Self::Estimated(_) => true,
        }
    }
}

/// What is known of a conversation's size after a model call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeasuredHistory {
    /// What the call held and said.
    pub size: ConversationSize,
    /// What the first call after the latest compaction held and said, in tokens: how small a summary made the history.
    /// Absent where the history was never compacted, or where the compaction left a round as it was.
    pub after_compaction: Option<u64>,
}

/// The tokens of a text.
pub fn estimate_text(text: &str) -> u64 {
    estimate_bytes(u64::try_from(text.len()).unwrap_or(u64::MAX))
}

/// The tokens of so many bytes of text.
pub fn estimate_bytes(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// The tokens of instructions and tools.
pub fn estimate_prompt(prompt: &PromptSpec) -> u64 {
    let tools = prompt.tools.iter().map(|tool| {
        let texts = [&tool.name, &tool.description, &tool.parameters];
        TOKENS_AROUND + texts.into_iter().map(|text| estimate_text(text)).sum::<u64>()
    });
    estimate_text(&prompt.instructions) + tools.sum::<u64>()
}

/// The tokens of items of a history.
pub fn estimate_history(items: &[Arc<HistoryItem>]) -> u64 {
    let item = |item: &Arc<HistoryItem>| match &**item {
        HistoryItem::User { parts, .. } => estimate_parts(parts),
        HistoryItem::Assistant { said, calls, .. } => estimate_answer(said, calls),
        HistoryItem::ToolResult(result) => estimate_parts(result.content.parts()),
    };
    items.iter().map(|it| TOKENS_AROUND + item(it)).sum()
}

/// The tokens of an answer. Its thinking counts: most endpoints that count nothing get it back with every request.
pub fn estimate_answer(said: &Assistant, calls: &[ToolCall]) -> u64 {
    let calls = calls
        .iter()
        .map(|call| TOKENS_AROUND + estimate_text(&call.name) + estimate_text(&call.arguments));
    let thought = said.reasoning.as_ref().map_or("", |thought| &thought.text);
    estimate_text(thought) + estimate_text(&said.text) + calls.sum::<u64>()
}

fn estimate_parts(parts: &[Part]) -> u64 {
    let part = |part: &Part| match part {
        Part::Text(text) => estimate_text(text),
        Part::Image(_) => TOKENS_PER_PICTURE,
    };
    parts.iter().map(part).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        CallId, Image, MessageId, Reasoning, ToolContent, ToolDefinition, ToolResult, UserOrigin,
    };

    #[test]
    fn everything_that_a_model_reads_is_counted_once() {
        let prompt = PromptSpec {
            instructions: "nine byte".into(),
            tools: vec![ToolDefinition {
                name: "abc".into(),
                description: "abcdef".into(),
                parameters: "{}".into(),
            }],
        };
        assert_eq!(estimate_prompt(&prompt), 3 + (4 + 1 + 2 + 1));
        let picture = Part::Image(Image {
            mime_type: "image/png".into(),
            data: bytes::Bytes::from_static(&[0; 100_000]),
        });
        let call = ToolCall {
            id: CallId::new("c"),
            name: "abc".into(),
            arguments: "{\"a\":1}".into(),
        };
        let items = [
            HistoryItem::User {
                id: MessageId::new("u"),
                origin: UserOrigin::Imported,
                parts: vec![Part::Text("漢字".into()), picture.clone()],
            },
            HistoryItem::Assistant {
                said: Assistant {
                    text: "ab".into(),
                    reasoning: Some(Reasoning {
                        text: "thoughts".into(),
                        foreign_signature: None,
                    }),
                    ..Assistant::default()
                },
                round: None,
                calls: vec![call],
            },
            HistoryItem::ToolResult(ToolResult {
                call: CallId::new("c"),
                content: ToolContent::new([Part::Text("abcd".into()), picture]),
                is_error: false,
            }),
        ];
        let counted = items.map(|item| estimate_history(&[Arc::new(item)]));
        assert_eq!(counted, [4 + 2 + 1_600, 4 + 3 + 1 + (4 + 1 + 3), 4 + 2 + 1_600]);
    }
}
