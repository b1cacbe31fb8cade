//! A client may go away after any frame of a turn: what it holds then is enough to go on from, in every way.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "a test says what it saw by failing"
)]

mod support {
    pub mod cairn_server;
    pub mod fake_cursor;
    pub mod strict_chat;
    pub mod wire_bench;
    pub mod wire_oracle;
}

use cairn::config::ModelConfig;
use cairn::cursor::sessions::SessionLimits;
use support::cairn_server::{CairnServer, KEY, chat_model};
use support::fake_cursor::{End, FakeCursor, TurnReport};
use support::strict_chat::{Reply, StrictChat};
use support::wire_bench::{Database, added};
use tempfile::TempDir;

/// How the client goes on after it went away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GoOn {
    Send,
    Resume,
}

/// One model behind two endpoints: what a run that nobody follows any more still asks of the first is not mistaken for
/// what the client's next run asks of the second.
struct Rig {
    first: StrictChat,
    second: StrictChat,
    server: CairnServer,
    cursor: FakeCursor,
    data: TempDir,
    workspace: TempDir,
}

impl Rig {
    async fn new() -> Self {
        let (first, second) = (StrictChat::start().await, StrictChat::start().await);
        let (data, workspace) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        std::fs::write(workspace.path().join("a"), "one\n").unwrap();
        let server = serve(&data, &first, &second).await;
        let cursor = FakeCursor::new(&server.base_url, KEY, "agent-1", workspace.path()).await;
        Self {
            first,
            second,
            server,
            cursor,
            data,
            workspace,
        }
    }

    async fn restart(self, database: Database) -> Self {
        self.server.stop().await;
        let data = match database {
            Database::Kept => self.data,
            Database::Lost => TempDir::new().unwrap(),
        };
        let server = serve(&data, &self.first, &self.second).await;
        let mut cursor = self.cursor;
        cursor.reconnect(&server.base_url, KEY).await;
        Self {
            server,
            cursor,
            data,
            ..self
        }
    }

    /// A turn with thinking, text, two calls and an answer, in which the client goes away after so many frames.
    async fn turn(&mut self, cut_after: Option<usize>) -> TurnReport {
        let calls = [
            ("c1", "Read", r#"{"path":"a"}"#),
            ("c2", "Read", r#"{"path":"b"}"#),
        ];
        self.first.reply(Reply::answer(Some("Hm."), "Look.", &calls));
        self.first.reply(Reply::answer(Some("So."), "One.", &[]));
        self.cursor.hooks.cut_after = cut_after;
        let report = self.cursor.send("Look at it.").await;
        self.cursor.hooks.cut_after = None;
        report
    }

    /// The client goes on, with whatever it holds.
    async fn go_on(&mut self, how: GoOn) {
        self.cursor.model = "second".to_owned();
        for _ in 0..2 {
            self.second.reply(Reply::answer(Some("So."), "One.", &[]));
        }
        match how {
            GoOn::Send => self.cursor.send("Go on.").await,
            GoOn::Resume => self.cursor.resume().await,
        }
        .success();
    }
}

async fn serve(data: &TempDir, first: &StrictChat, second: &StrictChat) -> CairnServer {
    let models = vec![
        chat_model(&first.base_url()),
        ModelConfig {
            id: "second".to_owned(),
            ..chat_model(&second.base_url())
        },
    ];
    CairnServer::with_models(data.path(), models, SessionLimits::default()).await
}

/// Lets the client go away after each frame of a turn in turn, and go on.
async fn cut_at_each_frame(database: Option<Database>, how: GoOn) {
    let frames = Rig::new().await.turn(None).await.success().frames.len();
    assert!(frames > 20, "{frames} frames are no turn with tools");
    for cut in 1..frames {
        let mut rig = Rig::new().await;
        let report = rig.turn(Some(cut)).await;
        assert_eq!(report.end, End::Closed);
        let first = rig.first.requests().first().cloned();
        if let Some(database) = database {
            rig = rig.restart(database).await;
        }
        let has_turn = !rig.cursor.state().turns.is_empty();
        if how == GoOn::Resume && !has_turn {
            // Nothing was begun, so there is nothing to resume.
            continue;
        }
        rig.go_on(how).await;
        let state = rig.cursor.state();
        assert_eq!(state.pending_tool_calls.len(), 0, "cut after frame {cut}");
        if let (true, Some(first), Some(last)) = (has_turn, &first, rig.second.requests().last()) {
            added(&first.body, &last.body);
        }
        for violations in [rig.first.violations(), rig.second.violations()] {
            assert_eq!(violations, Vec::<String>::new(), "cut after frame {cut}");
        }
        rig.cursor.assert_clean();
    }
}

#[tokio::test]
async fn it_can_send_again() {
    cut_at_each_frame(None, GoOn::Send).await;
}

#[tokio::test]
async fn it_can_resume() {
    cut_at_each_frame(None, GoOn::Resume).await;
}

#[tokio::test]
async fn it_can_send_to_a_server_without_a_database() {
    cut_at_each_frame(Some(Database::Lost), GoOn::Send).await;
}

#[tokio::test]
async fn it_can_resume_at_a_restarted_server() {
    cut_at_each_frame(Some(Database::Kept), GoOn::Resume).await;
}
