//! Task on the wire: its card, the exec that starts the child, and how each of them spells the child's kind.
//!
//! Must never know: which models there are, or what the child answered.

use super::super::registry::Known;
use super::super::task::{Environment, TaskArguments};
use crate::cursor::proto::agent::subagent_type::Type;
use crate::cursor::proto::agent::{
    SubagentArgs, SubagentExecutionEnvironment, SubagentType, SubagentTypeBash, SubagentTypeBrowserUse,
    SubagentTypeComputerUse, SubagentTypeCursorGuide, SubagentTypeCustom, SubagentTypeDebug,
    SubagentTypeExplore, SubagentTypeMediaReview, SubagentTypeShell, SubagentTypeUnspecified,
    SubagentTypeVmSetupHelper, SubagentTypeWatchVideo, TaskArgs, TaskToolCall, tool_call::Tool,
};
use crate::model::{CallId, SubagentKind};

/// The kind without a speciality: this text in the exec, the unspecified variant in the card. [capture]
const GENERAL_PURPOSE: &str = "generalPurpose";

/// The kinds with a variant of their own in the card [proto], those that have words of their own here first.
const TYPED: [(&str, Type); 11] = [
    (GENERAL_PURPOSE, Type::Unspecified(SubagentTypeUnspecified {})),
    ("explore", Type::Explore(SubagentTypeExplore {})),
    ("shell", Type::Shell(SubagentTypeShell {})),
    ("bash", Type::Bash(SubagentTypeBash {})),
    ("debug", Type::Debug(SubagentTypeDebug {})),
    ("browserUse", Type::BrowserUse(SubagentTypeBrowserUse {})),
    ("computerUse", Type::ComputerUse(SubagentTypeComputerUse {})),
    ("mediaReview", Type::MediaReview(SubagentTypeMediaReview {})),
    ("watchVideo", Type::WatchVideo(SubagentTypeWatchVideo {})),
    ("vmSetupHelper", Type::VmSetupHelper(SubagentTypeVmSetupHelper {})),
    ("cursorGuide", Type::CursorGuide(SubagentTypeCursorGuide {})),
];

/// A guide to the client's own product, about which nothing is known here: it can be started, and is not offered.
const NOT_OFFERED: &str = "cursorGuide";

/// The kinds that are offered without a definition, the general one first.
pub(in super::super) fn offered<'a>() -> impl Iterator<Item = &'a str> {
    TYPED
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| *name != NOT_OFFERED)
}

/// Whether the client knows this kind without a definition.
pub(in super::super) fn is_built_in(kind: &SubagentKind) -> bool {
    TYPED.iter().any(|(name, _)| *name == kind.as_str())
}

/// The kind as the card has it. A kind of the person's own keeps its name to the letter.
fn card_type(kind: &str) -> SubagentType {
    let typed = TYPED.iter().find(|(name, _)| *name == kind);
    SubagentType {
        r#type: Some(match typed {
            Some((_, typed)) => typed.clone(),
            None => Type::Custom(SubagentTypeCustom {
                name: kind.to_owned(),
            }),
        }),
    }
}

/// The card while the arguments are not complete.
pub(in super::super) fn placeholder(known: &Known<'_>) -> Tool {
    Tool::TaskToolCall(TaskToolCall {
        args: Some(TaskArgs {
            description: known.text("description"),
            prompt: known.text("prompt"),
            subagent_type: known.get("subagent_type").as_deref().map(card_type),
            model: known.get("model"),
            resume: known.get("resume"),
            ..TaskArgs::default()
        }),
        ..TaskToolCall::default()
    })
}

/// The arguments as the card shows them.
pub(in super::super) fn card_args(task: &TaskArguments) -> TaskArgs {
    TaskArgs {
        description: task.description.clone(),
        prompt: task.prompt.clone(),
        subagent_type: Some(card_type(task.kind.as_str())),
        model: task.model.clone(),
        resume: task.resume.clone(),
        environment: environment(task).into(),
        ..TaskArgs::default()
    }
}

/// The exec that starts the child, or goes on with one. `conversation` is the parent's own, `root` the person's.
pub(in super::super) fn subagent_args(
    call: &CallId,
    task: &TaskArguments,
    model_id: &str,
    conversation: &str,
    root: &str,
) -> SubagentArgs {
    SubagentArgs {
        tool_call_id: call.to_string(),
        subagent_type: task.kind.to_string(),
        model_id: model_id.to_owned(),
        prompt: task.prompt.clone(),
        readonly: task.readonly,
        resume_agent_id: task.resume.clone(),
        run_in_background: Some(task.background.unwrap_or(false)),
        parent_conversation_id: Some(conversation.to_owned()),
        root_parent_conversation_id: Some(root.to_owned()),
        environment: environment(task).into(),
        cloud_base_branch: task.cloud_base_branch.clone(),
        ..SubagentArgs::default()
    }
}

fn environment(task: &TaskArguments) -> SubagentExecutionEnvironment {
    match task.environment {
        None => SubagentExecutionEnvironment::Unspecified,
        Some(Environment::Local) => SubagentExecutionEnvironment::Local,
        Some(Environment::Cloud) => SubagentExecutionEnvironment::Cloud,
    }
}
