//! Configured models, histories and requests for provider tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "shared test support; not every test file uses all of it"
)]

use std::sync::Arc;

use cairn::config::{Api, ModelConfig};
use cairn::model::{
    Assistant, CallId, ConversationId, HistoryItem, Latency, MessageId, ModelRequest, ModelSpec, Part,
    PromptSpec, ReasoningSpec, RunId, ToolCall, ToolDefinition, ToolResult, ToolRoundId, UserOrigin,
};
use cairn::provider::ModelInvocation;
use tokio_util::sync::CancellationToken;

/// A configured openai-chat model; retries wait only briefly. `options` is TOML.
pub fn chat_model(base_url: &str, options: &str) -> ModelConfig {
    let mut table: toml::Table = options.parse().unwrap();
    table
        .entry("retry_delay_seconds")
        .or_insert_with(|| toml::Value::Float(0.001));
    ModelConfig {
        id: "fast".to_owned(),
        name: None,
        api: Api::OpenAiChat,
        base_url: Some(base_url.parse().unwrap()),
        api_key: Some("sk-CANARY-123".to_owned().into()),
        upstream_model: "up/stream-1".to_owned(),
        context_window: None,
        max_output_tokens: None,
        vision: false,
        limits: cairn::config::EntryLimits::default(),
        options: table,
    }
}

/// A configured anthropic model; retries wait only briefly. `options` is TOML.
pub fn anthropic_model(base_url: &str, options: &str) -> ModelConfig {
    ModelConfig {
        api: Api::Anthropic,
        max_output_tokens: Some(8192),
        ..chat_model(base_url, options)
    }
}

/// What a run asks of an anthropic model, with nothing special.
pub fn anthropic_spec() -> ModelSpec {
    ModelSpec {
        max_output_tokens: Some(8192),
        ..spec()
    }
}

/// What a run asks of the model, with nothing special.
pub fn spec() -> ModelSpec {
    ModelSpec {
        model_id: "fast".into(),
        display_name: None,
        reasoning: ReasoningSpec::default(),
        latency: Latency::Standard,
        max_output_tokens: None,
        context_window: None,
        vision: false,
        entry: cairn::model::EntryLimits::default(),
    }
}

/// A prompt with the tools `Read` and `Shell`.
pub fn prompt() -> PromptSpec {
    let tool = |name: &str, parameters: &str| ToolDefinition {
        name: name.into(),
        description: format!("The tool {name}.").into(),
        parameters: parameters.into(),
    };
    PromptSpec {
        instructions: "Be brief.".into(),
        tools: vec![
            tool(
                "Read",
                r#"{"type": "object","properties":{"path":{"type":"string"}},"required":["path"]}"#,
            ),
            tool(
                "Shell",
                r#"{"type":"object","properties":{"command":{"type":"string"},"description":{"type":"string"}},"required":["command","description"]}"#,
            ),
        ],
    }
}

/// A request over this history.
pub fn request(history: Vec<HistoryItem>) -> ModelRequest {
    request_of(spec(), history)
}

/// A request of this model over this history.
pub fn request_of(model: ModelSpec, history: Vec<HistoryItem>) -> ModelRequest {
    ModelRequest {
        prompt: Arc::new(prompt()),
        model: Arc::new(model),
        history: history.into_iter().map(Arc::new).collect(),
        conversation: ConversationId::new("conversation-1"),
    }
}

pub fn invocation() -> ModelInvocation {
    ModelInvocation {
        run: RunId::new("run-1"),
        provider_call_index: 0,
        cancel: CancellationToken::new(),
    }
}

pub fn user(text: &str) -> HistoryItem {
    user_parts(vec![Part::Text(text.into())])
}

pub fn user_parts(parts: Vec<Part>) -> HistoryItem {
    HistoryItem::User {
        id: MessageId::new("user-1"),
        origin: UserOrigin::Turn {
            event_id: "event-1".into(),
        },
        parts,
    }
}

pub fn said(text: &str) -> Assistant {
    Assistant {
        text: text.into(),
        reasoning: None,
        replay: None,
    }
}

pub fn assistant(said: Assistant, calls: &[(&str, &str, &str)]) -> HistoryItem {
    HistoryItem::Assistant {
        said,
        round: (!calls.is_empty()).then(|| ToolRoundId::new("round-1")),
        calls: calls
            .iter()
            .map(|(id, name, arguments)| ToolCall {
                id: CallId::new(*id),
                name: (*name).into(),
                arguments: (*arguments).into(),
            })
            .collect(),
    }
}

pub fn result(call: &str, content: &str) -> HistoryItem {
    HistoryItem::ToolResult(ToolResult {
        call: CallId::new(call),
        content: content.into(),
        is_error: false,
    })
}

/// A configured openai-responses model; retries wait only briefly. `options` is TOML.
pub fn responses_model(base_url: &str, options: &str) -> ModelConfig {
    ModelConfig {
        api: Api::OpenAiResponses,
        ..chat_model(base_url, options)
    }
}
