//! A conversation with a server in this process, whose limits the test sets.

use std::time::Duration;

use cairn::cursor::inbox::InboxLimits;
use cairn::cursor::run_sse::StreamLimits;
use cairn::cursor::sessions::SessionLimits;
use cairn::model::FailureKind;
use tempfile::TempDir;

use super::conversation::{Broken, Conversation, GoOn, Reference, Turn, runs_are_over};
use super::facts::Facts;
use super::support::cairn_server::{CairnServer, KEY, chat_model};

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

    /// Plays a turn in which nothing breaks.
    pub async fn reference(turn: Turn) -> Reference {
        let mut inside = Self::new().await;
        let report = inside.conversation.cursor.send(turn.message()).await.success();
        inside.conversation.reference(report).await
    }

    /// The turn went well in spite of all.
    pub async fn nothing_happened(mut self, reference: &Reference) {
        self.conversation.nothing_happened(reference).await;
        self.server.stop().await;
        runs_are_over(self.data.path(), 3, Broken::Failed(FailureKind::Client)).await;
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
        let runs = conversation.go_on(turn, how, &crashed, reference).await;
        server.stop().await;
        crashed.assert_kept_in(&Facts::read(data.path()).await);
        runs_are_over(data.path(), 1 + runs, broken).await;
        conversation.assert_clean();
    }
}
