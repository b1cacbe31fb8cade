//! cairn's engine as a host of the conformance run: two turns, two loaded skills, four requests, nothing rewritten.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    clippy::duplicate_mod,
    missing_docs,
    dead_code,
    reason = "a test says what it saw by failing"
)]

#[path = "support"]
mod support {
    pub mod cairn_server;
    pub mod fake_client;
    pub mod fake_cursor;
    pub mod fake_provider;
    pub mod over_http;
    pub mod strict_anthropic;
    pub mod strict_chat;
    pub mod strict_responses;
    pub mod wire_oracle;
}

#[path = "prefix_conformance/inventory.rs"]
mod inventory;
#[path = "prefix_conformance/whole_wire.rs"]
mod whole_wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use cairn::config::{Api as ConfiguredApi, ModelConfig};
use cairn::model::{
    CompactionSpec, ConversationSize, Frame, MeasuredHistory, Message, MessageBody, MessageId, ModelRequest,
    ModelSpec, Part, PromptSpec, RevisionId, RunAction, RunOutcome, ToolDefinition, UserOrigin,
};
use cairn::provider::{ModelEvent, ModelInvocation, ModelStream, Provider, ProviderRouter, digest_of};
use cairn::run::{PrefixBreaks, RunServices, start};
use futures_util::StreamExt as _;
use prefix_conformance::{
    Api, AssertOn, ConformanceError, ConformanceOptions, Host, HostError, Outcome, Position, Session,
    Violation, run_prefix_conformance,
};
use support::fake_client::{Bench, FakeClient, prepared, user_message};
use support::fake_provider::text;

