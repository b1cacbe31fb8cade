//! A strict provider in the process: it plays what a test scripts, step by step if wanted, and is the oracle of the
//! history: every request must be well paired and must extend the one before it in its conversation.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use cairn::model::{ConversationId, HistoryItem, ModelRequest, ProviderFailure, ReplayState, Usage};
use cairn::provider::{ModelEvent, ModelInvocation, ModelStream, Provider, StopReason, digest_of};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

type Step = Result<ModelEvent, ProviderFailure>;

/// A strict scripted provider.
#[derive(Clone, Debug, Default)]
pub struct FakeProvider(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    script: VecDeque<Answer>,
    requests: Vec<ModelRequest>,
    invocations: Vec<CancellationToken>,
    latest: HashMap<ConversationId, ModelRequest>,
    violations: Vec<String>,
}

#[derive(Debug)]
enum Answer {
    Whole(Vec<Step>),
    Stepwise(mpsc::UnboundedReceiver<Step>),
}

/// Feeds one answer event by event; dropping it ends the stream.
#[derive(Debug)]
pub struct Feed(mpsc::UnboundedSender<Step>);

impl Feed {
    pub fn event(&self, event: ModelEvent) {
        self.0.send(Ok(event)).unwrap();
    }

    pub fn failure(&self, failure: ProviderFailure) {
        self.0.send(Err(failure)).unwrap();
    }

    /// Whether the run still listens.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

impl FakeProvider {
    pub fn new() -> Self {
        Self::default()
    }

    /// The next request is answered with these events.
    pub fn answer(&self, events: Vec<ModelEvent>) {
        self.steps(events.into_iter().map(Ok).collect());
    }

    /// The next request is answered with these steps.
    pub fn steps(&self, steps: Vec<Step>) {
        self.0.lock().unwrap().script.push_back(Answer::Whole(steps));
    }

    /// The next request is answered as the feed says.
    pub fn feed(&self) -> Feed {
        #[allow(clippy::disallowed_methods, reason = "a test feeds a few events")]
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0
            .lock()
            .unwrap()
            .script
            .push_back(Answer::Stepwise(receiver));
        Feed(sender)
    }

    pub fn requests(&self) -> Vec<ModelRequest> {
        self.0.lock().unwrap().requests.clone()
    }

    /// The cancellation token of each call.
    pub fn cancellations(&self) -> Vec<CancellationToken> {
        self.0.lock().unwrap().invocations.clone()
    }

    /// Forgets a conversation's latest request: the next one is a declared reset.
    pub fn expect_reset(&self, conversation: &ConversationId) {
        self.0.lock().unwrap().latest.remove(conversation);
    }

    /// Fails the test if any request broke a rule.
    pub fn assert_clean(&self) {
        let violations = self.0.lock().unwrap().violations.clone();
        assert!(violations.is_empty(), "{violations:#?}");
    }
}

impl Drop for Inner {
    /// Every test is judged, also one that forgets to ask.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.violations.is_empty(), "{:#?}", self.violations);
        }
    }
}

impl Inner {
    fn check(&mut self, request: &ModelRequest) {
        if let Err(fault) = pairing(&request.history) {
            self.violations
                .push(format!("request {}: {fault}", self.requests.len()));
        }
        if let Some(before) = self.latest.get(&request.conversation) {
            if before.prompt != request.prompt {
                self.violations
                    .push(format!("request {}: the prompt changed", self.requests.len()));
            }
            let kept = before
                .history
                .iter()
                .zip(&request.history)
                .take_while(|(a, b)| a == b)
                .count();
            if kept < before.history.len() {
                self.violations.push(format!(
                    "request {}: item {kept} of the request before it was changed",
                    self.requests.len()
                ));
            }
        }
        self.latest.insert(request.conversation.clone(), request.clone());
    }
}

