//! A conversation with the built server as a process of its own.

use std::path::PathBuf;

use tempfile::TempDir;

use super::conversation::{Broken, Conversation, GoOn, Reference, Turn, runs_are_over};
use super::facts::{Facts, commits};
use super::process::{Home, KEY, Process};
use super::support::fake_cursor::{End, TurnReport};

/// The server's process, its client and its model.
pub struct Outside {
    pub conversation: Conversation,
    pub server: Process,
    pub home: Home,
    /// Where the home is.
    folder: TempDir,
}

/// A turn in which nothing broke, and what it left on disk.
pub struct OutsideReference {
    pub reference: Reference,
    /// Where each commit ended in the log when the turn began, and when it was done.
    pub commits: (Vec<u64>, Vec<u64>),
    /// The data folder, whose process is gone.
    pub home: Home,
    folder: TempDir,
}

impl Outside {
    /// A conversation whose first turn is done.
    pub async fn new() -> Self {
        Self::after(|_| {}).await
    }

    /// The same after something was done with the configured server that has never run.
    pub async fn after(first: impl FnOnce(&Home)) -> Self {
        let chat = Conversation::endpoint().await;
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path(), &chat.base_url());
        first(&home);
        let server = home.start();
        let conversation = Conversation::begin(chat, &server.base_url, KEY).await;
        Self {
            conversation,
            server,
            home,
            folder,
        }
    }

    /// Plays a turn with tools until its first round is staged and waits for all of its results, and kills the server.
    pub async fn killed_in_a_round(&mut self) -> TurnReport {
        let kill = self.server.killer();
        self.conversation.left_in_a_round(kill).await
    }

    /// Plays a turn in which nothing breaks.
    pub async fn reference(turn: Turn) -> OutsideReference {
        let mut outside = Self::new().await;
        let before = commits(&outside.data());
        let report = outside.conversation.cursor.send(turn.message()).await.success();
        let after = commits(&outside.data());
        let reference = outside.conversation.reference(report).await;
        outside.server.killer()();
        OutsideReference {
            reference,
            commits: (before, after),
            home: outside.home,
            folder: outside.folder,
        }
    }

    /// Uses a server that was started anew.
    pub async fn connect(&mut self, server: Process) {
        self.server = server;
        self.conversation
            .cursor
            .reconnect(&self.server.base_url, KEY)
            .await;
    }

    pub fn data(&self) -> PathBuf {
        self.home.data()
    }

    /// The server's process is gone in the middle of the turn: it is started again, the client goes on, and everything
    /// is as it must be.
    pub async fn survive(mut self, turn: Turn, how: GoOn, broken: &TurnReport, reference: &Reference) {
        assert!(matches!(broken.end, End::Broken(_)), "{broken}");
        let crashed = Facts::read(&self.data()).await;
        self.connect(self.home.start()).await;
        let committed = async || crashed.count("tool_completions");
        let runs = self.conversation.go_on(turn, how, committed, reference).await;
        self.server.killer()();
        crashed.assert_kept_in(&Facts::read(&self.data()).await);
        runs_are_over(
            &self.data(),
            1 + runs,
            self.conversation.breaks,
            Broken::Interrupted,
        )
        .await;
        self.conversation.assert_clean();
    }
}
