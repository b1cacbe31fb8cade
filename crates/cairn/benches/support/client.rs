//! A conversation as the official client drives it: it echoes the newest checkpoint, sends every blob along that this
//! names, stores what it is given, and runs the tools. [sdk]
//!
//! Must never know: what the server makes of it.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use bytes::Bytes;
use cairn::cursor::connect::{Envelope, EnvelopeDecoder, encode_message};
use cairn::cursor::proto::agent::agent_client_message::Message as ClientMessage;
use cairn::cursor::proto::agent::agent_server_message::Message as ServerMessage;
use cairn::cursor::proto::agent::{
    AgentClientMessage, AgentRunRequest, AgentServerMessage, ConversationAction, ConversationStateStructure,
    ConversationTurnStructure, ExecClientControlMessage, ExecClientMessage, ExecClientStreamClose,
    ExecServerMessage, KvClientMessage, KvServerMessage, McpTools, PreFetchedBlob, ReadResult, ReadSuccess,
    RequestContext, RequestContextEnv, RequestContextResult, RequestContextSuccess, RequestedModel,
    SetBlobResult, UserMessage, UserMessageAction, conversation_action, conversation_turn_structure,
    exec_client_control_message, exec_client_message, exec_server_message, kv_client_message,
    kv_server_message, read_result, read_success, request_context_result,
};
use cairn::cursor::proto::aiserver::{BidiAppendRequest, BidiRequestId};
use prost::Message as _;
use tokio::time::{Duration, Instant};

use super::http::{Connection, Stream};
use super::process::{CLIENT_KEY, MODEL};

/// A client with its token.
#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    token: String,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let head = format!(
            "POST /auth/exchange_user_api_key HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {CLIENT_KEY}\r\n\
             content-type: application/json\r\n"
        );
        let answer = Connection::open(address).await.post(&head, b"{}").await;
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        Self {
            address,
            token: answer["accessToken"].as_str().unwrap().to_owned(),
        }
    }

    fn head(&self, path: &str, content_type: &str) -> String {
        format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: {content_type}\r\n",
            self.address, self.token
        )
    }
}

/// A conversation as the client keeps it.
pub struct Conversation {
    client: Client,
    uploads: Connection,
    id: String,
    turns: usize,
    /// What the tool gives for any file.
    file: String,
    /// The newest checkpoint.
    state: Bytes,
    blobs: HashMap<Bytes, Bytes>,
}

/// A turn that is ready to be sent: all that the client prepares is done.
pub struct Turn {
    request_id: String,
    upload: Vec<u8>,
}

/// What a turn moved between client and server.
#[derive(Default)]
pub struct Moved {
    /// Bytes of all uploads.
    pub uploaded: usize,
    /// Bytes of the checkpoints among what the server sent.
    pub checkpoints: usize,
    /// Time in which the server waited for the client to make an answer.
    pub client_time: Duration,
}

impl Turn {
    /// Bytes of the upload that starts the run.
    pub fn request_bytes(&self) -> usize {
        self.upload.len()
    }
}

impl Conversation {
    pub async fn new(client: &Client, id: &str, file: String) -> Self {
        Self {
            client: client.clone(),
            uploads: Connection::open(client.address).await,
            id: id.to_owned(),
            turns: 0,
            file,
            state: Bytes::new(),
            blobs: HashMap::new(),
        }
    }

