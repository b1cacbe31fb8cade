//! The same conversation at each of the three APIs: bodies are compared item by item and as bytes by the strict endpoints,
//! and the proof at run time is on in the server.

use std::path::Path;

use cairn::config::{Api, ModelConfig};
use cairn::cursor::proto::agent::{
    AgentMode, AgentSkill, CursorRule, CursorRuleType, CursorRuleTypeGlobal, GitRepoInfo, McpToolDefinition,
    RequestContext, UserMessage, conversation_action, cursor_rule_type,
};
use cairn::cursor::sessions::SessionLimits;
use cairn::model::{ConversationId, PrefixReset, PromptChange};
use cairn::store::{ModelCallRecord, PrefixVerdict, Records};
use serde_json::Value;
use tempfile::TempDir;

use super::support::cairn_server::{CairnServer, KEY, chat_model};
use super::support::fake_cursor::{FakeCursor, TurnReport};
use super::support::strict_anthropic::{Said, StrictAnthropic};
use super::support::strict_chat::{Reply as ChatReply, StrictChat};
use super::support::strict_responses::{Items, StrictResponses};

/// A strict endpoint of one of the APIs.
enum Endpoint {
    Chat(StrictChat),
    Responses(StrictResponses),
    Anthropic(StrictAnthropic),
}

