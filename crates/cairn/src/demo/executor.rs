//! Runs on one folder what the server asks the client to run, as the official client does it, as far as the
//! demonstration needs it: reading, writing and deleting files, shell commands, and the request context.
//!
//! Whatever else is asked for is answered with the client's own `throw`. Must never know: why something is asked.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::cursor::proto::agent::agent_client_message::Message;
use crate::cursor::proto::agent::{
    DeleteArgs, DeleteError, DeleteFileNotFound, DeleteResult, DeleteSuccess, ExecClientControlMessage,
    ExecClientMessage, ExecClientStreamClose, ExecClientThrow, ExecServerMessage, ReadArgs, ReadError,
    ReadFileNotFound, ReadInvalidFile, ReadResult, ReadSuccess, RequestContext, RequestContextEnv,
    RequestContextResult, RequestContextSuccess, ShellArgs, ShellStream, ShellStreamExit, ShellStreamStart,
    ShellStreamStderr, ShellStreamStdout, WriteArgs, WriteError, WriteResult, WriteSuccess, delete_result,
    exec_client_control_message, exec_client_message, exec_server_message, read_result, read_success,
    request_context_result, shell_stream, write_result,
};

/// A folder in which things are run.
#[derive(Clone, Debug)]
pub struct Executor {
    root: PathBuf,
}

impl Executor {
    /// An executor on this folder, which must be an absolute path.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Runs one request and gives all that the client says about it, in order.
    pub async fn execute(&self, exec: ExecServerMessage) -> Vec<Message> {
        let id = exec.id;
        let answers = match exec.message {
            Some(exec_server_message::Message::RequestContextArgs(_)) => Ok(vec![self.request_context()]),
            Some(exec_server_message::Message::ReadArgs(args)) => Ok(vec![self.read(&args).await]),
            Some(exec_server_message::Message::WriteArgs(args)) => Ok(vec![self.write(&args).await]),
            Some(exec_server_message::Message::DeleteArgs(args)) => Ok(vec![self.delete(&args).await]),
            Some(exec_server_message::Message::ShellStreamArgs(args)) => self.shell(&args).await,
            _ => Err("No handler found for this server message".to_owned()),
        };
        match answers {
            Ok(answers) => {
                let mut messages: Vec<_> = answers.into_iter().map(|answer| answered(id, answer)).collect();
                messages.push(closed(id));
                messages
            }
            Err(error) => vec![thrown(id, error)],
        }
    }

    fn request_context(&self) -> exec_client_message::Message {
        let root = self.root.to_string_lossy().into_owned();
        let request_context = RequestContext {
            env: Some(RequestContextEnv {
                os_version: std::env::consts::OS.to_owned(),
                workspace_paths: vec![root.clone()],
                shell: "sh".to_owned(),
                time_zone: "UTC".to_owned(),
                process_working_directory: Some(root),
                ..Default::default()
            }),
            ..Default::default()
        };
        exec_client_message::Message::RequestContextResult(RequestContextResult {
            result: Some(request_context_result::Result::Success(RequestContextSuccess {
                request_context: Some(request_context),
                served_from_disk_cache: None,
            })),
        })
    }

    async fn read(&self, args: &ReadArgs) -> exec_client_message::Message {
        let path = self.root.join(&args.path);
        let shown = path.to_string_lossy().into_owned();
        let result = match tokio::fs::read(&path).await {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => read_result::Result::Success(read_success(shown, &text, args)),
                Err(_) => read_result::Result::InvalidFile(ReadInvalidFile {
                    path: shown,
                    reason: "Binary files are not supported by the read executor".to_owned(),
                }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                read_result::Result::FileNotFound(ReadFileNotFound { path: shown })
            }
            Err(error) => read_result::Result::Error(ReadError {
                path: shown,
                error: error.to_string(),
            }),
        };
        exec_client_message::Message::ReadResult(ReadResult { result: Some(result) })
    }

    async fn write(&self, args: &WriteArgs) -> exec_client_message::Message {
        let path = self.root.join(&args.path);
        let shown = path.to_string_lossy().into_owned();
        let bytes = if args.file_bytes.is_empty() {
            args.file_text.as_bytes()
        } else {
            &args.file_bytes[..]
        };
        let result = match write_with_parents(&path, bytes).await {
            Ok(()) => write_result::Result::Success(WriteSuccess {
                path: shown,
                lines_created: count(args.file_text.split('\n').count()),
                file_size: count(bytes.len()),
                file_content_after_write: args
                    .return_file_content_after_write
                    .then(|| args.file_text.clone()),
            }),
            Err(error) => write_result::Result::Error(WriteError {
                path: shown,
                error: error.to_string(),
            }),
        };
        exec_client_message::Message::WriteResult(WriteResult { result: Some(result) })
    }

