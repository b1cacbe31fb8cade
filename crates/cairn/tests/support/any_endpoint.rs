//! A strict endpoint of whichever API, so that one test runs over each of them. A test that fails says at which one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "shared test support; not every test file uses all of it"
)]
#![allow(clippy::print_stderr, reason = "a failing test says where it failed")]

use std::sync::Arc;

use cairn::config::{Api, ModelConfig};
use cairn::model::ProviderFailure;
use cairn::provider::{ModelEvent, Provider, ProviderRouter};
use serde_json::{Value, json};

use super::super::strict_anthropic::{self, Said, StrictAnthropic};
use super::super::strict_chat::{RecordedRequest, Reply, StrictChat};
use super::super::strict_responses::{Items, StrictResponses};
use super::Writer;

/// A call of a scripted answer: id, name, argument text.
pub type Call<'a> = (&'a str, &'a str, &'a str);

/// A strict endpoint of one API.
pub enum Endpoint {
    Chat(StrictChat),
    Responses(StrictResponses),
    Anthropic(StrictAnthropic),
}

macro_rules! on {
    ($endpoint:expr, $strict:ident => $what:expr) => {
        match $endpoint {
            Endpoint::Chat($strict) => $what,
            Endpoint::Responses($strict) => $what,
            Endpoint::Anthropic($strict) => $what,
        }
    };
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was at an endpoint of the API {:?}", self.api());
        }
    }
}

impl Endpoint {
    pub async fn start(api: Api) -> Self {
        match api {
            Api::OpenAiChat => Self::Chat(StrictChat::start().await),
            Api::OpenAiResponses => Self::Responses(StrictResponses::start().await),
            Api::Anthropic => Self::Anthropic(StrictAnthropic::start().await),
            Api::Scripted => panic!("no endpoint speaks it"),
        }
    }

    /// From now on every request must extend an earlier one, which the endpoints of the other APIs always ask.
    pub fn one_conversation(&self) {
        if let Self::Chat(chat) = self {
            chat.one_conversation();
        }
    }

    /// Queues the reply to a further request.
    pub fn reply(&self, reply: Reply) {
        on!(self, strict => strict.reply(reply));
    }

    /// Queues a whole answer of text.
    pub fn reply_text(&self, text: &str) {
        self.reply(self.text(text));
    }

