//! The tool calls of one session: which call is at which stage, and which exec id belongs to which call.
//!
//! A call goes `Streaming → (Queued →) Running → Finished → Committed`; a call that fails before its execution goes
//! straight to `Finished`. An exec id goes `Live → Finished`, `Live → Background → Finished` or `Live → Aborted`.
//! The one owner of the mapping between exec ids and calls. Must never know: frames, checkpoints, the clock, the store.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::arguments::{Arguments, Reader};
use super::codec::{card, request, response, update};
use super::dispatch::{self, Awaiting, Progress, Scope, Step};
use super::error::ToolProtocolError;
use super::registry;
use super::result::{DerivedFact, Outcome, local};
use super::stream::{ArgumentStream, Shown};
use super::value::value_from_json;
use crate::cursor::proto::agent::{
    ExecClientControlMessage, ExecClientMessage, McpArgs, TodoItem, ToolCall as ProtoToolCall,
    agent_server_message::Message, exec_client_control_message, exec_client_message, shell_stream,
    tool_call::Tool,
};
use crate::model::{CallId, ToolCall, ToolResult};

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
    /// Where a command runs unless the model names a place. If unknown, the client's own workspace.
    pub working_directory: Option<String>,
    /// Where the client writes the output of background commands, if it said so.
    pub terminals_folder: Option<String>,
}

/// A dynamic MCP tool as the client knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct McpTool {
    /// The tool definition's own name.
    pub name: String,
    /// The provider that the definition names.
    pub provider_identifier: String,
    /// The server, where the client told it apart from the provider.
    pub server_identifier: String,
    /// The tool's name at its server.
    pub tool_name: String,
    /// Whether its server offers it now. One that does not keeps its place in the prompt, and its calls say so.
    pub connected: bool,
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
    /// The call has its result: hand it to the run. The card's completion follows with [`ToolRuntime::committed`].
    Complete(ToolResult),
}

/// A call whose result is stored.
#[derive(Clone, PartialEq, Debug)]
pub struct CommittedTool {
    /// The completion to send to the client, and the card with arguments, result and times for the turn's record.
    /// None for a tool that does not exist: there is no card for it.
    pub shown: Option<(Message, ProtoToolCall)>,
    /// State beside the history that follows from the call.
    pub fact: Option<DerivedFact>,
}

/// The tool calls of one session; see the module.
#[derive(Debug)]
pub struct ToolRuntime {
    offered: BTreeSet<Arc<str>>,
    mcp: BTreeMap<Arc<str>, McpTool>,
    scope: Scope,
    last_exec_id: u32,
    execs: BTreeMap<u32, Exec>,
    calls: BTreeMap<CallId, CallState>,
    /// The call whose turn it is among those that take turns, and the ones after it.
    turn: Option<CallId>,
    queue: VecDeque<CallId>,
}

