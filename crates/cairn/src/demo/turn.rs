//! One turn as the client lives it: asks, answers what the server asks back, keeps what it is given to keep.
//!
//! Owns the client's half of a run: blobs, the newest checkpoint, the order of uploads. Must never know: how the
//! server came to anything, or what the demonstration wants to see.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use tokio::task::JoinSet;

use super::DemoError;
use super::blobs::BlobStore;
use super::executor::Executor;
use super::narrator::Narrator;
use super::wire_client::{RunEnd, RunFrame, WireClient};
use crate::cursor::proto::agent::agent_client_message::Message as ClientMessage;
use crate::cursor::proto::agent::agent_server_message::Message as ServerMessage;
use crate::cursor::proto::agent::{
    AgentClientMessage, AgentRunRequest, ClientHeartbeat, ConversationAction, ConversationStateStructure,
    GetBlobResult, InteractionUpdate, KvClientMessage, KvServerMessage, McpTools, RequestedModel,
    SetBlobResult, ToolCall, UserMessage, UserMessageAction, conversation_action, interaction_update,
    kv_client_message, kv_server_message, read_tool_result, read_tool_success, shell_result, tool_call,
};

/// How often the client gives a sign of life. [sdk]
const HEARTBEAT: Duration = Duration::from_secs(5);

/// A conversation as the client keeps it.
#[derive(Debug)]
pub(super) struct Conversation {
    pub client: WireClient,
    pub id: String,
    pub model: String,
    pub executor: Executor,
    pub blobs: BlobStore,
    /// The newest checkpoint; empty in a new conversation.
    pub state: Bytes,
}

/// What a turn was seen to do.
#[derive(Default, Debug)]
pub(super) struct TurnRecord {
    /// All answer text.
    pub text: String,
    /// What the file-reading tool gave.
    pub contents: Vec<String>,
    /// What commands printed, with their exit codes.
    pub outputs: Vec<(i32, String)>,
    /// How many checkpoints came.
    pub checkpoints: usize,
    /// Whether the server said that the turn is over.
    pub turn_ended: bool,
}

/// Numbers and sends the client's messages.
struct Uplink<'a> {
    client: &'a WireClient,
    request_id: &'a str,
    next: i64,
}

impl Uplink<'_> {
    async fn send(&mut self, message: ClientMessage) -> Result<(), DemoError> {
        let message = AgentClientMessage {
            message: Some(message),
        };
        self.client.append(self.request_id, self.next, &message).await?;
        self.next += 1;
        Ok(())
    }
}

impl Conversation {
    /// Plays one turn to its end frame.
    pub(super) async fn turn(
        &mut self,
        request_id: &str,
        text: &str,
        narrator: &mut Narrator<impl Write>,
    ) -> Result<TurnRecord, DemoError> {
        narrator.say("you", text)?;
        let mut record = TurnRecord::default();
        let request = self.request(text)?;
        let client = self.client.clone();
        let mut stream = client.open(request_id).await?;
        let mut uplink = Uplink {
            client: &client,
            request_id,
            next: 0,
        };
        uplink.send(request).await?;
        let mut running: JoinSet<Vec<ClientMessage>> = JoinSet::new();
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.reset();
        loop {
            let frame = tokio::select! {
                frame = stream.next() => frame?,
                Some(answers) = running.join_next() => {
                    for answer in answers.map_err(DemoError::Executor)? {
                        uplink.send(answer).await?;
                    }
                    continue;
                }
                _ = heartbeat.tick() => {
                    uplink.send(ClientMessage::ClientHeartbeat(ClientHeartbeat {})).await?;
                    continue;
                }
            };
            let message = match frame {
                Some(RunFrame::Message(message)) => *message,
                Some(RunFrame::End(RunEnd::Success)) => break,
                Some(RunFrame::End(RunEnd::Error { code, message })) => {
                    return Err(DemoError::RunFailed { code, message });
                }
                None => return Err(DemoError::Unseen("the end frame of the run".to_owned())),
            };
            match message.message {
                Some(ServerMessage::InteractionUpdate(update)) => record.show(update, narrator)?,
                Some(ServerMessage::ExecServerMessage(exec)) => {
                    let executor = self.executor.clone();
                    running.spawn(async move { executor.execute(exec).await });
                }
                Some(ServerMessage::KvServerMessage(message)) => {
                    uplink.send(self.keep(message)?).await?;
                }
                Some(ServerMessage::ConversationCheckpointUpdate(state)) => {
                    record.checkpoints += 1;
                    narrator.say("checkpoint", &summary(&decode_state(&state)?))?;
                    self.state = state;
                }
                // Nothing that runs here can be aborted, nobody here can be asked, and what is not known is passed over. [sdk]
                Some(ServerMessage::ExecServerControlMessage(_) | ServerMessage::InteractionQuery(_))
                | None => {}
            }
        }
        Ok(record)
    }

