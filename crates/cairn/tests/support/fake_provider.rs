//! A strict provider: it plays what a test scripts, step by step if wanted, and is the oracle of the history: every request
//! must be well paired and must extend the one before it in its conversation. It plays in the process, or over HTTP: then
//! the real adapter of an API sends each request to that API's strict endpoint, which plays the script as a stream.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cairn::config::Api;
use cairn::model::{
    ConversationId, HistoryItem, ModelRequest, Part, ProviderFailure, ProviderFault, ReplayState, Usage,
};
use cairn::provider::{ModelEvent, ModelInvocation, ModelStream, Provider, StopReason, digest_of};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::over_http::{Endpoint, Over, Writer};
use super::strict_chat::Reply;

type Step = Result<ModelEvent, ProviderFailure>;

/// A strict scripted provider.
#[derive(Clone, Default)]
pub struct FakeProvider(Arc<Mutex<Inner>>);

impl std::fmt::Debug for FakeProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FakeProvider")
    }
}

/// The way over HTTP.
#[derive(Clone)]
struct Http {
    endpoint: Arc<Endpoint>,
    provider: Arc<dyn Provider>,
}

#[derive(Default)]
struct Inner {
    http: Option<Http>,
    script: VecDeque<Answer>,
    /// How many characters a request may hold where the script says nothing.
    room: Option<usize>,
    requests: Vec<ModelRequest>,
    invocations: Vec<CancellationToken>,
    latest: HashMap<ConversationId, ModelRequest>,
    /// Numbers of the requests that began anew after a compaction.
    resets: Vec<usize>,
    violations: Vec<String>,
}

enum Answer {
    /// What the endpoint sends to the tries of one call.
    Replies(Vec<Reply>),
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

    /// A provider whose script goes this way.
    pub async fn over(over: Over) -> Self {
        match over {
            Over::Nothing => Self::default(),
            Over::Http(api) => {
                let endpoint = Arc::new(Endpoint::start(api).await);
                Self::at(&endpoint, "up/model", "sk-canary-123")
            }
        }
    }

    /// A provider over HTTP, for this model at this endpoint and with this key.
    pub fn at(endpoint: &Arc<Endpoint>, model: &str, key: &str) -> Self {
        let fake = Self::default();
        fake.0.lock().unwrap().http = Some(Http {
            provider: endpoint.provider(model, key),
            endpoint: Arc::clone(endpoint),
        });
        fake
    }

    /// The endpoint that it asks.
    pub fn endpoint(&self) -> Arc<Endpoint> {
        let inner = self.0.lock().unwrap();
        Arc::clone(&inner.http.as_ref().expect("it asks none").endpoint)
    }

    /// Whether this provider issued a replay state of [`with_thinking`].
    pub fn issued(&self, state: &ReplayState) -> bool {
        match &self.0.lock().unwrap().http {
            None => &*state.issuer == "fake",
            Some(http) => state.issuer.starts_with(http.endpoint.api().as_str()),
        }
    }

    /// The next request is answered with these events.
    pub fn answer(&self, events: Vec<ModelEvent>) {
        self.steps(events.into_iter().map(Ok).collect());
    }

    /// The tries of the next call are answered with these replies.
    pub fn replies(&self, replies: Vec<Reply>) {
        self.0.lock().unwrap().script.push_back(Answer::Replies(replies));
    }

    /// The next request is answered with these steps.
    pub fn steps(&self, steps: Vec<Step>) {
        self.0.lock().unwrap().script.push_back(Answer::Whole(steps));
    }

    /// From here on a request that the script does not answer is judged by its size: one with more than so many characters
    /// is refused as too long, any other gets a short answer.
    pub fn set_room(&self, characters: usize) {
        self.0.lock().unwrap().room = Some(characters);
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
        let mut inner = self.0.lock().unwrap();
        inner.latest.remove(conversation);
        if let Some(http) = &inner.http {
            http.endpoint.allow_reset();
        }
    }

    /// Zero-based numbers of the requests that began anew with a summary.
    pub fn resets(&self) -> Vec<usize> {
        self.0.lock().unwrap().resets.clone()
    }

    /// Fails the test if any request broke a rule.
    pub fn assert_clean(&self) {
        let violations = self.0.lock().unwrap().all_violations();
        assert!(violations.is_empty(), "{violations:#?}");
    }
}

impl Drop for Inner {
    /// Every test is judged, also one that forgets to ask.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let violations = self.all_violations();
            assert!(violations.is_empty(), "{violations:#?}");
        }
    }
}

impl Inner {
    /// What requests broke, of the history's rules and of the API's.
    fn all_violations(&self) -> Vec<String> {
        let of_endpoint = self.http.iter().flat_map(|http| http.endpoint.violations());
        self.violations.iter().cloned().chain(of_endpoint).collect()
    }