    /// Prepares the next turn. The official client sends all blobs along; the server asks for those that it needs.
    pub fn prepare(&mut self, text: &str, blobs_along: bool) -> Turn {
        let request_id = format!("{}-{}", self.id, self.turns);
        self.turns += 1;
        let message = UserMessage {
            text: text.to_owned(),
            ..Default::default()
        };
        let request = AgentRunRequest {
            conversation_state: Some(self.state.clone()),
            action: Some(ConversationAction {
                action: Some(conversation_action::Action::UserMessageAction(
                    UserMessageAction {
                        user_message: Some(message.encode_to_vec().into()),
                        ..Default::default()
                    },
                )),
                ..Default::default()
            }),
            requested_model: Some(RequestedModel {
                model_id: MODEL.to_owned(),
                ..Default::default()
            }),
            mcp_tools: Some(McpTools::default()),
            conversation_id: Some(self.id.clone()),
            pre_fetched_blobs: if blobs_along { self.graph() } else { Vec::new() },
            ..Default::default()
        };
        let upload = append(&request_id, 0, ClientMessage::RunRequest(request));
        Turn { request_id, upload }
    }

    /// Every blob that the state names, in the client's order.
    fn graph(&self) -> Vec<PreFetchedBlob> {
        let state = ConversationStateStructure::decode(self.state.clone()).unwrap();
        let mut ids = state.turns.clone();
        ids.extend(state.root_prompt_messages_json);
        for turn in &state.turns {
            let turn = ConversationTurnStructure::decode(self.blobs[turn].clone()).unwrap();
            let Some(conversation_turn_structure::Turn::AgentConversationTurn(turn)) = turn.turn else {
                panic!("a turn of another kind");
            };
            ids.push(turn.user_message);
            ids.extend(turn.steps);
        }
        let mut seen = HashSet::new();
        ids.retain(|id| seen.insert(id.clone()));
        ids.into_iter()
            .map(|id| PreFetchedBlob {
                value: self.blobs[&id].clone(),
                id,
            })
            .collect()
    }

    /// Plays a turn up to its end frame.
    pub async fn play(&mut self, turn: Turn) -> Moved {
        let mut run = self.begin(turn).await;
        while run.step(None).await {}
        run.moved
    }

    /// Opens a run and sends its request.
    pub async fn begin(&mut self, turn: Turn) -> Run<'_> {
        let Turn { request_id, upload } = turn;
        let head = self
            .client
            .head("/agent.v1.AgentService/RunSSE", "application/connect+proto");
        let body = encode_message(&BidiRequestId {
            request_id: request_id.clone(),
        });
        let stream = Connection::open(self.client.address)
            .await
            .post_for_stream(&head, &body.unwrap())
            .await;
        let head = self
            .client
            .head("/aiserver.v1.BidiService/BidiAppend", "application/proto");
        let mut run = Run {
            conversation: self,
            stream,
            decoder: EnvelopeDecoder::new(usize::MAX),
            head,
            request_id,
            next: 0,
            moved: Moved::default(),
        };
        run.upload(&upload).await;
        run
    }
}

/// A run under way.
pub struct Run<'a> {
    conversation: &'a mut Conversation,
    stream: Stream,
    decoder: EnvelopeDecoder,
    head: String,
    request_id: String,
    next: i64,
    moved: Moved,
}

