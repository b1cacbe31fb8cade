//! From typed arguments to execution, and from the client's answers to the next stage or the outcome.
//!
//! Owns what each call waits for; every stage is a value that holds only what is valid in it.
//! Must never know: exec ids, streaming arguments, when a result is stored.

mod edit;
mod exec;
mod local;
mod shell;

use super::arguments::{Arguments, DeleteArguments, GlobArguments, GrepArguments, ReadArguments};
use super::codec::request;
use super::codec::response::ExecAnswer;
use super::result::Outcome;
use crate::cursor::proto::agent::{McpArgs, TodoItem, ToolCallDelta, exec_server_message};
use crate::model::CallId;

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
}

/// What a call waits for.
#[derive(Debug)]
pub(super) enum Awaiting {
    Read(ReadArguments),
    Delete(DeleteArguments),
    Grep(GrepArguments),
    Glob(GlobArguments),
    Mcp(McpArgs),
    Shell(Box<shell::ShellRun>),
    Edit(Box<edit::EditRun>),
}

/// What a call does next.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a step is taken at once, where it is made"
)]
pub(super) enum Step {
    /// Ask the client to execute this and wait for its answer.
    Exec {
        message: exec_server_message::Message,
        awaiting: Awaiting,
    },
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
}

/// Begins the execution of a call.
pub(super) fn begin(call: &CallId, arguments: Arguments, scope: &Scope) -> Step {
    match arguments {
        Arguments::Shell(shell) => {
            let args = request::shell_args(call, &shell, &scope.directory, &scope.conversation);
            Step::Exec {
                message: exec_server_message::Message::ShellStreamArgs(args.clone()),
                awaiting: Awaiting::Shell(Box::new(shell::ShellRun::new(args))),
            }
        }
        Arguments::Read(read) => exec::read(call, read),
        Arguments::Delete(delete) => exec::delete(call, delete),
        Arguments::Grep(grep) => exec::grep(call, grep),
        Arguments::Glob(glob) => exec::glob(call, glob),
        Arguments::Mcp(args) => exec::mcp(args),
        Arguments::Edit(edit) => edit::begin(call, edit),
        Arguments::TodoWrite(todos) => local::todo_write(&scope.todos, todos),
    }
}

/// Takes an answer of the client. The error gives the stage back: it does not wait for such an answer.
pub(super) fn advance(
    call: &CallId,
    awaiting: Awaiting,
    answer: ExecAnswer,
    scope: &Scope,
    elapsed_ms: u64,
) -> Result<Progress, Box<Awaiting>> {
    let done = |outcome| Ok(Progress::Step(Step::Done(outcome)));
    match (awaiting, answer) {
        (Awaiting::Read(read), ExecAnswer::Read(result)) => done(exec::read_done(&read, result)),
        (Awaiting::Delete(delete), ExecAnswer::Delete(result)) => {
            done(exec::delete_done(call, &delete, result))
        }
        (Awaiting::Grep(grep), ExecAnswer::Grep(result)) => done(exec::grep_done(call, &grep, result)),
        (Awaiting::Glob(glob), ExecAnswer::Grep(result)) => done(exec::glob_done(&glob, result)),
        (Awaiting::Mcp(args), ExecAnswer::Mcp(result)) => done(exec::mcp_done(args, result)),
        (Awaiting::Shell(run), ExecAnswer::Shell(event)) => Ok(shell::advance(
            *run,
            event,
            scope.terminals_folder.as_deref(),
            elapsed_ms,
        )),
        (Awaiting::Edit(run), answer) => edit::advance(call, *run, answer).map(Progress::Step),
        (awaiting, _) => Err(Box::new(awaiting)),
    }
}

impl Awaiting {
    /// The field name of the answer that this stage waits for, for errors.
    pub(super) fn expects(&self) -> &'static str {
        match self {
            Self::Read(_) => "read_result",
            Self::Delete(_) => "delete_result",
            Self::Grep(_) | Self::Glob(_) => "grep_result",
            Self::Mcp(_) => "mcp_result",
            Self::Shell(_) => "shell_stream",
            Self::Edit(run) => run.expects(),
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
