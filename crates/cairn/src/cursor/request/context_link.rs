//! Asks the client for its request context, once, before the run starts. The exec that carries it is no tool call.
//!
//! Owns that one exec id and its answer. Must never know: what the context says.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::cursor::proto::agent::{
    AgentServerMessage, ExecClientControlMessage, ExecClientMessage, ExecServerMessage, RequestContext,
    RequestContextArgs, agent_server_message, exec_client_control_message, exec_client_message,
    exec_server_message, request_context_result,
};
use crate::cursor::run_sse::RunWriter;
use crate::model::RunFailure;

/// How long the client may take to collect its context.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// The one question for the request context.
#[derive(Debug)]
pub struct ContextLink {
    writer: RunWriter,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    asked: bool,
    answer: Option<oneshot::Sender<Result<RequestContext, String>>>,
}

impl ContextLink {
    /// Ids of execs count up inside a run; the request context takes the first one. 0 cannot be told from absent.
    /// [sdk]
    pub const EXEC_ID: u32 = 1;

    /// A session that has not asked yet.
    pub fn new(writer: RunWriter) -> Self {
        Self {
            writer,
            waiting: Mutex::default(),
        }
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// If the client refuses, fails or does not answer.
    pub async fn request(&self) -> Result<RequestContext, RunFailure> {
        let (sender, answer) = oneshot::channel();
        {
            let mut waiting = self.lock();
            waiting.asked = true;
            waiting.answer = Some(sender);
        }
        let message = ExecServerMessage {
            id: Self::EXEC_ID,
            message: Some(exec_server_message::Message::RequestContextArgs(
                RequestContextArgs::default(),
            )),
            ..Default::default()
        };
        let message = AgentServerMessage {
            message: Some(agent_server_message::Message::ExecServerMessage(message)),
        };
        self.writer
            .send(&message)
            .await
            .map_err(|error| RunFailure::Client(error.to_string()))?;
        match tokio::time::timeout(ANSWER_LIMIT, answer).await {
            Ok(Ok(Ok(context))) => Ok(context),
            Ok(Ok(Err(cause))) => Err(RunFailure::Client(format!(
                "the client gave no request context: {cause}"
            ))),
            Ok(Err(_)) => Err(RunFailure::Client(
                "the client gave no request context".to_owned(),
            )),
            Err(_) => Err(RunFailure::Client(format!(
                "the client did not give its request context within {} seconds",
                ANSWER_LIMIT.as_secs()
            ))),
        }
    }

    /// Takes an exec answer that came before the run started.
    ///
    /// # Errors
    /// If it answers something that was not asked.
    pub fn answer(&self, message: ExecClientMessage) -> Result<(), String> {
        let id = message.id;
        let answer = self
            .lock()
            .answer
            .take()
            .filter(|_| id == Self::EXEC_ID)
            .ok_or_else(|| format!("exec answer {id} came, but nothing of that id is open"))?;
        let Some(exec_client_message::Message::RequestContextResult(result)) = message.message else {
            return Err(format!(
                "exec answer {id} is not the request context that was asked for"
            ));
        };
        let result = match result.result {
            Some(request_context_result::Result::Success(success)) => {
                Ok(success.request_context.unwrap_or_default())
            }
            Some(request_context_result::Result::Error(error)) => Err(error.error),
            Some(request_context_result::Result::Rejected(rejected)) => Err(rejected.reason),
            None => Err("the answer is empty".to_owned()),
        };
        // Whoever asked may have given up with its request.
        let _ = answer.send(result);
        Ok(())
    }

    /// Whether a control message belongs to the question for the context.
    pub fn owns(&self, message: &ExecClientControlMessage) -> bool {
        let id = match &message.message {
            Some(exec_client_control_message::Message::StreamClose(close)) => close.id,
            Some(exec_client_control_message::Message::Throw(thrown)) => thrown.id,
            Some(exec_client_control_message::Message::Heartbeat(heartbeat)) => heartbeat.id,
            None => return false,
        };
        id == Self::EXEC_ID && self.lock().asked
    }

    /// Takes an exec control message of the question.
    ///
    /// # Errors
    /// If it belongs to something that was not asked.
    pub fn control(&self, message: ExecClientControlMessage) -> Result<(), String> {
        let (id, failure) = match message.message {
            Some(exec_client_control_message::Message::StreamClose(close)) => (
                close.id,
                Some("the client closed the question without an answer".to_owned()),
            ),
            Some(exec_client_control_message::Message::Throw(thrown)) => (thrown.id, Some(thrown.error)),
            Some(exec_client_control_message::Message::Heartbeat(heartbeat)) => (heartbeat.id, None),
            None => return Ok(()),
        };
        let mut waiting = self.lock();
        if id != Self::EXEC_ID || !waiting.asked {
            return Err(format!(
                "exec control for {id} came, but nothing of that id is open"
            ));
        }
        // A close after the answer is the regular end.
        if let Some(failure) = failure
            && let Some(answer) = waiting.answer.take()
        {
            let _ = answer.send(Err(failure));
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
