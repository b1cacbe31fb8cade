//! The measured process: started on a temporary folder, watched from outside, ended with its owner.
//!
//! Must never know: what is sent to it.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// What clients present.
pub const CLIENT_KEY: &str = "benchmark-client-key";
/// The one configured model.
pub const MODEL: &str = "benchmark";

/// A child process that says on its first line of output where it listens.
pub struct Server {
    child: Child,
    address: SocketAddr,
    folder: TempDir,
}

impl Server {
    /// `cairn serve` as it was built with the benchmark, or as `--cairn PATH` says, with one model behind the endpoint.
    pub fn cairn(endpoint: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cairn.toml");
        let configuration = format!(
            "listen = \"127.0.0.1:0\"\ndata_dir = \"data\"\nclient_key = \"{CLIENT_KEY}\"\n\n[[models]]\n\
             id = \"{MODEL}\"\napi = \"openai-chat\"\nbase_url = \"http://{endpoint}/v1\"\ncontext_window = 1000000\n"
        );
        fs::write(&file, configuration).unwrap();
        let mut command =
            Command::new(super::option("--cairn").unwrap_or_else(|| env!("CARGO_BIN_EXE_cairn").to_owned()));
        command.arg("serve").arg("--config").arg(&file);
        Self::start(command, folder)
    }

    /// This benchmark itself in another role, given as arguments.
    pub fn helper(arguments: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(arguments);
        Self::start(command, tempfile::tempdir().unwrap())
    }

    fn start(mut command: Command, folder: TempDir) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.trim().rsplit('/').next().unwrap().parse();
        let address = address.unwrap_or_else(|_| panic!("the server did not start; it printed {line:?}"));
        Self {
            child,
            address,
            folder,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has used so far.
    pub fn usage(&self) -> Usage {
        let root = format!("/proc/{}", self.child.id());
        let mut cpu = HashMap::new();
        for task in fs::read_dir(format!("{root}/task")).unwrap() {
            let task = task.unwrap();
            // A thread may end between the two reads.
            let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else {
                continue;
            };
            let nanoseconds = text.split(' ').next().unwrap().parse().unwrap();
            cpu.insert(task.file_name().into_string().unwrap(), nanoseconds);
        }
        let io = fs::read_to_string(format!("{root}/io")).unwrap();
        let written = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        Usage {
            cpu_of_threads: cpu,
            disk_bytes: written.unwrap().parse().unwrap(),
        }
    }

    /// Size of its data folder in bytes.
    pub fn stored_bytes(&self) -> u64 {
        let files = fs::read_dir(self.folder.path().join("data")).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A process that has ended by itself needs no killing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process has used since it started, as the kernel counts it.
pub struct Usage {
    /// CPU time of each living thread, in nanoseconds.
    cpu_of_threads: HashMap<String, u64>,
    /// Bytes given to the file system for writing.
    disk_bytes: u64,
}

impl Usage {
    /// CPU time since then, in milliseconds. What a thread used that ended meanwhile is missing; no thread of a busy
    /// runtime ends.
    pub fn cpu_ms_since(&self, before: &Usage) -> f64 {
        let used: u64 = self
            .cpu_of_threads
            .iter()
            .map(|(thread, now)| now - before.cpu_of_threads.get(thread).unwrap_or(&0))
            .sum();
        used as f64 / 1e6
    }

    /// Bytes given to the file system for writing since then.
    pub fn disk_bytes_since(&self, before: &Usage) -> f64 {
        (self.disk_bytes - before.disk_bytes) as f64
    }
}
