//! An endpoint that goes on with each call when it is told to, and knows which runs wait for it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use cairn::model::{ModelRequest, ProviderFailure, ProviderFault, RunId};
use cairn::provider::{ModelEvent, ModelInvocation, ModelStream, Provider, StopReason};
use futures_util::StreamExt;
use tokio::sync::Notify;

/// How a call goes on.
#[derive(Clone, Copy, Debug)]
pub enum Model {
    Text,
    Answer,
    Calls(usize),
    Failure,
    /// The stream ends without the terminal event.
    Cut,
    /// An end of something that never began.
    Nonsense,
}

/// Plays what the steps say, call by call, and tells when a run waits for it.
#[derive(Clone, Debug, Default)]
pub struct Endpoint(Arc<EndpointState>);

#[derive(Debug, Default)]
struct EndpointState {
    calls: Mutex<HashMap<RunId, Call>>,
    requests: Mutex<VecDeque<(RunId, ModelRequest)>>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Call {
    events: VecDeque<Option<Result<ModelEvent, ProviderFailure>>>,
    waker: Option<Waker>,
    waited_for: bool,
    started: bool,
    text_open: bool,
}

impl Endpoint {
    /// The next request that was made and not taken yet.
    pub fn next_request(&self) -> Option<(RunId, ModelRequest)> {
        self.0.requests.lock().unwrap().pop_front()
    }

    /// Returns when a run waits that did not wait before.
    pub async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Whether the run has read everything and waits for more.
    pub fn is_waited_for(&self, run: &RunId) -> bool {
        self.0
            .calls
            .lock()
            .unwrap()
            .get(run)
            .is_some_and(|call| call.waited_for)
    }

    /// Goes on with the run's open call, if it has one.
    pub fn play(&self, run: &RunId, model: Model, text: &str) {
        let mut calls = self.0.calls.lock().unwrap();
        let Some(call) = calls.get_mut(run) else { return };
        let mut events = Vec::new();
        if !std::mem::replace(&mut call.started, true) {
            events.push(ModelEvent::Start);
        }
        if matches!(model, Model::Text) && !std::mem::replace(&mut call.text_open, true) {
            events.push(ModelEvent::TextStart);
        }
        if matches!(model, Model::Answer | Model::Calls(_)) && std::mem::take(&mut call.text_open) {
            events.push(ModelEvent::TextEnd);
        }
        let mut end = false;
        match model {
            Model::Text => events.push(ModelEvent::TextDelta(text.into())),
            Model::Answer => {
                end = true;
                events.push(ModelEvent::Done(StopReason::Stop));
            }
            Model::Calls(count) => {
                end = true;
                for index in 0..count {
                    events.extend([
                        ModelEvent::ToolCallStart {
                            index,
                            // The same ids in every round, as some endpoints have it.
                            id: Some(format!("call-{index}").into()),
                            name: "alpha".into(),
                        },
                        ModelEvent::ToolCallArguments {
                            index,
                            delta: "{}".into(),
                        },
                        ModelEvent::ToolCallEnd { index },
                    ]);
                }
                events.push(ModelEvent::Done(StopReason::ToolUse));
            }
            Model::Failure | Model::Cut => {}
            Model::Nonsense => events.push(ModelEvent::ThinkingEnd),
        }
        call.events
            .extend(events.into_iter().map(|event| Some(Ok(event))));
        match model {
            Model::Failure => {
                let failure = ProviderFailure::new(ProviderFault::Unavailable, "down");
                call.events.push_back(Some(Err(failure)));
            }
            Model::Cut => call.events.push_back(None),
            _ if end => call.events.push_back(None),
            _ => {}
        }
        call.waited_for = false;
        if let Some(waker) = call.waker.take() {
            waker.wake();
        }
    }
}

impl Provider for Endpoint {
    fn call(&self, request: &ModelRequest, invocation: ModelInvocation) -> ModelStream {
        let state = self.0.clone();
        let run = invocation.run;
        state.calls.lock().unwrap().insert(run.clone(), Call::default());
        state
            .requests
            .lock()
            .unwrap()
            .push_back((run.clone(), request.clone()));
        futures_util::stream::poll_fn(move |context| {
            let mut calls = state.calls.lock().unwrap();
            let call = calls.get_mut(&run).unwrap();
            match call.events.pop_front() {
                Some(event) => Poll::Ready(event),
                None => {
                    call.waker = Some(context.waker().clone());
                    call.waited_for = true;
                    state.changed.notify_one();
                    Poll::Pending
                }
            }
        })
        .boxed()
    }
}
