//! From the configured models to their providers, once at start.
//!
//! Every route is named in the configuration; a model that is not has none. Must never know: what an adapter does.

use std::collections::HashMap;
use std::sync::Arc;

use super::Provider;
use super::anthropic::Anthropic;
use super::openai_chat::OpenAiChat;
use super::openai_responses::OpenAiResponses;
use super::scripted::Scripted;
use crate::config::{Api, ModelConfig};

/// A model that cannot be served as configured. Names the key and the mend, never a value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("model \"{model}\": {key} {problem}")]
pub struct RouteError {
    /// The configured model's id.
    pub model: String,
    /// The key within the model's table, such as `base_url` or `options.headers`.
    pub key: String,
    /// What is wrong with it and what to do, as the end of a sentence that starts with the key.
    pub problem: String,
}

impl RouteError {
    pub(crate) fn new(model: &str, key: &str, problem: &str) -> Self {
        Self {
            model: model.to_owned(),
            key: key.to_owned(),
            problem: problem.to_owned(),
        }
    }
}

/// The provider of each configured model.
#[derive(Clone, Debug)]
pub struct ProviderRouter {
    routes: HashMap<String, Arc<dyn Provider>>,
}

impl ProviderRouter {
    /// Builds a provider for each model; the first one that cannot be built ends the start.
    pub fn from_config(models: &[ModelConfig]) -> Result<Self, RouteError> {
        let mut routes: HashMap<String, Arc<dyn Provider>> = HashMap::new();
        for model in models {
            let provider: Arc<dyn Provider> = match model.api {
                Api::OpenAiChat => Arc::new(OpenAiChat::new(model)?),
                Api::Scripted => Arc::new(Scripted::new(model)?),
                Api::OpenAiResponses => Arc::new(OpenAiResponses::new(model)?),
                Api::Anthropic => Arc::new(Anthropic::new(model)?),
            };
            if routes.insert(model.id.clone(), provider).is_some() {
                return Err(RouteError::new(
                    &model.id,
                    "id",
                    "is used twice; rename one of the models",
                ));
            }
        }
        Ok(Self { routes })
    }

    /// The provider of the configured model with this id.
    pub fn route(&self, model_id: &str) -> Option<Arc<dyn Provider>> {
        self.routes.get(model_id).cloned()
    }

    /// All providers by the id of their model.
    pub fn into_routes(self) -> HashMap<String, Arc<dyn Provider>> {
        self.routes
    }
}
