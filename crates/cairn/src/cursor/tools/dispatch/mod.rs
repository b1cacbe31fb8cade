//! From typed arguments to execution, and from the client's answers to the next stage or the outcome.
//!
//! Owns what each call waits for; every stage is a value that holds only what is valid in it.
//! Must never know: exec ids, streaming arguments, when a result is stored.

mod asked;
mod await_shell;
mod edit;
mod lints;
mod mcp;
mod shell;
mod task;

use super::arguments::{Arguments, GlobArguments, ReadArguments};
use super::codec::response::ExecAnswer;
use super::codec::{card, request};
use super::mcp::{GetMcpToolsArguments, McpTable};
use super::progress;
use super::result::exec::{self, delete, mcp_state, read, search};
use super::result::{Outcome, local};
use super::task::SubagentScope;
use crate::cursor::proto::agent::{
    DeleteArgs, GetMcpToolsArgs, GrepArgs, McpArgs, TodoItem, ToolCallDelta, exec_server_message::Message,
    interaction_query, interaction_response,
};
use crate::cursor::request::Mode;
use crate::model::CallId;

pub use asked::{ServiceAnswer, ServiceRequest};

/// What holds for all calls of a session.
#[derive(Debug)]
pub(super) struct Scope {
    pub conversation: String,
    /// Where a command runs unless the model named a place.
    pub directory: String,
    /// Where the client writes the output of background commands, if it said so.
    pub terminals_folder: Option<String>,
    /// The to-do list as the last call left it.
    pub todos: Vec<TodoItem>,
    /// The mode that the run is in.
    pub mode: Mode,
    /// The MCP tools that can be called by server and name.
    pub mcp: McpTable,
    /// What subagents may be started.
    pub subagents: SubagentScope,
}

impl Scope {
    /// The file to which the output of a background command goes.
    fn terminal_file(&self, shell_id: u32) -> Option<String> {
        let folder = self.terminals_folder.as_deref()?.trim_end_matches(['/', '\\']);
        // The client's own separator.
        let separator = if folder.contains('\\') { '\\' } else { '/' };
        Some(format!("{folder}{separator}{shell_id}.txt"))
    }
}

/// What a call waits for.
#[derive(Debug)]
pub(super) enum Awaiting {
    Read(ReadArguments),
    Delete(DeleteArgs),
    Grep(GrepArgs),
    Glob(GlobArguments),
    Mcp(McpArgs),
    McpState {
        args: GetMcpToolsArgs,
        asked: GetMcpToolsArguments,
    },
    Resource(Box<mcp::ResourceRun>),
    Task(Box<task::TaskRun>),
    Shell(Box<shell::ShellRun>),
    Edit(Box<edit::EditRun>),
    Asked(Box<asked::AskedRun>),
    Lints(Box<lints::LintsRun>),
    /// For what the file of a background command has gained.
    TerminalFile(Box<await_shell::AwaitRun>),
    /// For no answer: a pause, after which the file is looked at again.
    Time(Box<await_shell::AwaitRun>),
}

/// What a call does next.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a step is taken at once, where it is made"
)]
pub(super) enum Step {
    /// Ask the client to execute this and wait for its answer.
    Exec { message: Message, awaiting: Awaiting },
    /// Ask the person this and wait for the answer.
    Query {
        query: interaction_query::Query,
        awaiting: Awaiting,
    },
    /// Ask a service of the server and wait for what it gives.
    Serve {
        request: ServiceRequest,
        awaiting: Awaiting,
    },
    /// Do nothing for this long, then go on with [`resume`].
    Pause { after_ms: u32, awaiting: Awaiting },
    /// The call is over.
    Done(Outcome),
}

/// What an answer means for its call.
#[derive(Debug)]
pub(super) enum Progress {
    /// The same exec goes on; show this, if anything.
    Wait {
        awaiting: Awaiting,
        delta: Option<ToolCallDelta>,
    },
    /// The exec is over; this is next.
    Step(Step),
    /// The call is over, yet its exec may still put something out.
    Backgrounded(Outcome),
    /// The exec had its last answer already.
    Surplus(Awaiting),
}

