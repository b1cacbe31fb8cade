//! One Cursor request from its first message to its end frame: prepare, start the run, live through it.
//!
//! Owns the joining of the parts. Must never know: what any single part does inside.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use super::blob_sync::BlobSync;
use super::checkpoint::CheckpointWorker;
use super::connect::{ConnectCode, ConnectError};
use super::delegations::Delegations;
use super::inbox::{Inbound, InboxError, InboxReceiver, ParentReference};
use super::lifecycle::{canceled, failed};
use super::presentation::Presentation;
use super::prompting::PromptAssets;
use super::proto::agent::{AgentRunRequest, agent_client_message, conversation_action};
use super::request::{ContextLink, Prepared, prepare, run_id};
use super::run_sse::RunOutput;
use super::session::Session;
use super::sessions::SessionIo;
use super::shown_text::ShownText;
use super::tools::ToolRuntime;
use crate::clock::Clock;
use crate::config::ModelConfig;
use crate::model::{ConversationId, RunFailure, RunKind};
use crate::run::{self, RunServices};
use crate::web::WebServices;

/// How long a stream may be open before its first message must have come.
const FIRST_MESSAGE_LIMIT: Duration = Duration::from_secs(60);

/// What every Cursor request of the process shares.
#[derive(Debug)]
pub struct CursorContext {
    /// The store and the index of active runs.
    pub services: RunServices,
    /// The configured models.
    pub models: Vec<ModelConfig>,
    /// The system prompts, tools and templates.
    pub prompts: PromptAssets,
    /// Services on the web that tools use.
    pub web: Arc<WebServices>,
    /// Tells the time that a person's message is stamped with.
    pub clock: Clock,
}

/// Serves one request to its end. The stream gets exactly one end frame on every path.
pub async fn serve(io: SessionIo, context: Arc<CursorContext>) {
    let SessionIo {
        request_id,
        inbound,
        output,
        shutdown,
    } = io;
    let span = tracing::info_span!(
        "request",
        request = %request_id,
        run = tracing::field::Empty,
        conversation = tracing::field::Empty,
    );
    let end = conduct(&request_id, inbound, &output, shutdown, &context)
        .instrument(span.clone())
        .await;
    if let Err(error) = &end {
        span.in_scope(|| tracing::info!(code = error.code().as_str(), "request ended with an error"));
    }
    output.finish(end);
}

async fn conduct(
    request_id: &str,
    mut inbound: InboxReceiver,
    output: &RunOutput,
    shutdown: CancellationToken,
    context: &CursorContext,
) -> Result<(), ConnectError> {
    let (parent, request) = tokio::select! {
        () = shutdown.cancelled() => return Err(canceled()),
        () = output.closed() => return Err(canceled()),
        first = first_message(request_id, &mut inbound) => first?,
    };
    tracing::Span::current().record("conversation", request.conversation_id.as_deref());
    let conversation = ConversationId::new(request.conversation_id.as_deref().unwrap_or_default());
    let asked = context.services.registry.asked(conversation, run_id(request_id));
    let blobs = BlobSync::new(output.writer());
    let link = ContextLink::new(output.writer());
    let prepared = {
        let work = prepare(request_id, parent, request, context, &blobs, &link);
        tokio::pin!(work);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return Err(canceled()),
                () = output.closed() => return Err(canceled()),
                // Whatever the client still says, a later request of the conversation counts.
                () = asked.overtaken().cancelled() => return Err(canceled()),
                done = &mut work => break done.map_err(|failure| failed(&failure))?,
                message = inbound.recv() => route(message, &blobs, &link)?,
            }
        }
    };
    let Prepared {
        run,
        frontier,
        tools,
        notices,
        delegations,
    } = prepared;
    tracing::Span::current().record("run", tracing::field::display(&run.id));
    // From here on no end is missed: what has ended already is looked for when the session begins.
    let delegations = Delegations::new(
        context.services.store.clone(),
        &context.services.registry,
        run.conversation.clone(),
        delegations,
        run.model.entry.result_characters,
    );
    let dynamic_tools = tools.mcp.keys().cloned().collect();
    let tool_names = run.prompt.tools.iter().map(|tool| tool.name.clone()).collect();
    #[allow(
        clippy::disallowed_methods,
        reason = "the run waits at a barrier for every job but one, so the queue cannot grow"
    )]
    let (jobs, queue) = mpsc::unbounded_channel();
    let is_subagent = matches!(run.kind, RunKind::Subagent { .. });
    let presentation = Presentation::after(frontier.step_count());
    let worker = CheckpointWorker {
        frontier,
        blobs: blobs.clone(),
        writer: output.writer(),
        store: context.services.store.clone(),
        conversation: run.conversation.clone(),
        context_window: run.model.context_window.unwrap_or_default(),
        tool_names,
        dynamic_tools,
    };
    // A session that ends early must not leave a worker behind that waits for a client.
    let worker = AbortOnDropHandle::new(tokio::spawn(worker.work(queue).in_current_span()));
    let model = Arc::clone(&run.model);
    let (handle, _task) = run::start(context.services.clone(), run);
    drop(asked);
    let mut tools = ToolRuntime::new(tools);
    // The question for the request context has taken the first exec id, whether it was asked or not.
    let context_exec_id = tools.reserve_exec_id();
    debug_assert_eq!(context_exec_id, ContextLink::EXEC_ID);
    let session = Session {
        request_id: request_id.to_owned(),
        writer: output.writer(),
        blobs,
        link,
        tools,
        pauses: JoinSet::new(),
        run: handle,
        web: context.web.clone(),
        serving: JoinSet::new(),
        jobs,
        model,
        notices,
        is_subagent,
        shown: ShownText::default(),
        presentation,
        delegations,
        usage: Vec::new(),
        measured: None,
        summarising: false,
        call_started_at_ms: 0,
        final_checkpoints: None,
        unserved: Vec::new(),
    };
    session.live(inbound, worker, shutdown).await
}