    async fn delete(&self, args: &DeleteArgs) -> exec_client_message::Message {
        let path = self.root.join(&args.path);
        let shown = path.to_string_lossy().into_owned();
        let deleted = async {
            let size = tokio::fs::metadata(&path).await?.len();
            tokio::fs::remove_file(&path).await.map(|()| size)
        };
        let result = match deleted.await {
            Ok(size) => delete_result::Result::Success(DeleteSuccess {
                path: shown.clone(),
                deleted_file: shown,
                file_size: i64::try_from(size).unwrap_or(i64::MAX),
                prev_content: String::new(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                delete_result::Result::FileNotFound(DeleteFileNotFound { path: shown })
            }
            Err(error) => delete_result::Result::Error(DeleteError {
                path: shown,
                error: error.to_string(),
            }),
        };
        exec_client_message::Message::DeleteResult(DeleteResult { result: Some(result) })
    }

    /// Runs a command to its end. A command that outlasts its time is killed: this client has no background.
    async fn shell(&self, args: &ShellArgs) -> Result<Vec<exec_client_message::Message>, String> {
        // Collected anew from its components, a path has no `.` and no separator at its end.
        let folder: PathBuf = self.root.join(&args.working_directory).components().collect();
        let command = Command::new("sh")
            .arg("-c")
            .arg(&args.command)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let limit = Duration::from_millis(u64::try_from(args.timeout).unwrap_or_default());
        let output = match tokio::time::timeout(limit, command).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => return Err(format!("the shell could not be started: {error}")),
            Err(_) => {
                return Err(format!(
                    "the command ran for more than {} ms and was killed",
                    limit.as_millis()
                ));
            }
        };
        let mut events = vec![shell_stream::Event::Start(ShellStreamStart {})];
        if !output.stdout.is_empty() {
            let data = String::from_utf8_lossy(&output.stdout).into_owned();
            events.push(shell_stream::Event::Stdout(ShellStreamStdout { data }));
        }
        if !output.stderr.is_empty() {
            let data = String::from_utf8_lossy(&output.stderr).into_owned();
            events.push(shell_stream::Event::Stderr(ShellStreamStderr { data }));
        }
        events.push(shell_stream::Event::Exit(ShellStreamExit {
            // A command that a signal ended has no code, and the official client then sends none.
            code: output.status.code().map_or(0, i32::cast_unsigned),
            cwd: folder.to_string_lossy().into_owned(),
            ..Default::default()
        }));
        Ok(events
            .into_iter()
            .map(|event| exec_client_message::Message::ShellStream(ShellStream { event: Some(event) }))
            .collect())
    }
}

/// An answer to an exec.
pub fn answered(id: u32, message: exec_client_message::Message) -> Message {
    Message::ExecClientMessage(ExecClientMessage {
        id,
        message: Some(message),
        ..Default::default()
    })
}

/// The end of an exec's answers.
pub fn closed(id: u32) -> Message {
    control(exec_client_control_message::Message::StreamClose(
        ExecClientStreamClose { id },
    ))
}

/// An exec that the client could not run.
pub fn thrown(id: u32, error: String) -> Message {
    control(exec_client_control_message::Message::Throw(ExecClientThrow {
        id,
        error,
        ..Default::default()
    }))
}

fn control(message: exec_client_control_message::Message) -> Message {
    Message::ExecClientControlMessage(ExecClientControlMessage {
        message: Some(message),
    })
}

/// Lines as the official client counts them: the piece after the last line break is one too. [sdk]
fn read_success(path: String, text: &str, args: &ReadArgs) -> ReadSuccess {
    let text = text.replace("\r\n", "\n");
    let lines: Vec<&str> = text.split('\n').collect();
    let first = match args.offset.unwrap_or_default() {
        offset if offset < 0 => lines
            .len()
            .saturating_sub(usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX)),
        offset => usize::try_from(offset).unwrap_or_default().saturating_sub(1),
    };
    let limit = args
        .limit
        .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let asked_for_part = args.offset.is_some() || args.limit.is_some();
    // Beyond the end, the official client gives the whole file. [sdk]
    let range_applied = asked_for_part && first < lines.len();
    let content = if range_applied {
        let part: Vec<&str> = lines.iter().copied().skip(first).take(limit).collect();
        part.join("\n")
    } else {
        text.clone()
    };
    ReadSuccess {
        path,
        total_lines: count(lines.len()),
        file_size: i64::try_from(text.len()).unwrap_or(i64::MAX),
        range_applied,
        output: Some(read_success::Output::Content(content)),
        ..Default::default()
    }
}

async fn write_with_parents(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        tokio::fs::create_dir_all(parent).await?;
    }
    tokio::fs::write(path, bytes).await
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