    /// The run request, with the newest state and every blob that it names. [sdk]
    fn request(&self, text: &str) -> Result<ClientMessage, DemoError> {
        let message = UserMessage {
            text: text.to_owned(),
            ..Default::default()
        };
        Ok(ClientMessage::RunRequest(AgentRunRequest {
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
                model_id: self.model.clone(),
                ..Default::default()
            }),
            mcp_tools: Some(McpTools::default()),
            conversation_id: Some(self.id.clone()),
            pre_fetched_blobs: self.blobs.graph(&decode_state(&self.state)?)?,
            ..Default::default()
        }))
    }

    /// Stores or gives a blob.
    fn keep(&mut self, message: KvServerMessage) -> Result<ClientMessage, DemoError> {
        let result = match message.message {
            Some(kv_server_message::Message::SetBlobArgs(args)) => {
                self.blobs.set(args.blob_id, args.blob_data)?;
                kv_client_message::Message::SetBlobResult(SetBlobResult::default())
            }
            Some(kv_server_message::Message::GetBlobArgs(args)) => {
                kv_client_message::Message::GetBlobResult(GetBlobResult {
                    blob_data: self.blobs.get(&args.blob_id).cloned(),
                    error: None,
                })
            }
            None => {
                return Err(DemoError::Unseen(
                    "a blob message that asks for something".to_owned(),
                ));
            }
        };
        Ok(ClientMessage::KvClientMessage(KvClientMessage {
            id: message.id,
            message: Some(result),
        }))
    }
}

impl TurnRecord {
    fn show(
        &mut self,
        update: InteractionUpdate,
        narrator: &mut Narrator<impl Write>,
    ) -> Result<(), DemoError> {
        match update.message {
            Some(interaction_update::Message::TextDelta(delta)) => {
                self.text.push_str(&delta.text);
                narrator.stream("model", &delta.text)?;
            }
            Some(interaction_update::Message::ToolCallStarted(started)) => {
                if let Some(asked) = started.tool_call.as_ref().and_then(asked_for) {
                    narrator.say("tool", &asked)?;
                }
            }
            Some(interaction_update::Message::ToolCallCompleted(completed)) => {
                if let Some(tool_call) = &completed.tool_call {
                    self.completed(tool_call, narrator)?;
                }
            }
            Some(interaction_update::Message::TurnEnded(_)) => {
                self.turn_ended = true;
                narrator.say("turn ended", "")?;
            }
            _ => {}
        }
        Ok(())
    }

    fn completed(
        &mut self,
        tool_call: &ToolCall,
        narrator: &mut Narrator<impl Write>,
    ) -> Result<(), DemoError> {
        match &tool_call.tool {
            Some(tool_call::Tool::ReadToolCall(call)) => {
                let result = call.result.as_ref().and_then(|result| result.result.as_ref());
                if let Some(read_tool_result::Result::Success(success)) = result
                    && let Some(read_tool_success::Output::Content(content)) = &success.output
                {
                    narrator.say("  gave", &format!("{} lines", content.lines().count()))?;
                    self.contents.push(content.clone());
                }
            }
            Some(tool_call::Tool::ShellToolCall(call)) => {
                let result = call.result.as_ref().and_then(|result| result.result.as_ref());
                let (code, output) = match result {
                    Some(shell_result::Result::Success(success)) => (success.exit_code, &success.stdout),
                    Some(shell_result::Result::Failure(failure)) => (failure.exit_code, &failure.stdout),
                    _ => return Ok(()),
                };
                narrator.say("  gave", &format!("exit code {code}: {}", output.trim_end()))?;
                self.outputs.push((code, output.clone()));
            }
            _ => {}
        }
        Ok(())
    }
}

fn asked_for(tool_call: &ToolCall) -> Option<String> {
    match &tool_call.tool {
        Some(tool_call::Tool::ReadToolCall(call)) => {
            call.args.as_ref().map(|args| format!("read {}", args.path))
        }
        Some(tool_call::Tool::ShellToolCall(call)) => {
            call.args.as_ref().map(|args| format!("run  {}", args.command))
        }
        _ => None,
    }
}

/// A state that came from the server.
pub(super) fn decode_state(state: &Bytes) -> Result<ConversationStateStructure, DemoError> {
    ConversationStateStructure::decode(state.clone()).map_err(DemoError::State)
}

/// A state in one line.
pub(super) fn summary(state: &ConversationStateStructure) -> String {
    format!(
        "{}, {}, {}, {} pending",
        counted(state.root_prompt_messages_json.len(), "root"),
        counted(state.turns.len(), "turn"),
        counted(state.todos.len(), "to-do"),
        state.pending_tool_calls.len()
    )
}

/// A number of things, as a person says it.
fn counted(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}
