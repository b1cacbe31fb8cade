//! Which model a run gets and which ones its subagents may get, from what the client selected.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test says what it saw by failing"
)]

use std::sync::Arc;

use cairn::config::{Api, ModelConfig};
use cairn::cursor::proto::agent::requested_model::ModelParameterValue;
use cairn::cursor::proto::agent::subagent_model_override::Selection;
use cairn::cursor::proto::agent::{
    AgentRunRequest, CustomSubagent, CustomSubagentPermissionMode, ModelDetails, RequestContext,
    RequestedModel, SubagentModelOverride,
};
use cairn::cursor::request::{RequestError, defined_subagents, run_model, subagent_kind, subagent_models};
use cairn::cursor::tools::DefinedSubagent;
use cairn::model::{
    Latency, ModelSpec, NoSubagentModel, ReasoningEffort, SubagentKind, SubagentModel, SubagentModels,
};

fn models() -> Vec<ModelConfig> {
    ["fast", "deep", "local"]
        .map(|id| ModelConfig {
            id: id.to_owned(),
            name: None,
            api: Api::Scripted,
            base_url: None,
            api_key: None,
            upstream_model: id.to_owned(),
            context_window: None,
            max_output_tokens: None,
            vision: false,
            limits: cairn::config::EntryLimits::default(),
            options: toml::Table::new(),
        })
        .into()
}

fn requested(id: &str, parameters: &[(&str, &str)]) -> RequestedModel {
    let parameters = parameters.iter().map(|(id, value)| ModelParameterValue {
        id: (*id).to_owned(),
        value: (*value).to_owned(),
    });
    RequestedModel {
        model_id: id.to_owned(),
        parameters: parameters.collect(),
        ..Default::default()
    }
}

fn details(id: &str) -> ModelDetails {
    ModelDetails {
        model_id: id.to_owned(),
        ..Default::default()
    }
}

fn decided(kind: &str, selection: Option<Selection>) -> SubagentModelOverride {
    SubagentModelOverride {
        subagent_type: kind.to_owned(),
        selection,
    }
}

fn candidates(request: &AgentRunRequest) -> Vec<String> {
    let models = subagent_models(request, &models()).unwrap();
    models
        .candidates
        .iter()
        .map(|model| model.model_id.to_string())
        .collect()
}

/// The model of the run that the request asks for.
fn model_of(request: &AgentRunRequest) -> Result<ModelSpec, RequestError> {
    let kind = subagent_kind(request);
    let subagents = subagent_models(request, &models())?;
    run_model(request, kind.as_ref(), &subagents, &models())
}

#[test]
fn without_a_selection_every_configured_model_is_a_candidate() {
    assert_eq!(candidates(&AgentRunRequest::default()), ["fast", "deep", "local"]);
}

#[test]
fn a_selection_narrows_the_candidates_to_what_is_configured_of_it() {
    let request = AgentRunRequest {
        selected_subagent_models: vec![requested("deep", &[]), requested("cloud-only", &[])],
        selected_subagent_model_details: vec![details("deep"), details("fast")],
        ..Default::default()
    };
    assert_eq!(candidates(&request), ["deep", "fast"]);
    let request = AgentRunRequest {
        selected_subagent_models: vec![requested("cloud-only", &[])],
        ..Default::default()
    };
    assert_eq!(candidates(&request), Vec::<String>::new());
}

#[test]
fn a_candidate_keeps_the_parameters_that_it_was_selected_with() {
    let request = AgentRunRequest {
        selected_subagent_models: vec![requested("deep", &[("effort", "high"), ("fast", "true")])],
        ..Default::default()
    };
    let models = subagent_models(&request, &models()).unwrap();
    let [candidate] = &models.candidates[..] else {
        panic!("{models:?}")
    };
    assert_eq!(candidate.reasoning.effort, Some(ReasoningEffort::High));
    assert_eq!(candidate.latency, Latency::Fast);
}

#[test]
fn overrides_are_read_as_what_they_select() {
    let request = AgentRunRequest {
        subagent_model_overrides: vec![
            decided(
                "explore",
                Some(Selection::Model(requested("deep", &[("effort", "low")]))),
            ),
            decided("Reviewer", Some(Selection::Model(requested("far", &[])))),
            decided("shell", Some(Selection::Inherit(true))),
            decided("tester", Some(Selection::Disabled(true))),
        ],
        ..Default::default()
    };
    let read = subagent_models(&request, &models()).unwrap();
    let of = |kind: &str| read.decided(&SubagentKind::new(kind)).cloned();
    let Some(SubagentModel::Explicit(model)) = of("explore") else {
        panic!("{read:?}")
    };
    assert_eq!(
        (&*model.model_id, model.reasoning.effort),
        ("deep", Some(ReasoningEffort::Low))
    );
    assert_eq!(of("Reviewer"), Some(SubagentModel::Unconfigured("far".into())));
    assert_eq!(of("shell"), Some(SubagentModel::Inherit));
    assert_eq!(of("tester"), Some(SubagentModel::Disabled));
    // Kinds are told apart to the letter.
    assert_eq!(of("reviewer"), None);
}

