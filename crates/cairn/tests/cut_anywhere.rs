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
    pub mod over_http;
    pub mod strict_anthropic;
    pub mod strict_chat;
    pub mod strict_responses;
    pub mod wire_bench;
    pub mod wire_oracle;
}

use cairn::config::{Api, ModelConfig};
use cairn::cursor::sessions::SessionLimits;
use support::cairn_server::{CairnServer, KEY};
use support::fake_cursor::{End, FakeCursor, TurnReport};
use support::over_http::Endpoint;
use support::wire_bench::{APIS, Database, added, model_at};
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
    first: Endpoint,
    second: Endpoint,
    server: CairnServer,
    cursor: FakeCursor,
    data: TempDir,
    workspace: TempDir,
}

impl Rig {
    async fn new(api: Api) -> Self {
        let (first, second) = (Endpoint::start(api).await, Endpoint::start(api).await);
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
        self.first.reply(self.first.said(Some("Hm."), "Look.", &calls));
        self.first.reply(self.first.said(Some("So."), "One.", &[]));
        self.cursor.hooks.cut_after = cut_after;
        let report = self.cursor.send("Look at it.").await;
        self.cursor.hooks.cut_after = None;
        report
    }

    /// The client goes on, with whatever it holds.
    async fn go_on(&mut self, how: GoOn) {
        self.cursor.model = "second".to_owned();
        for _ in 0..2 {
            self.second.reply(self.second.said(Some("So."), "One.", &[]));
        }
        match how {
            GoOn::Send => self.cursor.send("Go on.").await,
            GoOn::Resume => self.cursor.resume().await,
        }
        .success();
    }
}

async fn serve(data: &TempDir, first: &Endpoint, second: &Endpoint) -> CairnServer {
    let models = vec![
        model_at(first),
        ModelConfig {
            id: "second".to_owned(),
            ..model_at(second)
        },
    ];
    CairnServer::with_models(data.path(), models, SessionLimits::default()).await
}

/// Lets the client go away after each frame of a turn in turn, and go on. Each frame is cut over one of the APIs.
async fn cut_at_each_frame(apis: &[Api], database: Option<Database>, how: GoOn) {
    for (number, api) in apis.iter().copied().enumerate() {
        let frames = Rig::new(api).await.turn(None).await.success().frames.len();
        assert!(frames > 20, "{frames} frames are no turn with tools");
        let cuts = (1..frames).filter(|cut| cut % apis.len() == number);
        for cut in cuts {
            let mut rig = Rig::new(api).await;
            let report = rig.turn(Some(cut)).await;
            assert_eq!(report.end, End::Closed);
            let asked = rig.first.requests().first().cloned();
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
            if let (true, Some(asked), Some(last)) = (has_turn, &asked, rig.second.requests().last()) {
                added(&asked.body, &last.body);
            }
            for violations in [rig.first.violations(), rig.second.violations()] {
                assert_eq!(violations, Vec::<String>::new(), "cut after frame {cut}");
            }
            rig.cursor.assert_clean();
        }
    }
}

/// `tests/faults` does the same over Chat Completions.
const OTHERS: [Api; 2] = [Api::OpenAiResponses, Api::Anthropic];

#[tokio::test]
async fn it_can_send_again() {
    cut_at_each_frame(&OTHERS, None, GoOn::Send).await;
}

#[tokio::test]
async fn it_can_resume() {
    cut_at_each_frame(&OTHERS, None, GoOn::Resume).await;
}

#[tokio::test]
async fn it_can_send_to_a_server_without_a_database() {
    cut_at_each_frame(&APIS, Some(Database::Lost), GoOn::Send).await;
}

#[tokio::test]
async fn it_can_resume_at_a_restarted_server() {
    cut_at_each_frame(&OTHERS, Some(Database::Kept), GoOn::Resume).await;
}
