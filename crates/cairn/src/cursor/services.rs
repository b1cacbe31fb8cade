//! What the client asks before and beside a run, answered without any network.
//!
//! Owns the contents of these answers. Must never know: HTTP, or who asks.

use prost::Message;
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::connect::{ConnectError, JSON_CONTENT_TYPE};
use super::keys::ClientKeys;
use crate::config::ModelConfig;

/// Calls that are answered with an empty message: cairn has no teams, no privacy modes of an account, no
/// experiments, and throws telemetry away.
pub const EMPTY_ANSWERS: [&str; 6] = [
    "/aiserver.v1.DashboardService/GetUserPrivacyMode",
    "/aiserver.v1.DashboardService/GetTeamAdminSettingsOrEmptyIfNotInTeam",
    "/aiserver.v1.DashboardService/GetTeamReposOrEmptyIfNotInTeam",
    "/aiserver.v1.ServerConfigService/GetServerConfig",
    "/aiserver.v1.AnalyticsService/BootstrapStatsig",
    "/aiserver.v1.AnalyticsService/TrackEvents",
];

/// A model as the client lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedModel {
    /// What the client selects.
    pub id: String,
    /// What it shows.
    pub display_name: String,
}

impl From<&ModelConfig> for ListedModel {
    fn from(model: &ModelConfig) -> Self {
        Self {
            id: model.id.clone(),
            display_name: model.name.clone().unwrap_or_else(|| model.id.clone()),
        }
    }
}

/// The answer of the key exchange.
pub fn tokens(keys: &ClientKeys) -> String {
    json!({
        "accessToken": keys.access_token().expose_secret(),
        "refreshToken": keys.refresh_token().expose_secret(),
    })
    .to_string()
}

/// The answer of `/v1/models`.
pub fn model_list(models: &[ListedModel]) -> String {
    let items: Vec<_> = models
        .iter()
        .map(|model| json!({ "id": model.id, "displayName": model.display_name }))
        .collect();
    json!({ "items": items }).to_string()
}

/// An empty message in the caller's content type.
pub fn empty(content_type: &str) -> &'static str {
    if content_type == JSON_CONTENT_TYPE {
        "{}"
    } else {
        ""
    }
}

/// An error for a caller that speaks only protobuf, in the field numbers of the common status message.
#[derive(Clone, PartialEq, Message)]
struct StatusMessage {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

/// The bytes of a "not found" status.
pub fn status_message(error: &ConnectError) -> Vec<u8> {
    /// The number of "not found" among the codes of that message.
    const NOT_FOUND: i32 = 5;
    StatusMessage {
        code: NOT_FOUND,
        message: error.message().to_owned(),
    }
    .encode_to_vec()
}
