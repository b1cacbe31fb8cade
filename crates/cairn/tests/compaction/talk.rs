//! A conversation on the run core alone, whose sizes the test decides.

use cairn::model::{
    CompactionSpec, ConversationId, HistoryItem, Message, MessageBody, MessageId, ModelRequest, Part,
    PreparedRun, ProviderFailure, ProviderFault, RevisionId, RunAction, RunOutcome, UserOrigin,
};
use cairn::store::Compaction;

use crate::support::fake_client::{Bench, FakeClient, prepared, user_message};
use crate::support::fake_provider::{FakeProvider, calls, text, with_usage};

/// From this size on the history is compacted.
pub const THRESHOLD: u64 = 1000;

pub struct Talk {
    pub bench: Bench,
    pub provider: FakeProvider,
    pub head: Option<RevisionId>,
    /// The size that the client's state tells the next run.
    pub base_size: Option<u64>,
    pub log: Vec<String>,
    runs: usize,
}

impl Talk {
    pub async fn new() -> Self {
        Self {
            bench: Bench::new().await,
            provider: FakeProvider::new(),
            head: None,
            base_size: None,
            log: Vec::new(),
            runs: 0,
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
            summary_tag: "gist".into(),
            before_summary: "<".into(),
            after_summary: ">".into(),
            threshold: Some(THRESHOLD),
            base_size: self.base_size,
        });
        run
    }

    /// Plays a run to its end; every call gives its own arguments.
    pub async fn finish(&mut self, client: &mut FakeClient) -> RunOutcome {
        let outcome = client
            .finish(|call| format!("result of {}", call.arguments))
            .await;
        self.head = client.settled.clone().or(self.head.take());
        self.log = std::mem::take(&mut client.log);
        outcome
    }

    pub fn answer(&self, said: &str, size: u64) {
        self.provider.answer(with_usage(size - 10, 10, text(said)));
    }

    pub fn call(&self, id: &str, size: u64) {
        self.provider
            .answer(with_usage(size - 10, 10, calls("", &[(id, "alpha", "{}")])));
    }

    pub fn refuse(&self) {
        self.fail(ProviderFault::ContextLength, "too long");
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
