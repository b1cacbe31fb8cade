//! The host under test: a trait for hosts in this process, and a host that is a command.
//!
//! Owns what a host is given and how a command gets it. Must never know: what is measured.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::api::{Api, FIXTURE_KEY};
use crate::fixture::Skill;
use crate::tail::TailSegment;

/// What a host needs to know of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// The API to speak.
    pub api: Api,
    /// `http://HOST:PORT` of the endpoint.
    pub origin: String,
    /// The base URL as the API's own clients take it; see [`Api::base_url`].
    pub base_url: String,
    /// The model's id at the endpoint.
    pub model: String,
    /// The skills that the host has to be able to load.
    pub skills: [Skill; 2],
    /// The inputs of the two turns.
    pub inputs: [String; 2],
}

/// A host's own failure, in its words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HostError(pub String);

/// Anything that runs turns against a base URL.
///
/// The host keeps its own prompt, tools, context and session; both turns belong to one session. It sends two requests a turn:
/// one that the endpoint answers with a call of the skill's tool, one with that call's result.
pub trait Host: Send {
    /// Runs a turn (1 or 2) to its end, with `session.inputs[turn - 1]`.
    fn turn(&mut self, session: &Session, turn: usize) -> impl Future<Output = Result<(), HostError>> + Send;

    /// The messages that the host put at the tail of its requests and means to send anew, asked once after both turns.
    fn tail_segments(&mut self) -> impl Future<Output = Result<Vec<TailSegment>, HostError>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Whether the first call of `turn` runs both turns, as a command that owns its loop does.
    fn runs_all_turns_at_once(&self) -> bool {
        false
    }
}

/// How a command runs the turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CommandMode {
    /// It is started for each turn; it keeps its session in the folder that it is given, or by its own means.
    #[default]
    PerTurn,
    /// It is started once and runs both turns.
    Once,
}

/// A host that is a command. It learns all by its environment; `{input}` and `{turn}` in its arguments are filled in too.
#[derive(Debug)]
pub struct CommandHost {
    program: String,
    arguments: Vec<String>,
    mode: CommandMode,
    folder: tempfile::TempDir,
}

impl CommandHost {
    /// Prepares the folder that the command's session, skills and declarations live in.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn new(program: String, arguments: Vec<String>, mode: CommandMode) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("prefix-conformance").tempdir()?;
        Ok(Self {
            program,
            arguments,
            mode,
            folder,
        })
    }

    /// The file of a skill's body, which [`CommandHost`] writes before the first turn.
    pub fn skill_file(&self, name: &str) -> PathBuf {
        self.folder.path().join("skills").join(name).join("SKILL.md")
    }

    fn tail_file(&self) -> PathBuf {
        self.folder.path().join("tail.jsonl")
    }

    fn write_skills(&self, session: &Session) -> io::Result<()> {
        std::fs::create_dir_all(self.folder.path().join("session"))?;
        for skill in &session.skills {
            let file = self.skill_file(&skill.name);
            if let Some(folder) = file.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(file, &skill.body)?;
        }
        Ok(())
    }

    fn command(&self, session: &Session, turn: usize) -> Command {
        let input = &session.inputs[turn - 1];
        let filled = |argument: &String| {
            // The input last and in one go: what it holds is its text.
            let pieces: Vec<String> = argument
                .split("{input}")
                .map(|piece| piece.replace("{turn}", &turn.to_string()))
                .collect();
            pieces.join(input)
        };
        let mut command = Command::new(&self.program);
        command
            .args(self.arguments.iter().map(filled))
            .envs(session.api.environment(&session.origin))
            .env("PREFIX_CONFORMANCE_API", session.api.as_str())
            .env("PREFIX_CONFORMANCE_BASE_URL", &session.base_url)
            .env("PREFIX_CONFORMANCE_ORIGIN", &session.origin)
            .env("PREFIX_CONFORMANCE_KEY", FIXTURE_KEY)
            .env("PREFIX_CONFORMANCE_MODEL", &session.model)
            .env("PREFIX_CONFORMANCE_INPUT", input)
            .env("PREFIX_CONFORMANCE_INPUT_1", &session.inputs[0])
            .env("PREFIX_CONFORMANCE_INPUT_2", &session.inputs[1])
            .env("PREFIX_CONFORMANCE_SKILLS", self.folder.path().join("skills"))
            .env("PREFIX_CONFORMANCE_SESSION", self.folder.path().join("session"))
            .env("PREFIX_CONFORMANCE_TAIL", self.tail_file())
            // The endpoint is on loopback; no proxy is to come between.
            .env("NO_PROXY", "127.0.0.1,localhost")
            .env("no_proxy", "127.0.0.1,localhost")
            .stdin(Stdio::piped())
            // Standard output belongs to the result.
            .stdout(Stdio::from(std::io::stderr()))
            .kill_on_drop(true);
        // Its own group, so that all that it started can be ended with it.
        #[cfg(unix)]
        command.process_group(0);
        if self.mode == CommandMode::PerTurn {
            command.env("PREFIX_CONFORMANCE_TURN", turn.to_string());
        }
        command
    }

    async fn run(&self, session: &Session, turn: usize) -> Result<(), HostError> {
        let fault = |what: &str, cause: io::Error| HostError(format!("{what} {}: {cause}", self.program));
        if turn == 1 {
            self.write_skills(session)
                .map_err(|cause| HostError(format!("the skills cannot be written: {cause}")))?;
        }
        let mut child = self
            .command(session, turn)
            .spawn()
            .map_err(|cause| fault("cannot start", cause))?;
        #[cfg(unix)]
        let group = Group(child.id());
        if let Some(mut stdin) = child.stdin.take() {
            let text = match self.mode {
                CommandMode::PerTurn => format!("{}\n", session.inputs[turn - 1]),
                CommandMode::Once => format!("{}\n{}\n", session.inputs[0], session.inputs[1]),
            };
            match stdin.write_all(text.as_bytes()).await {
                // A command that takes its input elsewhere may close it.
                Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
                    return Err(fault("cannot write to", cause));
                }
                _ => {}
            }
        }
        let status = child
            .wait()
            .await
            .map_err(|cause| fault("cannot wait for", cause))?;
        #[cfg(unix)]
        group.leave();
        if status.success() {
            Ok(())
        } else {
            Err(HostError(format!("{} ended with {status}", self.program)))
        }
    }
}

/// The processes of a command that is running. If its turn is given up they are ended, all of them: a command is often a
/// wrapper of the one that hangs.
#[cfg(unix)]
struct Group(Option<u32>);

#[cfg(unix)]
impl Group {
    /// The command has ended by itself; what it left behind is its own affair.
    fn leave(mut self) {
        self.0 = None;
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        use rustix::process::{Pid, Signal, kill_process_group};
        let leader = self
            .0
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        if let Some(leader) = leader {
            // It may have ended at this moment.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Host for CommandHost {
    async fn turn(&mut self, session: &Session, turn: usize) -> Result<(), HostError> {
        if self.mode == CommandMode::Once && turn > 1 {
            return Ok(());
        }
        self.run(session, turn).await
    }

    async fn tail_segments(&mut self) -> Result<Vec<TailSegment>, HostError> {
        match std::fs::read_to_string(self.tail_file()) {
            Ok(text) => TailSegment::parse_lines(&text).map_err(|fault| HostError(fault.to_string())),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(cause) => Err(HostError(format!(
                "the declared tail segments cannot be read: {cause}"
            ))),
        }
    }

    fn runs_all_turns_at_once(&self) -> bool {
        self.mode == CommandMode::Once
    }
}
