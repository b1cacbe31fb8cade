//! A strict fake of the official client on the real wire: it keeps blobs and the newest checkpoint, answers what the
//! server asks, can be made to misbehave, and judges every frame (see `wire_oracle`).
//!
//! Each test ends with [`FakeCursor::assert_clean`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use cairn::cursor::proto::agent::agent_client_message::Message as ClientMessage;
use cairn::cursor::proto::agent::agent_server_message::Message as ServerMessage;
use cairn::cursor::proto::agent::interaction_update::Message as Update;
use cairn::cursor::proto::agent::{
    AgentRunRequest, CancelAction, ClientHeartbeat, ConversationAction, ConversationStateStructure, Error,
    ExecServerMessage, GetBlobArgs, GetBlobResult, InteractionQuery, InteractionResponse, KvClientMessage,
    KvServerMessage, McpTools, RequestedModel, ResumeAction, SetBlobArgs, SetBlobResult, ShellStream,
    ShellStreamExit, SummarizeAction, ToolCall, TurnEndedUpdate, UserMessage, UserMessageAction,
    conversation_action, exec_client_message, kv_client_message, kv_server_message, shell_stream,
};
use cairn::demo::blobs::BlobStore;
use cairn::demo::executor::Executor;
use cairn::demo::wire_client::{RunEnd, RunFrame, RunStream, WireClient};
use prost::Message as _;
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

use super::wire_oracle::WireOracle;

mod branches;
mod queries;
mod uploads;

pub use uploads::{AppendFault, Shuffle, Upload};

/// What answers for the person.
pub type QueryHook = Box<dyn FnMut(&InteractionQuery) -> Option<InteractionResponse> + Send>;

/// What kills the server.
pub type Kill = Box<dyn FnMut() + Send>;

/// Longest wait for a frame that must come; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is done about an exec of the server.
pub enum ExecAnswer {
    /// It is run in the workspace, beside others that run.
    Run,
    /// It is run and answered before anything else is read, and a command takes a millisecond by its own account: what
    /// comes of it is the same each time.
    RunAlone,
    /// It is kept until the test calls [`Turn::release`].
    Hold,
    /// These messages are the answer.
    Reply(Vec<ClientMessage>),
}

/// What is done about a SET.
pub enum SetAnswer {
    Acknowledge,
    Refuse(&'static str),
    Withhold,
}

/// What is done about a GET.
pub enum GetAnswer {
    /// What is stored.
    Stored,
    /// The real client's answer for a blob that it does not have: an empty result. [sdk]
    Missing,
    /// These bytes, right or wrong.
    Bytes(Bytes),
    Withhold,
}

/// How this client differs from a good one. All of it holds until it is changed.
pub struct Hooks {
    /// Changes the run request before it is sent.
    pub request: Box<dyn FnMut(&mut AgentRunRequest) + Send>,
    pub exec: Box<dyn FnMut(&ExecServerMessage) -> ExecAnswer + Send>,
    /// What the person answers. Without an answer of the test's it is that of the official client in a local run.
    pub query: QueryHook,
    /// The person answers nothing; the test may do so by [`Turn::append`].
    pub holds_queries: bool,
    pub set: Box<dyn FnMut(&SetBlobArgs) -> SetAnswer + Send>,
    pub get: Box<dyn FnMut(&GetBlobArgs) -> GetAnswer + Send>,
    pub append: Box<dyn FnMut(i64) -> AppendFault + Send>,
    /// Puts uploads that are at hand at the same time into another order, or doubles them.
    pub shuffle: Option<Shuffle>,
    /// The client closes the response after this many frames of a run.
    pub cut_after: Option<usize>,
    /// What kills the server when the frame of a run with this number, from 1 and heartbeats left out, has come. The
    /// client keeps what the frame brought, and then neither says nor hears anything.
    pub kill_at: Option<(usize, Kill)>,
    /// Whether a server that dies by itself is what the test is about.
    pub may_die: bool,
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            request: Box::new(|_| {}),
            exec: Box::new(|_| ExecAnswer::Run),
            query: Box::new(|_| None),
            holds_queries: false,
            set: Box::new(|_| SetAnswer::Acknowledge),
            get: Box::new(|_| GetAnswer::Stored),
            append: Box::new(|_| AppendFault::None),
            shuffle: None,
            cut_after: None,
            kill_at: None,
            may_die: false,
        }
    }
}

