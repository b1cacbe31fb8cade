//! One Cursor request, read once and completely, becomes a prepared run and the client's frontier.
//!
//! Everything is fetched and checked here: after this, nobody reads the request again. Must never know: how the run
//! goes on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use prost::Message as _;

use super::archive::reopen_archive;
use super::base::{Base, base_revision, left_off, note_of_client};
use super::context_link::ContextLink;
use super::edit::{Standing, cut_back_to, nowhere, standing_of};
use super::error::protocol;
use super::hydrate::{fetch_messages, fetch_one, fetch_turns, reference};
use super::subagent::IDENTITY_EVENT;
use super::{
    Mode, RuntimeInput, TurnEvent, collect_mcp_tools, compile_request_context, compile_runtime_message,
    defined_subagents, event_id, identity_message, initial_messages, needed_blobs, new_completions,
    open_delegations, run_model, simulated_message, subagent_kind, subagent_models, take_ended,
    whole_history,
};
use crate::clock;
use crate::cursor::actor::CursorContext;
use crate::cursor::blob_sync::BlobSync;
use crate::cursor::checkpoint::{ClientState, DerivedState, Frontier, TurnStart};
use crate::cursor::inbox::ParentReference;
use crate::cursor::pictures::{self, Entered};
use crate::cursor::projection::decode_pending;
use crate::cursor::prompting::{LeftOutTool, McpDirectory, Profile, PromptNote, compile_prompt};
use crate::cursor::proto::agent::{
    AgentConversationTurnStructure, AgentRunRequest, BackgroundTaskCompletionAction, RequestContext,
    TodoItem, UserMessage, conversation_action,
};
use crate::cursor::tools::{McpTool, SubagentScope, ToolRuntimeConfig};
use crate::model::{
    CallId, ConversationId, Delegation, Message, ModelSpec, ParentCall, PendingAssistant, PreparedRun,
    PromptBasis, RevisionId, RunAction, RunFailure, RunId, RunKind, SubagentKind, project,
};
use crate::store::{Store, StoreError};

/// What a request became.
#[derive(Debug)]
pub struct Prepared {
    /// For the run core.
    pub run: PreparedRun,
    /// Where the client's state stands.
    pub frontier: Frontier,
    /// For the tool runtime.
    pub tools: ToolRuntimeConfig,
    /// What the person should know before the run says anything.
    pub notices: Vec<String>,
    /// Subagents in the background whose end the run is still to be told of.
    pub delegations: Vec<Delegation>,
}

/// The id of the run that serves a request.
pub fn run_id(request_id: &str) -> RunId {
    RunId::new(format!("cursor:{request_id}"))
}