/// Each assistant's calls are followed by exactly their results, and call ids are unique.
fn pairing(history: &[Arc<HistoryItem>]) -> Result<(), String> {
    let mut seen = HashSet::new();
    let mut open: HashSet<_> = HashSet::new();
    for (index, item) in history.iter().enumerate() {
        match item.as_ref() {
            HistoryItem::ToolResult(result) => {
                if !open.remove(&result.call) {
                    return Err(format!(
                        "item {index}: result {} answers no open call",
                        result.call
                    ));
                }
            }
            HistoryItem::User { .. } | HistoryItem::Assistant { .. } if !open.is_empty() => {
                return Err(format!("item {index} came while {open:?} had no result"));
            }
            HistoryItem::User { .. } => {}
            HistoryItem::Assistant { calls, .. } => {
                for call in calls {
                    if !seen.insert(call.id.clone()) {
                        return Err(format!("item {index}: call id {} occurs twice", call.id));
                    }
                    open.insert(call.id.clone());
                }
            }
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(format!("{open:?} have no result"))
    }
}

impl Provider for FakeProvider {
    fn call(&self, request: &ModelRequest, invocation: ModelInvocation) -> ModelStream {
        let mut inner = self.0.lock().unwrap();
        inner.check(request);
        inner.requests.push(request.clone());
        inner.invocations.push(invocation.cancel);
        let sending = ModelEvent::Sending(Arc::new(digest_of("fake", request)));
        let sending = futures_util::stream::iter([Ok(sending)]);
        match inner.script.pop_front() {
            Some(Answer::Whole(steps)) => sending.chain(futures_util::stream::iter(steps)).boxed(),
            Some(Answer::Stepwise(receiver)) => {
                let steps = futures_util::stream::unfold(receiver, |mut receiver| async {
                    receiver.recv().await.map(|step| (step, receiver))
                });
                sending.chain(steps).boxed()
            }
            None => {
                inner
                    .violations
                    .push("a request came that the script does not answer".to_owned());
                futures_util::stream::empty().boxed()
            }
        }
    }
}

/// A whole text answer.
pub fn text(answer: &str) -> Vec<ModelEvent> {
    vec![
        ModelEvent::Start,
        ModelEvent::TextStart,
        ModelEvent::TextDelta(answer.into()),
        ModelEvent::TextEnd,
        ModelEvent::Done(StopReason::Stop),
    ]
}

/// A whole answer with calls `(id, name, arguments)`, and text before them if it is not empty.
pub fn calls(said: &str, calls: &[(&str, &str, &str)]) -> Vec<ModelEvent> {
    let mut events = vec![ModelEvent::Start];
    if !said.is_empty() {
        events.extend([
            ModelEvent::TextStart,
            ModelEvent::TextDelta(said.into()),
            ModelEvent::TextEnd,
        ]);
    }
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        events.push(ModelEvent::ToolCallStart {
            index,
            id: Some((*id).into()),
            name: (*name).into(),
        });
        events.push(ModelEvent::ToolCallArguments {
            index,
            delta: (*arguments).into(),
        });
        events.push(ModelEvent::ToolCallEnd { index });
    }
    events.push(ModelEvent::Done(StopReason::ToolUse));
    events
}

/// Puts thinking before an answer, with a replay state that belongs to it.
pub fn with_thinking(thought: &str, issuer: &str, mut events: Vec<ModelEvent>) -> Vec<ModelEvent> {
    let done = events.pop().unwrap();
    events.splice(
        1..1,
        [
            ModelEvent::ThinkingStart,
            ModelEvent::ThinkingDelta(thought.into()),
            ModelEvent::ThinkingEnd,
        ],
    );
    events.push(ModelEvent::ReplayState(ReplayState {
        issuer: issuer.into(),
        payload: format!("{{\"thought\":{thought:?}}}").into(),
    }));
    events.push(done);
    events
}

/// Puts token counts before the end of an answer.
pub fn with_usage(input: u64, output: u64, mut events: Vec<ModelEvent>) -> Vec<ModelEvent> {
    let done = events.pop().unwrap();
    events.push(ModelEvent::Usage(Usage {
        fresh_input: Some(input),
        output: Some(output),
        ..Usage::default()
    }));
    events.push(done);
    events
}
