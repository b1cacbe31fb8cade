//! The built `cairn` as a process of its own, with its log in a file.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::support::cairn_server::{KEY, MODEL};

/// The program as people run it. Killed when dropped.
pub(super) struct Program {
    child: Child,
    pub(super) address: String,
}

impl Program {
    pub(super) fn start(folder: &Path, chat: &str) -> Self {
        let file = folder.join("cairn.toml");
        let model = format!(
            "id = \"{MODEL}\"\napi = \"openai-chat\"\nbase_url = \"{chat}\"\ncontext_window = 128000\n"
        );
        std::fs::write(&file, format!("client_key = \"{KEY}\"\n[[models]]\n{model}")).unwrap();
        let log = File::options()
            .create(true)
            .append(true)
            .open(log_of(folder))
            .unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_cairn"))
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(&file)
            .arg("--data-dir")
            .arg(folder.join("data"))
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, address }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the program writes its log, one run behind the other.
pub(super) fn log_of(folder: &Path) -> PathBuf {
    folder.join("log")
}
