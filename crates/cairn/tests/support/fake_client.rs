//! A client that is not Cursor: it has no state protocol, releases every barrier at once (unless told to hold), and
//! runs tools by closure. It proves that the run core knows nothing of any client.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use cairn::client::{Barrier, ClientCommand, ClientEvent, ClientHandle, StateCause};
use cairn::model::{
    ConversationId, MeasuredHistory, Message, MessageBody, MessageId, ModelSpec, Part, PreparedRun,
    PromptBasis, PromptSpec, RevisionId, RunAction, RunId, RunKind, RunOutcome, ToolCall, ToolDefinition,
    ToolResult, ToolRound, UserOrigin,
};
use cairn::provider::{ModelEvent, Provider};
use cairn::run::{PrefixBreaks, RunRegistry, RunServices, Views, start};
use cairn::store::Store;

use super::fake_provider::Feed;

/// A database in a temporary folder, and the services on it.
pub struct Bench {
    pub services: RunServices,
    pub folder: tempfile::TempDir,
}

impl Bench {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("cairn.db")).await.unwrap();
        let services = RunServices {
            store: Arc::new(store),
            registry: RunRegistry::default(),
            views: Views::default(),
            providers: Arc::default(),
            prefix_breaks: PrefixBreaks::Fail,
        };
        Self { services, folder }
    }

    /// Closes the database and opens it again, as another process would.
    pub async fn restart(self) -> Self {
        let Self { services, folder } = self;
        services.store.close().await.unwrap();
        let store = Store::open(&folder.path().join("cairn.db")).await.unwrap();
        let services = RunServices {
            store: Arc::new(store),
            registry: RunRegistry::default(),
            views: Views::default(),
            providers: Arc::default(),
            prefix_breaks: PrefixBreaks::Fail,
        };
        Self { services, folder }
    }

    pub fn start(&self, provider: &(impl Provider + Clone + 'static), run: PreparedRun) -> FakeClient {
        let provider: Arc<dyn Provider> = Arc::new(provider.clone());
        let providers = Arc::new(HashMap::from([("fake".to_owned(), provider)]));
        let (handle, _task) = start(
            RunServices {
                providers,
                ..self.services.clone()
            },
            run,
        );
        FakeClient::new(handle)
    }

    /// The run of a plain user message on top of a revision.
    pub async fn user_turn(&self, run: &str, base: Option<&RevisionId>, said: &str) -> PreparedRun {
        let conversation = ConversationId::new("conversation");
        let base = match base {
            Some(base) => base.clone(),
            None => self.services.store.empty_revision(&conversation).await.unwrap(),
        };
        prepared(
            run,
            base,
            RunAction::Start {
                interrupted: None,
                messages: vec![user_message(run, said)],
            },
        )
    }
}

/// A run with a fixed prompt.
pub fn prepared(run: &str, base: RevisionId, action: RunAction) -> PreparedRun {
    PreparedRun {
        id: RunId::new(run),
        conversation: ConversationId::new("conversation"),
        root: ConversationId::new("conversation"),
        kind: RunKind::Main,
        model: Arc::new(ModelSpec {
            model_id: "fake".into(),
            display_name: None,
            reasoning: Default::default(),
            latency: Default::default(),
            max_output_tokens: Some(4096),
            context_window: None,
            vision: false,
            entry: cairn::model::EntryLimits::default(),
        }),
        subagents: Arc::default(),
        prompt: Arc::new(PromptSpec {
            instructions: "be exact".into(),
            tools: ["alpha", "beta", "gamma"]
                .into_iter()
                .map(|name| ToolDefinition {
                    name: name.into(),
                    description: "a tool".into(),
                    parameters: "{\"type\":\"object\"}".into(),
                })
                .collect(),
        }),
        basis: PromptBasis::default(),
        standing: Vec::new(),
        compaction: None,
        base,
        action,
        woken: false,
    }
}

/// A user message whose id is made from the event that brought it.
pub fn user_message(event: &str, said: &str) -> Message {
    Message {
        id: MessageId::new(format!("turn:{event}")),
        body: MessageBody::User {
            origin: UserOrigin::Turn {
                event_id: event.into(),
            },
            parts: vec![Part::Text(said.into())],
        },
    }
}

/// A state that was committed, with its barrier if it is still held.
#[derive(Debug)]
pub struct Committed {
    pub revision: RevisionId,
    pub cause: StateCause,
    pub barrier: Option<Barrier>,
}

/// The client's side of one run.
pub struct FakeClient {
    pub handle: ClientHandle,
    pub log: Vec<String>,
    /// The newest revision that a barrier was released for.
    pub settled: Option<RevisionId>,
    /// Rounds that were given out, newest last.
    pub rounds: Vec<Arc<ToolRound>>,
    pub ended: VecDeque<RunOutcome>,
    /// How large the history was said to be, after each answer.
    pub measured: Vec<MeasuredHistory>,
}

impl FakeClient {
    pub fn new(handle: ClientHandle) -> Self {
        Self {
            handle,
            log: Vec::new(),
            settled: None,
            rounds: Vec::new(),
            ended: VecDeque::new(),
            measured: Vec::new(),
        }
    }

