//! A conversation with a server in this process, whose limits the test sets.

use std::path::PathBuf;
use std::time::Duration;

use cairn::cursor::inbox::InboxLimits;
use cairn::cursor::proto::agent::ConversationStateStructure;
use cairn::cursor::run_sse::StreamLimits;
use cairn::cursor::sessions::SessionLimits;
use cairn::model::FailureKind;
use tempfile::TempDir;

use super::conversation::{Broken, Conversation, GoOn, NEXT, Reference, Turn, runs_are_over};
use super::facts::Facts;
use super::support::cairn_server::{CairnServer, KEY, chat_model};
use super::support::fake_cursor::{self, is_heartbeat};

/// The server, its client and its model.
pub struct Inside {
    pub conversation: Conversation,
    server: CairnServer,
    data: TempDir,
}

/// Frequent signs of life: two of them in a row say that the server has nothing more to say.
fn limits(gap: Duration) -> SessionLimits {
    SessionLimits {
        inbox: InboxLimits {
            gap,
            ..InboxLimits::default()
        },
        stream: StreamLimits {
            heartbeat: Duration::from_millis(20),
            ..StreamLimits::default()
        },
        ..SessionLimits::default()
    }
}

impl Inside {
    /// A conversation whose first turn is done.
    pub async fn new() -> Self {
        Self::with_gap(InboxLimits::default().gap).await
    }

    /// The same with a server that waits so long for a missing append.
    pub async fn with_gap(gap: Duration) -> Self {
        let chat = Conversation::endpoint().await;
        let data = tempfile::tempdir().unwrap();
        let models = vec![chat_model(&chat.base_url())];
        let server = CairnServer::with_models(data.path(), models, limits(gap)).await;
        let conversation = Conversation::begin(chat, &server.base_url, KEY).await;
        Self {
            conversation,
            server,
            data,
        }
    }

    /// The server is started again with an empty data folder.
    pub async fn forget_everything(self) -> Self {
        let Self {
            mut conversation,
            server,
            ..
        } = self;
        server.stop().await;
        let data = tempfile::tempdir().unwrap();
        let models = vec![chat_model(&conversation.chat.base_url())];
        let server = CairnServer::with_models(data.path(), models, limits(InboxLimits::default().gap)).await;
        conversation.cursor.reconnect(&server.base_url, KEY).await;
        Self {
            conversation,
            server,
            data,
        }
    }

    /// Plays a turn in which nothing breaks.
    pub async fn reference(turn: Turn) -> Reference {
        let mut inside = Self::new().await;
        let report = inside.conversation.cursor.send(turn.message()).await.success();
        inside.conversation.reference(report).await
    }

    /// The turn went well in spite of all.
    pub async fn nothing_happened(mut self, reference: &Reference) {
        self.conversation.cursor.send(NEXT).await.success();
        self.went_well(reference).await;
    }

    /// The client has gone on with another message, and everything went well.
    pub async fn went_well(self, reference: &Reference) {
        self.conversation.told_as_in(reference);
        self.server.stop().await;
        runs_are_over(self.data.path(), 3, 0, Broken::Failed(FailureKind::Client)).await;
    }

    /// The run failed: the server is started again, the client goes on, and everything is as it must be.
    pub async fn survive(self, turn: Turn, how: GoOn, broken: Broken, reference: &Reference) {
        let Self {
            mut conversation,
            server,
            data,
        } = self;
        server.stop().await;
        let crashed = Facts::read(data.path()).await;
        let models = vec![chat_model(&conversation.chat.base_url())];
        let server = CairnServer::with_models(data.path(), models, SessionLimits::default()).await;
        conversation.cursor.reconnect(&server.base_url, KEY).await;
        let committed = async || crashed.count("tool_completions");
        let runs = conversation.go_on(turn, how, committed, reference).await;
        server.stop().await;
        crashed.assert_kept_in(&Facts::read(data.path()).await);
        runs_are_over(data.path(), 1 + runs, conversation.breaks, broken).await;
        conversation.assert_clean();
    }

    /// Where the database is.
    pub fn data(&self) -> PathBuf {
        self.data.path().to_owned()
    }

    /// Another window has taken the conversation over from the run with this request, with a message on top of this
    /// state, and its run has ended well: everything is as it must be.
    pub async fn taken_over(self, held: &ConversationStateStructure, request: &str, reference: &Reference) {
        let committed = Facts::read_beside(self.data.path()).await.completions_of(request);
        self.conversation.went_on_from(held, committed, reference);
        self.server.stop().await;
        runs_are_over(self.data.path(), 2, 1, Broken::Cancelled).await;
    }

    /// The client closed the stream of the run with this request: it goes on at once with the server that lives on, and
    /// everything is as it must be.
    pub async fn survive_cut(self, turn: Turn, how: GoOn, request: &str, reference: &Reference) {
        let Self {
            mut conversation,
            server,
            data,
        } = self;
        let at_the_cut = Facts::read_beside(data.path()).await;
        // The run that was left may commit until the next one takes the conversation over.
        let committed = async || {
            let later = Facts::read_beside(data.path()).await;
            later.completions_of(request)
        };
        let runs = conversation.go_on(turn, how, committed, reference).await;
        server.stop().await;
        at_the_cut.assert_kept_in(&Facts::read(data.path()).await);
        runs_are_over(data.path(), 1 + runs, conversation.breaks, Broken::Cancelled).await;
        conversation.assert_clean();
    }
}

/// Two signs of life in a row: the server waits.
pub async fn until_silent(turn: &mut fake_cursor::Turn<'_>) {
    let mut signs = 0;
    while signs < 2 {
        let frame = turn.next().await.expect("the run ended");
        signs = if is_heartbeat(&frame) { signs + 1 } else { 0 };
    }
}

/// Lets time pass at once, over real connections. Nothing may be on its way meanwhile.
pub async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}
