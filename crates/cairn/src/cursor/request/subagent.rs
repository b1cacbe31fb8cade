//! What a request says of subagents: whether it is one's, what that one is told once, and which models and kinds the
//! run's own subagents may have.
//!
//! Must never know: how a subagent is started or shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::model::model_spec;
use super::text::Tagged;
use super::{RequestError, TurnEvent, initial_messages};
use crate::config::ModelConfig;
use crate::cursor::prompting::PromptAssets;
use crate::cursor::proto::agent::subagent_model_override::Selection;
use crate::cursor::proto::agent::{
    AgentRunRequest, CustomSubagent, CustomSubagentPermissionMode, RequestContext, RequestedModel,
    SubagentModelOverride,
};
use crate::cursor::tools::DefinedSubagent;
use crate::model::{Message, ModelSpec, Part, SubagentKind, SubagentModel, SubagentModels, keep_inside};

/// The event that tells a subagent what it is: once in its conversation.
pub(super) const IDENTITY_EVENT: &str = "subagent-identity";
/// The tag around all that a subagent is told of itself, and the one around the words of its definition: those come from the
/// project, and stay inside of both.
const SUBAGENT: &str = "subagent";
const INSTRUCTIONS: &str = "instructions";
/// What a definition writes for the model of whoever starts the subagent. [sdk]
const INHERIT: &str = "inherit";

/// The kind of subagent whose run this is, if it is one's.
pub fn subagent_kind(request: &AgentRunRequest) -> Option<SubagentKind> {
    let kind = request.subagent_type_name.as_deref();
    kind.filter(|kind| !kind.is_empty()).map(SubagentKind::new)
}

/// The models that the run's own subagents may get. Without a selection of the client's every configured model is a
/// candidate; a selected one that is not configured here is none.
///
/// # Errors
/// If a configured model is selected with parameters that it cannot have, or an override says nothing.
pub fn subagent_models(
    request: &AgentRunRequest,
    models: &[ModelConfig],
) -> Result<SubagentModels, RequestError> {
    let details = request.selected_subagent_model_details.iter();
    let mut selected = request.selected_subagent_models.clone();
    selected.extend(details.map(|details| by_id(&details.model_id)));
    if selected.is_empty() {
        selected = models.iter().map(|model| by_id(&model.id)).collect();
    }
    let mut candidates: Vec<Arc<ModelSpec>> = Vec::new();
    for model in &selected {
        let known = candidates.iter().any(|other| *other.model_id == *model.model_id);
        match configured(model, models) {
            Err(RequestError::UnknownModel { id, .. }) => {
                tracing::debug!(model = id, "a selected subagent model is not configured");
            }
            spec => {
                let spec = spec?;
                if !known {
                    candidates.push(spec);
                }
            }
        }
    }
    let overrides = request
        .subagent_model_overrides
        .iter()
        .map(|decided| {
            let kind = SubagentKind::new(decided.subagent_type.as_str());
            Ok((kind, override_of(decided, models)?))
        })
        .collect::<Result<_, RequestError>>()?;
    Ok(SubagentModels {
        candidates,
        overrides,
    })
}

fn override_of(
    decided: &SubagentModelOverride,
    models: &[ModelConfig],
) -> Result<SubagentModel, RequestError> {
    match &decided.selection {
        Some(Selection::Model(model)) => match configured(model, models) {
            Ok(spec) => Ok(SubagentModel::Explicit(spec)),
            Err(RequestError::UnknownModel { id, .. }) => Ok(SubagentModel::Unconfigured(id.into())),
            Err(error) => Err(error),
        },
        Some(Selection::Inherit(true)) => Ok(SubagentModel::Inherit),
        Some(Selection::Disabled(true)) => Ok(SubagentModel::Disabled),
        Some(Selection::Inherit(false) | Selection::Disabled(false)) | None => {
            Err(RequestError::SubagentOverride {
                kind: decided.subagent_type.clone(),
            })
        }
    }
}

/// The model of the run itself. A subagent's client may name its model by id alone; what the person decided for its
/// kind adds the parameters, if it is the same model.
pub fn run_model(
    request: &AgentRunRequest,
    kind: Option<&SubagentKind>,
    subagents: &SubagentModels,
    models: &[ModelConfig],
) -> Result<ModelSpec, RequestError> {
    let named = model_spec(
        request.requested_model.as_ref(),
        request.model_details.as_ref(),
        models,
    )?;
    let selected = request.requested_model.as_ref();
    let by_id_alone = selected.is_none_or(|model| model.model_id.is_empty());
    match kind.and_then(|kind| subagents.decided(kind)) {
        Some(SubagentModel::Explicit(decided)) if by_id_alone && decided.model_id == named.model_id => {
            Ok((**decided).clone())
        }
        _ => Ok(named),
    }
}

/// The kinds of subagents that the person or the project defines, with what each definition says.
pub fn defined_subagents(context: &RequestContext) -> BTreeMap<String, DefinedSubagent> {
    let says = |defined: &CustomSubagent| {
        let model = defined.model.trim();
        DefinedSubagent {
            model: (!model.is_empty() && model != INHERIT).then(|| model.to_owned()),
            readonly: defined.permission_mode() == CustomSubagentPermissionMode::Readonly,
            background: defined.is_background,
        }
    };
    let defined = context.custom_subagents.iter();
    defined
        .filter(|defined| !defined.name.is_empty())
        .map(|defined| (defined.name.clone(), says(defined)))
        .collect()
}

/// What a subagent is told of itself, unless its history holds it already.
pub fn identity_message<'a>(
    base: impl IntoIterator<Item = &'a Message>,
    kind: &SubagentKind,
    prompts: &PromptAssets,
    context: &RequestContext,
) -> Vec<Message> {
    let defined = context
        .custom_subagents
        .iter()
        .find(|defined| defined.name == kind.as_str());
    let mut body = Tagged::default();
    body.line(prompts.subagent_identity().trim_end());
    let instructions = match defined {
        Some(defined) => Some(defined.prompt.trim()),
        None => prompts.subagent_instructions(kind.as_str()).map(str::trim_end),
    };
    if let Some(instructions) = instructions.filter(|text| !text.is_empty()) {
        body.element(INSTRUCTIONS, &[], &keep_inside(INSTRUCTIONS, instructions));
    }
    let mut text = Tagged::default();
    let body = body.finish();
    text.element(
        SUBAGENT,
        &[("kind", kind.as_str())],
        &keep_inside(SUBAGENT, &body),
    );
    let event = TurnEvent {
        id: IDENTITY_EVENT,
        context: None,
        runtime: vec![Part::Text(text.finish().into())],
    };
    initial_messages(base, event)
}

fn configured(model: &RequestedModel, models: &[ModelConfig]) -> Result<Arc<ModelSpec>, RequestError> {
    model_spec(Some(model), None, models).map(Arc::new)
}

fn by_id(id: &str) -> RequestedModel {
    RequestedModel {
        model_id: id.to_owned(),
        ..RequestedModel::default()
    }
}