/// A client with one conversation.
pub struct FakeCursor {
    client: WireClient,
    pub conversation: String,
    pub model: String,
    pub hooks: Hooks,
    executor: Executor,
    blobs: BlobStore,
    state: Bytes,
    /// The state that the next run is judged to grow from, where that is not the newest checkpoint.
    pub cut_back_to: Option<ConversationStateStructure>,
    attempts: u32,
    violations: Vec<String>,
}

/// How a run's stream ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    Success,
    Error {
        code: String,
        message: String,
    },
    /// The client closed it.
    Closed,
    /// It broke.
    Broken(String),
}

/// A tool call as the client saw it.
#[derive(Clone, PartialEq, Debug)]
pub struct SeenCall {
    pub id: String,
    pub started: ToolCall,
    pub completed: Option<ToolCall>,
}

/// What was seen of one run.
#[derive(Clone, PartialEq, Debug)]
pub struct TurnReport {
    pub request_id: String,
    pub text: String,
    pub thinking: String,
    /// In the order in which they were started.
    pub calls: Vec<SeenCall>,
    pub checkpoints: Vec<ConversationStateStructure>,
    pub turn_ended: Option<TurnEndedUpdate>,
    pub end: End,
    pub frames: Vec<RunFrame>,
    /// Blobs that the server asked for.
    pub gets: Vec<Bytes>,
    pub sets: usize,
    pub execs: Vec<ExecServerMessage>,
    /// Uploads that the server refused.
    pub refused: Vec<String>,
    /// What was shown of compactions: `started`, the summary, `completed`.
    pub summaries: Vec<String>,
}

impl TurnReport {
    /// The report of a run that must have ended well.
    #[track_caller]
    pub fn success(self) -> Self {
        assert_eq!(self.end, End::Success, "{self}");
        self
    }

    /// The code and text of a run that must have failed.
    #[track_caller]
    pub fn error(&self) -> (&str, &str) {
        match &self.end {
            End::Error { code, message } => (code, message),
            End::Success | End::Closed | End::Broken(_) => panic!("the run did not fail: {self}"),
        }
    }
}

impl fmt::Display for TurnReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ended with {:?}, text {:?}",
            self.request_id, self.end, self.text
        )
    }
}

impl FakeCursor {
    /// A client of the server at this address, with a new conversation, running things in `workspace`.
    pub async fn new(base_url: &str, key: &str, conversation: &str, workspace: &Path) -> Self {
        Self {
            client: WireClient::connect(base_url, &SecretString::from(key))
                .await
                .unwrap(),
            conversation: conversation.to_owned(),
            model: "test".to_owned(),
            hooks: Hooks::default(),
            executor: Executor::new(workspace),
            blobs: BlobStore::default(),
            state: Bytes::new(),
            cut_back_to: None,
            attempts: 0,
            violations: Vec::new(),
        }
    }

    /// Goes on with another server.
    pub async fn reconnect(&mut self, base_url: &str, key: &str) {
        self.client = WireClient::connect(base_url, &SecretString::from(key))
            .await
            .unwrap();
    }

    /// The newest checkpoint.
    pub fn state(&self) -> ConversationStateStructure {
        ConversationStateStructure::decode(self.state.clone()).unwrap()
    }

    /// Puts back an earlier checkpoint, as if nothing later had come.
    pub fn set_state(&mut self, state: &ConversationStateStructure) {
        self.state = state.encode_to_vec().into();
    }

    /// Has the client hold a blob that no server gave it; returns its id.
    pub fn hold(&mut self, data: impl Into<Bytes>) -> Bytes {
        let data = data.into();
        let id = Bytes::copy_from_slice(&Sha256::digest(&data));
        self.blobs.set(id.clone(), data).unwrap();
        id
    }

    /// The blobs that the client holds.
    pub fn blobs(&self) -> &BlobStore {
        &self.blobs
    }

    /// A second window on the same conversation, with what this one holds. Its requests have ids of their own.
    pub fn twin(&self) -> Self {
        Self {
            client: self.client.clone(),
            conversation: self.conversation.clone(),
            model: self.model.clone(),
            hooks: Hooks::default(),
            executor: self.executor.clone(),
            blobs: self.blobs.clone(),
            state: self.state.clone(),
            cut_back_to: None,
            attempts: self.attempts + 1000,
            violations: Vec::new(),
        }
    }

    /// Sends a message and plays the run to its end.
    pub async fn send(&mut self, text: &str) -> TurnReport {
        self.start_turn(text).await.finish().await
    }