    /// Queues a whole answer of tool calls.
    pub fn reply_calls<'a>(&self, calls: impl IntoIterator<Item = Call<'a>>) {
        self.reply(self.calls(calls));
    }

    /// Queues a response with this status, these headers and this body.
    pub fn reply_status(&self, status: u16, headers: &[(&str, &str)], body: &str) {
        self.reply(Reply::status(status, headers, body));
    }

    /// Takes back the replies that nobody has asked for.
    pub fn forget_replies(&self) {
        on!(self, strict => strict.forget_replies());
    }

    /// All requests so far, in the order of their arrival, refused ones too.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        on!(self, strict => strict.requests())
    }

    pub fn violations(&self) -> Vec<String> {
        on!(self, strict => strict.violations())
    }

    pub fn base_url(&self) -> String {
        on!(self, strict => strict.base_url())
    }

    /// The next request need not extend an earlier one.
    pub fn allow_reset(&self) {
        on!(self, strict => strict.allow_reset());
    }

    /// Zero-based numbers of the requests that began anew with a summary.
    pub fn resets(&self) -> Vec<usize> {
        on!(self, strict => strict.resets())
    }

    #[track_caller]
    pub fn assert_clean(&self) {
        on!(self, strict => strict.assert_clean());
    }

    pub fn api(&self) -> Api {
        match self {
            Self::Chat(_) => Api::OpenAiChat,
            Self::Responses(_) => Api::OpenAiResponses,
            Self::Anthropic(_) => Api::Anthropic,
        }
    }

    /// The real adapter for this model at this endpoint, with this key.
    pub fn provider(&self, model: &str, key: &str) -> Arc<dyn Provider> {
        let mut options = toml::Table::new();
        options.insert("retry_delay_seconds".to_owned(), 0.001.into());
        let config = ModelConfig {
            id: "fake".to_owned(),
            name: None,
            api: self.api(),
            base_url: Some(self.base_url().parse().unwrap()),
            api_key: Some(key.to_owned().into()),
            upstream_model: model.to_owned(),
            context_window: None,
            max_output_tokens: Some(4096),
            vision: true,
            limits: cairn::config::EntryLimits::default(),
            options,
        };
        let router = ProviderRouter::from_config(&[config]).unwrap();
        router.route("fake").unwrap()
    }

    /// A whole answer of text as this endpoint sends it.
    pub fn text(&self, text: &str) -> Reply {
        self.said(None, text, &[])
    }

    /// A whole answer of tool calls as this endpoint sends it.
    pub fn calls<'a>(&self, calls: impl IntoIterator<Item = Call<'a>>) -> Reply {
        self.said(None, "", &calls.into_iter().collect::<Vec<_>>())
    }

    /// A whole answer of thinking, text and calls as this endpoint sends it: in small pieces, with usage, and with what
    /// its API seals thinking by. No two answers of a conversation may be the same.
    pub fn said(&self, thinking: Option<&str>, text: &str, calls: &[Call<'_>]) -> Reply {
        let seal = |words: &str| {
            let ids: Vec<_> = calls.iter().map(|(id, ..)| *id).collect();
            format!("sealed {words:?} {text:?} {ids:?}")
        };
        match self {
            Self::Chat(_) => Reply::answer(thinking, text, calls),
            Self::Responses(_) => {
                let mut items = Items::answer();
                if let Some(words) = thinking {
                    items = items.reasoning(&seal(words), &[words]);
                }
                if !text.is_empty() {
                    items = items.message(None, text);
                }
                let call = |items: Items, (id, name, arguments): &Call<'_>| items.call(id, name, arguments);
                calls.iter().fold(items, call).into()
            }
            Self::Anthropic(_) => {
                let signature = thinking.map(seal);
                let thinking = thinking.zip(signature.as_deref());
                let blocks = thinking
                    .map(|(words, signature)| Said::Thinking(words, signature))
                    .into_iter()
                    .chain((!text.is_empty()).then_some(Said::Text(text)))
                    .chain(
                        calls
                            .iter()
                            .map(|(id, name, arguments)| Said::Call(id, name, arguments)),
                    );
                strict_anthropic::answer(&blocks.collect::<Vec<_>>())
            }
        }
    }

    /// The event by which this API says within a stream that something went wrong.
    pub fn error_event(&self, message: &str) -> String {
        match self {
            Self::Chat(_) => {
                let error = json!({"error": {"message": message, "code": null}});
                format!("data: {error}\n\ndata: [DONE]\n\n")
            }
            Self::Responses(_) => {
                let error =
                    json!({"type": "error", "code": "server_error", "message": message, "param": null});
                format!("event: error\ndata: {error}\n\n")
            }
            Self::Anthropic(_) => {
                let error = json!({"type": "error", "error": {"type": "api_error", "message": message}});
                format!("event: error\ndata: {error}\n\n")
            }
        }
    }

    /// A scripted answer as this endpoint sends it.
    pub fn answer(&self, steps: &[Result<ModelEvent, ProviderFailure>]) -> Reply {
        let mut writer = Writer::new(self.api());
        let mut sse = String::new();
        for step in steps {
            sse.push_str(&writer.step(step));
        }
        let mut reply = Reply::raw(sse);
        reply.issues = match self.api() {
            Api::Anthropic => writer.blocks.iter().map(Value::to_string).collect(),
            Api::OpenAiChat | Api::OpenAiResponses | Api::Scripted => writer.issued,
        };
        reply
    }
}

impl Reply {
    /// The same whole answer with other token counts.
    pub fn counted(self, input: u64, output: u64) -> Self {
        let whole = |keys: [&str; 2], counts: (u64, u64)| {
            json!({(keys[0]): counts.0, (keys[1]): counts.1, "total_tokens": counts.0 + counts.1}).to_string()
        };
        let chat = ["prompt_tokens", "completion_tokens"];
        let responses = ["input_tokens", "output_tokens"];
        // Anthropic says what came in at the start, and what went out at the end.
        let start = |input: u64| json!({"input_tokens": input, "output_tokens": 1}).to_string();
        let end = |output: u64| json!({"output_tokens": output}).to_string();
        self.with_body(|body| {
            let counted = body
                .replace(&whole(chat, (100, 10)), &whole(chat, (input, output)))
                .replace(&whole(responses, (100, 10)), &whole(responses, (input, output)))
                .replace(&start(100), &start(input))
                .replace(&end(10), &end(output));
            assert_ne!(body, counted, "the answer has no counts");
            counted
        })
    }
}