    /// What an endpoint of limited room does.
    fn judge(&self, request: &ModelRequest) -> Option<Answer> {
        let room = self.room?;
        let steps = if characters(&request.history) > room {
            vec![Err(ProviderFailure::new(
                ProviderFault::ContextLength,
                "too long",
            ))]
        } else {
            let answer = match request.asks_for_summary() {
                true => text("the gist"),
                false => text("Answered."),
            };
            with_usage(100, 10, answer).into_iter().map(Ok).collect()
        };
        Some(Answer::Whole(steps))
    }

    fn check(&mut self, request: &ModelRequest) {
        if let Err(fault) = pairing(&request.history) {
            self.violations
                .push(format!("request {}: {fault}", self.requests.len()));
        }
        if let Some(before) = self.latest.get(&request.conversation) {
            let begins_anew =
                request.compacted_to().is_some() && request.compacted_to() != before.compacted_to();
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
            // A summary of a history that was refused as too long is asked for with less of it.
            let due = match request.asks_for_summary() {
                true => before.history.len().min(request.history.len() - 1),
                false => before.history.len(),
            };
            if begins_anew {
                self.resets.push(self.requests.len());
            } else if kept < due {
                self.violations.push(format!(
                    "request {}: item {kept} of the request before it was changed",
                    self.requests.len()
                ));
            }
        }
        // A request for a summary stands beside the conversation: nothing extends it.
        if !request.asks_for_summary() {
            self.latest.insert(request.conversation.clone(), request.clone());
        }
    }
}

/// Each assistant's calls are followed by exactly their results, and call ids are unique.
pub fn pairing(history: &[Arc<HistoryItem>]) -> Result<(), String> {
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

/// The characters of a history's texts.
pub fn characters(history: &[Arc<HistoryItem>]) -> usize {
    let parts = |parts: &[Part]| -> usize {
        let texts = parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.chars().count()),
            Part::Image(_) => None,
        });
        texts.sum()
    };
    let length = |item: &Arc<HistoryItem>| match item.as_ref() {
        HistoryItem::User { parts: said, .. } => parts(said),
        HistoryItem::ToolResult(result) => parts(result.content.parts()),
        HistoryItem::Assistant { said, calls, .. } => {
            let arguments = calls.iter().map(|call| call.arguments.chars().count());
            said.text.chars().count() + arguments.sum::<usize>()
        }
    };
    history.iter().map(length).sum()
}

impl Provider for FakeProvider {
    fn call(&self, request: &ModelRequest, invocation: ModelInvocation) -> ModelStream {
        let mut inner = self.0.lock().unwrap();
        inner.check(request);
        inner.requests.push(request.clone());
        inner.invocations.push(invocation.cancel.clone());
        let Some(answer) = inner.script.pop_front().or_else(|| inner.judge(request)) else {
            inner
                .violations
                .push("a request came that the script does not answer".to_owned());
            return futures_util::stream::empty().boxed();
        };
        // The adapter of an endpoint says itself what it sends.
        let sending = ModelEvent::Sending(Arc::new(digest_of("fake", request)));
        let sending = futures_util::stream::iter([Ok(sending)]);
        match (answer, inner.http.clone()) {
            (Answer::Replies(_), None) => panic!("only an endpoint sends replies"),
            (Answer::Replies(replies), Some(http)) => {
                for reply in replies {
                    http.endpoint.reply(reply);
                }
                http.provider.call(request, invocation)
            }
            (Answer::Whole(steps), None) => sending.chain(futures_util::stream::iter(steps)).boxed(),
            (Answer::Stepwise(receiver), None) => {
                let steps = futures_util::stream::unfold(receiver, |mut receiver| async {
                    receiver.recv().await.map(|step| (step, receiver))
                });
                sending.chain(steps).boxed()
            }
            (Answer::Whole(steps), Some(http)) => {
                http.endpoint.reply(http.endpoint.answer(&steps));
                http.provider.call(request, invocation)
            }
            (Answer::Stepwise(receiver), Some(http)) => {
                http.endpoint
                    .reply(Reply::fed(on_the_wire(receiver, http.endpoint.api())));
                http.provider.call(request, invocation)
            }
        }
    }
}

/// The bytes of the steps as they come; ends with the feed, or when nobody reads on.
fn on_the_wire(mut steps: mpsc::UnboundedReceiver<Step>, api: Api) -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(16);
    tokio::spawn(async move {
        let mut writer = Writer::new(api);
        loop {
            let step = tokio::select! {
                step = steps.recv() => step,
                () = sender.closed() => None,
            };
            let Some(step) = step else { return };
            let bytes = Bytes::from(writer.step(&step));
            // An event without bytes of its own, such as the start of a text, is nothing on the wire.
            if !bytes.is_empty() && sender.send(bytes).await.is_err() {
                return;
            }
        }
    });
    receiver
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