/// The run request that must come first, with what its headers said of a parent.
async fn first_message(
    request_id: &str,
    inbound: &mut InboxReceiver,
) -> Result<(Option<ParentReference>, AgentRunRequest), ConnectError> {
    let invalid = |text: String| Err(ConnectError::new(ConnectCode::InvalidArgument, text));
    let first = match tokio::time::timeout(FIRST_MESSAGE_LIMIT, inbound.recv()).await {
        Ok(Some(Ok(first))) => first,
        Ok(Some(Err(error))) => return invalid(error.to_string()),
        Ok(None) => return Err(canceled()),
        Err(_) => {
            return Err(ConnectError::new(
                ConnectCode::DeadlineExceeded,
                format!(
                    "request {request_id} was opened, but its run_request did not arrive within {} s",
                    FIRST_MESSAGE_LIMIT.as_secs()
                ),
            ));
        }
    };
    match first.message.message {
        Some(agent_client_message::Message::RunRequest(request)) => Ok((first.parent, request)),
        _ => invalid(format!(
            "the first message of request {request_id} must be its run_request"
        )),
    }
}

/// Takes what the client says while the request is prepared: answers for blobs and for the request context.
fn route(
    message: Option<Result<Inbound, InboxError>>,
    blobs: &BlobSync,
    link: &ContextLink,
) -> Result<(), ConnectError> {
    let refused = |text: String| failed(&RunFailure::Protocol(text));
    let inbound = match message {
        Some(Ok(inbound)) => inbound,
        Some(Err(error)) => return Err(refused(error.to_string())),
        None => return Err(canceled()),
    };
    match inbound.message.message {
        Some(agent_client_message::Message::KvClientMessage(message)) => {
            blobs.answer(message).map_err(|error| failed(&error.into()))
        }
        Some(agent_client_message::Message::ExecClientMessage(message)) => {
            link.answer(message).map_err(refused)
        }
        Some(agent_client_message::Message::ExecClientControlMessage(message)) => {
            link.control(message).map_err(refused)
        }
        Some(agent_client_message::Message::ConversationAction(action))
            if matches!(action.action, Some(conversation_action::Action::CancelAction(_))) =>
        {
            Err(canceled())
        }
        Some(agent_client_message::Message::ClientHeartbeat(_)) => Ok(()),
        Some(
            agent_client_message::Message::ConversationAction(_)
            | agent_client_message::Message::RunRequest(_),
        ) => Err(refused(format!(
            "message {} cannot come before the run has started",
            inbound.seqno
        ))),
        Some(agent_client_message::Message::InteractionResponse(response)) => Err(refused(format!(
            "interaction query {} was never asked",
            response.id
        ))),
        None => {
            tracing::warn!(
                seqno = inbound.seqno,
                "the client sent a message of an unknown kind"
            );
            Ok(())
        }
    }
}