impl Run<'_> {
    /// Takes the next frame and answers it. Returns whether the run goes on and the text did not come yet.
    pub async fn step(&mut self, until: Option<&str>) -> bool {
        let envelope = loop {
            if let Some(envelope) = self.decoder.next_envelope().unwrap() {
                break envelope;
            }
            let piece = self.stream.next().await.expect("an end frame");
            self.decoder.push(&piece);
        };
        let start = Instant::now();
        let payload = match envelope {
            Envelope::Message(payload) => payload,
            Envelope::End(json) => {
                assert_eq!(&json[..], b"{}", "{}", String::from_utf8_lossy(&json));
                return false;
            }
        };
        let bytes = payload.len();
        match AgentServerMessage::decode(payload).unwrap().message {
            Some(ServerMessage::KvServerMessage(message)) => {
                let answer = self.keep(message);
                self.answer([answer], start).await;
            }
            Some(ServerMessage::ExecServerMessage(message)) => {
                let id = message.id;
                let answer = self.execute(message);
                let close = ExecClientControlMessage {
                    message: Some(exec_client_control_message::Message::StreamClose(
                        ExecClientStreamClose { id },
                    )),
                };
                let close = ClientMessage::ExecClientControlMessage(close);
                self.answer([answer, close], start).await;
            }
            Some(ServerMessage::ConversationCheckpointUpdate(state)) => {
                self.moved.checkpoints += bytes;
                self.conversation.state = state;
            }
            Some(ServerMessage::InteractionUpdate(update)) => {
                if let Some(text) = until {
                    use cairn::cursor::proto::agent::interaction_update::Message;
                    return !matches!(update.message, Some(Message::TextDelta(delta)) if delta.text == text);
                }
            }
            Some(ServerMessage::ExecServerControlMessage(_) | ServerMessage::InteractionQuery(_)) | None => {}
        }
        true
    }

    /// The raw stream from here on, for whoever reads it without answering.
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    fn keep(&mut self, message: KvServerMessage) -> ClientMessage {
        let Some(kv_server_message::Message::SetBlobArgs(args)) = message.message else {
            panic!("the server asked for a blob that was sent along");
        };
        self.conversation.blobs.insert(args.blob_id, args.blob_data);
        ClientMessage::KvClientMessage(KvClientMessage {
            id: message.id,
            message: Some(kv_client_message::Message::SetBlobResult(SetBlobResult::default())),
        })
    }

    fn execute(&self, message: ExecServerMessage) -> ClientMessage {
        let result = match message.message {
            Some(exec_server_message::Message::RequestContextArgs(_)) => {
                exec_client_message::Message::RequestContextResult(request_context())
            }
            Some(exec_server_message::Message::ReadArgs(args)) => {
                let content = self.conversation.file.clone();
                exec_client_message::Message::ReadResult(ReadResult {
                    result: Some(read_result::Result::Success(ReadSuccess {
                        path: args.path,
                        total_lines: i32::try_from(content.lines().count()).unwrap(),
                        file_size: i64::try_from(content.len()).unwrap(),
                        output: Some(read_success::Output::Content(content)),
                        ..Default::default()
                    })),
                })
            }
            other => panic!("no handler for {other:?}"),
        };
        ClientMessage::ExecClientMessage(ExecClientMessage {
            id: message.id,
            local_execution_time_ms: Some(1),
            message: Some(result),
            ..Default::default()
        })
    }

    async fn answer<const N: usize>(&mut self, messages: [ClientMessage; N], since: Instant) {
        let mut since = Some(since);
        for message in messages {
            let body = append(&self.request_id, self.next, message);
            if let Some(since) = since.take() {
                self.moved.client_time += since.elapsed();
            }
            self.upload(&body).await;
        }
    }

    async fn upload(&mut self, body: &[u8]) {
        self.next += 1;
        self.moved.uploaded += body.len();
        self.conversation.uploads.post(&self.head, body).await;
    }
}

/// The body of an upload.
fn append(request_id: &str, seqno: i64, message: ClientMessage) -> Vec<u8> {
    let message = AgentClientMessage {
        message: Some(message),
    };
    BidiAppendRequest {
        data: hex::encode(message.encode_to_vec()),
        request_id: Some(BidiRequestId {
            request_id: request_id.to_owned(),
        }),
        append_seqno: seqno,
        data_binary: Bytes::new(),
    }
    .encode_to_vec()
}

fn request_context() -> RequestContextResult {
    let context = RequestContext {
        env: Some(RequestContextEnv {
            os_version: "linux 6.1".to_owned(),
            workspace_paths: vec!["/workspace".to_owned()],
            shell: "bash".to_owned(),
            time_zone: "UTC".to_owned(),
            process_working_directory: Some("/workspace".to_owned()),
            ..Default::default()
        }),
        ..Default::default()
    };
    RequestContextResult {
        result: Some(request_context_result::Result::Success(RequestContextSuccess {
            request_context: Some(context),
            served_from_disk_cache: None,
        })),
    }
}
