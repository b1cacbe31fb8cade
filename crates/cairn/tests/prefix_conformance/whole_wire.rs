//! The same inventory on the whole server: what a client does between two turns, and where the body that reaches the endpoint
//! leaves the one before. Prompts, tools and their order are the ones that cairn ships.

use cairn::config::{Api as ConfiguredApi, ModelConfig};
use cairn::cursor::proto::agent::{
    AgentMode, CursorRule, CursorRuleType, CursorRuleTypeGlobal, McpToolDefinition, RequestContext,
    UserMessage, conversation_action, cursor_rule_type,
};
use cairn::cursor::sessions::SessionLimits;
use prefix_conformance::{
    Api, AssertOn, ConformanceOptions, Host, HostError, Measure, Position, Request, Session, ToolCall,
    measure, run_prefix_conformance,
};
use tempfile::TempDir;

use super::support::cairn_server::{CairnServer, KEY, chat_model};
use super::support::fake_cursor::FakeCursor;
use super::support::fake_provider::{calls, text};
use super::support::over_http::Endpoint;

/// A server before an endpoint of one API, and its client.
struct Rig {
    api: Api,
    endpoint: Endpoint,
    _server: CairnServer,
    cursor: FakeCursor,
    _folders: [TempDir; 2],
    bodies: usize,
}

impl Rig {
    async fn new(api: Api) -> Self {
        let endpoint = Endpoint::start(match api {
            Api::OpenAiChat => ConfiguredApi::OpenAiChat,
            Api::OpenAiResponses => ConfiguredApi::OpenAiResponses,
            Api::Anthropic => ConfiguredApi::Anthropic,
        })
        .await;
        let model = ModelConfig {
            api: endpoint.api(),
            max_output_tokens: Some(1024),
            ..chat_model(&endpoint.base_url())
        };
        let (data, workspace) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        std::fs::write(workspace.path().join("a.txt"), "one\n").unwrap();
        let server = CairnServer::with_models(data.path(), vec![model], SessionLimits::default()).await;
        let cursor = FakeCursor::new(&server.base_url, KEY, "agent-1", workspace.path()).await;
        Self {
            api,
            endpoint,
            _server: server,
            cursor,
            _folders: [data, workspace],
            bodies: 0,
        }
    }