    /// Resumes the last turn and plays the run to its end.
    pub async fn resume(&mut self) -> TurnReport {
        self.start_resume().await.finish().await
    }

    /// Sends a message; the test goes on frame by frame.
    pub async fn start_turn(&mut self, text: &str) -> Turn<'_> {
        self.start_message(UserMessage {
            text: text.to_owned(),
            ..Default::default()
        })
        .await
    }

    /// Sends a message of the test's own making.
    pub async fn start_message(&mut self, message: UserMessage) -> Turn<'_> {
        let user_message = Bytes::from(message.encode_to_vec());
        let action = conversation_action::Action::UserMessageAction(UserMessageAction {
            user_message: Some(user_message.clone()),
            ..Default::default()
        });
        self.start(action, Some(user_message)).await
    }

    /// Resumes the last turn; the test goes on frame by frame.
    pub async fn start_resume(&mut self) -> Turn<'_> {
        let action = conversation_action::Action::ResumeAction(ResumeAction::default());
        self.start(action, None).await
    }

    /// Has the conversation summarised and plays the run to its end.
    pub async fn summarize(&mut self) -> TurnReport {
        self.start_summarize().await.finish().await
    }

    /// Has the conversation summarised; the test goes on frame by frame.
    pub async fn start_summarize(&mut self) -> Turn<'_> {
        let action = conversation_action::Action::SummarizeAction(SummarizeAction {});
        self.start(action, None).await
    }

    /// Fails the test if any frame broke a rule.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert_eq!(
            self.violations,
            Vec::<String>::new(),
            "the stream broke the wire's rules"
        );
    }

    async fn start(&mut self, action: conversation_action::Action, user_message: Option<Bytes>) -> Turn<'_> {
        self.attempts += 1;
        let request_id = format!("{}-request-{}", self.conversation, self.attempts);
        let state = self.state();
        let graph = self.blobs.graph(&state).unwrap();
        let mut request = AgentRunRequest {
            conversation_state: Some(self.state.clone()),
            action: Some(ConversationAction {
                action: Some(action),
                ..Default::default()
            }),
            requested_model: Some(RequestedModel {
                model_id: self.model.clone(),
                ..Default::default()
            }),
            mcp_tools: Some(McpTools::default()),
            conversation_id: Some(self.conversation.clone()),
            pre_fetched_blobs: graph.clone(),
            ..Default::default()
        };
        (self.hooks.request)(&mut request);
        let mut held: BTreeMap<_, _> = graph.into_iter().map(|blob| (blob.id, blob.value)).collect();
        // Held, although they are not sent along.
        for id in state.summary.iter().chain(&state.summary_archives) {
            held.extend(self.blobs.get(id).map(|data| (id.clone(), data.clone())));
        }
        let base = self.cut_back_to.take().unwrap_or(state);
        let oracle = WireOracle::new(&request_id, &base, held, user_message);
        let stream = self.client.open(&request_id).await.unwrap();
        let report = TurnReport {
            request_id: request_id.clone(),
            text: String::new(),
            thinking: String::new(),
            calls: Vec::new(),
            checkpoints: Vec::new(),
            turn_ended: None,
            end: End::Closed,
            frames: Vec::new(),
            gets: Vec::new(),
            sets: 0,
            execs: Vec::new(),
            refused: Vec::new(),
            summaries: Vec::new(),
        };
        let mut turn = Turn {
            cursor: self,
            request_id,
            stream: Some(stream),
            oracle: Some(oracle),
            report,
            running: JoinSet::new(),
            held: Vec::new(),
            withheld: Vec::new(),
            next_seqno: 0,
            swapped: None,
            frames: 0,
            unreachable: None,
        };
        turn.append(ClientMessage::RunRequest(request)).await;
        turn.append(ClientMessage::ClientHeartbeat(ClientHeartbeat {}))
            .await;
        turn
    }
}

/// A run that goes on.
pub struct Turn<'a> {
    cursor: &'a mut FakeCursor,
    pub request_id: String,
    stream: Option<RunStream>,
    oracle: Option<WireOracle>,
    report: TurnReport,
    running: JoinSet<Vec<ClientMessage>>,
    /// Execs that were held, in the order in which they came.
    held: Vec<ExecServerMessage>,
    /// SETs whose acknowledgement was withheld.
    withheld: Vec<(u32, SetBlobArgs)>,
    next_seqno: i64,
    swapped: Option<Upload>,
    /// Frames so far, heartbeats left out.
    frames: usize,
    /// How an upload failed to reach the server, which is then gone.
    unreachable: Option<String>,
}

