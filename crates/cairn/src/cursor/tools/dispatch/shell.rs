//! A running command: collects its output until one of its terminal events. Must never know: exec ids.

use super::super::codec::update::{stderr_delta, stdout_delta};
use super::super::result::Outcome;
use super::super::result::exec::shell;
use super::{Awaiting, Progress, Step};
use crate::cursor::proto::agent::{ShellArgs, shell_stream::Event};

/// A command that was handed to the client.
#[derive(Debug)]
pub(in super::super) struct ShellRun {
    args: ShellArgs,
    output: shell::Output,
}

impl ShellRun {
    pub(super) fn new(args: ShellArgs) -> Self {
        Self {
            args,
            output: shell::Output::default(),
        }
    }
}

pub(super) fn advance(
    mut run: ShellRun,
    event: Option<Event>,
    terminals_folder: Option<&str>,
    elapsed_ms: u64,
) -> Progress {
    let delta = match event {
        None | Some(Event::Start(_) | Event::HookContext(_)) => None,
        Some(Event::Stdout(out)) => {
            run.output.stdout.push(&out.data);
            run.output.interleaved.push(&out.data);
            Some(stdout_delta(out.data))
        }
        Some(Event::Stderr(out)) => {
            run.output.stderr.push(&out.data);
            run.output.interleaved.push(&out.data);
            Some(stderr_delta(out.data))
        }
        Some(Event::Exit(exit)) => return done(shell::exited(run.args, &run.output, exit, elapsed_ms)),
        Some(Event::Backgrounded(event)) => {
            return Progress::Backgrounded(shell::backgrounded(
                run.args,
                &run.output,
                event,
                terminals_folder,
            ));
        }
        Some(Event::Rejected(event)) => return done(shell::rejected(run.args, event)),
        Some(Event::PermissionDenied(event)) => return done(shell::denied(run.args, event)),
        Some(Event::SandboxUnsupported(event)) => return done(shell::unsupported(run.args, event)),
    };
    Progress::Wait {
        awaiting: Awaiting::Shell(Box::new(run)),
        delta,
    }
}

fn done(outcome: Outcome) -> Progress {
    Progress::Step(Step::Done(outcome))
}