    /// A turn with a round and an answer: two requests, the second of which has to extend the first. Where the first
    /// leaves the last one of the turn before.
    async fn turn(&mut self, name: &str, mode: AgentMode, context: RequestContext) -> Option<Measure> {
        let call = format!("call_{name}");
        let read = calls("", &[(call.as_str(), "Read", r#"{"path":"a.txt"}"#)]);
        for events in [read, text(name)] {
            let steps: Vec<_> = events.into_iter().map(Ok).collect();
            self.endpoint.reply(self.endpoint.answer(&steps));
        }
        self.cursor.hooks.request = Box::new(move |request| {
            let action = request.action.as_mut().and_then(|action| action.action.as_mut());
            if let Some(conversation_action::Action::UserMessageAction(action)) = action {
                action.request_context = Some(context.clone());
            }
        });
        let message = UserMessage {
            text: name.to_owned(),
            mode: mode.into(),
            ..UserMessage::default()
        };
        let turn = self.cursor.start_message(message).await;
        turn.finish().await.success();
        self.since(2)
    }

    /// Where the first of this many new requests leaves the one before it. The others have to extend theirs.
    fn since(&mut self, new: usize) -> Option<Measure> {
        let requests: Vec<Request> = self
            .endpoint
            .requests()
            .iter()
            .map(|request| Request::parse(self.api, request.body.to_vec()).unwrap())
            .collect();
        let first = std::mem::replace(&mut self.bodies, requests.len());
        assert_eq!(requests.len(), first + new);
        for pair in requests[first..].windows(2) {
            assert_eq!(measure(&pair[0], &pair[1]).boundary, None, "{}", self.api);
        }
        first
            .checked_sub(1)
            .map(|before| measure(&requests[before], &requests[first]))
    }

    /// The names of the tools in the newest request.
    fn tools(&self) -> Vec<String> {
        let request = self.endpoint.requests().pop().unwrap();
        let request = Request::parse(self.api, request.body.to_vec()).unwrap();
        request
            .items()
            .iter()
            .filter(|item| matches!(item.position, Position::Tool(_)))
            .map(|item| item.label.clone())
            .collect()
    }

    /// The index of a message, counted from the request context at 0.
    fn message(&self, index: usize) -> usize {
        match self.api {
            Api::OpenAiChat => index + 1,
            Api::OpenAiResponses | Api::Anthropic => index,
        }
    }

    fn assert_clean(&self) {
        self.cursor.assert_clean();
        self.endpoint.assert_clean();
    }
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

/// MCP servers by name, with the description of their tool.
type Servers<'a> = &'a [(&'a str, &'a str)];

/// A context with a tool `look` of each server, described so.
fn servers(servers: Servers<'_>) -> RequestContext {
    RequestContext {
        tools: servers
            .iter()
            .map(|(server, description)| McpToolDefinition {
                name: format!("{server}-look"),
                provider_identifier: (*server).to_owned(),
                tool_name: "look".to_owned(),
                description: (*description).to_owned(),
                input_schema_json: Some(r#"{"type":"object","properties":{}}"#.to_owned()),
                ..McpToolDefinition::default()
            })
            .collect(),
        ..rule("Be kind.")
    }
}

/// The first differing index of tools, of the system prompt and of the messages, of a pair that has a first turn before it.
#[track_caller]
fn place(measured: Option<Measure>) -> (Option<usize>, Option<usize>, Option<usize>) {
    let boundary = measured.unwrap().boundary;
    boundary.map_or((None, None, None), |boundary| {
        (boundary.tool, boundary.system, boundary.message)
    })
}

const NOWHERE: (Option<usize>, Option<usize>, Option<usize>) = (None, None, None);

/// The server and its client as a host of the conformance run. A skill is a file, and loading it is a call of Read.
struct Served {
    folders: [TempDir; 2],
    running: Option<(CairnServer, FakeCursor)>,
}

impl Host for Served {
    async fn turn(&mut self, session: &Session, turn: usize) -> Result<(), HostError> {
        if self.running.is_none() {
            let model = super::model(session);
            let id = model.id.clone();
            let [data, workspace] = &self.folders;
            let server = CairnServer::with_models(data.path(), vec![model], SessionLimits::default()).await;
            let mut cursor = FakeCursor::new(&server.base_url, KEY, "agent-1", workspace.path()).await;
            cursor.model = id;
            self.running = Some((server, cursor));
        }
        let (_, cursor) = self.running.as_mut().unwrap();
        cursor.send(&session.inputs[turn - 1]).await.success();
        cursor.assert_clean();
        Ok(())
    }
}

#[tokio::test]
async fn the_server_with_its_own_prompt_and_tools_conforms_in_every_api() {
    for api in Api::ALL {
        for assert_on in [AssertOn::ProviderPrefix, AssertOn::CacheablePrefix] {
            let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
            let mut options = ConformanceOptions::new(api);
            options.limits.assert_on = assert_on;
            for skill in &mut options.skills {
                let name = format!("{}.md", skill.name);
                std::fs::write(folders[1].path().join(&name), &skill.body).unwrap();
                skill.load = ToolCall {
                    name: "Read".to_owned(),
                    arguments: serde_json::json!({ "path": name }).to_string(),
                };
            }
            let mut host = Served {
                folders,
                running: None,
            };
            let outcome = run_prefix_conformance(&mut host, &options).await.unwrap();
            assert_eq!(
                (
                    outcome.requests,
                    outcome.min_continuity,
                    outcome.cacheable_continuity,
                    outcome.resets
                ),
                (4, 1.0, 1.0, vec![]),
                "{api}"
            );
        }
    }
}

#[tokio::test]
async fn turns_and_contexts_that_change_and_change_back_reset_nothing() {
    for api in Api::ALL {
        let mut rig = Rig::new(api).await;
        let first = rig.turn("one", AgentMode::Agent, rule("A")).await;
        assert_eq!(first, None);
        for (name, said) in [("two", "A"), ("three", "B"), ("four", "A")] {
            let measured = rig.turn(name, AgentMode::Agent, rule(said)).await;
            assert_eq!(place(measured), NOWHERE, "{api}, {name}");
        }
        rig.assert_clean();
    }
}

#[tokio::test]
async fn a_servers_tool_is_a_boundary_at_its_place_and_none_when_the_server_is_gone() {
    let look = "Looks.";
    for api in Api::ALL {
        let mut rig = Rig::new(api).await;
        rig.turn("none", AgentMode::Agent, servers(&[])).await;
        let built_in = rig.tools();
        let steps: [(&str, Servers<'_>, Option<usize>); 5] = [
            ("gained", &[("b", look)], Some(0)),
            ("before", &[("a", look), ("b", look)], Some(0)),
            ("behind", &[("c", look), ("b", look), ("a", look)], Some(2)),
            ("gone", &[("c", look)], None),
            (
                "described",
                &[("a", look), ("b", "Looks twice."), ("c", look)],
                Some(1),
            ),
        ];
        for (name, offered, expected) in steps {
            if expected.is_some() {
                rig.endpoint.allow_reset();
            }
            let measured = rig.turn(name, AgentMode::Agent, servers(offered)).await;
            let expected = expected.map(|index| built_in.len() + index);
            assert_eq!(place(measured), (expected, None, None), "{api}, {name}");
            assert_eq!(rig.tools()[..built_in.len()], built_in, "{api}, {name}");
        }
        rig.assert_clean();
    }
}

#[tokio::test]
async fn another_mode_is_a_boundary_in_tools_and_prompt_and_keeps_every_message() {
    for api in Api::ALL {
        let mut rig = Rig::new(api).await;
        rig.turn("one", AgentMode::Agent, rule("A")).await;
        let of_agent = rig.tools();
        rig.endpoint.allow_reset();
        let measured = rig.turn("two", AgentMode::Plan, rule("A")).await;
        let of_plan = rig.tools();
        let kept = of_agent
            .iter()
            .zip(&of_plan)
            .take_while(|(one, other)| one == other)
            .count();
        let expected = match api {
            // Chat's prompt is its message 0.
            Api::OpenAiChat => (Some(kept), None, Some(0)),
            Api::OpenAiResponses | Api::Anthropic => (Some(kept), Some(0), None),
        };
        assert_eq!(place(measured), expected, "{api}");
        rig.assert_clean();
    }
}

#[tokio::test]
async fn a_summary_stands_right_behind_the_context() {
    for api in Api::ALL {
        let contexts = [(["A", "A"], 1), (["A", "B"], 0)];
        for ([first, second], expected) in contexts {
            let mut rig = Rig::new(api).await;
            rig.turn("one", AgentMode::Agent, rule(first)).await;
            rig.turn("two", AgentMode::Agent, rule(second)).await;
            let gist: Vec<_> = text("The gist.").into_iter().map(Ok).collect();
            rig.endpoint.reply(rig.endpoint.answer(&gist));
            rig.cursor.summarize().await.success();
            // The request for a summary extends the conversation and stands beside it.
            let asked = rig.since(1);
            assert_eq!(place(asked), NOWHERE, "{api}");
            rig.endpoint.allow_reset();
            let measured = rig.turn("three", AgentMode::Agent, rule(second)).await;
            let expected = (None, None, Some(rig.message(expected)));
            assert_eq!(place(measured), expected, "{api}");
            let still = rig.turn("four", AgentMode::Agent, rule(second)).await;
            assert_eq!(place(still), NOWHERE, "{api}");
            rig.assert_clean();
        }
    }
}
