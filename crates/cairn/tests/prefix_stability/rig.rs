//! The same conversation at each of the three APIs: a strict client, the real server with the proof at run time on, and a
//! strict endpoint, which compares bodies item by item and as bytes.

use std::cell::Cell;
use std::path::Path;

use cairn::config::{Api, ModelConfig};
use cairn::cursor::proto::agent::{
    AgentMode, CursorRule, CursorRuleType, CursorRuleTypeGlobal, RequestContext, UserMessage,
    conversation_action, cursor_rule_type,
};
use cairn::cursor::sessions::SessionLimits;
use cairn::model::ConversationId;
use cairn::store::{ModelCallRecord, PrefixVerdict, Records};
use serde_json::Value;
use tempfile::TempDir;

use super::support::cairn_server::{CairnServer, KEY, chat_model};
use super::support::fake_cursor::{FakeCursor, TurnReport};
use super::support::strict_anthropic::{Said, StrictAnthropic};
use super::support::strict_chat::{RecordedRequest, Reply as ChatReply, StrictChat};
use super::support::strict_responses::{Items, StrictResponses};
use super::support::wire_bench::Database;

const CALL: (&str, &str) = ("Read", r#" {"path" : "a.txt" }"#);

thread_local! {
    /// What the server's clock shows, in milliseconds since the Unix epoch: each test runs on a thread of its own.
    pub(super) static NOW: Cell<u64> = const { Cell::new(1_700_000_000_000) };
}

/// A strict endpoint of one of the APIs.
pub(super) enum Endpoint {
    Chat(StrictChat),
    Responses(StrictResponses),
    Anthropic(StrictAnthropic),
}

impl Endpoint {
    pub(super) async fn all() -> [Self; 3] {
        let chat = StrictChat::start().await;
        chat.one_conversation();
        [
            Self::Chat(chat),
            Self::Responses(StrictResponses::start().await),
            Self::Anthropic(StrictAnthropic::start().await),
        ]
    }

    fn model(&self) -> ModelConfig {
        let (api, base_url) = match self {
            Self::Chat(chat) => (Api::OpenAiChat, chat.base_url()),
            Self::Responses(responses) => (Api::OpenAiResponses, responses.base_url()),
            Self::Anthropic(anthropic) => (Api::Anthropic, anthropic.base_url()),
        };
        ModelConfig {
            api,
            max_output_tokens: Some(1024),
            ..chat_model(&base_url)
        }
    }

    /// The next answer is text, after thinking where the API replays it.
    pub(super) fn reply_text(&self, text: &str) {
        match self {
            Self::Chat(chat) => chat.reply(ChatReply::answer(Some("Hm."), text, &[])),
            Self::Responses(responses) => responses.reply(
                Items::answer()
                    .reasoning(&format!("sealed {text}"), &["Hm."])
                    .message(None, text),
            ),
            Self::Anthropic(anthropic) => {
                anthropic.say(&[Said::Thinking("Hm.", &format!("signed {text}")), Said::Text(text)]);
            }
        }
    }

    /// The next answer is a call.
    pub(super) fn reply_call(&self, id: &str) {
        self.reply_call_of(id, CALL);
    }

    /// The next answer is a call of this tool with these arguments.
    pub(super) fn reply_call_of(&self, id: &str, (name, arguments): (&str, &str)) {
        match self {
            Self::Chat(chat) => chat.reply_calls([(id, name, arguments)]),
            Self::Responses(responses) => responses.reply(
                Items::answer()
                    .reasoning(&format!("sealed {id}"), &[])
                    .call(id, name, arguments),
            ),
            Self::Anthropic(anthropic) => anthropic.say(&[
                Said::Thinking("Look.", &format!("signed {id}")),
                Said::Call(id, name, arguments),
            ]),
        }
    }

    /// The next request is refused for good.
    pub(super) fn refuse(&self) {
        let reply = ChatReply::status(403, &[], r#"{"error":{"message":"not today"}}"#);
        match self {
            Self::Chat(chat) => chat.reply(reply),
            Self::Responses(responses) => responses.reply(reply),
            Self::Anthropic(anthropic) => anthropic.reply(reply),
        }
    }

    /// The next request is a declared reset.
    pub(super) fn allow_reset(&self) {
        match self {
            Self::Chat(chat) => chat.allow_reset(),
            Self::Responses(responses) => responses.allow_reset(),
            Self::Anthropic(anthropic) => anthropic.allow_reset(),
        }
    }

    pub(super) fn bodies(&self) -> Vec<Value> {
        self.requests().into_iter().map(|request| request.json).collect()
    }

    pub(super) fn requests(&self) -> Vec<RecordedRequest> {
        match self {
            Self::Chat(chat) => chat.requests(),
            Self::Responses(responses) => responses.requests(),
            Self::Anthropic(anthropic) => anthropic.requests(),
        }
    }

    pub(super) fn assert_clean(&self) {
        match self {
            Self::Chat(chat) => chat.assert_clean(),
            Self::Responses(responses) => responses.assert_clean(),
            Self::Anthropic(anthropic) => anthropic.assert_clean(),
        }
    }
}

pub(super) struct Rig {
    pub(super) endpoint: Endpoint,
    pub(super) cursor: FakeCursor,
    server: CairnServer,
    data: TempDir,
    workspace: TempDir,
}

impl Rig {
    pub(super) async fn all() -> Vec<Self> {
        let mut rigs = Vec::new();
        for endpoint in Endpoint::all().await {
            let (data, workspace) = (TempDir::new().unwrap(), TempDir::new().unwrap());
            std::fs::write(workspace.path().join("a.txt"), "one\n").unwrap();
            let server = serve(data.path(), &endpoint).await;
            let cursor = FakeCursor::new(&server.base_url, KEY, "agent-1", workspace.path()).await;
            rigs.push(Self {
                endpoint,
                server,
                cursor,
                data,
                workspace,
            });
        }
        rigs
    }

    /// The server stops and starts again; what it finds in its data folder is as told.
    pub(super) async fn restart(self, database: Database) -> Self {
        let Self {
            endpoint,
            server,
            mut cursor,
            mut data,
            workspace,
        } = self;
        server.stop().await;
        if database == Database::Lost {
            data = TempDir::new().unwrap();
        }
        let server = serve(data.path(), &endpoint).await;
        cursor.reconnect(&server.base_url, KEY).await;
        Self {
            endpoint,
            server,
            cursor,
            data,
            workspace,
        }
    }

    /// Sends a message with this context.
    pub(super) async fn send(&mut self, text: &str, mode: AgentMode, context: RequestContext) -> TurnReport {
        let message = UserMessage {
            text: text.to_owned(),
            mode: mode.into(),
            ..UserMessage::default()
        };
        self.send_message(message, context).await
    }

    /// Sends a whole message with this context.
    pub(super) async fn send_message(&mut self, message: UserMessage, context: RequestContext) -> TurnReport {
        self.try_message(message, context).await.success()
    }

    /// Sends a whole message with this context, whatever comes of it.
    pub(super) async fn try_message(&mut self, message: UserMessage, context: RequestContext) -> TurnReport {
        self.cursor.hooks.request = Box::new(move |request| {
            let action = request.action.as_mut().and_then(|action| action.action.as_mut());
            if let Some(conversation_action::Action::UserMessageAction(action)) = action {
                action.request_context = Some(context.clone());
            }
        });
        self.cursor.start_message(message).await.finish().await
    }

    /// A turn of one round.
    pub(super) async fn turn(&mut self, name: &str, mode: AgentMode, context: RequestContext) {
        self.endpoint
            .reply_call(&format!("call_{}", name.replace(' ', "_")));
        self.endpoint.reply_text(name);
        self.send(name, mode, context).await;
    }

    pub(super) async fn calls(&self) -> Vec<ModelCallRecord> {
        let mut records = Records::open(&self.data.path().join("cairn.db")).await.unwrap();
        records
            .model_calls(&ConversationId::new("agent-1"))
            .await
            .unwrap()
    }

    pub(super) fn assert_clean(&self) {
        self.cursor.assert_clean();
        self.endpoint.assert_clean();
    }
}

async fn serve(data: &Path, endpoint: &Endpoint) -> CairnServer {
    let models = vec![endpoint.model()];
    CairnServer::with_clock(data, models, SessionLimits::default(), || NOW.get()).await
}

pub(super) fn rule(text: &str) -> RequestContext {
    RequestContext {
        rules: vec![CursorRule {
            full_path: "/w/AGENTS.md".to_owned(),
            content: text.to_owned(),
            r#type: Some(CursorRuleType {
                r#type: Some(cursor_rule_type::Type::Global(CursorRuleTypeGlobal {})),
            }),
            ..CursorRule::default()
        }],
        ..RequestContext::default()
    }
}

/// The text of a request's user messages, whatever its API.
pub(super) fn user_texts(body: &Value) -> Vec<String> {
    let messages = body.get("messages").or_else(|| body.get("input")).unwrap();
    let texts = |content: &Value| match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    };
    messages
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "user")
        .flat_map(|message| texts(&message["content"]))
        .collect()
}

/// The verdicts of the conversation's requests, in order.
pub(super) async fn verdicts(rig: &Rig) -> Vec<PrefixVerdict> {
    rig.calls().await.iter().map(|call| call.verdict).collect()
}
