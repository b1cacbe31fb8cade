//! Which model a run uses and what is asked of it, normalised once from the client's parameters.

use std::sync::Arc;

use super::RequestError;
use crate::config::ModelConfig;
use crate::cursor::proto::agent::{ModelDetails, RequestedModel};
use crate::model::{EntryLimits, Latency, ModelSpec, ReasoningEffort, ReasoningSpec};

/// Decides the model of a run.
///
/// `requested` is what a person selected and wins; `details` is how a subagent run names its model. `max_mode`,
/// `built_in_model` and display names are left alone: they choose billing and presentation of the official service
/// and have no meaning for a person's own endpoint, whose configured context is always used in full.
pub fn model_spec(
    requested: Option<&RequestedModel>,
    details: Option<&ModelDetails>,
    models: &[ModelConfig],
) -> Result<ModelSpec, RequestError> {
    let ids = [
        requested.map(|model| model.model_id.as_str()),
        details.map(|model| model.model_id.as_str()),
    ];
    let configured = || {
        let ids: Vec<&str> = models.iter().map(|model| model.id.as_str()).collect();
        ids.join(", ")
    };
    let id = ids.into_iter().flatten().find(|id| !id.is_empty());
    let id = id.ok_or_else(|| RequestError::NoModel {
        configured: configured(),
    })?;
    let config = models.iter().find(|model| model.id == id);
    let config = config.ok_or_else(|| RequestError::UnknownModel {
        id: id.to_owned(),
        configured: configured(),
    })?;
    let mut asked = Asked::default();
    for parameter in requested.iter().flat_map(|model| &model.parameters) {
        asked.add(id, &parameter.id, &parameter.value)?;
    }
    let context_window = match (asked.context, config.context_window) {
        (Some(asked), Some(configured)) if asked > configured => {
            return Err(RequestError::ContextTooLarge {
                model: id.to_owned(),
                asked,
                configured,
            });
        }
        (asked, configured) => asked.or(configured),
    };
    Ok(ModelSpec {
        model_id: id.into(),
        display_name: config.name.as_deref().map(Arc::from),
        reasoning: ReasoningSpec {
            enabled: asked.thinking,
            effort: asked.effort,
        },
        latency: if asked.fast == Some(true) {
            Latency::Fast
        } else {
            Latency::Standard
        },
        max_output_tokens: config.max_output_tokens,
        context_window,
        vision: config.vision,
        entry: EntryLimits {
            result_characters: in_memory(config.limits.result_characters),
            picture_bytes: in_memory(config.limits.picture_bytes),
            picture_edge: config.limits.picture_edge,
        },
    })
}

