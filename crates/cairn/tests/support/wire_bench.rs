//! A strict client, the real server and a strict endpoint in one process, and what the endpoint was sent.

use bytes::Bytes;
use serde_json::Value;
use tempfile::TempDir;

use super::cairn_server::{CairnServer, KEY};
use super::fake_cursor::FakeCursor;
use super::strict_chat::StrictChat;

/// Everything that a wire-level test needs.
pub struct Bench {
    pub chat: StrictChat,
    pub server: CairnServer,
    pub cursor: FakeCursor,
    pub workspace: TempDir,
    data: TempDir,
}

/// What a restarted server finds in its data folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Database {
    Kept,
    Lost,
}

impl Bench {
    pub async fn new() -> Self {
        let chat = StrictChat::start().await;
        chat.one_conversation();
        let data = TempDir::new().unwrap();
        let workspace = TempDir::new().unwrap();
        let server = CairnServer::start(data.path(), &chat.base_url()).await;
        let cursor = FakeCursor::new(&server.base_url, KEY, "agent-1", workspace.path()).await;
        Self {
            chat,
            server,
            cursor,
            workspace,
            data,
        }
    }

    /// Stops the server and starts it again; the client and the endpoint stay.
    pub async fn restart(self, database: Database) -> Self {
        let Self {
            chat,
            server,
            mut cursor,
            workspace,
            mut data,
        } = self;
        server.stop().await;
        if database == Database::Lost {
            data = TempDir::new().unwrap();
        }
        let server = CairnServer::start(data.path(), &chat.base_url()).await;
        cursor.reconnect(&server.base_url, KEY).await;
        Self {
            chat,
            server,
            cursor,
            workspace,
            data,
        }
    }

    /// Writes a file of the workspace.
    pub fn file(&self, name: &str, content: &str) {
        std::fs::write(self.workspace.path().join(name), content).unwrap();
    }

    /// Reads a file of the workspace.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.workspace.path().join(name)).unwrap()
    }

    /// The bodies that the endpoint was sent, in order.
    pub fn bodies(&self) -> Vec<Bytes> {
        self.chat
            .requests()
            .into_iter()
            .map(|request| request.body)
            .collect()
    }

    /// The messages that the last body has on top of the one before, which it must repeat byte for byte.
    #[track_caller]
    pub fn added(&self) -> Vec<Value> {
        let bodies = self.bodies();
        let [.., earlier, later] = &bodies[..] else {
            panic!("there are no two requests: {}", bodies.len());
        };
        added(earlier, later)
    }

    /// Ends the test: nobody broke a rule.
    #[track_caller]
    pub fn assert_clean(&self) {
        self.cursor.assert_clean();
        self.chat.assert_clean();
    }
}

/// The messages of `later` on top of those of `earlier`, whose bytes it must begin with.
#[track_caller]
pub fn added(earlier: &[u8], later: &[u8]) -> Vec<Value> {
    let open = earlier.strip_suffix(b"]}").unwrap();
    assert!(
        later.starts_with(open),
        "the later body does not repeat the earlier one"
    );
    let messages = |body: &[u8]| {
        let body: Value = serde_json::from_slice(body).unwrap();
        body["messages"].as_array().unwrap().clone()
    };
    let known = messages(earlier).len();
    messages(later).split_off(known)
}

/// The roles of messages.
pub fn roles(messages: &[Value]) -> Vec<&str> {
    messages
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect()
}
