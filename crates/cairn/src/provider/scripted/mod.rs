//! The offline model: a small interpreter that stands in for a model and says so.
//!
//! For first contact and demonstrations without key and network. What it answers is a function of the request's history
//! alone. It reads the lines of the person's last message:
//!
//! - `read PATH` calls the file-reading tool with that path,
//! - `run COMMAND` calls the shell tool with that command,
//! - `say TEXT` puts the text into the answer.
//!
//! `read` and `run` lines that follow each other are asked for at once, as one batch; a `say` line or an empty line
//! begins the next step. After the last step it quotes what the tools gave. Any other message gets an account of what
//! this model is. Must never know: any endpoint, or a client's wire.

mod script;

use futures_util::stream;

use self::script::{Step, steps};
use super::sent::{announced, digest_of};
use super::{ModelEvent, ModelInvocation, ModelStream, Provider, RouteError, StopReason};
use crate::config::ModelConfig;
use crate::model::{
    HistoryItem, Latency, ModelRequest, Part, ProviderFailure, ProviderFault, ToolCall, ToolResult,
    UserOrigin,
};
use crate::provider::options::Options;

/// Most characters of a tool result that the closing answer quotes.
const QUOTED_CHARACTERS: usize = 400;

/// Who answers, for requests that are held against each other.
const LINEAGE: &str = "scripted";

const ACCOUNT: &str = "I am cairn's scripted model: no language model, but a few fixed rules inside the cairn program, \
made for trying things out without a key or a network. I understand messages with lines of these forms:\n\n\
- `read PATH`: I read the file with your tools\n\
- `run COMMAND`: I run the command with your tools\n\
- `say TEXT`: I say the text\n\n\
To talk to a real model, configure one in cairn's configuration file.";

/// The offline model as a provider.
#[derive(Debug)]
pub struct Scripted {
    model_id: String,
}

impl Scripted {
    /// Checks the configuration: the offline model takes no options.
    pub fn new(config: &ModelConfig) -> Result<Self, RouteError> {
        Options::new(&config.id, &config.options).finish()?;
        Ok(Self {
            model_id: config.id.clone(),
        })
    }
}

impl Provider for Scripted {
    fn call(&self, request: &ModelRequest, invocation: ModelInvocation) -> ModelStream {
        if let Some(failure) = self.refusal(request) {
            return Box::pin(stream::iter([Err(failure)]));
        }
        let events: Vec<_> = answer(request).into_iter().map(Ok).collect();
        let events = Box::pin(stream::iter(events));
        announced(digest_of(LINEAGE, request), invocation.cancel, events)
    }
}

impl Scripted {
    fn refusal(&self, request: &ModelRequest) -> Option<ProviderFailure> {
        let asked = if request.model.latency == Latency::Fast {
            "a faster route"
        } else if request.model.reasoning != Default::default() {
            "thinking"
        } else {
            return None;
        };
        Some(ProviderFailure::new(
            ProviderFault::Unsupported,
            format!(
                "model \"{}\": the scripted model has no way to do {asked}; switch it off.",
                self.model_id
            ),
        ))
    }
}

/// The whole answer to a request.
fn answer(request: &ModelRequest) -> Vec<ModelEvent> {
    let turn = last_turn(&request.history);
    let script = steps(&turn.message, &request.prompt.tools);
    let mut events = vec![ModelEvent::Start];
    let step = script.get(turn.rounds);
    let text = match step {
        Some(step) => step.text.join("\n"),
        None if script.is_empty() => ACCOUNT.to_owned(),
        None => closing(&turn),
    };
    push_text(&mut events, &text);
    let calls = step.map_or(&[][..], |step: &Step| &step.calls);
    for (index, call) in calls.iter().enumerate() {
        events.push(ModelEvent::ToolCallStart {
            index,
            id: Some(format!("scripted_{}", turn.calls_before + index).into()),
            name: call.tool.clone(),
        });
        for piece in pieces(&call.arguments) {
            events.push(ModelEvent::ToolCallArguments {
                index,
                delta: piece.into(),
            });
        }
        events.push(ModelEvent::ToolCallEnd { index });
    }
    events.push(ModelEvent::Done(match calls {
        [] => StopReason::Stop,
        _ => StopReason::ToolUse,
    }));
    events
}

/// What the history holds since the person last spoke.
struct Turn<'a> {
    message: String,
    /// Batches of calls since then.
    rounds: usize,
    /// Calls in the whole history, which make the next call's id unique.
    calls_before: usize,
    calls: Vec<&'a ToolCall>,
    results: Vec<&'a ToolResult>,
}

fn last_turn(history: &[std::sync::Arc<HistoryItem>]) -> Turn<'_> {
    let mut turn = Turn {
        message: String::new(),
        rounds: 0,
        calls_before: 0,
        calls: Vec::new(),
        results: Vec::new(),
    };
    for item in history {
        match item.as_ref() {
            HistoryItem::User {
                origin: UserOrigin::RequestContext { .. },
                ..
            } => {}
            HistoryItem::User { parts, .. } => {
                let text = parts.iter().rev().find_map(|part| match part {
                    Part::Text(text) => Some(text.to_string()),
                    Part::Image(_) => None,
                });
                turn.message = text.unwrap_or_default();
                turn.rounds = 0;
                turn.calls.clear();
                turn.results.clear();
            }
            HistoryItem::Assistant { calls, .. } => {
                turn.calls_before += calls.len();
                turn.calls.extend(calls);
                turn.rounds += usize::from(!calls.is_empty());
            }
            HistoryItem::ToolResult(result) => turn.results.push(result),
        }
    }
    turn
}

/// What the tools gave, quoted.
fn closing(turn: &Turn<'_>) -> String {
    let mut text = "I have followed your script.".to_owned();
    if !turn.results.is_empty() {
        text.push_str(" This is what your tools gave:");
    }
    for result in &turn.results {
        let content = result.content.text();
        let mut quoted: String = content.chars().take(QUOTED_CHARACTERS).collect();
        if quoted.len() < content.len() {
            quoted.push('…');
        }
        let outcome = if result.is_error { "failed" } else { "gave" };
        let call = turn.calls.iter().find(|call| call.id == result.call);
        let asked = call.map_or_else(String::new, |call| format!("{} {}", call.name, call.arguments));
        text.push_str(&format!("\n\n{asked} {outcome}:\n{quoted}"));
    }
    text
}

fn push_text(events: &mut Vec<ModelEvent>, text: &str) {
    if text.is_empty() {
        return;
    }
    events.push(ModelEvent::TextStart);
    events.extend(pieces(text).map(|piece| ModelEvent::TextDelta(piece.into())));
    events.push(ModelEvent::TextEnd);
}

/// The text in small pieces, as a model streams it: a word with the space after it.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive([' ', '\n'])
}