/// Reads a request completely: its model, state, context, tools and messages.
///
/// # Errors
/// A protocol failure for whatever the client got wrong, a provider failure for a model that cannot do what is
/// asked, a store or client failure where those fail.
pub async fn prepare(
    request_id: &str,
    parent: Option<ParentReference>,
    request: AgentRunRequest,
    context: &CursorContext,
    blobs: &BlobSync,
    link: &ContextLink,
) -> Result<Prepared, RunFailure> {
    let conversation = match request.conversation_id.as_deref() {
        Some(id) if !id.is_empty() => ConversationId::new(id),
        _ => return Err(protocol("the run_request names no conversation_id")),
    };
    let kind = run_kind(subagent_kind(&request), parent)?;
    let own_kind = kind_of(&kind);
    let subagents = Arc::new(subagent_models(&request, &context.models)?);
    let model = Arc::new(run_model(&request, own_kind, &subagents, &context.models)?);
    let root = match request.conversation_group_id.as_deref() {
        Some(group) if !group.is_empty() => ConversationId::new(group),
        _ => conversation.clone(),
    };
    let mut state =
        ClientState::decode(&request.conversation_state.clone().unwrap_or_default()).map_err(protocol)?;
    let prefetched = request
        .pre_fetched_blobs
        .into_iter()
        .map(|blob| Ok((reference(&blob.id, "pre_fetched_blobs")?, blob.value)))
        .collect::<Result<Vec<_>, RunFailure>>()?;
    blobs.offer(prefetched);
    blobs.note_held(
        state
            .roots
            .iter()
            .chain(&state.turns)
            .chain(&state.todos)
            .chain(&state.summary)
            .chain(&state.summary_archives)
            .chain(&state.plan)
            .copied(),
    );
    tracing::debug!(
        roots = state.roots.len(),
        turns = state.turns.len(),
        pending = state.pending.len(),
        archives = state.summary_archives.len(),
        "state of the client"
    );
    let action = request.action.and_then(|action| action.action);
    let (action, user_message, given_context) = match action {
        Some(conversation_action::Action::UserMessageAction(action)) => {
            let raw = action
                .user_message
                .ok_or_else(|| protocol("the user_message_action has no user_message"))?;
            let message = UserMessage::decode(raw.clone()).map_err(protocol)?;
            (ActionKind::Start, Some((raw, message)), action.request_context)
        }
        Some(conversation_action::Action::ResumeAction(action)) => {
            (ActionKind::Resume, None, action.request_context)
        }
        Some(conversation_action::Action::SummarizeAction(_)) => (ActionKind::Compact, None, None),
        Some(conversation_action::Action::BackgroundTaskCompletionAction(action)) => {
            (ActionKind::Wake(action), None, None)
        }
        Some(conversation_action::Action::CancelAction(_)) => {
            return Err(protocol("a cancel_action cannot start a run"));
        }
        None => {
            return Err(protocol(
                "the run_request has no action that this version of cairn knows",
            ));
        }
    };
    let Base {
        revision: mut base,
        mut system,
        mut summarised,
    } = base_revision(&conversation, &state, context, blobs).await?;
    let standing = match &user_message {
        Some((_, message)) => {
            let history = context.services.store.history(&base).await?;
            standing_of(message, history.iter().map(AsRef::as_ref), &state, blobs).await?
        }
        None => Standing::New,
    };
    let mut derived = DerivedState::default();
    if let (Standing::Edited { is_summarised }, Some((_, message))) = (standing, &user_message) {
        let event = &message.message_id;
        if is_summarised && !reopen_archive(&mut state, event, blobs).await? {
            return Err(nowhere(event));
        }
        derived = cut_back_to(&mut state, event, blobs)
            .await?
            .ok_or_else(|| nowhere(event))?;
        // The message says its own mode.
        derived.mode = None;
        Base {
            revision: base,
            system,
            summarised,
        } = base_revision(&conversation, &state, context, blobs).await?;
        tracing::info!(conversation = %conversation, revision = %base, "an earlier message was edited");
    }
    let forgotten = match own_kind {
        Some(_) if state.roots.is_empty() => left_off(&conversation, &base, context).await?,
        _ => None,
    };
    if let Some(forgotten) = &forgotten {
        base = forgotten.revision.clone();
        tracing::info!(conversation = %conversation, revision = %base, "a subagent goes on that its client forgot");
    }
    let pending = state
        .pending
        .first()
        .map(|json| decode_pending(json))
        .transpose()
        .map_err(protocol)?;
    let is_forgotten = forgotten.is_some();
    let pending = pending.or(forgotten.and_then(|forgotten| forgotten.interrupted));
    let mode = match &user_message {
        Some((_, message)) => Mode::from_wire(message.mode)?,
        None => Mode::from_wire(state.mode.unwrap_or_default())?,
    };
    let request_context = match given_context {
        Some(given) => given,
        None => link.request().await?,
    };
    let offered = collect_mcp_tools(request.mcp_tools.as_ref(), Some(&request_context));
    let noted = match context.services.store.latest_prompt_note(&conversation).await? {
        Some(note) => Some(PromptNote::read(&note).map_err(defect)?),
        None => note_of_client(&state, system, blobs).await?,
    };
    report_left_out(&conversation, &offered.left_out, noted.as_ref());
    let profile = match (own_kind, request.suppress_subagent_progress_update_tool) {
        (None, _) => Profile::Main(mode),
        (Some(_), Some(true)) => Profile::QuietSubagent(mode),
        (Some(_), _) => Profile::Subagent(mode),
    };
    let compiled = compile_prompt(&context.prompts, profile, &offered, noted.as_ref())?;
    let basis = PromptBasis {
        note: compiled.note.write().into(),
        change: compiled.change,
    };
    let prompt = Arc::new(compiled.spec);
    let history = context.services.store.history(&base).await?;
    let history: Vec<&Message> = history.iter().map(AsRef::as_ref).collect();
    let store = &context.services.store;
    let mut delegations = open_delegations(store, &conversation, &base).await?;
    delegations.extend(summarised);
    let children = store.children(&conversation).await?;
    let words_limit = model.entry.result_characters;
    let mut notices = Vec::new();
    let messages = match (&action, &user_message) {
        (ActionKind::Start, Some((_, message))) => {
            let messages = match standing {
                Standing::Repeated => Vec::new(),
                Standing::New | Standing::Edited { .. } => {
                    let turn = NewTurn {
                        request_id,
                        mode,
                        // The history of another mode comes before this message.
                        entered: !state.roots.is_empty()
                            && state
                                .mode
                                .is_some_and(|stored| Mode::from_wire(stored) != Ok(mode)),
                        message,
                        kind: own_kind,
                        model: &model,
                        request_context: &request_context,
                    };
                    let (messages, told) = new_messages(turn, &base, context, blobs).await?;
                    notices = told;
                    messages
                }
            };
            // What ended meanwhile stands before what the person says now. When someone speaks to the conversation
            // again, all that its client started before has reached this server, or never will.
            let registry = &context.services.registry;
            let never_comes = |child: &ConversationId| !registry.is_coming(child);
            let completions = take_ended(store, &conversation, &mut delegations, never_comes).await?;
            let ended = new_completions(history.iter().copied(), &completions, words_limit)?;
            ended.into_iter().chain(messages).collect()
        }
        (ActionKind::Wake(woken), _) => {
            let whole = whole_history(store, &base).await?;
            new_completions(whole.iter().map(AsRef::as_ref), woken, words_limit)?
        }
        (ActionKind::Start | ActionKind::Resume | ActionKind::Compact, _) => Vec::new(),
    };
    let turn = match (&action, &user_message) {
        (_, Some((raw, _))) if standing != Standing::Repeated => TurnStart::New {
            user_message: raw.clone(),
            request_id: request_id.to_owned(),
        },
        (ActionKind::Wake(_), None) if !messages.is_empty() => TurnStart::New {
            user_message: simulated_message(&messages, mode),
            request_id: request_id.to_owned(),
        },
        _ => TurnStart::Continued(last_turn(&state, blobs).await?),
    };
    let woken = matches!(action, ActionKind::Wake(_));
    let mut todos = match &derived.todos {
        Some(todos) => todos.clone(),
        None => fetch_messages(blobs, &state.todos, "todos").await?,
    };
    if let Some(pending) = pending.as_ref().filter(|_| !matches!(action, ActionKind::Resume)) {
        derived = left_behind(store, &conversation, pending, &todos).await?;
        todos = derived.todos.clone().unwrap_or(todos);
    }
    let action = match action {
        ActionKind::Start | ActionKind::Wake(_) => RunAction::Start {
            interrupted: pending,
            messages,
        },
        ActionKind::Resume => RunAction::Resume { pending },
        ActionKind::Compact => RunAction::Compact { interrupted: pending },
    };
    let wire_mode = mode.to_wire().into();
    let mut frontier = Frontier::new(
        &state,
        &prompt.instructions,
        &basis.note,
        wire_mode,
        turn,
        clock::unix_ms(),
    )
    .map_err(defect)?;
    frontier.derive(derived);
    if is_forgotten {
        let items = project(history.iter().copied()).map_err(defect)?;
        frontier.append_history(&items).map_err(defect)?;
    }
    let environment = request_context.env.as_ref();
    let defined = defined_subagents(&request_context);
    let own_definition = own_kind.and_then(|kind| defined.get(kind.as_str()));
    let readonly = own_definition.is_some_and(|own| own.readonly);
    let tools = ToolRuntimeConfig {
        conversation_id: conversation.to_string(),
        offered: prompt.tools.iter().map(|tool| tool.name.clone()).collect(),
        mcp: callable(&compiled.mcp, &compiled.gone),
        todos,
        mode,
        result_limit: words_limit,
        working_directory: None,
        terminals_folder: environment
            .map(|env| env.terminals_folder.clone())
            .filter(|path| !path.is_empty()),
        subagents: SubagentScope {
            root: root.to_string(),
            parent_model: model.clone(),
            models: subagents.clone(),
            defined,
            children: children
                .into_iter()
                .map(|(child, kind)| (child.to_string(), kind))
                .collect(),
            at_work: BTreeSet::new(),
            readonly,
            cloud: request.can_create_cloud_subagents == Some(true),
        },
    };
    let standing_events = own_kind.map(|_| IDENTITY_EVENT.into()).into_iter().collect();
    let compaction = context.prompts.compaction().spec(&model, state.measured());
    Ok(Prepared {
        run: PreparedRun {
            id: run_id(request_id),
            conversation,
            root,
            kind,
            model,
            subagents,
            prompt,
            basis,
            standing: standing_events,
            compaction: Some(compaction),
            base,
            action,
            woken,
        },
        frontier,
        tools,
        notices,
        delegations,
    })
}

