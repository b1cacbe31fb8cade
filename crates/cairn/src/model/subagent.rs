//! Subagents: what kind of one a run is, and which model a new one may get.
//!
//! The choice is made once, when the subagent is started; it is a function of the values here and nothing else.
//! Must never know: how a client names kinds or offers the choice, or how a subagent is started.

use std::fmt;
use std::sync::Arc;

use super::{CallId, ConversationId, ModelSpec};

/// The kind of a subagent, exactly as whoever defined it spells it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubagentKind(Arc<str>);

impl SubagentKind {
    /// The kind of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The kind's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SubagentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SubagentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SubagentKind({})", self.0)
    }
}

/// What the person decided about the model of one kind of subagent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SubagentModel {
    /// This model.
    Explicit(Arc<ModelSpec>),
    /// This model, which is not configured: such a subagent cannot be started.
    Unconfigured(Arc<str>),
    /// The model of the run that starts the subagent.
    Inherit,
    /// Such a subagent is not to be started.
    Disabled,
}

/// Which models the subagents of a run may get. The models here are candidates, not what any run uses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SubagentModels {
    /// What a subagent may be asked to run on, besides the model of the run that starts it.
    pub candidates: Vec<Arc<ModelSpec>>,
    /// What the person decided for single kinds; for each kind the first one counts.
    pub overrides: Vec<(SubagentKind, SubagentModel)>,
}

/// A call has started work in another conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delegation {
    /// The call, of the conversation that is told of the end.
    pub call: CallId,
    /// The conversation in which the work goes on.
    pub child: ConversationId,
    /// When the call began, in milliseconds since the Unix epoch: the work is the child's first run from then on.
    pub since_ms: u64,
    /// Whether the work goes on after the call has its result.
    pub background: bool,
    /// Whether that conversation began the work itself.
    pub origin: DelegationOrigin,
}

/// Who began delegated work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DelegationOrigin {
    /// The conversation that is told of its end.
    Own,
    /// Another conversation, which worked for that one and has ended before the work did.
    Inherited {
        /// The conversation.
        conversation: ConversationId,
        /// Its call.
        call: CallId,
    },
}

/// Why a subagent gets no model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoSubagentModel {
    /// The person switched this kind off.
    #[error("subagents of the kind {kind} are switched off by the person")]
    Disabled {
        /// The kind.
        kind: SubagentKind,
    },
    /// The person chose a model that is not configured.
    #[error("the model {model:?} that the person chose for subagents of the kind {kind} is not configured")]
    Unconfigured {
        /// The kind.
        kind: SubagentKind,
        /// The model's id.
        model: Arc<str>,
    },
    /// A model was asked for that is no candidate.
    #[error("a subagent cannot run on the model {model:?}; it can run on {candidates}")]
    NoCandidate {
        /// The id asked for.
        model: String,
        /// The ids that can be asked for, joined by commas.
        candidates: String,
    },
}

impl SubagentModels {
    /// What the person decided for this kind, if anything.
    pub fn decided(&self, kind: &SubagentKind) -> Option<&SubagentModel> {
        let mut fitting = self.overrides.iter().filter(|(decided, _)| decided == kind);
        fitting.next().map(|(_, model)| model)
    }

    /// The model of a new subagent of this kind. What the person decided wins over what is asked for, and without
    /// either the subagent inherits the model of the run that starts it.
    ///
    /// # Errors
    /// If the kind is switched off, or its model is not configured or no candidate.
    pub fn choose(
        &self,
        kind: &SubagentKind,
        asked: Option<&str>,
        parent: &Arc<ModelSpec>,
    ) -> Result<Arc<ModelSpec>, NoSubagentModel> {
        match self.decided(kind) {
            Some(SubagentModel::Explicit(model)) => return Ok(model.clone()),
            Some(SubagentModel::Unconfigured(model)) => {
                return Err(NoSubagentModel::Unconfigured {
                    kind: kind.clone(),
                    model: model.clone(),
                });
            }
            Some(SubagentModel::Inherit) => return Ok(parent.clone()),
            Some(SubagentModel::Disabled) => return Err(NoSubagentModel::Disabled { kind: kind.clone() }),
            None => {}
        }
        let Some(asked) = asked else {
            return Ok(parent.clone());
        };
        let mut models = std::iter::once(parent).chain(&self.candidates);
        match models.find(|model| *model.model_id == *asked) {
            Some(model) => Ok(model.clone()),
            None => Err(NoSubagentModel::NoCandidate {
                model: asked.to_owned(),
                candidates: self.ids(parent).join(", "),
            }),
        }
    }

    /// The ids that a subagent can be asked to run on, the inherited one first, each once.
    fn ids<'a>(&'a self, parent: &'a ModelSpec) -> Vec<&'a str> {
        let mut ids: Vec<&str> = vec![&parent.model_id];
        for model in &self.candidates {
            if !ids.contains(&&*model.model_id) {
                ids.push(&model.model_id);
            }
        }
        ids
    }
}