/// Begins the execution of a call.
pub(super) fn begin(call: &CallId, arguments: Arguments, scope: &Scope) -> Step {
    let (message, awaiting) = match arguments {
        Arguments::Shell(shell) => {
            let args = request::shell_args(call, &shell, &scope.directory, &scope.conversation);
            (
                Message::ShellStreamArgs(args.clone()),
                Awaiting::Shell(Box::new(shell::ShellRun::new(args))),
            )
        }
        Arguments::Read(read) => (
            Message::ReadArgs(request::read_args(call, &read)),
            Awaiting::Read(read),
        ),
        Arguments::Delete(delete) => {
            let args = request::delete_args(call, &delete);
            (Message::DeleteArgs(args.clone()), Awaiting::Delete(args))
        }
        Arguments::Grep(grep) => {
            let args = request::grep_args(call, &grep);
            (Message::GrepArgs(args.clone()), Awaiting::Grep(args))
        }
        Arguments::Glob(glob) => (
            Message::GrepArgs(request::glob_args(call, &glob)),
            Awaiting::Glob(glob),
        ),
        Arguments::Mcp(args) => (Message::McpArgs(args.clone()), Awaiting::Mcp(args)),
        Arguments::CallMcpTool(asked) => {
            let card = card::named_mcp_tool(&asked);
            match scope.mcp.resolve(call, asked) {
                Ok(args) => (Message::McpArgs(args.clone()), Awaiting::Mcp(args)),
                Err(text) => return Step::Done(local::failure(card, &text)),
            }
        }
        Arguments::GetMcpTools(asked) => {
            let args = request::get_mcp_tools_args(call, &asked);
            (request::mcp_state(), Awaiting::McpState { args, asked })
        }
        Arguments::FetchMcpResource(asked) => return mcp::begin(call, &asked),
        Arguments::Task(asked) => return task::begin(call, scope.subagents.completed(asked), scope),
        Arguments::UpdateCurrentStep(update) => return Step::Done(progress::outcome(update)),
        Arguments::Edit(edit) => return edit::begin(call, edit),
        Arguments::Asked(asked) => return asked::begin(call, asked, scope),
        Arguments::AwaitShell(asked) => return await_shell::begin(call, asked, scope),
        Arguments::ReadLints(asked) => return lints::begin(call, asked),
        Arguments::TodoWrite(todos) => return Step::Done(local::todo_write(&scope.todos, todos)),
    };
    Step::Exec { message, awaiting }
}

/// Goes on after a pause, or gives up an exec whose time is over. The error gives the stage back: it waits for no time.
pub(super) fn resume(call: &CallId, awaiting: Awaiting) -> Result<Step, Box<Awaiting>> {
    match awaiting {
        Awaiting::Time(run) => Ok(await_shell::look(call, *run)),
        Awaiting::Asked(run) => asked::overdue(*run).map(Step::Done),
        other => Err(Box::new(other)),
    }
}

/// When something happened, in Unix milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// The call's start.
    pub started_ms: u64,
    pub now_ms: u64,
}