enum ActionKind {
    Start,
    Resume,
    Compact,
    /// Work in the background has ended.
    Wake(BackgroundTaskCompletionAction),
}

/// A turn that a person, or the run above a subagent, begins.
#[derive(Clone, Copy)]
struct NewTurn<'a> {
    request_id: &'a str,
    mode: Mode,
    /// Whether the history before it is another mode's.
    entered: bool,
    message: &'a UserMessage,
    /// The kind of subagent whose turn it is, if it is one's.
    kind: Option<&'a SubagentKind>,
    model: &'a ModelSpec,
    request_context: &'a RequestContext,
}

/// What the calls of a round that was left leave beside the history: their results that are stored enter it with this
/// run, and their cards are gone.
async fn left_behind(
    store: &Store,
    conversation: &ConversationId,
    pending: &PendingAssistant,
    todos: &[TodoItem],
) -> Result<DerivedState, StoreError> {
    let mut derived = DerivedState::default();
    let Some(round) = &pending.round else {
        return Ok(derived);
    };
    for result in store.round_results(conversation, round).await? {
        let call = pending.calls.iter().find(|call| call.id == result.call);
        if let Some(call) = call.filter(|_| !result.is_error) {
            derived.complete_without_card(call, todos);
        }
    }
    Ok(derived)
}

