//! How a subagent ended, or that it goes on. Must never know: exec ids, how the child was started.

use super::super::{BoundedText, Delegated, ModelText, Outcome};
use super::because;
use crate::cursor::proto::agent::{
    SubagentBackgroundReason, SubagentSuccess, TaskArgs, TaskError, TaskResult, TaskSuccess, TaskToolCall,
    subagent_result, task_result, tool_call::Tool,
};
use crate::model::SubagentKind;

/// What became of the child. Every text names it, so that the model can go on with it.
pub(in super::super::super) fn outcome(
    args: TaskArgs,
    kind: &SubagentKind,
    result: subagent_result::Result,
    elapsed_ms: u64,
) -> Outcome {
    let delegated = delegated(&result, kind);
    let outcome = match result {
        subagent_result::Result::Success(success) => {
            let background = is_background(&success);
            let text = match background {
                true => started(&success, kind),
                false => finished(&success, kind),
            };
            let result = task_result::Result::Success(TaskSuccess {
                agent_id: Some(success.agent_id),
                is_background: background,
                duration_ms: (!background).then_some(elapsed_ms),
                background_reason: success.background_reason,
                transcript_path: success.transcript_path,
                ..TaskSuccess::default()
            });
            Outcome::success(card(args, result), text)
        }
        subagent_result::Result::Error(error) => {
            let text = match error.agent_id.as_deref().filter(|id| !id.is_empty()) {
                Some(id) => format!("The {kind} subagent {id} failed{}", because(&error.error)),
                None => format!(
                    "The {kind} subagent could not be started{}",
                    because(&error.error)
                ),
            };
            let result = task_result::Result::Error(TaskError { error: text.clone() });
            Outcome::error(card(args, result), text)
        }
    };
    Outcome { delegated, ..outcome }
}

/// The child, if one was started.
fn delegated(result: &subagent_result::Result, kind: &SubagentKind) -> Option<Delegated> {
    let (child, background) = match result {
        subagent_result::Result::Success(success) => (Some(&success.agent_id), is_background(success)),
        subagent_result::Result::Error(error) => (error.agent_id.as_ref(), false),
    };
    let child = child.filter(|id| !id.is_empty())?.clone();
    Some(Delegated {
        child,
        kind: kind.clone(),
        background,
    })
}

fn is_background(success: &SubagentSuccess) -> bool {
    success.background_reason != i32::from(SubagentBackgroundReason::Unspecified)
}

fn started(success: &SubagentSuccess, kind: &SubagentKind) -> ModelText {
    ModelText::new(&format!(
        "The {kind} subagent {} works in the background. What it says at its end comes to you as a message; do not \
         wait for it and do not do its work yourself.",
        success.agent_id
    ))
}

fn finished(success: &SubagentSuccess, kind: &SubagentKind) -> ModelText {
    let id = &success.agent_id;
    match success.final_message.as_deref().filter(|text| !text.is_empty()) {
        Some(words) => {
            let mut body = BoundedText::default();
            body.push(words);
            ModelText::framed(
                &format!("The {kind} subagent {id} has finished and says:\n"),
                &body,
                "",
            )
        }
        None => ModelText::new(&format!(
            "The {kind} subagent {id} has finished and says nothing."
        )),
    }
}

fn card(args: TaskArgs, result: task_result::Result) -> Tool {
    Tool::TaskToolCall(TaskToolCall {
        args: Some(args),
        result: Some(TaskResult { result: Some(result) }),
        ..TaskToolCall::default()
    })
}