/// Takes an answer of the client. The error gives the stage back: it does not wait for such an answer.
pub(super) fn advance(
    call: &CallId,
    awaiting: Awaiting,
    answer: ExecAnswer,
    scope: &Scope,
    times: Times,
) -> Result<Progress, Box<Awaiting>> {
    let outcome = match (awaiting, answer) {
        (Awaiting::Read(asked), ExecAnswer::Read(result)) => read::outcome(&asked, result),
        (Awaiting::Delete(args), ExecAnswer::Delete(result)) => delete::outcome(args, result),
        (Awaiting::Grep(args), ExecAnswer::Grep(result)) => search::grep(args, result),
        (Awaiting::Glob(asked), ExecAnswer::Grep(result)) => search::glob(&asked, result),
        (Awaiting::Mcp(args), ExecAnswer::Mcp(result)) => exec::mcp::outcome(args, result),
        (Awaiting::McpState { args, asked }, ExecAnswer::McpState(result)) => {
            mcp_state::outcome(args, &asked, result)
        }
        (Awaiting::Task(run), ExecAnswer::Subagent(result)) => {
            let elapsed_ms = times.now_ms.saturating_sub(times.started_ms);
            task::finish(*run, result, elapsed_ms)
        }
        (Awaiting::Resource(run), answer) => return mcp::advance(*run, answer).map(Progress::Step),
        (Awaiting::Shell(run), ExecAnswer::Shell(event)) => {
            let elapsed_ms = times.now_ms.saturating_sub(times.started_ms);
            return Ok(shell::advance(*run, event, scope, elapsed_ms));
        }
        (Awaiting::TerminalFile(run), ExecAnswer::Read(result)) => {
            return Ok(Progress::Step(await_shell::advance(*run, result, times.now_ms)));
        }
        (Awaiting::Lints(run), ExecAnswer::Diagnostics(result)) => {
            return Ok(Progress::Step(lints::advance(call, *run, result)));
        }
        (Awaiting::Edit(run), answer) => return edit::advance(call, *run, answer).map(Progress::Step),
        (Awaiting::Asked(run), answer) => return asked::advance(call, *run, answer).map(Progress::Step),
        (awaiting, _) => return Err(Box::new(awaiting)),
    };
    Ok(Progress::Step(Step::Done(outcome)))
}

/// Takes the person's answer; see [`asked::responded`].
pub(super) fn responded(
    call: &CallId,
    awaiting: Awaiting,
    response: interaction_response::Result,
    scope: &Scope,
) -> Result<Option<Step>, Box<Awaiting>> {
    match awaiting {
        Awaiting::Asked(run) => asked::responded(call, *run, response, scope),
        other => Err(Box::new(other)),
    }
}

/// Takes what a service of the server gave; see [`asked::served`].
pub(super) fn served(
    call: &CallId,
    awaiting: Awaiting,
    answer: ServiceAnswer,
) -> Result<Step, Box<Awaiting>> {
    match awaiting {
        Awaiting::Asked(run) => asked::served(call, *run, answer),
        other => Err(Box::new(other)),
    }
}

impl Awaiting {
    /// The client ended the exec: the outcome, if all that it needs is there.
    pub(super) fn closed(self) -> Result<Outcome, Box<Self>> {
        match self {
            Self::Shell(run) => run.closed().map_err(|run| Box::new(Self::Shell(run))),
            other => Err(Box::new(other)),
        }
    }

    /// How long the client may take for an exec, if there is an end to it. Commands and subagents have their own.
    pub(super) fn time_limit_ms(&self) -> Option<u32> {
        match self {
            Self::Asked(run) => run.time_limit_ms(),
            _ => None,
        }
    }

    /// The field name of the answer that this stage waits for, for errors.
    pub(super) fn expects(&self) -> &'static str {
        match self {
            Self::Read(_) | Self::TerminalFile(_) => "read_result",
            Self::Delete(_) => "delete_result",
            Self::Grep(_) | Self::Glob(_) => "grep_result",
            Self::Mcp(_) => "mcp_result",
            Self::McpState { .. } => "mcp_state_exec_result",
            Self::Resource(run) => run.expects(),
            Self::Task(_) => "subagent_result",
            Self::Shell(_) => "shell_stream",
            Self::Edit(run) => run.expects(),
            Self::Asked(run) => run.expects(),
            Self::Lints(_) => "diagnostics_result",
            Self::Time(_) => "nothing",
        }
    }
}

impl Arguments {
    /// Whether such calls go one after the other: two edits that read the same file before either wrote it would
    /// lose one of the changes.
    pub(super) fn takes_turns(&self) -> bool {
        matches!(self, Self::Edit(_))
    }
}