/// The messages that this turn adds: what a subagent is told of itself, once; the request context if it changed; then
/// what was said. With what the person should know of it.
async fn new_messages(
    turn: NewTurn<'_>,
    base: &RevisionId,
    context: &CursorContext,
    blobs: &BlobSync,
) -> Result<(Vec<Message>, Vec<String>), RunFailure> {
    let NewTurn {
        message,
        request_context,
        mode,
        ..
    } = turn;
    let mut fetched = HashMap::new();
    for need in needed_blobs(message) {
        let id = reference(&need.id, &need.what)?;
        fetched.insert(need.id, fetch_one(blobs, id, need.field).await?);
    }
    let now = i64::try_from((context.clock)())
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let runtime = compile_runtime_message(
        &context.prompts,
        &RuntimeInput {
            mode: turn.mode,
            user_message: message,
            now: now.ok_or_else(|| defect("the system clock is out of range"))?,
            time_zone: request_context.env.as_ref().map(|env| env.time_zone.as_str()),
            mode_reminder: turn.entered.then(|| context.prompts.mode(mode).entered),
            blobs: &|id| fetched.get(id).cloned(),
        },
    )?;
    let Entered {
        parts: runtime,
        notices,
    } = pictures::enter(runtime, turn.model).await;
    let history = context.services.store.history(base).await?;
    let compiled = compile_request_context(request_context);
    let event = TurnEvent {
        id: event_id(message, turn.request_id),
        context: compiled.as_deref(),
        runtime,
    };
    let history = || history.iter().map(AsRef::as_ref);
    let mut messages = match turn.kind {
        Some(kind) => identity_message(history(), kind, &context.prompts, request_context),
        None => Vec::new(),
    };
    messages.extend(initial_messages(history(), event));
    Ok((messages, notices))
}

