//! A conversation on the run core alone, whose sizes the test decides.

use cairn::client::{ClientEvent, StateCause};
use cairn::model::{
    CompactionSpec, ConversationId, ConversationSize, Frame, HistoryItem, MeasuredHistory, Message,
    MessageBody, MessageId, ModelRequest, Part, PreparedRun, ProviderFailure, ProviderFault, RevisionId,
    RunAction, RunOutcome, UserOrigin,
};
use cairn::store::Compaction;

use crate::support::fake_client::{Bench, FakeClient, prepared, user_message};
use crate::support::fake_provider::{FakeProvider, calls, text, with_usage};
use crate::support::over_http::Over;
use crate::support::strict_chat::Reply;

/// From this size on the history is compacted.
pub const THRESHOLD: u64 = 1000;

/// How many characters all shortened messages keep together at first.
pub const ALLOWANCE: usize = 8000;

pub struct Talk {
    pub bench: Bench,
    pub provider: FakeProvider,
    pub head: Option<RevisionId>,
    /// The size that the client's state tells the next run.
    pub base_size: Option<u64>,
    /// The same for the next run only, whole.
    pub base: Option<MeasuredHistory>,
    /// What the client's state holds of the latest compaction; goes from run to run, database or not.
    pub after_compaction: Option<u64>,
    /// How large the last run said the history to be.
    pub measured: Vec<MeasuredHistory>,
    pub log: Vec<String>,
    /// What every call gives, in place of its own arguments.
    pub result: Option<String>,
    /// Whether the script goes through HTTP.
    over_http: bool,
    runs: usize,
}

impl Talk {
    pub async fn new() -> Self {
        Self {
            bench: Bench::new().await,
            provider: FakeProvider::new(),
            head: None,
            base_size: None,
            base: None,
            after_compaction: None,
            measured: Vec::new(),
            log: Vec::new(),
            result: None,
            over_http: false,
            runs: 0,
        }
    }

    /// A conversation whose script goes this way.
    pub async fn over(over: Over) -> Self {
        Self {
            provider: FakeProvider::over(over).await,
            over_http: over != Over::Nothing,
            ..Self::new().await
        }
    }

    /// A turn whose model calls were scripted before.
    pub async fn say(&mut self, said: &str) -> RunOutcome {
        let mut client = self.start(said).await;
        self.finish(&mut client).await
    }

    /// Begins a turn. The first one brings a request context.
    pub async fn start(&mut self, said: &str) -> FakeClient {
        let run = self.prepared_turn(said).await;
        self.bench.start(&self.provider, run)
    }

    pub async fn prepared_turn(&mut self, said: &str) -> PreparedRun {
        self.runs += 1;
        let event = format!("event-{}", self.runs);
        let mut messages = vec![user_message(&event, said)];
        if self.head.is_none() {
            messages.insert(0, context(&event, "the rules"));
        }
        self.prepared(RunAction::Start {
            interrupted: None,
            messages,
        })
        .await
    }

    /// Has the conversation summarised.
    pub async fn summarise(&mut self) -> RunOutcome {
        let mut client = self.act(RunAction::Compact { interrupted: None }).await;
        self.finish(&mut client).await
    }

    pub async fn prepared_summary(&mut self) -> PreparedRun {
        self.prepared(RunAction::Compact { interrupted: None }).await
    }

    pub async fn act(&mut self, action: RunAction) -> FakeClient {
        let run = self.prepared(action).await;
        self.bench.start(&self.provider, run)
    }

    async fn prepared(&mut self, action: RunAction) -> PreparedRun {
        self.runs += 1;
        let plain = self.bench.user_turn("unused", self.head.as_ref(), "unused").await;
        let mut run = prepared(&format!("run-{}", self.runs), plain.base, action);
        run.compaction = Some(CompactionSpec {
            instruction: "Summarise.".into(),
            summary: Frame {
                tag: "gist".into(),
                before: "<".into(),
                after: ">".into(),
            },
            shortened: Frame {
                tag: "cut".into(),
                before: "[".into(),
                after: "]".into(),
            },
            shortened_characters: ALLOWANCE,
            threshold: Some(THRESHOLD),
            base: self.base.take().or(self.base_size.map(|tokens| MeasuredHistory {
                size: ConversationSize::Reported(tokens),
                after_compaction: self.after_compaction,
            })),
        });
        run
    }

