//! The tool calls of one session: which call is at which stage.
//!
//! A call goes `Streaming → (Queued →) Running → Finished → Committed`; a call that fails before its execution goes
//! straight to `Finished`. Must never know: frames, checkpoints, the clock, the store.

mod queries;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::arguments::Arguments;
use super::codec::{card, request, response, update};
use super::dispatch::{self, Awaiting, Progress, Scope, ServiceRequest, Step, Times};
use super::error::ToolProtocolError;
use super::execs::{Exec, Execs, adds_nothing, background_output};
use super::mcp::McpTable;
use super::offer::{McpTool, Offer, Refusal};
use super::progress;
use super::result::{DerivedFact, Outcome, derived_facts, local, thrown};
use super::stream::ArgumentStream;
use super::task::SubagentScope;
use crate::cursor::proto::agent::{
    ExecClientControlMessage, ExecClientMessage, InteractionQuery, TodoItem, ToolCall as ProtoToolCall,
    agent_server_message::Message, exec_client_control_message, exec_client_message, tool_call::Tool,
};
use crate::cursor::request::Mode;
use crate::model::{CallId, ConversationId, Delegation, DelegationOrigin, ToolCall, ToolResult};

/// What holds for all calls of a session.
#[derive(Clone, Debug)]
pub struct ToolRuntimeConfig {
    /// The client's id of the conversation.
    pub conversation_id: String,
    /// The names of the tools in the prompt; no other can be called.
    pub offered: BTreeSet<Arc<str>>,
    /// The dynamic MCP tools by the name that the model uses.
    pub mcp: BTreeMap<Arc<str>, McpTool>,
    /// The to-do list as the history left it.
    pub todos: Vec<TodoItem>,
    /// The mode that the run is in.
    pub mode: Mode,
    /// The most characters of a result's text that enter the history.
    pub result_limit: usize,
    /// Where a command runs unless the model names a place. If unknown, the client's own workspace.
    pub working_directory: Option<String>,
    /// Where the client writes the output of background commands, if it said so.
    pub terminals_folder: Option<String>,
    /// What subagents may be started.
    pub subagents: SubagentScope,
}

/// What the session has to do, in order.
#[derive(Clone, PartialEq, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly every effect is the large one, and each is moved once"
)]
pub enum Effect {
    /// Send this to the client.
    Send(Message),
    /// Ask a service of the server this and hand what it gives to [`ToolRuntime::served`].
    Serve {
        /// The call that waits for it.
        call: CallId,
        /// What is asked.
        request: ServiceRequest,
    },
    /// A subagent works for a call. This comes before the call's result.
    Delegated(Delegation),
    /// The call has its result: hand it to the run. The card's completion follows with [`ToolRuntime::committed`].
    Complete(ToolResult),
    /// Call [`ToolRuntime::woke`] for this call after this many milliseconds.
    Wake {
        /// The call.
        call: CallId,
        /// How long to wait.
        after_ms: u32,
    },
}

/// A call whose result is stored.
#[derive(Clone, PartialEq, Debug)]
pub struct CommittedTool {
    /// The completion to send to the client, and the card with arguments, result and times for the turn's record.
    /// None for a tool that does not exist: there is no card for it.
    pub shown: Option<(Message, ProtoToolCall)>,
}

/// The tool calls of one session; see the module.
#[derive(Debug)]
pub struct ToolRuntime {
    offer: Offer,
    result_limit: usize,
    scope: Scope,
    execs: Execs,
    last_query_id: u32,
    queries: BTreeMap<u32, queries::Query>,
    calls: BTreeMap<CallId, CallState>,
    /// The call whose turn it is among those that take turns, and the ones after it.
    turn: Option<CallId>,
    queue: VecDeque<CallId>,
}

#[derive(Debug)]
enum CallState {
    Streaming(ArgumentStream),
    /// A tool that does not exist has nothing to show.
    Unshown,
    Queued {
        arguments: Arguments,
        running: Running,
    },
    Running {
        awaiting: Awaiting,
        running: Running,
    },
    Finished {
        shown: Option<(ProtoToolCall, String)>,
    },
    Committed,
}

/// What a call keeps from its start to its end.
#[derive(Clone, Debug)]
struct Running {
    model_call_id: String,
    started_at_ms: u64,
    card: Tool,
}

