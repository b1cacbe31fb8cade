//! A subagent that is being started or works. Must never know: exec ids, how the child works.

use std::sync::Arc;

use super::super::codec::task;
use super::super::result::exec;
use super::super::result::{Outcome, local};
use super::super::task::TaskArguments;
use super::{Awaiting, Scope, Step};
use crate::cursor::proto::agent::{
    TaskArgs, TaskToolCall, exec_server_message::Message, subagent_result, tool_call::Tool,
};
use crate::model::{CallId, ModelSpec, SubagentKind};

/// A subagent that the client was asked for.
#[derive(Debug)]
pub(in super::super) struct TaskRun {
    args: TaskArgs,
    kind: SubagentKind,
}

impl TaskRun {
    /// The subagent that goes on, if it is an earlier one.
    pub(in super::super) fn resumes(&self) -> Option<&str> {
        self.args.resume.as_deref()
    }
}

/// Asks the client for the subagent, on the model that is decided here and now.
pub(super) fn begin(call: &CallId, asked: TaskArguments, scope: &Scope) -> Step {
    let mut args = task::card_args(&asked);
    match admit(&asked, scope) {
        Err(refusal) => {
            let card = Tool::TaskToolCall(TaskToolCall {
                args: Some(args),
                ..TaskToolCall::default()
            });
            Step::Done(local::failure(card, &refusal))
        }
        Ok(model) => {
            args.model = Some(model.model_id.to_string());
            let root = &scope.subagents.root;
            let message = task::subagent_args(call, &asked, &model.model_id, &scope.conversation, root);
            Step::Exec {
                message: Message::SubagentArgs(message),
                awaiting: Awaiting::Task(Box::new(TaskRun {
                    args,
                    kind: asked.kind,
                })),
            }
        }
    }
}

/// The model that the subagent gets. The error is for the model.
fn admit(asked: &TaskArguments, scope: &Scope) -> Result<Arc<ModelSpec>, String> {
    if let Some(id) = &asked.resume {
        if [&scope.conversation, &scope.subagents.root].contains(&id) {
            return Err(format!(
                "The subagent was not started: {id} is this conversation or the one above it, and going on with it would \
                 stop the run that asks. Start a new subagent, or name one of your own."
            ));
        }
        scope.subagents.admit_resume(id, &asked.kind)?;
    }
    scope.subagents.admit(asked)
}

pub(super) fn finish(run: TaskRun, result: subagent_result::Result, elapsed_ms: u64) -> Outcome {
    exec::task::outcome(run.args, &run.kind, result, elapsed_ms)
}