#[test]
fn an_override_that_selects_nothing_is_refused() {
    for selection in [
        None,
        Some(Selection::Inherit(false)),
        Some(Selection::Disabled(false)),
    ] {
        let request = AgentRunRequest {
            subagent_model_overrides: vec![decided("explore", selection)],
            ..Default::default()
        };
        assert_eq!(
            subagent_models(&request, &models()).map_err(|error| error.to_string()),
            Err(
                "the model override for subagents of the kind \"explore\" selects nothing; choose a model, inherit \
                 or disabled"
                    .to_owned()
            )
        );
    }
}

#[test]
fn a_subagents_run_is_on_the_model_that_its_client_names() {
    let request = |model: &str| AgentRunRequest {
        model_details: Some(details(model)),
        subagent_type_name: Some("explore".to_owned()),
        subagent_model_overrides: vec![decided(
            "explore",
            Some(Selection::Model(requested("deep", &[("effort", "low")]))),
        )],
        ..Default::default()
    };
    let spec = model_of(&request("deep")).unwrap();
    assert_eq!(
        (&*spec.model_id, spec.reasoning.effort),
        ("deep", Some(ReasoningEffort::Low))
    );
    // It was started on another one; what was decided for the kind says nothing of that.
    let spec = model_of(&request("fast")).unwrap();
    assert_eq!((&*spec.model_id, spec.reasoning.effort), ("fast", None));
    // Parameters that the client itself names are the ones that count.
    let spec = model_of(&AgentRunRequest {
        requested_model: Some(requested("deep", &[("effort", "max")])),
        ..request("deep")
    });
    assert_eq!(spec.unwrap().reasoning.effort, Some(ReasoningEffort::Max));
    assert_eq!(
        model_of(&request("gone")).map_err(|error| error.to_string()),
        Err(
            "model \"gone\" is not configured; select one of: fast, deep, local, or add it to [[models]]"
                .to_owned()
        )
    );
}

#[test]
fn a_main_run_is_not_touched_by_what_was_decided_for_subagents() {
    let spec = model_of(&AgentRunRequest {
        model_details: Some(details("deep")),
        subagent_model_overrides: vec![decided(
            "explore",
            Some(Selection::Model(requested("deep", &[("effort", "low")]))),
        )],
        ..Default::default()
    });
    assert_eq!(spec.unwrap().reasoning.effort, None);
}

#[test]
fn a_choice_is_made_from_decision_wish_and_inheritance_in_this_order() {
    let spec = |id: &str| {
        let request = AgentRunRequest {
            requested_model: Some(requested(id, &[])),
            ..Default::default()
        };
        Arc::new(model_of(&request).unwrap())
    };
    let kind = SubagentKind::new("explore");
    let parent = spec("fast");
    let choose = |decision: Option<SubagentModel>, asked: Option<&str>| {
        let models = SubagentModels {
            candidates: vec![spec("deep")],
            overrides: decision.map(|model| (kind.clone(), model)).into_iter().collect(),
        };
        models
            .choose(&kind, asked, &parent)
            .map(|model| model.model_id.to_string())
    };
    let id = |id: &str| Ok(id.to_owned());
    assert_eq!(choose(None, None), id("fast"));
    assert_eq!(choose(None, Some("deep")), id("deep"));
    assert_eq!(
        choose(None, Some("fast")),
        id("fast"),
        "the inherited model needs no candidacy"
    );
    assert_eq!(
        choose(Some(SubagentModel::Explicit(spec("local"))), Some("deep")),
        id("local")
    );
    assert_eq!(choose(Some(SubagentModel::Inherit), Some("deep")), id("fast"));
    assert_eq!(
        choose(Some(SubagentModel::Disabled), Some("deep")),
        Err(NoSubagentModel::Disabled { kind: kind.clone() })
    );
    assert_eq!(
        choose(Some(SubagentModel::Unconfigured("far".into())), None),
        Err(NoSubagentModel::Unconfigured {
            kind: kind.clone(),
            model: "far".into(),
        })
    );
    assert_eq!(
        choose(None, Some("local")),
        Err(NoSubagentModel::NoCandidate {
            model: "local".to_owned(),
            candidates: "fast, deep".to_owned(),
        })
    );
}

#[test]
fn a_definition_names_its_model_or_inherits_and_limits_its_kind() {
    let defined = |name: &str, model: &str| CustomSubagent {
        name: name.to_owned(),
        model: model.to_owned(),
        ..Default::default()
    };
    let context = RequestContext {
        custom_subagents: vec![
            defined("a", "inherit"),
            defined("b", "deep"),
            defined("c", ""),
            defined("", "deep"),
            CustomSubagent {
                permission_mode: CustomSubagentPermissionMode::Readonly.into(),
                is_background: true,
                ..defined("d", "")
            },
        ],
        ..Default::default()
    };
    let says = |model: Option<&str>, limited| DefinedSubagent {
        model: model.map(str::to_owned),
        readonly: limited,
        background: limited,
    };
    let expected = [
        ("a", says(None, false)),
        ("b", says(Some("deep"), false)),
        ("c", says(None, false)),
        ("d", says(None, true)),
    ];
    assert_eq!(
        defined_subagents(&context),
        expected.map(|(name, says)| (name.to_owned(), says)).into()
    );
}
