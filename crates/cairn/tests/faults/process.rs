//! The built `cairn` as a process of its own, that can be killed, or that the system kills at a given write.
//!
//! Must never know: what is asked of it.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use super::support::fake_cursor::Kill;

/// What clients present.
pub const KEY: &str = "fault-client-key";

/// `SIGKILL` and `SIGXFSZ`, by the numbers that all systems with this test share.
const KILLED: i32 = 9;
const WROTE_TOO_FAR: i32 = 25;

/// A configuration file and a data folder, in one folder.
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

impl Home {
    /// Writes the configuration: one model behind this Chat Completions endpoint.
    pub fn new(folder: &Path, chat_base_url: &str) -> Self {
        let configuration = format!(
            "listen = \"127.0.0.1:0\"\ndata_dir = \"data\"\nclient_key = \"{KEY}\"\n\n[[models]]\nid = \"test\"\n\
             api = \"openai-chat\"\nbase_url = \"{chat_base_url}\"\nmodel = \"upstream-test\"\n\
             context_window = 128000\n"
        );
        std::fs::write(folder.join("cairn.toml"), configuration).unwrap();
        Self(folder.to_owned())
    }

    /// Where the database is.
    pub fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    /// Starts the server and waits until it listens.
    pub fn start(&self) -> Process {
        self.spawn(&mut Command::new(env!("CARGO_BIN_EXE_cairn")))
            .expect("cairn does not start")
    }

    /// Starts the server so that the system ends it, as it stands, when it writes a file beyond this many bytes (rounded up
    /// to 512). None if that happens before it listens.
    pub fn start_with_room(&self, bytes: u64) -> Option<Process> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "ulimit -c 0; ulimit -f \"$1\"; shift; exec \"$@\"", "sh"])
            .arg(bytes.div_ceil(512).to_string())
            .arg(env!("CARGO_BIN_EXE_cairn"));
        self.spawn(&mut command)
    }

    fn spawn(&self, command: &mut Command) -> Option<Process> {
        let mut child = command
            .args(["serve", "--config"])
            .arg(self.0.join("cairn.toml"))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let Some(base_url) = line.trim().strip_prefix("listening on ") else {
            let status = child.wait().unwrap();
            assert_eq!(status.signal(), Some(WROTE_TOO_FAR), "{status}, {line:?}");
            return None;
        };
        Some(Process {
            base_url: base_url.to_owned(),
            child: Arc::new(Mutex::new(child)),
        })
    }
}

/// A running server. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    pub base_url: String,
    child: Arc<Mutex<Child>>,
}

impl Process {
    /// Kills it without a warning when called.
    pub fn killer(&self) -> Kill {
        let child = self.child.clone();
        Box::new(move || kill(&child))
    }

    /// Waits for the end of a server that wrote beyond its room.
    pub fn wrote_too_far(&self) {
        let status = self.child.lock().unwrap().wait().unwrap();
        assert_eq!(status.signal(), Some(WROTE_TOO_FAR), "{status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        // One that has ended by itself needs no killing.
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn kill(child: &Mutex<Child>) {
    let mut child = child.lock().unwrap();
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(
        status.signal(),
        Some(KILLED),
        "it was no longer running: {status}"
    );
}