impl Turn<'_> {
    /// The next frame, judged, noted and answered. `None` when the stream is over.
    pub async fn next(&mut self) -> Option<RunFrame> {
        loop {
            let stream = self.stream.as_mut()?;
            let step = async {
                tokio::select! {
                    frame = stream.next() => Ok(frame),
                    Some(answers) = self.running.join_next() => Err(answers.unwrap()),
                }
            };
            let step = tokio::time::timeout(PATIENCE, step)
                .await
                .unwrap_or_else(|_| panic!("{}: no frame within {PATIENCE:?}", self.request_id));
            match step {
                Err(answers) => self.append_all(answers).await,
                Ok(Ok(Some(frame))) => {
                    self.note(&frame);
                    if self.is_killed_now(&frame) {
                        self.hang_up(End::Broken("the server was killed".to_owned()), true);
                        return Some(frame);
                    }
                    self.answer(&frame).await;
                    if self.cursor.hooks.cut_after == Some(self.report.frames.len()) {
                        self.hang_up(End::Closed, true);
                    }
                    return Some(frame);
                }
                Ok(Ok(None)) => {
                    let end = match self.report.frames.last() {
                        Some(RunFrame::End(RunEnd::Success)) => End::Success,
                        Some(RunFrame::End(RunEnd::Error { code, message })) => End::Error {
                            code: code.clone(),
                            message: message.clone(),
                        },
                        Some(RunFrame::Message(_)) | None => End::Broken("no end frame".to_owned()),
                    };
                    let died = self.cursor.hooks.may_die && matches!(end, End::Broken(_));
                    self.hang_up(end, died);
                    return None;
                }
                Ok(Err(error)) => {
                    let end = End::Broken(self.unreachable.take().unwrap_or_else(|| error.to_string()));
                    let died = self.cursor.hooks.may_die;
                    self.hang_up(end, died);
                    return None;
                }
            }
        }
    }

    /// Goes on until a frame fits, which must come.
    pub async fn until(&mut self, what: &str, mut fits: impl FnMut(&RunFrame) -> bool) -> RunFrame {
        while let Some(frame) = self.next().await {
            if fits(&frame) {
                return frame;
            }
        }
        panic!("{what} did not come: {}", self.report);
    }

    /// Goes on until a checkpoint with this many pending messages.
    pub async fn until_checkpoint(&mut self, pending: usize) -> ConversationStateStructure {
        let frame = self
            .until("a checkpoint", |frame| {
                checkpoint_of(frame).is_some_and(|state| state.pending_tool_calls.len() == pending)
            })
            .await;
        checkpoint_of(&frame).unwrap()
    }

    /// Goes on until this many execs are held.
    pub async fn until_held(&mut self, count: usize) -> &[ExecServerMessage] {
        while self.held.len() < count {
            assert!(self.next().await.is_some(), "execs did not come: {}", self.report);
        }
        &self.held
    }

    /// Runs a held exec and uploads its answers.
    pub async fn release(&mut self, exec_id: u32) {
        let at = self.held.iter().position(|exec| exec.id == exec_id).unwrap();
        let exec = self.held.remove(at);
        let answers = self.cursor.executor.execute(exec).await;
        self.append_all(answers).await;
    }

    /// Stores the blob of a SET frame that was withheld, and says so.
    pub async fn acknowledge_set(&mut self, set: &RunFrame) {
        let RunFrame::Message(message) = set else {
            panic!("{set:?} is no SET")
        };
        match message.message.clone() {
            Some(ServerMessage::KvServerMessage(KvServerMessage {
                id,
                message: Some(kv_server_message::Message::SetBlobArgs(args)),
                ..
            })) => self.acknowledge(id, args).await,
            other => panic!("{other:?} is no SET"),
        }
    }

    /// Acknowledges what was withheld.
    pub async fn acknowledge_withheld(&mut self) {
        for (id, args) in std::mem::take(&mut self.withheld) {
            self.acknowledge(id, args).await;
        }
    }

    /// Refuses what was withheld.
    pub async fn refuse_withheld(&mut self, reason: &str) {
        for (id, _) in std::mem::take(&mut self.withheld) {
            self.refuse(id, reason).await;
        }
    }

    /// Asks the server to stop the run.
    pub async fn cancel(&mut self) {
        let action = conversation_action::Action::CancelAction(CancelAction::default());
        self.append(ClientMessage::ConversationAction(ConversationAction {
            action: Some(action),
            ..Default::default()
        }))
        .await;
    }

    /// Plays the run to its end.
    pub async fn finish(mut self) -> TurnReport {
        while self.next().await.is_some() {}
        self.report
    }

    /// Closes the response, as the real client does to cancel.
    pub fn close(mut self) -> TurnReport {
        self.hang_up(End::Closed, true);
        self.report
    }

    /// A second window on the conversation, with what the client holds by now.
    pub fn twin(&self) -> FakeCursor {
        self.cursor.twin()
    }

    /// What was seen so far.
    pub fn report(&self) -> &TurnReport {
        &self.report
    }

    fn is_killed_now(&mut self, frame: &RunFrame) -> bool {
        if is_heartbeat(frame) {
            return false;
        }
        self.frames += 1;
        match &mut self.cursor.hooks.kill_at {
            Some((at, kill)) if *at == self.frames => {
                kill();
                true
            }
            _ => false,
        }
    }

    fn hang_up(&mut self, end: End, by_client: bool) {
        self.stream = None;
        self.report.end = end;
        if let Some(oracle) = self.oracle.take() {
            self.cursor.violations.extend(oracle.finish(by_client));
        }
    }

    /// Judges a frame and keeps what it brings.
    fn note(&mut self, frame: &RunFrame) {
        if let Some(oracle) = &mut self.oracle {
            oracle.observe(frame);
        }
        self.report.frames.push(frame.clone());
        let RunFrame::Message(message) = frame else {
            return;
        };
        match &message.message {
            Some(ServerMessage::InteractionUpdate(update)) => self.show(update.message.clone()),
            Some(ServerMessage::ConversationCheckpointUpdate(state)) => {
                // The real client keeps whatever comes, and the next send carries the newest. [sdk]
                if let Ok(decoded) = ConversationStateStructure::decode(state.clone()) {
                    self.report.checkpoints.push(decoded);
                    self.cursor.state = state.clone();
                }
            }
            Some(ServerMessage::ExecServerMessage(exec)) => self.report.execs.push(exec.clone()),
            Some(
                ServerMessage::KvServerMessage(_)
                | ServerMessage::InteractionQuery(_)
                | ServerMessage::ExecServerControlMessage(_),
            )
            | None => {}
        }
    }

    /// Does what a frame asks for.
    async fn answer(&mut self, frame: &RunFrame) {
        let RunFrame::Message(message) = frame else {
            return;
        };
        match message.message.clone() {
            Some(ServerMessage::ExecServerMessage(exec)) => self.exec(exec).await,
            Some(ServerMessage::KvServerMessage(message)) => self.kv(message).await,
            Some(ServerMessage::InteractionQuery(_)) if self.cursor.hooks.holds_queries => {}
            Some(ServerMessage::InteractionQuery(query)) => {
                let response = (self.cursor.hooks.query)(&query).unwrap_or_else(|| queries::answer(query));
                self.append(ClientMessage::InteractionResponse(response)).await;
            }
            Some(
                ServerMessage::InteractionUpdate(_)
                | ServerMessage::ConversationCheckpointUpdate(_)
                | ServerMessage::ExecServerControlMessage(_),
            )
            | None => {}
        }
    }

    fn show(&mut self, update: Option<Update>) {
        match update {
            Some(Update::TextDelta(delta)) => self.report.text.push_str(&delta.text),
            Some(Update::ThinkingDelta(delta)) => self.report.thinking.push_str(&delta.text),
            Some(Update::ToolCallStarted(started)) => self.report.calls.push(SeenCall {
                id: started.call_id,
                started: started.tool_call.unwrap_or_default(),
                completed: None,
            }),
            Some(Update::ToolCallCompleted(completed)) => {
                let call = self
                    .report
                    .calls
                    .iter_mut()
                    .find(|call| call.id == completed.call_id);
                if let Some(call) = call {
                    call.completed = completed.tool_call;
                }
            }
            Some(Update::SummaryStarted(_)) => self.report.summaries.push("started".to_owned()),
            Some(Update::Summary(update)) => self.report.summaries.push(update.summary),
            Some(Update::SummaryCompleted(_)) => self.report.summaries.push("completed".to_owned()),
            Some(Update::TurnEnded(ended)) => self.report.turn_ended = Some(ended),
            _ => {}
        }
    }

    async fn exec(&mut self, exec: ExecServerMessage) {
        match (self.cursor.hooks.exec)(&exec) {
            ExecAnswer::Run => {
                let executor = self.cursor.executor.clone();
                self.running.spawn(async move { executor.execute(exec).await });
            }
            ExecAnswer::RunAlone => {
                let mut answers = self.cursor.executor.execute(exec).await;
                for exit in answers.iter_mut().filter_map(exit_of) {
                    exit.local_execution_time_ms = Some(1);
                }
                self.append_all(answers).await;
            }
            ExecAnswer::Hold => self.held.push(exec),
            ExecAnswer::Reply(messages) => self.append_all(messages).await,
        }
    }

    async fn kv(&mut self, message: KvServerMessage) {
        let id = message.id;
        let result = match message.message {
            Some(kv_server_message::Message::SetBlobArgs(args)) => {
                self.report.sets += 1;
                match (self.cursor.hooks.set)(&args) {
                    SetAnswer::Acknowledge => return self.acknowledge(id, args).await,
                    SetAnswer::Refuse(reason) => return self.refuse(id, reason).await,
                    SetAnswer::Withhold => return self.withheld.push((id, args)),
                }
            }
            Some(kv_server_message::Message::GetBlobArgs(args)) => {
                self.report.gets.push(args.blob_id.clone());
                let blob_data = match (self.cursor.hooks.get)(&args) {
                    GetAnswer::Stored => self.cursor.blobs.get(&args.blob_id).cloned(),
                    GetAnswer::Missing => None,
                    GetAnswer::Bytes(bytes) => Some(bytes),
                    GetAnswer::Withhold => return,
                };
                kv_client_message::Message::GetBlobResult(GetBlobResult {
                    blob_data,
                    error: None,
                })
            }
            None => return,
        };
        self.append_kv(id, result).await;
    }

    async fn acknowledge(&mut self, id: u32, args: SetBlobArgs) {
        // A wrong id is the oracle's to report; the real client stores anything. [sdk]
        let _ = self.cursor.blobs.set(args.blob_id, args.blob_data);
        if let Some(oracle) = &mut self.oracle {
            oracle.acknowledged(id);
        }
        let result = kv_client_message::Message::SetBlobResult(SetBlobResult { error: None });
        self.append_kv(id, result).await;
    }

    async fn refuse(&mut self, id: u32, reason: &str) {
        let message = reason.to_owned();
        let error = Some(Error { message });
        let result = kv_client_message::Message::SetBlobResult(SetBlobResult { error });
        self.append_kv(id, result).await;
    }

    async fn append_kv(&mut self, id: u32, result: kv_client_message::Message) {
        let answer = KvClientMessage {
            id,
            message: Some(result),
        };
        self.append(ClientMessage::KvClientMessage(answer)).await;
    }
}

