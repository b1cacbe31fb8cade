//! Task: the model starts another agent, or goes on with one.
//!
//! Owns its arguments and what decides whether and on which model the agent may be started. Must never know: execs,
//! cards, or how the child works.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::arguments::Arguments;
use super::codec::task;
use super::registry::ToolEntry;
use crate::cursor::proto::agent::{ToolCall, task_result, tool_call::Tool};
use crate::model::{
    CallId, ConversationId, Delegation, DelegationOrigin, ModelSpec, SubagentKind, SubagentModel,
    SubagentModels,
};

/// The most ids that a refusal names.
const SHOWN_CHILDREN: usize = 10;

/// What the model asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TaskArguments {
    /// The task in a few words.
    pub description: String,
    pub prompt: String,
    pub kind: SubagentKind,
    /// The configured model to run on.
    pub model: Option<String>,
    /// The subagent to go on with.
    pub resume: Option<String>,
    pub readonly: bool,
    /// Whether it works in the background, if the model said so.
    pub background: Option<bool>,
    /// Where it shall run, if the model said so.
    pub environment: Option<Environment>,
    pub cloud_base_branch: Option<String>,
}

/// Where a subagent runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Environment {
    Local,
    Cloud,
}

/// What the definition of a kind of subagent says beside its words.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DefinedSubagent {
    /// The configured model to run on, if it names one.
    pub model: Option<String>,
    /// Whether such a subagent may only look.
    pub readonly: bool,
    /// Whether such a subagent works in the background unless the model says otherwise.
    pub background: bool,
}

/// What holds for every subagent of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubagentScope {
    /// The conversation in which the person speaks.
    pub root: String,
    /// The model of the run itself, which subagents inherit.
    pub parent_model: Arc<ModelSpec>,
    /// Which other models they may get.
    pub models: Arc<SubagentModels>,
    /// The kinds that the person or the project defines.
    pub defined: BTreeMap<String, DefinedSubagent>,
    /// The subagents that the conversation has started and that can go on, each with its kind, the first one before the others.
    pub children: Vec<(String, SubagentKind)>,
    /// The conversations that are at work as the present round begins, and those that it has set to work.
    pub at_work: BTreeSet<String>,
    /// Whether the run itself may only look, by the definition of its kind: then whoever it starts may only look, too.
    pub readonly: bool,
    /// Whether the client can start subagents elsewhere than on the person's machine.
    pub cloud: bool,
}

impl SubagentScope {
    /// The model that the subagent gets. The error is for the model.
    pub(super) fn admit(&self, asked: &TaskArguments) -> Result<Arc<ModelSpec>, String> {
        let kind = &asked.kind;
        if !task::is_built_in(kind) && !self.defined.contains_key(kind.as_str()) {
            return Err(format!(
                "There is no kind of subagent named {kind}. The kinds are: {}.",
                self.kinds().join(", ")
            ));
        }
        if asked.environment == Some(Environment::Cloud) && !self.cloud {
            return Err(
                "This client starts subagents on the person's own machine only. Leave environment out."
                    .to_owned(),
            );
        }
        let defined = self
            .defined
            .get(kind.as_str())
            .and_then(|defined| defined.model.as_deref());
        self.models
            .choose(kind, asked.model.as_deref().or(defined), &self.parent_model)
            .map_err(|refused| format!("The subagent was not started: {refused}."))
    }

