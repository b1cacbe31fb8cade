//! A strict client, the real server and a strict endpoint of any API in one process, and what the endpoint was sent.

use bytes::Bytes;
use cairn::config::{Api, ModelConfig, WebConfig};
use serde_json::Value;
use tempfile::TempDir;

use super::cairn_server::{CairnServer, KEY, chat_model};
use super::fake_cursor::FakeCursor;
use super::over_http::Endpoint;

#[path = "wire_bench/one_form.rs"]
mod one_form;

pub use one_form::messages;

/// The APIs that have endpoints.
pub const APIS: [Api; 3] = [Api::OpenAiChat, Api::OpenAiResponses, Api::Anthropic];

/// Each of these over each API.
pub fn over_each_api<T: Copy, const N: usize>(of: [T; N]) -> impl Iterator<Item = (Api, T)> {
    APIS.into_iter().flat_map(move |api| of.map(|one| (api, one)))
}

/// Everything that a wire-level test needs.
pub struct Bench {
    pub endpoint: Endpoint,
    pub server: CairnServer,
    pub cursor: FakeCursor,
    pub workspace: TempDir,
    data: TempDir,
    web: WebConfig,
}

/// What a restarted server finds in its data folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Database {
    Kept,
    Lost,
}

impl Bench {
    /// With an endpoint of Chat Completions, for what no API has a part in.
    pub async fn new() -> Self {
        Self::over(Api::OpenAiChat).await
    }

    /// With an endpoint of this API.
    pub async fn over(api: Api) -> Self {
        Self::with(api, WebConfig::default()).await
    }

    /// With these services on the web.
    pub async fn with_web(web: WebConfig) -> Self {
        Self::with(Api::OpenAiChat, web).await
    }

    async fn with(api: Api, web: WebConfig) -> Self {
        let endpoint = Endpoint::start(api).await;
        endpoint.one_conversation();
        let data = TempDir::new().unwrap();
        let workspace = TempDir::new().unwrap();
        let server = serve(&data, &endpoint, &web).await;
        let cursor = FakeCursor::new(&server.base_url, KEY, "agent-1", workspace.path()).await;
        Self {
            endpoint,
            server,
            cursor,
            workspace,
            data,
            web,
        }
    }

    /// Stops the server and starts it again; the client and the endpoint stay.
    pub async fn restart(self, database: Database) -> Self {
        let Self {
            endpoint,
            server,
            mut cursor,
            workspace,
            mut data,
            web,
        } = self;
        server.stop().await;
        if database == Database::Lost {
            data = TempDir::new().unwrap();
        }
        let server = serve(&data, &endpoint, &web).await;
        cursor.reconnect(&server.base_url, KEY).await;
        Self {
            endpoint,
            server,
            cursor,
            workspace,
            data,
            web,
        }
    }

    /// The same after a restart, if there is one.
    pub async fn maybe_restart(self, database: Option<Database>) -> Self {
        match database {
            Some(database) => self.restart(database).await,
            None => self,
        }
    }

    /// Writes a file of the workspace.
    pub fn file(&self, name: &str, content: &str) {
        std::fs::write(self.workspace.path().join(name), content).unwrap();
    }

    /// Reads a file of the workspace.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.workspace.path().join(name)).unwrap()
    }

    /// The bodies that the endpoint was sent, in order.
    pub fn bodies(&self) -> Vec<Bytes> {
        self.endpoint
            .requests()
            .into_iter()
            .map(|request| request.body)
            .collect()
    }

    /// The messages that the last body has on top of the one before, which it must repeat byte for byte.
    #[track_caller]
    pub fn added(&self) -> Vec<Value> {
        let bodies = self.bodies();
        let [.., earlier, later] = &bodies[..] else {
            panic!("there are no two requests: {}", bodies.len());
        };
        added(earlier, later)
    }

    /// Ends the test: nobody broke a rule.
    #[track_caller]
    pub fn assert_clean(&self) {
        self.cursor.assert_clean();
        self.endpoint.assert_clean();
    }
}

/// The configured model behind this endpoint.
pub fn model_at(endpoint: &Endpoint) -> ModelConfig {
    ModelConfig {
        api: endpoint.api(),
        // One API cannot do without it.
        max_output_tokens: (endpoint.api() == Api::Anthropic).then_some(1024),
        ..chat_model(&endpoint.base_url())
    }
}

async fn serve(data: &TempDir, endpoint: &Endpoint, web: &WebConfig) -> CairnServer {
    CairnServer::with_web(data.path(), vec![model_at(endpoint)], web.clone()).await
}

/// The messages of `later` on top of those of `earlier`, whose bytes it must begin with.
#[track_caller]
pub fn added(earlier: &[u8], later: &[u8]) -> Vec<Value> {
    let open = earlier.strip_suffix(b"]}").unwrap();
    assert!(
        later.starts_with(open),
        "the later body does not repeat the earlier one"
    );
    let known = messages(earlier).len();
    messages(later).split_off(known)
}

/// The roles of messages.
pub fn roles(messages: &[Value]) -> Vec<&str> {
    messages
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect()
}