/// The engine on a store of its own, with a client that loads skills.
struct Engine {
    bench: Bench,
    head: Option<RevisionId>,
    /// What the instructions of each turn end with: a host that keeps them says the same twice.
    instructions: [&'static str; 2],
    /// Whether the history is compacted before the second turn's first answer.
    compacts: bool,
    /// What is said of the skills from the second turn on, if it is news.
    second_context: Option<&'static str>,
    /// Every request that the engine made, summaries included.
    asked: Arc<Mutex<Vec<ModelRequest>>>,
    /// The model that it asked.
    model: Option<ModelConfig>,
}

/// The endpoint of a configured model, but for summaries: a run of the check has no request for one. Notes what is asked.
#[derive(Debug)]
struct Summarised {
    endpoint: Arc<dyn Provider>,
    asked: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Provider for Summarised {
    fn call(&self, request: &ModelRequest, invocation: ModelInvocation) -> ModelStream {
        self.asked.lock().unwrap().push(request.clone());
        if !request.asks_for_summary() {
            return self.endpoint.call(request, invocation);
        }
        let sending = ModelEvent::Sending(Arc::new(digest_of("summary", request)));
        let summary = text("The first skill, alpha, was loaded.");
        futures_util::stream::iter([sending].into_iter().chain(summary).map(Ok)).boxed()
    }
}

impl Engine {
    async fn new(instructions: [&'static str; 2]) -> Self {
        Self {
            bench: Bench::new().await,
            head: None,
            instructions,
            compacts: false,
            second_context: None,
            asked: Arc::default(),
            model: None,
        }
    }
}

fn model(session: &Session) -> ModelConfig {
    ModelConfig {
        id: "fake".to_owned(),
        name: None,
        api: match session.api {
            Api::OpenAiChat => ConfiguredApi::OpenAiChat,
            Api::OpenAiResponses => ConfiguredApi::OpenAiResponses,
            Api::Anthropic => ConfiguredApi::Anthropic,
        },
        base_url: Some(session.base_url.parse().unwrap()),
        api_key: None,
        upstream_model: session.model.clone(),
        context_window: None,
        max_output_tokens: Some(1024),
        vision: false,
        limits: cairn::config::EntryLimits::default(),
        options: toml::Table::new(),
    }
}

fn prompt(ending: &str) -> PromptSpec {
    PromptSpec {
        instructions: format!("{}{ending}", "Load a skill before you rely on it. ".repeat(60)).into(),
        tools: vec![ToolDefinition {
            name: "load_skill".into(),
            description: "Loads a skill.".into(),
            parameters: r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#
                .into(),
        }],
    }
}

fn context(event: &str, said: String) -> Message {
    Message {
        id: MessageId::new(event),
        body: MessageBody::User {
            origin: UserOrigin::RequestContext {
                event_id: event.into(),
            },
            parts: vec![Part::Text(said.into())],
        },
    }
}

impl Host for Engine {
    async fn turn(&mut self, session: &Session, turn: usize) -> Result<(), HostError> {
        let model = model(session);
        self.model = Some(model.clone());
        let routes = ProviderRouter::from_config(&[model])
            .map_err(|fault| HostError(fault.to_string()))?
            .into_routes();
        let services = RunServices {
            providers: Arc::new(
                routes
                    .into_iter()
                    .map(|(id, endpoint)| {
                        let asked = self.asked.clone();
                        (id, Arc::new(Summarised { endpoint, asked }) as Arc<dyn Provider>)
                    })
                    .collect::<HashMap<_, _>>(),
            ),
            // The conformance run is the judge here: it must see what the server's own proof would stop.
            prefix_breaks: PrefixBreaks::Report,
            ..self.bench.services.clone()
        };
        let id = format!("run-{turn}");
        let asked = user_message(&id, &session.inputs[turn - 1]);
        let plain = self
            .bench
            .user_turn(&id, self.head.as_ref(), &session.inputs[turn - 1])
            .await;
        let [one, two] = &session.skills;
        let messages = match (&self.head, self.second_context) {
            (None, _) => {
                let said = format!("Skills that can be loaded: {}, {}.", one.name, two.name);
                vec![context("request-context:1", said), asked]
            }
            (Some(_), Some(said)) => vec![context("request-context:2", said.to_owned()), asked],
            (Some(_), None) => vec![asked],
        };
        let action = RunAction::Start {
            interrupted: None,
            messages,
        };
        let mut run = prepared(&id, plain.base, action);
        run.model = Arc::new(ModelSpec {
            max_output_tokens: Some(1024),
            ..(*run.model).clone()
        });
        run.compaction = (self.compacts && turn == 2).then(|| CompactionSpec {
            instruction: "Summarise.".into(),
            summary: Frame {
                tag: "summary".into(),
                before: "Summary: ".into(),
                after: "".into(),
            },
            shortened: Frame {
                tag: "shortened".into(),
                before: "".into(),
                after: "".into(),
            },
            shortened_characters: 16_000,
            threshold: Some(1_000_000),
            base: Some(MeasuredHistory {
                size: ConversationSize::Reported(1_000_000),
                after_compaction: None,
            }),
        });
        run.prompt = Arc::new(prompt(self.instructions[turn - 1]));
        let (handle, _task) = start(services, run);
        let mut client = FakeClient::new(handle);
        let outcome = client
            .finish(|call| {
                let arguments: serde_json::Value = serde_json::from_str(&call.arguments).unwrap();
                let skill = session
                    .skills
                    .iter()
                    .find(|skill| arguments["name"] == skill.name.as_str());
                skill.expect("a skill of the run").body.clone()
            })
            .await;
        self.head = client.settled.clone();
        match outcome {
            RunOutcome::Completed => Ok(()),
            other => Err(HostError(format!("the run ended as {other:?}"))),
        }
    }
}

async fn run(
    api: Api,
    instructions: [&'static str; 2],
    assert_on: AssertOn,
) -> Result<Outcome, ConformanceError> {
    let mut options = ConformanceOptions::new(api);
    options.limits.assert_on = assert_on;
    run_prefix_conformance(&mut Engine::new(instructions).await, &options).await
}

#[tokio::test]
async fn the_engine_keeps_its_prefix_through_two_skill_loads() {
    let measures = [AssertOn::ProviderPrefix, AssertOn::CacheablePrefix];
    for (api, assert_on) in Api::ALL
        .into_iter()
        .flat_map(|api| measures.map(|assert_on| (api, assert_on)))
    {
        let outcome = run(api, ["", ""], assert_on).await.unwrap();
        assert_eq!(outcome.requests, 4);
        assert_eq!(outcome.cacheable_continuity, 1.0);
        assert!(outcome.min_continuity >= 0.95, "{}", outcome.min_continuity);
        assert_eq!(outcome.resets, Vec::<usize>::new());
    }
}

#[tokio::test]
async fn a_compaction_is_one_reset_and_the_new_prefix_is_stable_at_once() {
    for api in Api::ALL {
        let mut options = ConformanceOptions::new(api);
        options.limits.allowed_resets = 1;
        let mut engine = Engine::new(["", ""]).await;
        engine.compacts = true;
        let outcome = run_prefix_conformance(&mut engine, &options).await.unwrap();
        assert_eq!((outcome.requests, &outcome.resets[..]), (4, &[3][..]));
        // Instructions, tools and the context are kept; what follows is new.
        let broken = &outcome.pairs[1].provider;
        let boundary = broken.boundary.as_ref().unwrap();
        let behind_context = if api == Api::OpenAiChat { 2 } else { 1 };
        assert_eq!(
            (boundary.tool, boundary.system, boundary.message),
            (None, None, Some(behind_context)),
            "{api}"
        );
        assert_eq!(outcome.pairs[2].provider.boundary, None, "{api}");
        // A compaction that was declared and does not come is found.
        engine = Engine::new(["", ""]).await;
        let result = run_prefix_conformance(&mut engine, &options).await;
        assert!(
            matches!(
                &result,
                Err(ConformanceError::Broken {
                    violation: Violation::TooFewResets { .. },
                    ..
                })
            ),
            "{result:?}"
        );
    }
}

#[tokio::test]
async fn instructions_that_change_between_turns_are_found() {
    let result = run(
        Api::OpenAiChat,
        ["It is 23:59.", "It is 00:01."],
        AssertOn::ProviderPrefix,
    )
    .await;
    let Err(ConformanceError::Broken { violation, outcome }) = result else {
        panic!("{result:?}");
    };
    assert!(
        matches!(violation, Violation::TooManyResets { later: 3, .. }),
        "{violation}"
    );
    assert_eq!(outcome.resets, [3]);
    let boundary = outcome.pairs[1].provider.boundary.as_ref().unwrap();
    assert_eq!(boundary.first, Position::Message { message: 0, block: 0 });
    assert_eq!((boundary.tool, boundary.message), (None, Some(0)));
}