    /// Whether the subagent of this id can go on. The client would start a new one under an id that nobody knows [sdk],
    /// and that one would not remember what the model believes it does; one at work would be stopped by its newer run. The
    /// error is for the model.
    pub(super) fn admit_resume(&self, id: &str, kind: &SubagentKind) -> Result<(), String> {
        let known = self.children.iter().find(|(child, _)| child == id);
        if let Some((_, of)) = known
            && of != kind
        {
            // Its words, its model and its limits are those of its kind.
            return Err(format!(
                "The subagent was not started: {id} is of the kind {of} and stays so. Name that kind to go on with it."
            ));
        }
        if known.is_some() && self.at_work.contains(id) {
            return Err(format!(
                "The subagent was not started: {id} is still at work, and going on with it now would stop that. Wait for its \
                 final message, which comes to you by itself, and go on with it then; or give this to a new subagent."
            ));
        }
        if known.is_some() {
            return Ok(());
        }
        let latest = self.children.iter().rev().take(SHOWN_CHILDREN);
        let latest: Vec<&str> = latest.map(|(id, _)| id.as_str()).collect();
        let known = match latest.as_slice() {
            [] => "It has none yet.".to_owned(),
            latest => format!("The latest are: {}.", latest.join(", ")),
        };
        Err(format!(
            "The subagent was not started: this conversation has no subagent {id} that could go on. {known} To start a \
             new one, leave resume out and put all that it has to know into the prompt."
        ))
    }

    /// One more was started, or has gone on.
    pub(super) fn note_child(&mut self, id: &str, kind: &SubagentKind) {
        if !self.children.iter().any(|(child, _)| child == id) {
            self.children.push((id.to_owned(), kind.clone()));
        }
    }

    /// The task with what the run's own limits and the definition of its kind add.
    pub(super) fn completed(&self, mut asked: TaskArguments) -> TaskArguments {
        asked.readonly |= self.readonly;
        if let Some(defined) = self.defined.get(asked.kind.as_str()) {
            asked.readonly |= defined.readonly;
            asked.background = asked.background.or(Some(defined.background));
        }
        asked
    }

    /// The kinds that can be started, the client's own ones first.
    fn kinds(&self) -> Vec<&str> {
        let on = |kind: &&str| {
            let decided = self.models.decided(&SubagentKind::new(*kind));
            decided != Some(&SubagentModel::Disabled)
        };
        let defined = self.defined.keys().map(String::as_str);
        // A kind of the person's own may have the name of one of the client's.
        task::offered()
            .chain(defined.filter(|name| !task::is_built_in(&SubagentKind::new(*name))))
            .filter(on)
            .collect()
    }
}

/// What the model calls the tool.
pub const TASK_TOOL: &str = "Task";

/// The work in the background that a completed call has begun, as its card shows it.
pub fn background_delegation(card: &ToolCall) -> Option<Delegation> {
    let Some(Tool::TaskToolCall(task)) = &card.tool else {
        return None;
    };
    match task.result.as_ref()?.result.as_ref()? {
        task_result::Result::Success(success) if success.is_background => Some(Delegation {
            call: CallId::new(card.tool_call_id.as_deref()?),
            child: ConversationId::new(success.agent_id.as_deref()?),
            since_ms: card.started_at_ms?,
            background: true,
            origin: DelegationOrigin::Own,
        }),
        task_result::Result::Success(_) | task_result::Result::Error(_) => None,
    }
}

pub(super) const TASK: ToolEntry = ToolEntry {
    name: TASK_TOOL,
    arguments: &[
        "description",
        "prompt",
        "subagent_type",
        "model",
        "resume",
        "readonly",
        "run_in_background",
        "environment",
        "cloud_base_branch",
    ],
    streamed: &["description", "prompt", "subagent_type", "model", "resume"],
    content: None,
    placeholder: task::placeholder,
    read: |reader| {
        let environment = reader.optional_word("environment", &["local", "cloud"]);
        Arguments::Task(TaskArguments {
            description: reader.filled_text("description"),
            prompt: reader.filled_text("prompt"),
            kind: SubagentKind::new(reader.filled_text("subagent_type")),
            model: reader.optional_text("model").filter(|id| !id.is_empty()),
            resume: reader.optional_text("resume").filter(|id| !id.is_empty()),
            readonly: reader.optional_bool("readonly").unwrap_or(false),
            background: reader.optional_bool("run_in_background"),
            environment: environment.map(|place| match place.as_str() {
                "cloud" => Environment::Cloud,
                _ => Environment::Local,
            }),
            cloud_base_branch: reader
                .optional_text("cloud_base_branch")
                .filter(|branch| !branch.is_empty()),
        })
    },
};
