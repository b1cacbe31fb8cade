//! A server in this process whose runs the test drives itself, and a client that shows every byte.
//!
//! Each test file uses a part of it.
#![allow(dead_code, reason = "shared by test files that use different parts")]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use cairn::app::App;
use cairn::config::{Api, Config, ModelConfig, WebConfig};
use cairn::cursor::connect::{Envelope, EnvelopeDecoder, encode_message};
use cairn::cursor::proto::agent::{
    AgentClientMessage, AgentServerMessage, CancelAction, ConversationAction, InteractionUpdate,
    TextDeltaUpdate, agent_client_message, agent_server_message, conversation_action, interaction_update,
};
use cairn::cursor::proto::aiserver::{BidiAppendRequest, BidiRequestId};
use cairn::cursor::sessions::{SessionIo, SessionLimits};
use prost::Message as _;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use url::Url;

pub const CLIENT_KEY: &str = "client-key-CANARY-77";

/// A served cairn; stops when the test ends.
pub struct Server {
    pub base: String,
    pub port: u16,
    pub token: String,
    pub http: reqwest::Client,
    pub runs: mpsc::UnboundedReceiver<SessionIo>,
    pub shutdown: CancellationToken,
    pub serving: JoinHandle<()>,
}

pub fn config(data_dir: &Path, upstream: Option<&str>) -> Config {
    let model = |id: &str, name: Option<&str>| ModelConfig {
        id: id.to_owned(),
        name: name.map(str::to_owned),
        api: Api::Scripted,
        base_url: None,
        api_key: None,
        upstream_model: id.to_owned(),
        context_window: None,
        max_output_tokens: None,
        vision: false,
        limits: cairn::config::EntryLimits::default(),
        options: toml::Table::new(),
    };
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        data_dir: data_dir.to_owned(),
        client_key: CLIENT_KEY.into(),
        upstream: upstream.map(|url| Url::parse(url).unwrap()),
        models: vec![model("fast", Some("Fast")), model("slow", None)],
        web: WebConfig::default(),
    }
}

impl Server {
    pub async fn start() -> Self {
        Self::with_upstream(None).await
    }

    pub async fn with_upstream(upstream: Option<&str>) -> Self {
        #[allow(clippy::disallowed_methods, reason = "a test opens a few runs")]
        let (opened, runs) = mpsc::unbounded_channel();
        let shutdown = CancellationToken::new();
        let starter = Arc::new(move |io| {
            let _ = opened.send(io);
        });
        let config = config(Path::new("unused"), upstream);
        let app = App::bind(&config, SessionLimits::default(), starter, shutdown.clone())
            .await
            .unwrap();
        let address = app.address();
        let serving = tokio::spawn(app.serve());
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        let mut server = Self {
            base: format!("http://{address}"),
            port: address.port(),
            token: String::new(),
            http,
            runs,
            shutdown,
            serving,
        };
        server.token = json(server.exchange(CLIENT_KEY).await).await["accessToken"]
            .as_str()
            .unwrap()
            .to_owned();
        server
    }

    pub fn post(&self, path: &str, content_type: &str) -> reqwest::RequestBuilder {
        self.http
            .post(format!("{}{path}", self.base))
            .header("content-type", content_type)
    }

    pub async fn exchange(&self, key: &str) -> reqwest::Response {
        self.post("/auth/exchange_user_api_key", "application/json")
            .bearer_auth(key)
            .body("{}")
            .send()
            .await
            .unwrap()
    }

    pub async fn append(&self, request: &BidiAppendRequest) -> reqwest::Response {
        self.post("/aiserver.v1.BidiService/BidiAppend", "application/proto")
            .bearer_auth(&self.token)
            .body(request.encode_to_vec())
            .send()
            .await
            .unwrap()
    }

    pub async fn run_sse(&self, request_id: &str) -> reqwest::Response {
        self.post("/agent.v1.AgentService/RunSSE", "application/connect+proto")
            .bearer_auth(&self.token)
            .body(run_sse_body(request_id))
            .send()
            .await
            .unwrap()
    }

    /// Opens the stream and takes the session that it starts.
    pub async fn open(&mut self, request_id: &str) -> (reqwest::Response, SessionIo) {
        let response = self.run_sse(request_id).await;
        assert_eq!(response.status(), 200);
        let io = self.runs.recv().await.unwrap();
        assert_eq!(io.request_id, request_id);
        (response, io)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The JSON of a response.
pub async fn json(response: reqwest::Response) -> Value {
    serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
}

pub fn run_sse_body(request_id: &str) -> Bytes {
    encode_message(&BidiRequestId {
        request_id: request_id.to_owned(),
    })
    .unwrap()
}

/// A message of the client that says which one it is.
pub fn client_message(text: &str) -> AgentClientMessage {
    AgentClientMessage {
        message: Some(agent_client_message::Message::ConversationAction(
            ConversationAction {
                triggering_auth_id: None,
                action: Some(conversation_action::Action::CancelAction(CancelAction {
                    reason: text.to_owned(),
                })),
            },
        )),
    }
}

pub fn append_request(request_id: &str, seqno: i64, message: &AgentClientMessage) -> BidiAppendRequest {
    BidiAppendRequest {
        data: hex::encode(message.encode_to_vec()),
        request_id: Some(BidiRequestId {
            request_id: request_id.to_owned(),
        }),
        append_seqno: seqno,
        data_binary: Bytes::new(),
    }
}

/// A message of the server that says which one it is.
pub fn server_message(text: &str) -> AgentServerMessage {
    AgentServerMessage {
        message: Some(agent_server_message::Message::InteractionUpdate(
            InteractionUpdate {
                message: Some(interaction_update::Message::TextDelta(TextDeltaUpdate {
                    text: text.to_owned(),
                    is_server_notice: false,
                })),
            },
        )),
    }
}

/// One frame of a stream, named.
#[derive(Clone, PartialEq, Debug)]
pub enum Seen {
    Text(String),
    Heartbeat,
    End(Value),
}

pub fn seen(envelope: Envelope) -> Seen {
    match envelope {
        Envelope::End(json) => Seen::End(serde_json::from_slice(&json).unwrap()),
        Envelope::Message(bytes) => match AgentServerMessage::decode(bytes).unwrap().message.unwrap() {
            agent_server_message::Message::InteractionUpdate(update) => match update.message.unwrap() {
                interaction_update::Message::TextDelta(delta) => Seen::Text(delta.text),
                interaction_update::Message::Heartbeat(_) => Seen::Heartbeat,
                other => panic!("unexpected update {other:?}"),
            },
            other => panic!("unexpected message {other:?}"),
        },
    }
}

/// All frames of a whole response body.
pub fn all_seen(body: &[u8]) -> Vec<Seen> {
    let mut decoder = EnvelopeDecoder::new(usize::MAX);
    decoder.push(body);
    let mut frames = Vec::new();
    while let Some(envelope) = decoder.next_envelope().unwrap() {
        frames.push(seen(envelope));
    }
    decoder.finish().unwrap();
    frames
}
