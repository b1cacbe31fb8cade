//! The real server in the test's process: one configured model behind an endpoint of the test, and a data folder that
//! the test can use again (a restart) or leave (a lost database).

use std::net::SocketAddr;
use std::path::Path;

use cairn::app::{Agents, App};
use cairn::clock::{Clock, unix_ms};
use cairn::config::{Api, Config, ModelConfig, WebConfig};
use cairn::cursor::sessions::SessionLimits;
use cairn::provider::ProviderRouter;
use cairn::run::PrefixBreaks;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What clients of the test's servers present.
pub const KEY: &str = "test-client-key";
/// The id of the configured model.
pub const MODEL: &str = "test";

/// A server that serves.
pub struct CairnServer {
    pub base_url: String,
    agents: Agents,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

impl CairnServer {
    /// Starts a server whose only model, [`MODEL`], is behind this Chat Completions endpoint.
    pub async fn start(data_dir: &Path, chat_base_url: &str) -> Self {
        Self::with_models(
            data_dir,
            vec![chat_model(chat_base_url)],
            SessionLimits::default(),
        )
        .await
    }

    /// Starts a server with these models.
    pub async fn with_models(data_dir: &Path, models: Vec<ModelConfig>, limits: SessionLimits) -> Self {
        Self::with_clock(data_dir, models, limits, unix_ms).await
    }

    /// Starts a server with these models and this clock.
    pub async fn with_clock(
        data_dir: &Path,
        models: Vec<ModelConfig>,
        limits: SessionLimits,
        clock: Clock,
    ) -> Self {
        Self::with_everything(data_dir, models, WebConfig::default(), limits, clock).await
    }

    /// Starts a server with these models and these services on the web.
    pub async fn with_web(data_dir: &Path, models: Vec<ModelConfig>, web: WebConfig) -> Self {
        Self::with_everything(data_dir, models, web, SessionLimits::default(), unix_ms).await
    }

    async fn with_everything(
        data_dir: &Path,
        models: Vec<ModelConfig>,
        web: WebConfig,
        limits: SessionLimits,
        clock: Clock,
    ) -> Self {
        let config = Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            data_dir: data_dir.to_owned(),
            client_key: KEY.into(),
            upstream: None,
            models,
            web,
        };
        let shutdown = CancellationToken::new();
        let providers = ProviderRouter::from_config(&config.models).unwrap().into_routes();
        // In tests a request that breaks its prefix fails its run.
        let agents = Agents::with_clock(&config, providers, PrefixBreaks::Fail, clock)
            .await
            .unwrap();
        let app = App::bind(&config, limits, agents.starter(), shutdown.clone())
            .await
            .unwrap();
        let base_url = format!("http://{}", app.address());
        Self {
            base_url,
            agents,
            shutdown,
            serving: tokio::spawn(app.serve()),
        }
    }

    /// Stops the server as a signal would, and closes its database.
    pub async fn stop(self) {
        self.shutdown.cancel();
        self.serving.await.unwrap();
        self.agents.close().await.unwrap();
    }
}

/// A model behind this Chat Completions endpoint. It is tried twice, with almost no wait in between.
pub fn chat_model(base_url: &str) -> ModelConfig {
    let mut options = toml::Table::new();
    options.insert("max_attempts".to_owned(), 2.into());
    options.insert("retry_delay_seconds".to_owned(), 0.01.into());
    ModelConfig {
        id: MODEL.to_owned(),
        name: None,
        api: Api::OpenAiChat,
        base_url: Some(base_url.parse().unwrap()),
        api_key: Some("sk-canary-123".into()),
        upstream_model: "upstream-test".to_owned(),
        context_window: Some(128_000),
        max_output_tokens: None,
        vision: true,
        limits: cairn::config::EntryLimits::default(),
        options,
    }
}
