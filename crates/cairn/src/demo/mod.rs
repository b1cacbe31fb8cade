//! The demonstration: a real server and a small client in one process play a session through the real wire.
//!
//! Owns the story and a client of its own. Must never know: the run core, the store, or how the server does anything.

pub mod blobs;
pub mod executor;
mod narrator;
mod recorder;
mod story;
mod turn;
pub mod wire_client;

use std::io::{self, Write};
use std::path::Path;
use std::sync::PoisonError;

use tokio_util::sync::CancellationToken;

use self::narrator::Narrator;
use self::recorder::{Recorder, Requests, overlaps};
use self::story::must_see;
use self::wire_client::WireClient;
use crate::app::{Agents, App, StartError};
use crate::config::{self, Api, Config, ConfigError, Flags, ModelConfig};
use crate::cursor::sessions::SessionLimits;
use crate::model::ProviderFailure;
use crate::provider::ProviderRouter;
use crate::provider::openai_chat::OpenAiChat;
use crate::run::PrefixBreaks;

/// The offline model's id.
const MODEL: &str = "scripted";

/// Why the demonstration did not show what it claims.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Files or the terminal.
    #[error("the demonstration's files or output: {0}")]
    Io(#[from] io::Error),
    /// The server's configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The server's task died.
    #[error("the server broke down: {0}")]
    Server(tokio::task::JoinError),
    /// The wire.
    #[error(transparent)]
    Wire(#[from] wire_client::WireError),
    /// Blobs.
    #[error(transparent)]
    Blob(#[from] blobs::BlobError),
    /// The server's state is no state.
    #[error("a checkpoint is no conversation state: {0}")]
    State(prost::DecodeError),
    /// Running something in the workspace broke down.
    #[error("running a tool broke down: {0}")]
    Executor(tokio::task::JoinError),
    /// The run ended with an error.
    #[error("the run failed with {code}: {message}")]
    RunFailed {
        /// The Connect code.
        code: String,
        /// The text for the person.
        message: String,
    },
    /// A request to the model cannot be written down.
    #[error("a request to the model could not be measured: {0}")]
    Measure(#[from] ProviderFailure),
    /// Something that had to happen did not.
    #[error("not seen: {0}")]
    Unseen(String),
}

/// Plays the demonstration and writes what happens to `out`, as it happens.
///
/// # Errors
/// If anything of what it shows did not really happen; see [`DemoError`].
pub async fn run(out: impl Write) -> Result<(), DemoError> {
    let mut narrator = Narrator::new(out);
    let folder = tempfile::Builder::new().prefix("cairn-demo-").tempdir()?;
    let workspace = folder.path().join("workspace");
    std::fs::create_dir(&workspace)?;
    let config = configuration(&folder.path().join("data"))?;

    let requests = Requests::default();
    let providers = ProviderRouter::from_config(&config.models)
        .map_err(StartError::from)?
        .into_routes()
        .into_iter()
        .map(|(id, inner)| (id, Recorder::before(inner, &requests)))
        .collect();
    let agents = Agents::with_providers(&config, providers, PrefixBreaks::Fail).await?;
    let shutdown = CancellationToken::new();
    let app = App::bind(
        &config,
        SessionLimits::default(),
        agents.starter(),
        shutdown.clone(),
    )
    .await?;
    let base_url = format!("http://{}", app.address());
    narrator.heading("cairn, with its offline model: no key, no network")?;
    narrator.say("server", &base_url)?;
    narrator.say("workspace", &workspace.display().to_string())?;
    let serving = tokio::spawn(app.serve());
    let played = converse(&base_url, &config, &workspace, &mut narrator).await;
    // The server ends in order, whatever was seen.
    shutdown.cancel();
    serving.await.map_err(DemoError::Server)?;
    agents.close().await.map_err(StartError::from)?;
    let played = played?;

    story::show_state(&played, &mut narrator)?;
    let requests = requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let measure = measuring_model()?;
    story::show_overlaps(&overlaps(&requests, measure.profile())?, &mut narrator)?;
    story::show_connecting(&mut narrator)?;
    Ok(())
}

async fn converse(
    base_url: &str,
    config: &Config,
    workspace: &Path,
    narrator: &mut Narrator<impl Write>,
) -> Result<story::Played, DemoError> {
    let client = WireClient::connect(base_url, &config.client_key).await?;
    let models = client.models().await?;
    let ids: Vec<_> = models.iter().map(|model| model.id.as_str()).collect();
    narrator.say("models", &ids.join(", "))?;
    must_see(ids == [MODEL], "the offline model in the list of models")?;
    story::play(client, MODEL, workspace, narrator).await
}

/// The configuration that a person would give for the offline model; the environment has no part in it.
fn configuration(data_dir: &Path) -> Result<Config, ConfigError> {
    let flags = Flags {
        config: None,
        listen: Some("127.0.0.1:0".to_owned()),
        data_dir: Some(data_dir.to_owned()),
    };
    let environment = |name: &str| match name {
        "CAIRN_API" | "CAIRN_MODEL" => Some(MODEL.to_owned()),
        _ => None,
    };
    config::load(&flags, &environment).map(|loaded| loaded.config)
}

/// A hosted model that nobody calls: only its encoder is used, to write requests down as bytes.
fn measuring_model() -> Result<OpenAiChat, StartError> {
    let config = ModelConfig {
        id: MODEL.to_owned(),
        name: None,
        api: Api::OpenAiChat,
        base_url: "http://127.0.0.1/v1".parse().ok(),
        api_key: None,
        upstream_model: MODEL.to_owned(),
        context_window: None,
        max_output_tokens: None,
        vision: false,
        limits: crate::config::EntryLimits::default(),
        options: toml::Table::new(),
    };
    Ok(OpenAiChat::new(&config)?)
}