impl ToolRuntime {
    /// A runtime without any call.
    pub fn new(config: ToolRuntimeConfig) -> Self {
        let mcp = McpTable::new(config.mcp.values().cloned());
        Self {
            offer: Offer {
                names: config.offered,
                mcp: config.mcp,
            },
            result_limit: config.result_limit,
            scope: Scope {
                conversation: config.conversation_id,
                directory: config.working_directory.unwrap_or_else(|| ".".to_owned()),
                terminals_folder: config.terminals_folder,
                todos: config.todos,
                mode: config.mode,
                mcp,
                subagents: config.subagents,
            },
            execs: Execs::default(),
            last_query_id: 0,
            queries: BTreeMap::new(),
            calls: BTreeMap::new(),
            turn: None,
            queue: VecDeque::new(),
        }
    }

    /// The conversations that are at work as a round begins.
    pub fn note_at_work(&mut self, conversations: BTreeSet<String>) {
        self.scope.subagents.at_work = conversations;
    }

    /// An exec id for a question that is no tool. Its answer does not belong here.
    pub fn reserve_exec_id(&mut self) -> u32 {
        self.execs.reserve()
    }

    /// The model began a call: shows its placeholder.
    pub fn call_started(
        &mut self,
        call: &CallId,
        name: &str,
        model_call_id: &str,
    ) -> Result<Vec<Effect>, ToolProtocolError> {
        self.expect_new(call)?;
        let Some(shown) = self.offer.shown(call, name) else {
            self.calls.insert(call.clone(), CallState::Unshown);
            return Ok(Vec::new());
        };
        let stream = ArgumentStream::new(shown, model_call_id);
        let effects = vec![Effect::Send(stream.begin(call))];
        self.calls.insert(call.clone(), CallState::Streaming(stream));
        Ok(effects)
    }

    /// More of a call's argument text came.
    pub fn arguments_delta(&mut self, call: &CallId, delta: &str) -> Result<Vec<Effect>, ToolProtocolError> {
        match self.calls.get_mut(call) {
            Some(CallState::Streaming(stream)) => {
                Ok(stream.push(call, delta).into_iter().map(Effect::Send).collect())
            }
            Some(CallState::Unshown) => Ok(Vec::new()),
            _ => Err(misplaced(call, "given arguments")),
        }
    }

    /// The call is whole and durable: executes it. A resumed call may come here without having streamed.
    pub fn execute(&mut self, call: &ToolCall, now_ms: u64) -> Result<Vec<Effect>, ToolProtocolError> {
        let streamed = match self.calls.remove(&call.id) {
            Some(CallState::Streaming(stream)) => Some(stream),
            Some(CallState::Unshown) => None,
            None => {
                self.expect_new(&call.id)?;
                None
            }
            Some(other) => {
                self.calls.insert(call.id.clone(), other);
                return Err(misplaced(&call.id, "executed"));
            }
        };
        let model_call_id = streamed
            .as_ref()
            .map(|stream| stream.model_call_id().to_owned())
            .unwrap_or_default();
        let (card, parsed) = match self.offer.parse(call) {
            Ok(arguments) => {
                let card = card::card(
                    &call.id,
                    &arguments,
                    &self.scope.directory,
                    &self.scope.conversation,
                );
                (card, Ok(arguments))
            }
            Err(Refusal::NoSuchTool(text)) => {
                let state = CallState::Finished { shown: None };
                self.calls.insert(call.id.clone(), state);
                return Ok(vec![Effect::Complete(tool_error(&call.id, text))]);
            }
            Err(Refusal::Arguments { shown, text }) => {
                // The card keeps what the stream showed of arguments that could not be used.
                let card = streamed.unwrap_or_else(|| ArgumentStream::new(*shown, "")).card();
                (card, Err(text))
            }
        };
        let running = Running {
            model_call_id,
            started_at_ms: now_ms,
            card,
        };
        let mut tool_call = update::tool_call(&call.id, running.card.clone());
        tool_call.started_at_ms = Some(now_ms);
        let mut effects = vec![Effect::Send(update::started(
            &call.id,
            tool_call,
            &running.model_call_id,
        ))];
        match parsed {
            Err(text) => {
                let outcome = local::failure(running.card.clone(), &text);
                self.finish(&call.id, running, outcome, now_ms, &mut effects);
            }
            Ok(arguments) if arguments.takes_turns() && self.turn.is_some() => {
                self.queue.push_back(call.id.clone());
                self.calls
                    .insert(call.id.clone(), CallState::Queued { arguments, running });
            }
            Ok(arguments) => self.begin(&call.id, arguments, running, now_ms, &mut effects),
        }
        Ok(effects)
    }