/// The end of a command in an answer.
fn exit_of(answer: &mut ClientMessage) -> Option<&mut ShellStreamExit> {
    let ClientMessage::ExecClientMessage(answer) = answer else {
        return None;
    };
    match &mut answer.message {
        Some(exec_client_message::Message::ShellStream(ShellStream {
            event: Some(shell_stream::Event::Exit(exit)),
        })) => Some(exit),
        _ => None,
    }
}

/// Whether a frame is only a sign of life.
pub fn is_heartbeat(frame: &RunFrame) -> bool {
    let RunFrame::Message(message) = frame else {
        return false;
    };
    matches!(
        &message.message,
        Some(ServerMessage::InteractionUpdate(update)) if matches!(update.message, Some(Update::Heartbeat(_)))
    )
}

/// The state in a checkpoint frame.
pub fn checkpoint_of(frame: &RunFrame) -> Option<ConversationStateStructure> {
    let RunFrame::Message(message) = frame else {
        return None;
    };
    match &message.message {
        Some(ServerMessage::ConversationCheckpointUpdate(state)) => {
            ConversationStateStructure::decode(state.clone()).ok()
        }
        _ => None,
    }
}

/// The data of a SET frame.
pub fn set_of(frame: &RunFrame) -> Option<Bytes> {
    let RunFrame::Message(message) = frame else {
        return None;
    };
    match &message.message {
        Some(ServerMessage::KvServerMessage(KvServerMessage {
            message: Some(kv_server_message::Message::SetBlobArgs(args)),
            ..
        })) => Some(args.blob_data.clone()),
        _ => None,
    }
}
