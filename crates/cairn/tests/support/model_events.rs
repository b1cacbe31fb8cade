//! Reads a sequence of model events as strictly as a run does, and joins it into what it says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "shared test support; not every test file uses all of it"
)]

use std::sync::Arc;

use cairn::model::{ProviderFailure, ReplayState, Usage};
use cairn::provider::{ModelEvent, ModelStream, StopReason};
use futures_util::StreamExt;

/// A whole answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Answer {
    pub text: String,
    pub thinking: String,
    /// Id, name and argument text.
    pub calls: Vec<(Option<String>, String, String)>,
    pub replay: Option<ReplayState>,
    pub usage: Option<Usage>,
    pub stop: Option<StopReason>,
}

impl Answer {
    /// Joins events; panics on a sequence that breaks the port's contract. `is_whole` also demands the end.
    #[track_caller]
    pub fn join(events: &[ModelEvent], is_whole: bool) -> Self {
        let mut answer = Self::default();
        let mut started = false;
        let (mut text_open, mut thinking_open) = (false, false);
        let mut call_open: Vec<bool> = Vec::new();
        for event in events {
            assert!(answer.stop.is_none(), "{event:?} after Done");
            if !matches!(
                event,
                ModelEvent::Sending(_) | ModelEvent::Start | ModelEvent::Usage(_)
            ) {
                assert!(started, "{event:?} before Start");
            }
            match event {
                ModelEvent::Sending(_) => assert!(!started, "a request after Start"),
                ModelEvent::Start => assert!(!std::mem::replace(&mut started, true), "two starts"),
                ModelEvent::TextStart => {
                    assert!(!thinking_open && !std::mem::replace(&mut text_open, true));
                }
                ModelEvent::TextDelta(piece) => {
                    assert!(text_open && !piece.is_empty());
                    answer.text.push_str(piece);
                }
                ModelEvent::TextEnd => assert!(std::mem::take(&mut text_open)),
                ModelEvent::ThinkingStart => {
                    assert!(!text_open && !std::mem::replace(&mut thinking_open, true));
                }
                ModelEvent::ThinkingDelta(piece) => {
                    assert!(thinking_open && !piece.is_empty());
                    answer.thinking.push_str(piece);
                }
                ModelEvent::ThinkingEnd => assert!(std::mem::take(&mut thinking_open)),
                ModelEvent::ToolCallStart { index, id, name } => {
                    assert_eq!(*index, answer.calls.len(), "calls start in order");
                    let id = id.as_deref().map(str::to_owned);
                    answer.calls.push((id, name.to_string(), String::new()));
                    call_open.push(true);
                }
                ModelEvent::ToolCallArguments { index, delta } => {
                    assert!(call_open[*index] && !delta.is_empty());
                    answer.calls[*index].2.push_str(delta);
                }
                ModelEvent::ToolCallEnd { index } => assert!(std::mem::take(&mut call_open[*index])),
                ModelEvent::ReplayState(state) => {
                    assert!(
                        answer.replay.replace(state.clone()).is_none(),
                        "two replay states"
                    );
                }
                ModelEvent::Usage(usage) => {
                    assert!(answer.usage.replace(*usage).is_none(), "two usages");
                }
                ModelEvent::Done(stop) => {
                    assert!(
                        !text_open && !thinking_open && !call_open.contains(&true),
                        "open at Done"
                    );
                    assert_eq!(*stop == StopReason::ToolUse, !answer.calls.is_empty());
                    answer.stop = Some(*stop);
                }
            }
        }
        assert!(!is_whole || answer.stop.is_some(), "no Done in {events:?}");
        answer
    }
}

/// Reads a stream to its end: its events, and its failure if it had one.
pub async fn collect(mut stream: ModelStream) -> (Vec<ModelEvent>, Option<ProviderFailure>) {
    let mut events = Vec::new();
    let mut failure = None;
    while let Some(item) = stream.next().await {
        assert!(failure.is_none(), "{item:?} after the failure");
        match item {
            Ok(event) => events.push(event),
            Err(failed) => failure = Some(failed),
        }
    }
    (events, failure)
}

/// Reads a stream that must succeed.
pub async fn answer(stream: ModelStream) -> Answer {
    let (events, failure) = collect(stream).await;
    assert_eq!(failure, None);
    Answer::join(&events, true)
}

/// Reads a stream that must fail, and gives what came before, too.
pub async fn failure(stream: ModelStream) -> (Answer, ProviderFailure) {
    let (events, failure) = collect(stream).await;
    (Answer::join(&events, false), failure.expect("the call succeeded"))
}

/// Shorthand for a call with an id.
pub fn call(id: &str, name: &str, arguments: &str) -> (Option<String>, String, String) {
    (Some(id.to_owned()), name.to_owned(), arguments.to_owned())
}

/// Text as the model's values hold it.
pub fn text(text: &str) -> Arc<str> {
    text.into()
}