    /// Answers a call.
    pub fn result(&self, call: &ToolCall, content: &str) {
        let result = ToolResult {
            call: call.id.clone(),
            content: content.into(),
            is_error: false,
        };
        self.handle
            .commands
            .send(ClientCommand::ToolResult(result))
            .unwrap();
    }

    /// Takes events until one satisfies the predicate, releasing every barrier on the way but that event's own.
    pub async fn until(&mut self, wanted: impl Fn(&ClientEvent) -> bool) -> ClientEvent {
        loop {
            let event = self
                .handle
                .events
                .recv()
                .await
                .expect("the run ended without a word");
            self.note(&event);
            if wanted(&event) {
                return event;
            }
            self.release(event);
        }
    }

    /// Feeds the beginning of an answer and goes on until it is here: the model call is under way then.
    pub async fn until_under_way(&mut self, feed: &Feed) {
        feed.event(ModelEvent::Start);
        feed.event(ModelEvent::TextStart);
        feed.event(ModelEvent::TextDelta("half an ans".into()));
        self.until(|event| matches!(event, ClientEvent::TextDelta(_)))
            .await;
    }

    /// Takes events until a round is given out.
    pub async fn until_round(&mut self) -> Arc<ToolRound> {
        let event = self
            .until(|event| matches!(event, ClientEvent::ExecuteToolRound(_)))
            .await;
        let ClientEvent::ExecuteToolRound(round) = event else {
            unreachable!()
        };
        round
    }

    /// Takes events to the end, answering every call with the closure, in the order of the calls.
    pub async fn finish(&mut self, mut tool: impl FnMut(&ToolCall) -> String) -> RunOutcome {
        loop {
            let event =
                self.until(|event| matches!(event, ClientEvent::ExecuteToolRound(_) | ClientEvent::Ended(_)));
            match event.await {
                ClientEvent::ExecuteToolRound(round) => {
                    for call in &round.calls {
                        let content = tool(call);
                        self.result(call, &content);
                    }
                }
                ClientEvent::Ended(outcome) => {
                    assert!(
                        self.handle.events.recv().await.is_none(),
                        "an event followed the end"
                    );
                    return outcome;
                }
                _ => unreachable!(),
            }
        }
    }

    /// Releases an event's barrier.
    pub fn release(&mut self, event: ClientEvent) {
        if let ClientEvent::StateCommitted {
            revision,
            barrier: Some(barrier),
            ..
        } = event
        {
            self.settled = Some(revision);
            barrier.release();
        }
    }

    fn note(&mut self, event: &ClientEvent) {
        let line = match event {
            ClientEvent::Measured(measured) => return self.measured.push(*measured),
            ClientEvent::ModelCallStarted { provider_call_index } => format!("model {provider_call_index}"),
            ClientEvent::CompactionStarted { provider_call_index } => {
                format!("summary {provider_call_index}")
            }
            ClientEvent::CompactionFailed(text) => format!("no summary {text}"),
            ClientEvent::TextStart => "text(".to_owned(),
            ClientEvent::TextDelta(delta) => format!("text {delta}"),
            ClientEvent::TextEnd => ")text".to_owned(),
            ClientEvent::ThinkingStart => "thinking(".to_owned(),
            ClientEvent::ThinkingDelta(delta) => format!("thinking {delta}"),
            ClientEvent::ThinkingEnd { .. } => ")thinking".to_owned(),
            ClientEvent::ToolCallStart { call, name } => format!("call {call} {name}"),
            ClientEvent::ToolCallArguments { call, delta } => format!("arguments {call} {delta}"),
            ClientEvent::Usage(_) => "usage".to_owned(),
            ClientEvent::Notice(text) => format!("notice {text}"),
            ClientEvent::ExecuteToolRound(round) => {
                self.rounds.push(round.clone());
                format!("execute {}", round.calls.len())
            }
            ClientEvent::StateCommitted {
                cause,
                barrier,
                appended,
                ..
            } => {
                let cause = match cause {
                    StateCause::Initial => "initial".to_owned(),
                    StateCause::ToolRoundStarted(_) => "round".to_owned(),
                    StateCause::ToolResult(result) => format!("result {}", result.call),
                    StateCause::ToolRoundSettled(_) => "settled".to_owned(),
                    StateCause::RuntimeEvents => "events".to_owned(),
                    StateCause::Compacted { .. } => "compacted".to_owned(),
                    StateCause::Final => "final".to_owned(),
                };
                format!(
                    "{cause} +{}{}",
                    appended.len(),
                    if barrier.is_some() { " barrier" } else { "" }
                )
            }
            ClientEvent::Ended(outcome) => {
                self.ended.push_back(outcome.clone());
                match outcome {
                    RunOutcome::Completed => "completed".to_owned(),
                    RunOutcome::Cancelled => "cancelled".to_owned(),
                    RunOutcome::Failed(failure) => format!("failed {}", failure.kind().as_str()),
                }
            }
        };
        self.log.push(line);
    }
}
