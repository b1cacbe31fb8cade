//! A store in a folder of its own, and short ways to make values.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use cairn::model::{
    Assistant, CallId, ConversationId, Image, ItemDigest, Latency, Message, MessageBody, MessageId,
    ModelSpec, Part, PreparedRun, PromptBasis, PromptSpec, ReasoningSpec, RevisionId, RunAction, RunId,
    RunKind, ToolCall, ToolResult, ToolRound, ToolRoundId, UserOrigin,
};
use cairn::store::{NewModelCall, PrefixVerdict, Store, StoreError};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tempfile::TempDir;

pub struct Fixture {
    pub folder: TempDir,
    pub store: Store,
    pub conversation: ConversationId,
    pub empty: RevisionId,
}

impl Fixture {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("cairn.db")).await.unwrap();
        let conversation = ConversationId::new("conversation");
        let empty = store.empty_revision(&conversation).await.unwrap();
        Self {
            folder,
            store,
            conversation,
            empty,
        }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("cairn.db")
    }

    /// Begins a run on the revision.
    pub async fn begin(&self, run: &str, base: &RevisionId) -> RunId {
        let prepared = self.prepared(run, base);
        self.store.begin_run(&prepared, 1_000).await.unwrap();
        prepared.id
    }

    /// Records a call of the run that sends these items on top of the lineage's call before.
    pub async fn call(
        &self,
        run: &RunId,
        index: u32,
        kept: usize,
        added: &[ItemDigest],
    ) -> Result<i64, StoreError> {
        let call = NewModelCall {
            run,
            index,
            revision: &self.empty,
            lineage: "lineage",
            settings: [0; 16],
            kept,
            added,
            beside: false,
            without_reasoning: false,
            verdict: PrefixVerdict::Extends,
        };
        self.store.record_model_call(&call, None).await
    }

    pub fn prepared(&self, run: &str, base: &RevisionId) -> PreparedRun {
        prepared(&self.conversation, run, base)
    }

    /// The ids of the revision's messages.
    pub async fn ids(&self, revision: &RevisionId) -> Vec<String> {
        ids(&self.store, revision).await
    }

    /// Everything that this process has committed, as another process would find it after a kill.
    pub async fn killed_and_reopened(&self) -> (TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["cairn.db", "cairn.db-wal"] {
            std::fs::copy(self.folder.path().join(name), folder.path().join(name)).unwrap();
        }
        let store = Store::open(&folder.path().join("cairn.db")).await.unwrap();
        (folder, store)
    }

    /// A connection beside the store, to look at rows or to damage them.
    pub async fn sql(&self) -> SqliteConnection {
        SqliteConnectOptions::new()
            .filename(self.path())
            .foreign_keys(false)
            .connect()
            .await
            .unwrap()
    }
}

pub async fn ids(store: &Store, revision: &RevisionId) -> Vec<String> {
    let history = store.history(revision).await.unwrap();
    history.iter().map(|message| message.id.to_string()).collect()
}

pub fn prepared(conversation: &ConversationId, run: &str, base: &RevisionId) -> PreparedRun {
    PreparedRun {
        id: RunId::new(run),
        conversation: conversation.clone(),
        root: conversation.clone(),
        kind: RunKind::Main,
        model: Arc::new(ModelSpec {
            model_id: "fast".into(),
            display_name: None,
            reasoning: ReasoningSpec::default(),
            latency: Latency::Standard,
            max_output_tokens: None,
            context_window: None,
            vision: false,
            entry: cairn::model::EntryLimits::default(),
        }),
        subagents: Arc::default(),
        prompt: Arc::new(PromptSpec {
            instructions: "Help.".into(),
            tools: Vec::new(),
        }),
        basis: PromptBasis::default(),
        standing: Vec::new(),
        compaction: None,
        base: base.clone(),
        action: RunAction::Resume { pending: None },
        woken: false,
    }
}

pub fn user(id: &str, text: &str) -> Message {
    Message {
        id: MessageId::new(id),
        body: MessageBody::User {
            origin: UserOrigin::Turn { event_id: id.into() },
            parts: vec![Part::Text(text.into())],
        },
    }
}

pub fn picture(id: &str) -> Message {
    Message {
        id: MessageId::new(id),
        body: MessageBody::User {
            origin: UserOrigin::Imported,
            parts: vec![Part::Image(Image {
                mime_type: "image/png".into(),
                data: Bytes::from_static(b"picture"),
            })],
        },
    }
}

pub fn round(id: &str, run: &RunId, parent: &RevisionId, calls: &[&str]) -> ToolRound {
    ToolRound {
        id: ToolRoundId::new(id),
        run: run.clone(),
        parent: parent.clone(),
        said: said(),
        calls: calls.iter().map(|id| call(id)).collect(),
        started_at_ms: 2_000,
    }
}

pub fn said() -> Assistant {
    Assistant {
        text: "Looking.".into(),
        ..Assistant::default()
    }
}

pub fn call(id: &str) -> ToolCall {
    ToolCall {
        id: CallId::new(id),
        name: "Read".into(),
        arguments: r#"{ "path" : "\u00e9" }"#.into(),
    }
}

pub fn result(call: &str) -> ToolResult {
    ToolResult {
        call: CallId::new(call),
        content: format!("result of {call}").into(),
        is_error: false,
    }
}

/// The refusal's variant name.
pub fn refusal<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    let text = format!("{:?}", result.unwrap_err());
    text.split(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap()
        .to_owned()
}