    /// Plays a turn in which the history begins anew between two requests; the endpoint is told when.
    pub async fn say_with_reset(&mut self, said: &str) -> RunOutcome {
        let mut client = self.start(said).await;
        let conversation = ConversationId::new("conversation");
        loop {
            let event = client
                .until(|event| {
                    matches!(
                        event,
                        ClientEvent::ExecuteToolRound(_)
                            | ClientEvent::StateCommitted {
                                cause: StateCause::Compacted { .. },
                                ..
                            }
                            | ClientEvent::Ended(_)
                    )
                })
                .await;
            match event {
                ClientEvent::ExecuteToolRound(round) => {
                    for call in &round.calls {
                        let result = self.result.clone().unwrap_or_else(|| "ok".to_owned());
                        client.result(call, &result);
                    }
                }
                ClientEvent::Ended(outcome) => {
                    self.head = client.settled.clone().or(self.head.take());
                    self.keep(&mut client);
                    return outcome;
                }
                event => {
                    if self.over_http {
                        self.provider.expect_reset(&conversation);
                    }
                    client.release(event);
                }
            }
        }
    }

    /// Plays a run to its end; every call gives its own arguments, unless something else is set.
    pub async fn finish(&mut self, client: &mut FakeClient) -> RunOutcome {
        let outcome = client
            .finish(|call| {
                let own = || format!("result of {}", call.arguments);
                self.result.clone().unwrap_or_else(own)
            })
            .await;
        self.head = client.settled.clone().or(self.head.take());
        self.keep(client);
        outcome
    }

    /// Keeps what a client does from one run to the next.
    fn keep(&mut self, client: &mut FakeClient) {
        self.log = std::mem::take(&mut client.log);
        self.measured = std::mem::take(&mut client.measured);
        if let Some(last) = self.measured.last() {
            self.after_compaction = last.after_compaction;
        }
    }

    pub fn answer(&self, said: &str, size: u64) {
        self.provider.answer(with_usage(size - 10, 10, text(said)));
    }

    pub fn call(&self, id: &str, size: u64) {
        self.provider
            .answer(with_usage(size - 10, 10, calls("", &[(id, "alpha", "{}")])));
    }

    pub fn refuse(&self) {
        if self.over_http {
            let body = r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#;
            self.provider.replies(vec![Reply::status(400, &[], body)]);
        } else {
            self.fail(ProviderFault::ContextLength, "too long");
        }
    }

    pub fn fail(&self, fault: ProviderFault, words: &str) {
        self.provider.steps(vec![Err(ProviderFailure::new(fault, words))]);
    }

    /// What each request said, newest last: see [`said`].
    pub fn requests(&self) -> Vec<Vec<String>> {
        self.provider.requests().iter().map(said).collect()
    }

    /// What was shown of compactions, and notices.
    pub fn shown(&self) -> Vec<&str> {
        let shown = ["summary ", "compacted", "no summary ", "notice "];
        self.log
            .iter()
            .map(String::as_str)
            .filter(|line| shown.iter().any(|kind| line.starts_with(kind)))
            .collect()
    }

    pub async fn compactions(&self) -> Vec<Compaction> {
        let conversation = ConversationId::new("conversation");
        self.bench
            .services
            .store
            .compactions_of(&conversation)
            .await
            .unwrap()
    }
}

/// A request context.
pub fn context(event: &str, rules: &str) -> Message {
    Message {
        id: MessageId::new(format!("context:{event}")),
        body: MessageBody::User {
            origin: UserOrigin::RequestContext {
                event_id: event.into(),
            },
            parts: vec![Part::Text(rules.into())],
        },
    }
}

/// One line for each item of a request.
pub fn said(request: &ModelRequest) -> Vec<String> {
    let line = |item: &HistoryItem| match item {
        HistoryItem::User { origin, parts, .. } => {
            let kind = match origin {
                UserOrigin::Turn { .. } => "user",
                UserOrigin::RequestContext { .. } => "context",
                UserOrigin::Summary { .. } => "summary",
                UserOrigin::SummaryRequest => "instruction",
                UserOrigin::Imported => "imported",
            };
            match parts.as_slice() {
                [Part::Text(text)] => format!("{kind}: {text}"),
                other => format!("{kind}: {other:?}"),
            }
        }
        HistoryItem::Assistant { said, calls, .. } if calls.is_empty() => format!("assistant: {}", said.text),
        HistoryItem::Assistant { calls, .. } => {
            let ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
            format!("calls: {}", ids.join(" "))
        }
        HistoryItem::ToolResult(result) => format!("result: {}", result.call),
    };
    request.history.iter().map(|item| line(item)).collect()
}
