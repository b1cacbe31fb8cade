//! The model APIs that requests are read in and answers are written in, and how a host is pointed at an endpoint.
//!
//! Owns their names, paths and environment variables. Must never know: what a request holds.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A model API.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// OpenAI Chat Completions, also spoken by most local engines.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
}

/// A name that is no API.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} is no API; use openai-chat, openai-responses or anthropic")]
pub struct UnknownApi(String);

impl Api {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::OpenAiChat, Self::OpenAiResponses, Self::Anthropic];

    /// The name, as options and recordings have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
        }
    }

    /// The API that a path belongs to, by its end; `None` for any other path.
    pub fn of_path(path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        Self::ALL.into_iter().find(|api| path.ends_with(api.path()))
    }

    /// The path of model calls, below the API's version.
    fn path(self) -> &'static str {
        match self {
            Self::OpenAiChat => "/chat/completions",
            Self::OpenAiResponses => "/responses",
            Self::Anthropic => "/messages",
        }
    }

    /// The base URL as the API's own clients take it, for an endpoint at this origin: OpenAI's with the version,
    /// Anthropic's without.
    pub fn base_url(self, origin: &str) -> String {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => format!("{origin}/v1"),
            Self::Anthropic => origin.to_owned(),
        }
    }

    /// The variable that most of the API's clients take their base URL from.
    pub fn base_url_variable(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => "OPENAI_BASE_URL",
            Self::Anthropic => "ANTHROPIC_BASE_URL",
        }
    }

    /// The variables that point the API's usual clients at an endpoint, and a key for them. The key is no secret.
    pub fn environment(self, origin: &str) -> Vec<(&'static str, String)> {
        let base = self.base_url(origin);
        let key = FIXTURE_KEY.to_owned();
        let variable = self.base_url_variable();
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => vec![
                (variable, base.clone()),
                ("OPENAI_API_BASE", base),
                ("OPENAI_API_KEY", key),
            ],
            Self::Anthropic => vec![(variable, base), ("ANTHROPIC_API_KEY", key)],
        }
    }
}

/// What hosts get as their key. The fixture takes any.
pub const FIXTURE_KEY: &str = "fixture";

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Api {
    type Err = UnknownApi;

    fn from_str(name: &str) -> Result<Self, UnknownApi> {
        Self::ALL
            .into_iter()
            .find(|api| api.as_str() == name)
            .ok_or_else(|| UnknownApi(name.to_owned()))
    }
}