/// The MCP tools as the runtime calls them, by the names that the model uses.
fn callable(directory: &McpDirectory, gone: &BTreeSet<Arc<str>>) -> BTreeMap<Arc<str>, McpTool> {
    directory
        .iter()
        .map(|(name, tool)| {
            let server = tool.server_identifier.as_deref().unwrap_or_default();
            let tool = McpTool {
                name: tool.client_name.to_string(),
                provider_identifier: tool.provider_identifier.to_string(),
                server_identifier: server.to_owned(),
                tool_name: tool.tool_name.to_string(),
                connected: !gone.contains(name),
            };
            (name.clone(), tool)
        })
        .collect()
}

/// Says which MCP tools the model is not offered, once for each tool of a conversation.
fn report_left_out(conversation: &ConversationId, left_out: &[LeftOutTool], before: Option<&PromptNote>) {
    for LeftOutTool { server, tool, fault } in left_out {
        if !before.is_some_and(|before| before.left_out(server, tool)) {
            tracing::warn!(
                %conversation, server, tool, fault,
                "an MCP tool is left out; mend its server, or disable the tool"
            );
        }
    }
}

/// The turn that a run without a new message goes on with.
async fn last_turn(
    state: &ClientState,
    blobs: &BlobSync,
) -> Result<AgentConversationTurnStructure, RunFailure> {
    let last = state
        .turns
        .last()
        .ok_or_else(|| protocol("a resume_action or summarize_action needs a state with a turn"))?;
    let turns = fetch_turns(blobs, &[*last]).await?;
    turns.into_iter().flatten().next().ok_or_else(|| {
        protocol(format!(
            "blob {last}, the last turn of the state, is no agent turn and cannot be gone on with"
        ))
    })
}

/// A run is a subagent's if its request names a kind; only then can a run stand above it.
fn run_kind(kind: Option<SubagentKind>, parent: Option<ParentReference>) -> Result<RunKind, RunFailure> {
    match (kind, parent) {
        (None, None) => Ok(RunKind::Main),
        (None, Some(parent)) => Err(protocol(format!(
            "the request names call {} of request {} as its parent, but no subagent_type_name",
            parent.tool_call_id, parent.request_id
        ))),
        (Some(kind), parent) => Ok(RunKind::Subagent {
            kind,
            parent: parent.map(|parent| ParentCall {
                run: run_id(&parent.request_id),
                call: CallId::new(parent.tool_call_id),
            }),
        }),
    }
}

fn kind_of(kind: &RunKind) -> Option<&SubagentKind> {
    match kind {
        RunKind::Main => None,
        RunKind::Subagent { kind, .. } => Some(kind),
    }
}

fn defect(error: impl std::fmt::Display) -> RunFailure {
    RunFailure::Store(format!("the client's state could not be taken up: {error}"))
}