    /// The client answered an exec.
    pub fn exec_message(
        &mut self,
        message: ExecClientMessage,
        now_ms: u64,
    ) -> Result<Vec<Effect>, ToolProtocolError> {
        let exec_id = message.id;
        match self.execs.issued(exec_id)? {
            Some(Exec::Live(call)) => {
                let call = call.clone();
                self.answered(exec_id, call, message.message, now_ms)
            }
            Some(Exec::Background { call, model_call_id }) => {
                let (shown, over) = background_output(call, model_call_id, message.message);
                if over {
                    let call = call.clone();
                    self.execs.set(exec_id, Exec::Finished(call));
                }
                Ok(shown.map(Effect::Send).into_iter().collect())
            }
            // The client may have answered before it saw the abort, or after its time.
            Some(Exec::GivenUp) => Ok(Vec::new()),
            // After a command's exit may come what the person's hooks add; the round may be over by then. [sdk]
            Some(Exec::Finished(_)) | None if adds_nothing(message.message.as_ref()) => Ok(Vec::new()),
            finished => Err(ToolProtocolError::FinishedExec {
                exec_id,
                call: match finished {
                    Some(Exec::Finished(call)) => Some(call.clone()),
                    _ => None,
                },
            }),
        }
    }

    /// The client said something about an exec: its end, its failure, or that it lives.
    pub fn exec_control(
        &mut self,
        message: ExecClientControlMessage,
        now_ms: u64,
    ) -> Result<Vec<Effect>, ToolProtocolError> {
        use exec_client_control_message::Message as Control;
        match message.message.ok_or(ToolProtocolError::EmptyControl)? {
            Control::Heartbeat(_) => Ok(Vec::new()),
            Control::StreamClose(close) => match self.execs.issued(close.id)? {
                Some(Exec::Live(call)) => {
                    let call = call.clone();
                    self.close_exec(close.id, &call, now_ms)
                }
                Some(Exec::Background { call, .. }) => {
                    let call = call.clone();
                    self.execs.set(close.id, Exec::Finished(call));
                    Ok(Vec::new())
                }
                // The close is the ordinary end of an exec that has its result.
                Some(Exec::Finished(_) | Exec::GivenUp) | None => Ok(Vec::new()),
            },
            Control::Throw(throw) => match self.execs.current(throw.id)? {
                Exec::Live(call) => {
                    let call = call.clone();
                    self.fail_exec(throw.id, &call, &throw.error, now_ms)
                }
                Exec::Background { call, .. } => {
                    let call = call.clone();
                    self.execs.set(throw.id, Exec::Finished(call));
                    Ok(Vec::new())
                }
                Exec::GivenUp => Ok(Vec::new()),
                Exec::Finished(call) => Err(ToolProtocolError::FinishedExec {
                    exec_id: throw.id,
                    call: Some(call.clone()),
                }),
            },
        }
    }

