//! A person's conversation and its subagents as the client plays them: each Task that it is asked for waits for the test,
//! which runs the child in a conversation of its own, as the official client does.

use std::net::SocketAddr;
use std::path::Path;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use cairn::cursor::proto::agent::{
    ExecClientControlMessage, ExecClientMessage, ExecClientStreamClose, ExecServerMessage, ModelDetails,
    SubagentArgs, SubagentBackgroundReason, SubagentError, SubagentResult, SubagentSuccess,
    agent_client_message::Message as ClientMessage, exec_client_control_message, exec_client_message,
    exec_server_message, subagent_result,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::cairn_server::{CairnServer, KEY};
use crate::support::fake_cursor::{ExecAnswer, FakeCursor, Turn};
use crate::support::strict_chat::StrictChat;

/// The person's conversation.
pub const PERSON: &str = "agent-1";

/// How a child's requests say whose they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Link {
    /// By the person's conversation alone, as the official client does. [sdk]
    Group,
    /// By the two headers alone: the parent's request and its call. [capture]
    Headers { request: String, call: String },
}

/// One server, one endpoint, one workspace.
pub struct Family {
    pub chat: StrictChat,
    pub server: CairnServer,
    pub data: TempDir,
    pub workspace: TempDir,
}

impl Family {
    pub async fn new() -> Self {
        let chat = StrictChat::start().await;
        let (data, workspace) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let server = CairnServer::start(data.path(), &chat.base_url()).await;
        Self {
            chat,
            server,
            data,
            workspace,
        }
    }

    /// Stops the server as a signal would and starts it again.
    pub async fn restart(self) -> Self {
        let Self {
            chat,
            server,
            data,
            workspace,
        } = self;
        server.stop().await;
        Self::over(chat, data, workspace).await
    }

    /// Another server with this data folder.
    pub async fn over(chat: StrictChat, data: TempDir, workspace: TempDir) -> Self {
        let server = CairnServer::start(data.path(), &chat.base_url()).await;
        Self {
            chat,
            server,
            data,
            workspace,
        }
    }

    /// The client of the person's conversation.
    pub async fn person(&self) -> FakeCursor {
        let mut person = FakeCursor::new(&self.server.base_url, KEY, PERSON, self.workspace.path()).await;
        person.hooks.exec = Box::new(holds_tasks);
        person
    }

    /// The client of a child's conversation, for the Task that asked for it.
    pub async fn child(&self, id: &str, asked: &SubagentArgs, link: &Link) -> FakeCursor {
        let base_url = match link {
            Link::Group => self.server.base_url.clone(),
            Link::Headers { request, call } => with_headers(&self.server.base_url, request, call).await,
        };
        let mut child = FakeCursor::new(&base_url, KEY, id, self.workspace.path()).await;
        let kind = asked.subagent_type.clone();
        let model_id = asked.model_id.clone();
        let group = asked.root_parent_conversation_id.clone();
        let group = group.filter(|_| *link == Link::Group);
        child.hooks.request = Box::new(move |request| {
            request.requested_model = None;
            request.model_details = Some(ModelDetails {
                model_id: model_id.clone(),
                ..Default::default()
            });
            request.subagent_type_name = Some(kind.clone());
            request.conversation_group_id = group.clone();
        });
        child.hooks.exec = Box::new(holds_tasks);
        child
    }

    /// The texts of the user messages in the latest body, the request context left out.
    pub fn said(&self) -> Vec<String> {
        let body: Value = serde_json::from_slice(&self.chat.requests().last().unwrap().body).unwrap();
        let messages = body["messages"].as_array().unwrap().iter();
        messages
            .filter(|message| message["role"] == "user")
            .map(|message| message["content"].as_str().unwrap().to_owned())
            .filter(|text| !text.starts_with("<request_context>"))
            .collect()
    }

    /// What the latest body tells of work in the background.
    pub fn told(&self) -> Vec<String> {
        let mut said = self.said();
        said.retain(|text| text.starts_with("<background_task"));
        said
    }
}

fn holds_tasks(exec: &ExecServerMessage) -> ExecAnswer {
    match &exec.message {
        Some(exec_server_message::Message::SubagentArgs(_)) => ExecAnswer::Hold,
        _ => ExecAnswer::Run,
    }
}