fn in_memory(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// What the parameters ask for, each domain value from however many names the client has for it.
#[derive(Default)]
struct Asked {
    effort: Option<ReasoningEffort>,
    thinking: Option<bool>,
    fast: Option<bool>,
    context: Option<u32>,
}

impl Asked {
    fn add(&mut self, model: &str, parameter: &str, value: &str) -> Result<(), RequestError> {
        let invalid = |allowed| RequestError::ParameterValue {
            model: model.to_owned(),
            parameter: parameter.to_owned(),
            value: value.to_owned(),
            allowed,
        };
        let agrees = match parameter {
            "effort" | "reasoning" | "reasoning_effort" => set(
                &mut self.effort,
                effort(value).ok_or_else(|| invalid("none, minimal, low, medium, high, xhigh or max"))?,
            ),
            "thinking" => set(
                &mut self.thinking,
                match value {
                    "true" | "enabled" => true,
                    "false" | "disabled" => false,
                    _ => return Err(invalid("true, false, enabled or disabled")),
                },
            ),
            "fast" => set(
                &mut self.fast,
                match value {
                    "true" => true,
                    "false" => false,
                    _ => return Err(invalid("true or false")),
                },
            ),
            "context" => set(
                &mut self.context,
                tokens(value).ok_or_else(|| invalid("a number of tokens such as 200000, 272k or 1m"))?,
            ),
            _ => {
                return Err(RequestError::UnknownParameter {
                    model: model.to_owned(),
                    parameter: parameter.to_owned(),
                });
            }
        };
        if agrees {
            Ok(())
        } else {
            Err(RequestError::ParameterConflict {
                model: model.to_owned(),
                parameter: parameter.to_owned(),
            })
        }
    }
}

/// Sets a value that is absent; says whether the slot now holds this value.
fn set<T: PartialEq + Copy>(slot: &mut Option<T>, value: T) -> bool {
    *slot.get_or_insert(value) == value
}

fn effort(value: &str) -> Option<ReasoningEffort> {
    Some(match value {
        "none" => ReasoningEffort::None,
        "minimal" => ReasoningEffort::Minimal,
        "low" => ReasoningEffort::Low,
        "medium" => ReasoningEffort::Medium,
        "high" => ReasoningEffort::High,
        "xhigh" => ReasoningEffort::XHigh,
        "max" => ReasoningEffort::Max,
        _ => return None,
    })
}

/// Tokens written as digits with an optional `k` (thousand) or `m` (million).
fn tokens(value: &str) -> Option<u32> {
    let (digits, unit) = match value.as_bytes().last()? {
        b'k' | b'K' => (&value[..value.len() - 1], 1_000),
        b'm' | b'M' => (&value[..value.len() - 1], 1_000_000),
        _ => (value, 1),
    };
    // `parse` alone would take a sign.
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let count: u32 = digits.parse().ok()?;
    count.checked_mul(unit).filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Api;
    use crate::cursor::proto::agent::requested_model::ModelParameterValue;

    fn models() -> Vec<ModelConfig> {
        ["fast", "deep"]
            .map(|id| ModelConfig {
                id: id.to_owned(),
                name: (id == "deep").then(|| "Deep".to_owned()),
                api: Api::Scripted,
                base_url: None,
                api_key: None,
                upstream_model: id.to_owned(),
                context_window: (id == "deep").then_some(400_000),
                max_output_tokens: Some(8192),
                vision: id == "deep",
                limits: crate::config::EntryLimits::default(),
                options: toml::Table::new(),
            })
            .into()
    }

    fn spec(id: &str, parameters: &[(&str, &str)]) -> Result<ModelSpec, RequestError> {
        let parameters = parameters.iter().map(|(id, value)| ModelParameterValue {
            id: (*id).to_owned(),
            value: (*value).to_owned(),
        });
        let requested = RequestedModel {
            model_id: id.to_owned(),
            parameters: parameters.collect(),
            ..RequestedModel::default()
        };
        model_spec(Some(&requested), None, &models())
    }

    fn plain() -> ModelSpec {
        ModelSpec {
            model_id: "deep".into(),
            display_name: Some("Deep".into()),
            reasoning: ReasoningSpec::default(),
            latency: Latency::Standard,
            max_output_tokens: Some(8192),
            context_window: Some(400_000),
            vision: true,
            entry: EntryLimits::default(),
        }
    }

    #[test]
    fn what_is_not_asked_stays_open() {
        assert_eq!(spec("deep", &[]), Ok(plain()));
    }

    #[test]
    fn parameters_become_domain_values() {
        let expected = ModelSpec {
            reasoning: ReasoningSpec {
                enabled: Some(true),
                effort: Some(ReasoningEffort::XHigh),
            },
            latency: Latency::Fast,
            context_window: Some(272_000),
            ..plain()
        };
        for name in ["effort", "reasoning", "reasoning_effort"] {
            let parameters = [
                ("context", "272k"),
                ("fast", "true"),
                (name, "xhigh"),
                ("thinking", "enabled"),
            ];
            assert_eq!(spec("deep", &parameters), Ok(expected.clone()));
        }
        let off = ReasoningSpec {
            enabled: Some(false),
            effort: None,
        };
        for value in ["false", "disabled"] {
            let spec = spec("deep", &[("thinking", value), ("fast", "false")]);
            assert_eq!(
                spec,
                Ok(ModelSpec {
                    reasoning: off,
                    ..plain()
                })
            );
        }
    }

    #[test]
    fn a_context_is_a_count_of_tokens() {
        let check = |value: &str, expected: Option<u32>| {
            let asked = spec("fast", &[("context", value)])
                .ok()
                .map(|spec| spec.context_window);
            assert_eq!(asked, expected.map(Some), "{value}");
        };
        check("300k", Some(300_000));
        check("1m", Some(1_000_000));
        check("128000", Some(128_000));
        for wrong in ["", "k", "0", "-1k", "+1k", "1.5m", "9999m", "large"] {
            check(wrong, None);
        }
        assert_eq!(
            spec("deep", &[("context", "1m")]),
            Err(RequestError::ContextTooLarge {
                model: "deep".to_owned(),
                asked: 1_000_000,
                configured: 400_000,
            })
        );
    }

    #[test]
    fn an_unknown_model_or_parameter_is_named() {
        let check = |result: Result<ModelSpec, RequestError>, expected: &str| {
            assert_eq!(result.map_err(|e| e.to_string()), Err(expected.to_owned()));
        };
        check(
            spec("gone", &[]),
            r#"model "gone" is not configured; select one of: fast, deep, or add it to [[models]]"#,
        );
        check(
            model_spec(None, None, &models()),
            "the request names no model; select one of: fast, deep",
        );
        check(
            spec("fast", &[("temperature", "1")]),
            r#"model "fast": parameter "temperature" is not known; known are effort, reasoning, reasoning_effort, thinking, fast and context"#,
        );
        check(
            spec("fast", &[("effort", "huge")]),
            r#"model "fast": parameter "effort" cannot be "huge"; it can be none, minimal, low, medium, high, xhigh or max"#,
        );
        check(
            spec("fast", &[("effort", "low"), ("reasoning", "high")]),
            r#"model "fast": parameter "reasoning" contradicts an earlier parameter; give only one of them"#,
        );
    }

    #[test]
    fn a_subagent_names_its_model_in_details_and_a_selection_wins() {
        let details = ModelDetails {
            model_id: "fast".to_owned(),
            ..ModelDetails::default()
        };
        let id = |requested: Option<&RequestedModel>| {
            model_spec(requested, Some(&details), &models()).map(|spec| spec.model_id.to_string())
        };
        assert_eq!(id(None), Ok("fast".to_owned()));
        assert_eq!(id(Some(&RequestedModel::default())), Ok("fast".to_owned()));
        let deep = RequestedModel {
            model_id: "deep".to_owned(),
            ..RequestedModel::default()
        };
        assert_eq!(id(Some(&deep)), Ok("deep".to_owned()));
    }
}