    /// The pause that a call asked for is over, or the time of its exec. A call that is over meanwhile, or that waits for
    /// something else by now, needs nothing any more.
    pub fn woke(&mut self, call: &CallId, now_ms: u64) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some((awaiting, running)) = self.take_running(call) {
            match dispatch::resume(call, awaiting) {
                Ok(step) => {
                    self.execs.give_up(call);
                    self.take(call, step, running, now_ms, &mut effects);
                }
                Err(awaiting) => {
                    let awaiting = *awaiting;
                    self.calls
                        .insert(call.clone(), CallState::Running { awaiting, running });
                }
            }
        }
        effects
    }

    /// The client ended a live exec: its result if all of it is there, else a tool error that the model sees.
    fn close_exec(
        &mut self,
        exec_id: u32,
        call: &CallId,
        now_ms: u64,
    ) -> Result<Vec<Effect>, ToolProtocolError> {
        let Some((awaiting, running)) = self.take_running(call) else {
            return Err(ToolProtocolError::UnknownExec { exec_id });
        };
        let outcome = match awaiting.closed() {
            Ok(outcome) => outcome,
            // The client closes a command this way whose working directory does not exist. [sdk]
            Err(_) => local::failure(
                running.card.clone(),
                "The client ended the tool without a result: whether it ran is unknown. For a command, check that \
                 its working_directory exists.",
            ),
        };
        let mut effects = Vec::new();
        self.execs.set(exec_id, Exec::Finished(call.clone()));
        self.finish(call, running, outcome, now_ms, &mut effects);
        Ok(effects)
    }

    /// Ends a live exec, of which the client said no more than these words, as a tool error that the model sees.
    fn fail_exec(
        &mut self,
        exec_id: u32,
        call: &CallId,
        words: &str,
        now_ms: u64,
    ) -> Result<Vec<Effect>, ToolProtocolError> {
        let Some((_, running)) = self.take_running(call) else {
            return Err(ToolProtocolError::UnknownExec { exec_id });
        };
        let outcome = thrown::outcome(running.card.clone(), words);
        let mut effects = Vec::new();
        self.execs.set(exec_id, Exec::Finished(call.clone()));
        self.finish(call, running, outcome, now_ms, &mut effects);
        Ok(effects)
    }

    /// Tells a finished call which step of its turn it becomes, counted from one.
    pub fn place(&mut self, call: &CallId, position: u32) {
        if let Some(CallState::Finished {
            shown: Some((card, _)),
        }) = self.calls.get_mut(call)
        {
            progress::place(&mut card.tool, position);
        }
    }

    /// The run stored the call's result. None if the call was not finished here.
    pub fn committed(&mut self, call: &CallId) -> Option<CommittedTool> {
        let state = self.calls.get_mut(call)?;
        if !matches!(state, CallState::Finished { .. }) {
            return None;
        }
        let CallState::Finished { shown } = std::mem::replace(state, CallState::Committed) else {
            return None;
        };
        let shown = shown.map(|(tool_call, model_call_id)| {
            (
                update::completed(call, tool_call.clone(), &model_call_id),
                tool_call,
            )
        });
        Some(CommittedTool { shown })
    }

    /// All results of the round are stored: forgets its calls. Background commands live on.
    pub fn round_ended(&mut self) {
        self.calls.clear();
        self.queue.clear();
        self.queries.clear();
        self.turn = None;
        self.execs.round_ended();
    }

    /// The run ends early: stops every exec that has no result. Background commands live on.
    pub fn abort_all(&mut self) -> Vec<Effect> {
        self.calls.clear();
        self.queue.clear();
        self.queries.clear();
        self.turn = None;
        let stopped = self.execs.give_up_all().into_iter();
        stopped
            .map(|exec_id| Effect::Send(request::abort(exec_id)))
            .collect()
    }

    /// Takes an answer to a live exec.
    fn answered(
        &mut self,
        exec_id: u32,
        call: CallId,
        message: Option<exec_client_message::Message>,
        now_ms: u64,
    ) -> Result<Vec<Effect>, ToolProtocolError> {
        let Some((awaiting, running)) = self.take_running(&call) else {
            return Err(ToolProtocolError::UnknownExec { exec_id });
        };
        let expected = awaiting.expects();
        let got = message.as_ref().map(response::kind);
        let Some(answer) = message.and_then(response::answer) else {
            self.calls
                .insert(call.clone(), CallState::Running { awaiting, running });
            return Err(match got {
                Some(got) if got != expected => ToolProtocolError::WrongAnswer {
                    exec_id,
                    call,
                    expected,
                    got,
                },
                _ => ToolProtocolError::EmptyAnswer {
                    exec_id,
                    call,
                    expected,
                },
            });
        };
        let times = Times {
            started_ms: running.started_at_ms,
            now_ms,
        };
        let mut effects = Vec::new();
        match dispatch::advance(&call, awaiting, answer, &self.scope, times) {
            Err(awaiting) => {
                let awaiting = *awaiting;
                self.calls
                    .insert(call.clone(), CallState::Running { awaiting, running });
                return Err(ToolProtocolError::WrongAnswer {
                    exec_id,
                    call,
                    expected,
                    got: got.unwrap_or_default(),
                });
            }
            Ok(Progress::Wait { awaiting, delta }) => {
                let shown = delta.map(|delta| update::delta(&call, delta, &running.model_call_id));
                effects.extend(shown.map(Effect::Send));
                self.calls.insert(call, CallState::Running { awaiting, running });
            }
            Ok(Progress::Surplus(awaiting)) => {
                self.calls
                    .insert(call.clone(), CallState::Running { awaiting, running });
                return Err(ToolProtocolError::FinishedExec {
                    exec_id,
                    call: Some(call),
                });
            }
            Ok(Progress::Backgrounded(outcome)) => {
                let background = Exec::Background {
                    call: call.clone(),
                    model_call_id: running.model_call_id.clone(),
                };
                self.execs.set(exec_id, background);
                self.finish(&call, running, outcome, now_ms, &mut effects);
            }
            Ok(Progress::Step(step)) => {
                self.execs.set(exec_id, Exec::Finished(call.clone()));
                self.take(&call, step, running, now_ms, &mut effects);
            }
        }
        Ok(effects)
    }

    /// Begins the execution of a call whose card is out.
    fn begin(
        &mut self,
        call: &CallId,
        arguments: Arguments,
        running: Running,
        now_ms: u64,
        effects: &mut Vec<Effect>,
    ) {
        if arguments.takes_turns() {
            self.turn = Some(call.clone());
        }
        let step = dispatch::begin(call, arguments, &self.scope);
        if let Step::Exec {
            awaiting: Awaiting::Task(task),
            ..
        } = &step
        {
            self.scope
                .subagents
                .at_work
                .extend(task.resumes().map(str::to_owned));
        }
        self.take(call, step, running, now_ms, effects);
    }

    /// Does what a step asks for.
    fn take(&mut self, call: &CallId, step: Step, running: Running, now_ms: u64, effects: &mut Vec<Effect>) {
        match step {
            Step::Exec { message, awaiting } => {
                let exec_id = self.execs.begin(call);
                tracing::debug!(%call, exec_id, "the client is asked to execute");
                effects.push(Effect::Send(request::exec(exec_id, message)));
                effects.extend(awaiting.time_limit_ms().map(|after_ms| Effect::Wake {
                    call: call.clone(),
                    after_ms,
                }));
                self.calls
                    .insert(call.clone(), CallState::Running { awaiting, running });
            }
            Step::Query { query, awaiting } => {
                let id = self.open_query(call);
                tracing::debug!(%call, query_id = id, "the person is asked");
                self.calls
                    .insert(call.clone(), CallState::Running { awaiting, running });
                effects.push(Effect::Send(Message::InteractionQuery(InteractionQuery {
                    id,
                    query: Some(query),
                })));
            }
            Step::Serve { request, awaiting } => {
                self.calls
                    .insert(call.clone(), CallState::Running { awaiting, running });
                effects.push(Effect::Serve {
                    call: call.clone(),
                    request,
                });
            }
            Step::Pause { after_ms, awaiting } => {
                self.calls
                    .insert(call.clone(), CallState::Running { awaiting, running });
                effects.push(Effect::Wake {
                    call: call.clone(),
                    after_ms,
                });
            }
            Step::Done(outcome) => self.finish(call, running, outcome, now_ms, effects),
        }
    }

    /// Ends a call, and gives its turn to the next one.
    fn finish(
        &mut self,
        call: &CallId,
        running: Running,
        outcome: Outcome,
        now_ms: u64,
        effects: &mut Vec<Effect>,
    ) {
        for fact in derived_facts(&outcome.tool) {
            if let DerivedFact::Todos(todos) = fact {
                self.scope.todos = todos;
            }
        }
        if let Some(delegated) = &outcome.delegated {
            self.scope.subagents.note_child(&delegated.child, &delegated.kind);
            effects.push(Effect::Delegated(Delegation {
                call: call.clone(),
                child: ConversationId::new(delegated.child.as_str()),
                since_ms: running.started_at_ms,
                background: delegated.background,
                origin: DelegationOrigin::Own,
            }));
        }
        let content = outcome.content(self.result_limit);
        if let Some(learned) = outcome.learned {
            self.scope.mcp = learned;
        }
        let mut tool_call = update::tool_call(call, outcome.tool);
        tool_call.started_at_ms = Some(running.started_at_ms);
        tool_call.completed_at_ms = Some(now_ms);
        let state = CallState::Finished {
            shown: Some((tool_call, running.model_call_id)),
        };
        self.calls.insert(call.clone(), state);
        effects.push(Effect::Complete(ToolResult {
            call: call.clone(),
            content,
            is_error: outcome.is_error,
        }));
        if self.turn.as_ref() == Some(call) {
            self.turn = None;
            self.begin_queued(now_ms, effects);
        }
    }

    fn begin_queued(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        while let Some(call) = self.queue.pop_front() {
            match self.calls.remove(&call) {
                Some(CallState::Queued { arguments, running }) => {
                    return self.begin(&call, arguments, running, now_ms, effects);
                }
                other => self.calls.extend(other.map(|state| (call, state))),
            }
        }
    }

    fn take_running(&mut self, call: &CallId) -> Option<(Awaiting, Running)> {
        match self.calls.remove(call)? {
            CallState::Running { awaiting, running } => Some((awaiting, running)),
            other => {
                self.calls.insert(call.clone(), other);
                None
            }
        }
    }

    fn expect_new(&self, call: &CallId) -> Result<(), ToolProtocolError> {
        match self.calls.contains_key(call) {
            _ if call.as_str().is_empty() => Err(ToolProtocolError::MissingCallId),
            true => Err(misplaced(call, "begun")),
            false => Ok(()),
        }
    }
}

fn misplaced(call: &CallId, what: &'static str) -> ToolProtocolError {
    ToolProtocolError::MisplacedCall {
        call: call.clone(),
        what,
    }
}

fn tool_error(call: &CallId, text: String) -> ToolResult {
    ToolResult {
        call: call.clone(),
        content: text.into(),
        is_error: true,
    }
}