const CALL: (&str, &str) = ("Read", r#" {"path" : "a.txt" }"#);

impl Endpoint {
    async fn all() -> [Self; 3] {
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
    fn reply_text(&self, text: &str) {
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
    fn reply_call(&self, id: &str) {
        let (name, arguments) = CALL;
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

    /// The next request is a declared reset.
    fn allow_reset(&self) {
        match self {
            Self::Chat(chat) => chat.allow_reset(),
            Self::Responses(responses) => responses.allow_reset(),
            Self::Anthropic(anthropic) => anthropic.allow_reset(),
        }
    }

    fn bodies(&self) -> Vec<Value> {
        match self {
            Self::Chat(chat) => chat.requests().into_iter().map(|request| request.json).collect(),
            Self::Responses(responses) => responses
                .requests()
                .into_iter()
                .map(|request| request.json)
                .collect(),
            Self::Anthropic(anthropic) => anthropic
                .requests()
                .into_iter()
                .map(|request| request.json)
                .collect(),
        }
    }

    fn assert_clean(&self) {
        match self {
            Self::Chat(chat) => chat.assert_clean(),
            Self::Responses(responses) => responses.assert_clean(),
            Self::Anthropic(anthropic) => anthropic.assert_clean(),
        }
    }
}

struct Rig {
    endpoint: Endpoint,
    server: CairnServer,
    cursor: FakeCursor,
    data: TempDir,
    workspace: TempDir,
}

impl Rig {
    async fn all() -> Vec<Self> {
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

    async fn restart(self) -> Self {
        let Self {
            endpoint,
            server,
            mut cursor,
            data,
            workspace,
        } = self;
        server.stop().await;
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
    async fn send(&mut self, text: &str, mode: AgentMode, context: RequestContext) -> TurnReport {
        self.cursor.hooks.request = Box::new(move |request| {
            let action = request.action.as_mut().and_then(|action| action.action.as_mut());
            if let Some(conversation_action::Action::UserMessageAction(action)) = action {
                action.request_context = Some(context.clone());
            }
        });
        let message = UserMessage {
            text: text.to_owned(),
            mode: mode.into(),
            ..UserMessage::default()
        };
        self.cursor.start_message(message).await.finish().await.success()
    }

    /// A turn of one round.
    async fn turn(&mut self, name: &str, mode: AgentMode, context: RequestContext) {
        self.endpoint
            .reply_call(&format!("call_{}", name.replace(' ', "_")));
        self.endpoint.reply_text(name);
        self.send(name, mode, context).await;
    }

    async fn calls(&self) -> Vec<ModelCallRecord> {
        let mut records = Records::open(&self.data.path().join("cairn.db")).await.unwrap();
        records
            .model_calls(&ConversationId::new("agent-1"))
            .await
            .unwrap()
    }

    fn assert_clean(&self) {
        self.cursor.assert_clean();
        self.endpoint.assert_clean();
    }
}

async fn serve(data: &Path, endpoint: &Endpoint) -> CairnServer {
    CairnServer::with_models(data, vec![endpoint.model()], SessionLimits::default()).await
}

fn rule(text: &str) -> RequestContext {
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

/// A context with one tool for each of these servers, in this order.
fn servers(servers: &[(&str, &str)]) -> RequestContext {
    RequestContext {
        tools: servers
            .iter()
            .map(|(server, schema)| McpToolDefinition {
                name: format!("{server}-look"),
                provider_identifier: (*server).to_owned(),
                tool_name: "look".to_owned(),
                description: format!("Looks at {server}."),
                input_schema_json: Some((*schema).to_owned()),
                ..McpToolDefinition::default()
            })
            .collect(),
        ..rule("Be kind.")
    }
}

/// The text of a request's user messages, whatever its API.
fn user_texts(body: &Value) -> Vec<String> {
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

#[tokio::test]
async fn forty_rounds_with_changing_rules_and_restarts_only_grow() {
    for mut rig in Rig::all().await {
        for turn in 0..20 {
            if turn % 7 == 6 {
                rig = rig.restart().await;
            }
            let context = rule(if turn == 9 { "RULE-B" } else { "RULE-A" });
            rig.turn(&format!("turn {turn}"), AgentMode::Agent, context).await;
        }
        rig.assert_clean();
        let calls = rig.calls().await;
        assert_eq!(calls.len(), 40);
        let mut before = 0;
        for call in &calls {
            assert_eq!((call.verdict, call.kept), (PrefixVerdict::Extends, before));
            assert!(call.items.len() > before);
            before = call.items.len();
        }
        // A rule changed and changed back: three contexts, each where it came up.
        let texts = user_texts(rig.endpoint.bodies().last().unwrap());
        let contexts: Vec<usize> = (0..texts.len())
            .filter(|at| texts[*at].contains("<request_context>"))
            .collect();
        assert_eq!(contexts, [0, 10, 12]);
        assert!(texts[10].contains("RULE-B") && texts[12] == texts[0]);
    }
}

#[tokio::test]
async fn an_mcp_server_that_reconnects_or_is_gone_for_a_turn_changes_nothing() {
    let (plain, turned) = (
        r#"{"type":"object","properties":{"p":{"type":"string","minLength":1}}}"#,
        r#"{"properties":{"p":{"minLength":1.0,"type":"string"}},"type":"object"}"#,
    );
    for mut rig in Rig::all().await {
        let orders: [&[(&str, &str)]; 4] = [
            &[("a", plain), ("b", plain), ("c", plain)],
            &[("c", turned), ("a", plain), ("b", turned)],
            &[("a", plain), ("c", plain)],
            &[("b", plain), ("a", plain), ("c", plain)],
        ];
        for (turn, order) in orders.into_iter().enumerate() {
            if turn == 2 {
                rig = rig.restart().await;
            }
            rig.turn(&format!("turn {turn}"), AgentMode::Agent, servers(order))
                .await;
        }
        let bodies = rig.endpoint.bodies();
        assert_eq!(bodies.len(), 8);
        for body in &bodies {
            assert_eq!(body["tools"].to_string(), bodies[0]["tools"].to_string());
        }
        // A server that brings something new is one declared reset, and then all is still again.
        rig.endpoint.allow_reset();
        let more = [("a", plain), ("b", plain), ("c", plain), ("aa", plain)];
        rig.turn("more", AgentMode::Agent, servers(&more)).await;
        rig.turn("still", AgentMode::Agent, servers(&more)).await;
        rig.assert_clean();
        let verdicts: Vec<PrefixVerdict> = rig.calls().await.iter().map(|call| call.verdict).collect();
        let reset = PrefixVerdict::Reset(PrefixReset::Prompt(PromptChange::ToolsChange));
        let mut expected = vec![PrefixVerdict::Extends; 12];
        expected[8] = reset;
        assert_eq!(verdicts, expected);
    }
}

#[tokio::test]
async fn plan_and_agent_mode_are_declared_and_said_once_each() {
    for mut rig in Rig::all().await {
        let modes = [
            AgentMode::Agent,
            AgentMode::Plan,
            AgentMode::Plan,
            AgentMode::Unspecified,
            AgentMode::Agent,
        ];
        for (turn, mode) in modes.into_iter().enumerate() {
            if turn == 2 || turn == 4 {
                rig = rig.restart().await;
            }
            if turn == 1 || turn == 3 {
                rig.endpoint.allow_reset();
            }
            rig.turn(&format!("turn {turn}"), mode, rule("RULE-A")).await;
        }
        rig.assert_clean();
        let switch = PrefixVerdict::Reset(PrefixReset::Prompt(PromptChange::ModeSwitch));
        let mut expected = vec![PrefixVerdict::Extends; 10];
        expected[2] = switch;
        expected[6] = switch;
        let verdicts: Vec<PrefixVerdict> = rig.calls().await.iter().map(|call| call.verdict).collect();
        assert_eq!(verdicts, expected);
        let texts = user_texts(rig.endpoint.bodies().last().unwrap());
        let said: Vec<bool> = texts.iter().map(|text| text.contains("<mode_change>")).collect();
        // The context, then the five turns.
        assert_eq!(said, [false, false, true, false, true, false]);
    }
}

#[tokio::test]
async fn reasoning_that_its_endpoint_refuses_is_a_declared_reset_and_then_still() {
    let Some(mut rig) = Rig::all().await.into_iter().nth(1) else {
        unreachable!()
    };
    rig.turn("one", AgentMode::Agent, rule("RULE-A")).await;
    let Endpoint::Responses(responses) = &rig.endpoint else {
        unreachable!()
    };
    responses.revoke_reasoning(true);
    rig.turn("two", AgentMode::Agent, rule("RULE-A")).await;
    let mut rig = rig.restart().await;
    rig.turn("three", AgentMode::Agent, rule("RULE-A")).await;
    rig.assert_clean();
    let verdicts: Vec<PrefixVerdict> = rig.calls().await.iter().map(|call| call.verdict).collect();
    let refused = PrefixVerdict::Reset(PrefixReset::ReasoningRefused);
    let extends = PrefixVerdict::Extends;
    assert_eq!(
        verdicts,
        [extends, extends, extends, refused, extends, extends, extends]
    );
}

/// Clock, branch, status, rules and skills: what holds for the conversation is said when it changes, and nowhere before.
#[tokio::test]
async fn what_changes_around_a_conversation_is_appended_once_where_it_changed() {
    let git = |branch: &str, status: &str| GitRepoInfo {
        path: "/w".to_owned(),
        branch_name: branch.to_owned(),
        status: status.to_owned(),
        ..GitRepoInfo::default()
    };
    let skill = AgentSkill {
        full_path: "/w/.skills/tides/SKILL.md".to_owned(),
        description: "When ships may leave.".to_owned(),
        ..AgentSkill::default()
    };
    let mut rules = rule("RULE-A").rules;
    rules.push(CursorRule {
        full_path: "/w/sub/AGENTS.md".to_owned(),
        ..rules[0].clone()
    });
    let context = |branch: &str, status: &str, skills: &[AgentSkill]| RequestContext {
        rules: rules.clone(),
        git_repos: vec![git(branch, status)],
        agent_skills: skills.to_vec(),
        ..RequestContext::default()
    };
    let turned = |mut context: RequestContext| {
        context.rules.reverse();
        context
    };
    for mut rig in Rig::all().await {
        let contexts = [
            context("main", "", &[]),
            // The status changes with every edit: no news for the conversation.
            turned(context("main", " M a.txt", &[])),
            context("feature", "", &[]),
            turned(context("feature", " M b.txt", &[])),
            context("feature", "", std::slice::from_ref(&skill)),
            turned(context("feature", "", std::slice::from_ref(&skill))),
        ];
        for (turn, context) in contexts.into_iter().enumerate() {
            if turn == 3 {
                rig = rig.restart().await;
            }
            rig.turn(&format!("turn {turn}"), AgentMode::Agent, context).await;
        }
        rig.assert_clean();
        let texts = user_texts(rig.endpoint.bodies().last().unwrap());
        let order: Vec<bool> = texts
            .iter()
            .map(|text| text.contains("<request_context>"))
            .collect();
        assert_eq!(
            order,
            [true, false, false, true, false, false, true, false, false]
        );
        assert!(texts.iter().all(|text| !text.contains(" M ")));
        let verdicts: Vec<PrefixVerdict> = rig.calls().await.iter().map(|call| call.verdict).collect();
        assert_eq!(verdicts, [PrefixVerdict::Extends; 12]);
    }
}