/// The message of a subagent's end.
pub fn told(subagent: &str, status: &str, words: &str) -> String {
    format!(
        "<background_task kind=\"subagent\" id=\"{subagent}\" status=\"{status}\">\n{words}\n</background_task>"
    )
}

/// The arguments of a Task.
pub fn task(background: bool) -> String {
    format!(
        r#"{{"description":"look","prompt":"Where is it?","subagent_type":"generalPurpose","run_in_background":{background}}}"#
    )
}

/// Plays on until the client is asked for this many subagents in all, and gives what it was asked for last.
pub async fn asked(turn: &mut Turn<'_>, count: usize) -> (u32, SubagentArgs) {
    let held = turn.until_held(count).await.last().unwrap();
    match held.message.clone() {
        Some(exec_server_message::Message::SubagentArgs(args)) => (held.id, args),
        other => panic!("{other:?}"),
    }
}

/// The child has ended with these words.
pub async fn finished(turn: &mut Turn<'_>, exec_id: u32, child: &str, words: &str) {
    let success = SubagentSuccess {
        agent_id: child.to_owned(),
        final_message: Some(words.to_owned()),
        ..Default::default()
    };
    answer(turn, exec_id, subagent_result::Result::Success(success)).await;
}

/// The child works in the background.
pub async fn begun(turn: &mut Turn<'_>, exec_id: u32, child: &str) {
    let success = SubagentSuccess {
        agent_id: child.to_owned(),
        background_reason: SubagentBackgroundReason::AgentRequest.into(),
        ..Default::default()
    };
    answer(turn, exec_id, subagent_result::Result::Success(success)).await;
}

/// The child has failed.
pub async fn failed(turn: &mut Turn<'_>, exec_id: u32, child: &str, error: &str) {
    let error = SubagentError {
        agent_id: Some(child.to_owned()),
        error: error.to_owned(),
    };
    answer(turn, exec_id, subagent_result::Result::Error(error)).await;
}

async fn answer(turn: &mut Turn<'_>, id: u32, result: subagent_result::Result) {
    let result = SubagentResult { result: Some(result) };
    turn.append(ClientMessage::ExecClientMessage(ExecClientMessage {
        id,
        message: Some(exec_client_message::Message::SubagentResult(result)),
        ..Default::default()
    }))
    .await;
    let close = exec_client_control_message::Message::StreamClose(ExecClientStreamClose { id });
    turn.append(ClientMessage::ExecClientControlMessage(
        ExecClientControlMessage { message: Some(close) },
    ))
    .await;
}

/// Copies what a killed server leaves on the disk.
pub fn copy_of(data: &Path) -> TempDir {
    let copy = TempDir::new().unwrap();
    for file in std::fs::read_dir(data).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
    }
    copy
}

#[derive(Clone)]
struct Target {
    http: reqwest::Client,
    base_url: String,
    headers: [(&'static str, String); 2],
}

/// An address whose requests reach the server with the headers of a child.
async fn with_headers(base_url: &str, request: &str, call: &str) -> String {
    let target = Target {
        http: reqwest::Client::builder().no_proxy().build().unwrap(),
        base_url: base_url.to_owned(),
        headers: [
            ("x-parent-request-id", request.to_owned()),
            ("x-parent-agent-tool-call-id", call.to_owned()),
        ],
    };
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
        .await
        .unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(forward).with_state(target);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}")
}

async fn forward(State(target): State<Target>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let mut forwarded = target
        .http
        .request(head.method, format!("{}{}", target.base_url, head.uri.path()))
        .body(body);
    for (name, value) in head.headers.iter().filter(|(name, _)| *name != "host") {
        forwarded = forwarded.header(name, value);
    }
    for (name, value) in &target.headers {
        forwarded = forwarded.header(*name, value);
    }
    let answer = forwarded.send().await.unwrap();
    let mut response = Response::builder().status(answer.status());
    if let Some(kind) = answer.headers().get("content-type") {
        response = response.header("content-type", kind);
    }
    response.body(Body::from_stream(answer.bytes_stream())).unwrap()
}
