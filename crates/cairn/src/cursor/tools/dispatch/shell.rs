//! A running command: collects its output until one of its terminal events and what hooks add to it.
//!
//! Hooks of the workspace speak after the terminal event and before the client ends the exec [sdk], so that a command
//! in the foreground is over only with its exec. Must never know: exec ids.

use super::super::codec::update::{stderr_delta, stdout_delta};
use super::super::result::Outcome;
use super::super::result::exec::shell::{self, Ended};
use super::{Awaiting, Progress, Scope};
use crate::cursor::proto::agent::{HookAdditionalContext, ShellArgs, shell_stream::Event};

/// A command that was handed to the client.
#[derive(Debug)]
pub(in super::super) struct ShellRun {
    args: ShellArgs,
    output: shell::Output,
    /// How it ended, until its exec is over.
    ended: Option<Ended>,
    hooks: Vec<HookAdditionalContext>,
}

impl ShellRun {
    pub(super) fn new(args: ShellArgs) -> Self {
        Self {
            args,
            output: shell::Output::default(),
            ended: None,
            hooks: Vec::new(),
        }
    }

    /// The exec is over; gives the run back if the command has not ended.
    pub(super) fn closed(mut self: Box<Self>) -> Result<Outcome, Box<Self>> {
        match self.ended.take() {
            Some(ended) => Ok(shell::outcome(self.args, &self.output, ended, &self.hooks)),
            None => Err(self),
        }
    }
}

pub(super) fn advance(mut run: ShellRun, event: Option<Event>, scope: &Scope, elapsed_ms: u64) -> Progress {
    let mut delta = None;
    match event {
        None => {}
        Some(Event::HookContext(added)) => run.hooks.extend(added.hook_additional_contexts),
        Some(_) if run.ended.is_some() => return Progress::Surplus(Awaiting::Shell(Box::new(run))),
        Some(Event::Start(_)) => {}
        Some(Event::Stdout(out)) => {
            run.output.push_stdout(&out.data);
            delta = Some(stdout_delta(out.data));
        }
        Some(Event::Stderr(out)) => {
            run.output.push_stderr(&out.data);
            delta = Some(stderr_delta(out.data));
        }
        Some(Event::Backgrounded(event)) => {
            let file = scope.terminal_file(event.shell_id);
            return Progress::Backgrounded(shell::backgrounded(
                run.args,
                &run.output,
                event,
                file.as_deref(),
            ));
        }
        Some(Event::Exit(exit)) => run.ended = Some(Ended::Exit { exit, elapsed_ms }),
        Some(Event::Rejected(event)) => run.ended = Some(Ended::Rejected(event)),
        Some(Event::PermissionDenied(event)) => run.ended = Some(Ended::Denied(event)),
        Some(Event::SandboxUnsupported(event)) => run.ended = Some(Ended::Unsupported(event)),
    }
    Progress::Wait {
        awaiting: Awaiting::Shell(Box::new(run)),
        delta,
    }
}