#[derive(Debug)]
enum Exec {
    Live(CallId),
    /// The call is over; its command may still put something out.
    Background {
        call: CallId,
        model_call_id: String,
    },
    Finished(CallId),
    Aborted,
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
        fact: Option<DerivedFact>,
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
        Self {
            offered: config.offered,
            mcp: config.mcp,
            scope: Scope {
                conversation: config.conversation_id,
                directory: config.working_directory.unwrap_or_else(|| ".".to_owned()),
                terminals_folder: config.terminals_folder,
                todos: config.todos,
            },
            last_exec_id: 0,
            execs: BTreeMap::new(),
            calls: BTreeMap::new(),
            turn: None,
            queue: VecDeque::new(),
        }
    }

    /// An exec id for a question that is no tool. Its answer does not belong here.
    pub fn reserve_exec_id(&mut self) -> u32 {
        self.last_exec_id += 1;
        self.last_exec_id
    }

    /// The model began a call: shows its placeholder.
    pub fn call_started(
        &mut self,
        call: &CallId,
        name: &str,
        model_call_id: &str,
    ) -> Result<Vec<Effect>, ToolProtocolError> {
        self.expect_new(call)?;
        let Some(shown) = self.shown(call, name) else {
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
        let (card, parsed) = match self.parse(call) {
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
                let state = CallState::Finished {
                    shown: None,
                    fact: None,
                };
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
        match self.issued(exec_id)? {
            Some(Exec::Live(call)) => {
                let call = call.clone();
                self.answered(exec_id, call, message.message, now_ms)
            }
            Some(Exec::Background { call, model_call_id }) => {
                let (shown, over) = background_output(call, model_call_id, message.message);
                if over {
                    let call = call.clone();
                    self.execs.insert(exec_id, Exec::Finished(call));
                }
                Ok(shown.map(Effect::Send).into_iter().collect())
            }
            // The client may have answered before it saw the abort.
            Some(Exec::Aborted) => Ok(Vec::new()),
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
            Control::StreamClose(close) => match self.issued(close.id)? {
                // The client closes a command this way whose working directory does not exist. [sdk]
                Some(Exec::Live(call)) => {
                    let call = call.clone();
                    let text = "The client ended the tool without a result: whether it ran is unknown. For a \
                                command, check that its working_directory exists.";
                    self.fail_exec(close.id, &call, text, now_ms)
                }
                Some(Exec::Background { call, .. }) => {
                    let call = call.clone();
                    self.execs.insert(close.id, Exec::Finished(call));
                    Ok(Vec::new())
                }
                // The close is the ordinary end of an exec that has its result.
                Some(Exec::Finished(_) | Exec::Aborted) | None => Ok(Vec::new()),
            },
            Control::Throw(throw) => match self.exec(throw.id)? {
                Exec::Live(call) => {
                    let call = call.clone();
                    let text = format!("The client could not execute the tool: {}", throw.error);
                    self.fail_exec(throw.id, &call, &text, now_ms)
                }
                Exec::Background { call, .. } => {
                    let call = call.clone();
                    self.execs.insert(throw.id, Exec::Finished(call));
                    Ok(Vec::new())
                }
                Exec::Aborted => Ok(Vec::new()),
                Exec::Finished(call) => Err(ToolProtocolError::FinishedExec {
                    exec_id: throw.id,
                    call: Some(call.clone()),
                }),
            },
        }
    }

    /// Ends a live exec as a tool error that the model sees.
    fn fail_exec(
        &mut self,
        exec_id: u32,
        call: &CallId,
        text: &str,
        now_ms: u64,
    ) -> Result<Vec<Effect>, ToolProtocolError> {
        let Some((_, running)) = self.take_running(call) else {
            return Err(ToolProtocolError::UnknownExec { exec_id });
        };
        let outcome = local::failure(running.card.clone(), text);
        let mut effects = Vec::new();
        self.execs.insert(exec_id, Exec::Finished(call.clone()));
        self.finish(call, running, outcome, now_ms, &mut effects);
        Ok(effects)
    }

    /// The run stored the call's result. None if the call was not finished here.
    pub fn committed(&mut self, call: &CallId) -> Option<CommittedTool> {
        let state = self.calls.get_mut(call)?;
        if !matches!(state, CallState::Finished { .. }) {
            return None;
        }
        let CallState::Finished { shown, fact } = std::mem::replace(state, CallState::Committed) else {
            return None;
        };
        let shown = shown.map(|(tool_call, model_call_id)| {
            (
                update::completed(call, tool_call.clone(), &model_call_id),
                tool_call,
            )
        });
        Some(CommittedTool { shown, fact })
    }

    /// All results of the round are stored: forgets its calls. Background commands live on.
    pub fn round_ended(&mut self) {
        self.calls.clear();
        self.queue.clear();
        self.turn = None;
        self.execs
            .retain(|_, exec| matches!(exec, Exec::Background { .. } | Exec::Aborted));
    }

    /// The run ends early: stops every exec that has no result. Background commands live on.
    pub fn abort_all(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (exec_id, exec) in &mut self.execs {
            if matches!(exec, Exec::Live(_)) {
                *exec = Exec::Aborted;
                effects.push(Effect::Send(request::abort(*exec_id)));
            }
        }
        self.calls.clear();
        self.queue.clear();
        self.turn = None;
        effects
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
        let elapsed_ms = now_ms.saturating_sub(running.started_at_ms);
        let mut effects = Vec::new();
        match dispatch::advance(&call, awaiting, answer, &self.scope, elapsed_ms) {
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
            Ok(Progress::Backgrounded(outcome)) => {
                let background = Exec::Background {
                    call: call.clone(),
                    model_call_id: running.model_call_id.clone(),
                };
                self.execs.insert(exec_id, background);
                self.finish(&call, running, outcome, now_ms, &mut effects);
            }
            Ok(Progress::Step(step)) => {
                self.execs.insert(exec_id, Exec::Finished(call.clone()));
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
        self.take(call, step, running, now_ms, effects);
    }

    /// Does what a step asks for.
    fn take(&mut self, call: &CallId, step: Step, running: Running, now_ms: u64, effects: &mut Vec<Effect>) {
        match step {
            Step::Exec { message, awaiting } => {
                let exec_id = self.reserve_exec_id();
                tracing::debug!(%call, exec_id, "the client is asked to execute");
                self.execs.insert(exec_id, Exec::Live(call.clone()));
                self.calls
                    .insert(call.clone(), CallState::Running { awaiting, running });
                effects.push(Effect::Send(request::exec(exec_id, message)));
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
        if let Some(DerivedFact::Todos(todos)) = &outcome.fact {
            self.scope.todos.clone_from(todos);
        }
        let mut tool_call = update::tool_call(call, outcome.tool);
        tool_call.started_at_ms = Some(running.started_at_ms);
        tool_call.completed_at_ms = Some(now_ms);
        let state = CallState::Finished {
            shown: Some((tool_call, running.model_call_id)),
            fact: outcome.fact,
        };
        self.calls.insert(call.clone(), state);
        effects.push(Effect::Complete(ToolResult {
            call: call.clone(),
            content: outcome.text.into_string().into(),
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

    /// Reads a call's arguments by its tool.
    fn parse(&self, call: &ToolCall) -> Result<Arguments, Refusal> {
        if let Some(gone) = self.mcp.get(&call.name).filter(|tool| !tool.connected) {
            return Err(Refusal::NoSuchTool(format!(
                "{} was not executed: the MCP server {} is not connected, or does not offer this tool now. Go on without \
                 it, or ask the user to connect the server again.",
                call.name, gone.provider_identifier
            )));
        }
        let Some(shown) = self.shown(&call.id, &call.name) else {
            let offered: Vec<&str> = self.offered.iter().map(AsRef::as_ref).collect();
            return Err(Refusal::NoSuchTool(format!(
                "There is no tool named {} here. The tools are: {}.",
                call.name,
                offered.join(", ")
            )));
        };
        let parsed = Reader::open(&call.arguments).and_then(|mut reader| match &shown {
            Shown::BuiltIn(entry) => {
                let arguments = (entry.read)(&mut reader);
                match reader.close() {
                    Ok(()) => Ok(arguments),
                    Err(problems) => Err(format!(
                        "{problems}. The arguments are: {}",
                        entry.arguments.join(", ")
                    )),
                }
            }
            Shown::Mcp(args) => {
                let mut args = args.clone();
                for (name, value) in reader.into_members() {
                    let value = value_from_json(&value, &name)
                        .map_err(|error| format!("{error}. Pass it as a string if the tool takes one"))?;
                    args.args.insert(name, value);
                }
                Ok(Arguments::Mcp(args))
            }
        });
        parsed.map_err(|problems| Refusal::Arguments {
            text: format!(
                "{} was not executed, its arguments do not fit: {problems}.",
                call.name
            ),
            shown: Box::new(shown),
        })
    }

    /// How a call of this tool is shown. None if there is no such tool in the prompt.
    fn shown(&self, call: &CallId, name: &str) -> Option<Shown> {
        if !self.offered.contains(name) {
            return None;
        }
        registry::entry(name).map(Shown::BuiltIn).or_else(|| {
            self.mcp.get(name).filter(|tool| tool.connected).map(|tool| {
                Shown::Mcp(McpArgs {
                    name: tool.name.clone(),
                    tool_call_id: call.to_string(),
                    provider_identifier: tool.provider_identifier.clone(),
                    tool_name: tool.tool_name.clone(),
                    server_identifier: tool.server_identifier.clone(),
                    ..McpArgs::default()
                })
            })
        })
    }

    fn expect_new(&self, call: &CallId) -> Result<(), ToolProtocolError> {
        match self.calls.contains_key(call) {
            _ if call.as_str().is_empty() => Err(ToolProtocolError::MissingCallId),
            true => Err(misplaced(call, "begun")),
            false => Ok(()),
        }
    }

    /// What became of an exec id. None if its round is over or it never was a tool's.
    fn issued(&self, exec_id: u32) -> Result<Option<&Exec>, ToolProtocolError> {
        match exec_id {
            0 => Err(ToolProtocolError::MissingExecId),
            _ if exec_id > self.last_exec_id => Err(ToolProtocolError::UnknownExec { exec_id }),
            _ => Ok(self.execs.get(&exec_id)),
        }
    }

    fn exec(&self, exec_id: u32) -> Result<&Exec, ToolProtocolError> {
        self.issued(exec_id)?
            .ok_or(ToolProtocolError::FinishedExec { exec_id, call: None })
    }
}

/// Why a call is not executed.
enum Refusal {
    NoSuchTool(String),
    Arguments { shown: Box<Shown>, text: String },
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

/// Whether the message is what a hook adds to a command, or an event of a command that this version does not know.
fn adds_nothing(message: Option<&exec_client_message::Message>) -> bool {
    matches!(
        message,
        Some(exec_client_message::Message::ShellStream(stream))
            if matches!(stream.event, None | Some(shell_stream::Event::HookContext(_)))
    )
}

/// What a background command put out, and whether it has ended.
fn background_output(
    call: &CallId,
    model_call_id: &str,
    message: Option<exec_client_message::Message>,
) -> (Option<Message>, bool) {
    let Some(exec_client_message::Message::ShellStream(stream)) = message else {
        return (None, false);
    };
    let delta = match stream.event {
        Some(shell_stream::Event::Stdout(out)) => update::stdout_delta(out.data),
        Some(shell_stream::Event::Stderr(out)) => update::stderr_delta(out.data),
        Some(shell_stream::Event::Exit(_)) => return (None, true),
        _ => return (None, false),
    };
    (Some(update::delta(call, delta, model_call_id)), false)
}
