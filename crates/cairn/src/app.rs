//! Puts the server together: a configuration becomes a bound, guarded server of the Cursor wire.
//!
//! Owns start and shutdown. Must never know: what any part does inside.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::{self, Clock};
use crate::config::{Config, ConfigError};
use crate::cursor::actor::{self, CursorContext};
use crate::cursor::handlers::{CursorServer, RunStarter, router};
use crate::cursor::keys::ClientKeys;
use crate::cursor::prompting::{AssetError, PromptAssets};
use crate::cursor::proxy::{Upstream, UpstreamError};
use crate::cursor::services::ListedModel;
use crate::cursor::sessions::{SessionLimits, SessionRegistry};
use crate::guard::{Guard, refuse_strangers};
use crate::provider::{Provider, ProviderRouter, RouteError};
use crate::run::{PrefixBreaks, RunRegistry, RunServices, Views};
use crate::server;
use crate::store::{Store, StoreError};
use crate::web::WebServices;

/// The database's file in the data folder.
pub const DATABASE_FILE: &str = "cairn.db";

/// How long requests whose streams are gone may take to record their end.
const CLOSING_GRACE: Duration = Duration::from_secs(2);

/// How long open streams may take to end after a stop was asked for.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(7);

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("listen: {address} cannot be listened on: {cause}; choose another address or stop what uses it")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The system's error.
        cause: io::Error,
    },
    /// The upstream cannot be used.
    #[error("upstream: {0}")]
    Upstream(#[from] UpstreamError),
    /// The database cannot be used.
    #[error("data_dir: {0}")]
    Store(#[from] StoreError),
    /// A configured model's endpoint cannot be used.
    #[error("{0}")]
    Provider(#[from] RouteError),
    /// A service on the web cannot be used.
    #[error("{0}")]
    Web(#[from] ConfigError),
    /// The prompts inside the program do not fit together.
    #[error("prompts: {0}")]
    Prompts(#[from] AssetError),
}

/// The agents behind the wire: the store, the endpoints and the prompts, ready to serve requests.
#[derive(Debug)]
pub struct Agents {
    context: Arc<CursorContext>,
    /// Requests that are being served, so that the database is closed after the last of them.
    requests: TaskTracker,
}

impl Agents {
    /// Opens the database in the data folder and checks endpoints and prompts.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn open(config: &Config) -> Result<Self, StartError> {
        let providers = ProviderRouter::from_config(&config.models)?.into_routes();
        Self::with_providers(config, providers, PrefixBreaks::Report).await
    }

    /// The same with the provider of each model given, for callers that put something in front of them, and with what
    /// is done about a request that breaks its prefix without a declared reset.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn with_providers(
        config: &Config,
        providers: HashMap<String, Arc<dyn Provider>>,
        prefix_breaks: PrefixBreaks,
    ) -> Result<Self, StartError> {
        Self::with_clock(config, providers, prefix_breaks, clock::unix_ms).await
    }

    /// The same with the clock that messages are stamped by.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn with_clock(
        config: &Config,
        providers: HashMap<String, Arc<dyn Provider>>,
        prefix_breaks: PrefixBreaks,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let web = Arc::new(WebServices::from_config(&config.web)?);
        let prompts = PromptAssets::load()?;
        let store = Store::open(&config.data_dir.join(DATABASE_FILE)).await?;
        let services = RunServices {
            store: Arc::new(store),
            registry: RunRegistry::default(),
            views: Views::default(),
            providers: Arc::new(providers),
            prefix_breaks,
        };
        let models = config.models.clone();
        Ok(Self {
            context: Arc::new(CursorContext {
                services,
                models,
                prompts,
                web,
                clock,
            }),
            requests: TaskTracker::new(),
        })
    }

    /// Serves each request that a client opens.
    pub fn starter(&self) -> RunStarter {
        let context = self.context.clone();
        let requests = self.requests.clone();
        Arc::new(move |io| {
            requests.spawn(actor::serve(io, context.clone()));
        })
    }

    /// Waits for requests whose client is gone already, then closes the database. Call it after the server has stopped.
    ///
    /// # Errors
    /// If the database's log could not be folded in; nothing is lost then, the next start does it.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.requests.close();
        if tokio::time::timeout(CLOSING_GRACE, self.requests.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                requests = self.requests.len(),
                "some requests did not end in time"
            );
        }
        self.context.services.store.close().await
    }
}

/// A server that is bound and not yet serving.
#[derive(Debug)]
pub struct App {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    shutdown: CancellationToken,
}

impl App {
    /// Binds the server. `starter` gets each run that a client opens; cancelling `shutdown` stops everything.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn bind(
        config: &Config,
        limits: SessionLimits,
        starter: RunStarter,
        shutdown: CancellationToken,
    ) -> Result<Self, StartError> {
        let listen_error = |cause| StartError::Listen {
            address: config.listen,
            cause,
        };
        let upstream = config.upstream.as_ref().map(Upstream::new).transpose()?;
        let listener = TcpListener::bind(config.listen).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let cursor = Arc::new(CursorServer {
            keys: ClientKeys::new(&config.client_key),
            models: config.models.iter().map(ListedModel::from).collect(),
            sessions: SessionRegistry::new(limits, shutdown.clone()),
            starter,
            upstream,
        });
        let guard = Arc::new(Guard::new(address));
        Ok(Self {
            listener,
            address,
            // Around everything, unmatched routes included.
            router: router(cursor).layer(from_fn_with_state(guard, refuse_strangers)),
            shutdown,
        })
    }

    /// The address that clients connect to; its port is never 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the shutdown token is cancelled and open streams have ended, or [`SHUTDOWN_GRACE`] has passed.
    pub async fn serve(self) {
        if !server::serve(self.listener, self.router, self.shutdown, SHUTDOWN_GRACE).await {
            tracing::warn!("some streams did not end in time and were cut");
        }
    }
}
