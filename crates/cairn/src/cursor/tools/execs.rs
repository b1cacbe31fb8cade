//! Exec ids: which call each belongs to, and what may still come for it.
//!
//! An exec id goes `Live → Finished`, `Live → Background → Finished` or `Live → GivenUp`. Ids count up through the
//! whole run. The one owner of the mapping between exec ids and calls. Must never know: what a call's tool is, cards.

use std::collections::BTreeMap;

use super::codec::update;
use super::error::ToolProtocolError;
use crate::cursor::proto::agent::{agent_server_message::Message, exec_client_message, shell_stream};
use crate::model::CallId;

/// All exec ids that were given out.
#[derive(Debug, Default)]
pub(super) struct Execs {
    last_id: u32,
    states: BTreeMap<u32, Exec>,
}

/// What became of an exec id.
#[derive(Debug)]
pub(super) enum Exec {
    /// Its answer is awaited.
    Live(CallId),
    /// The call is over; its command may still put something out.
    Background { call: CallId, model_call_id: String },
    /// It has its answer.
    Finished(CallId),
    /// Its answer is not awaited any more, and may still come.
    GivenUp,
}

impl Execs {
    /// The next id, not yet of any call.
    pub(super) fn reserve(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    /// The id for a question that belongs to this call.
    pub(super) fn begin(&mut self, call: &CallId) -> u32 {
        let exec_id = self.reserve();
        self.states.insert(exec_id, Exec::Live(call.clone()));
        exec_id
    }

    /// The id's next state.
    pub(super) fn set(&mut self, exec_id: u32, state: Exec) {
        self.states.insert(exec_id, state);
    }

    /// What became of an exec id. None if its round is over or it never was a tool's.
    pub(super) fn issued(&self, exec_id: u32) -> Result<Option<&Exec>, ToolProtocolError> {
        match exec_id {
            0 => Err(ToolProtocolError::MissingExecId),
            _ if exec_id > self.last_id => Err(ToolProtocolError::UnknownExec { exec_id }),
            _ => Ok(self.states.get(&exec_id)),
        }
    }

    /// What became of an exec id whose round is not over.
    pub(super) fn current(&self, exec_id: u32) -> Result<&Exec, ToolProtocolError> {
        self.issued(exec_id)?
            .ok_or(ToolProtocolError::FinishedExec { exec_id, call: None })
    }

    /// The round is over: only what may still be heard of is kept.
    pub(super) fn round_ended(&mut self) {
        self.states
            .retain(|_, exec| matches!(exec, Exec::Background { .. } | Exec::GivenUp));
    }

    /// Waits no longer for what is live of a call. The client is not told: an abort stops none of what is given up. [sdk]
    pub(super) fn give_up(&mut self, call: &CallId) {
        for exec in self.states.values_mut() {
            if matches!(exec, Exec::Live(live) if live == call) {
                *exec = Exec::GivenUp;
            }
        }
    }

    /// Waits no longer for any id that has no answer; returns these ids, which the client is to be told to stop.
    pub(super) fn give_up_all(&mut self) -> Vec<u32> {
        let mut stopped = Vec::new();
        for (exec_id, exec) in &mut self.states {
            if matches!(exec, Exec::Live(_)) {
                *exec = Exec::GivenUp;
                stopped.push(*exec_id);
            }
        }
        stopped
    }
}

/// Whether the message is what a hook adds to a command, or an event of a command that this version does not know.
pub(super) fn adds_nothing(message: Option<&exec_client_message::Message>) -> bool {
    matches!(
        message,
        Some(exec_client_message::Message::ShellStream(stream))
            if matches!(stream.event, None | Some(shell_stream::Event::HookContext(_)))
    )
}

/// What a background command put out, and whether it has ended.
pub(super) fn background_output(
    call: &CallId,
    model_call_id: &str,
    message: Option<exec_client_message::Message>,
) -> (Option<Message>, bool) {
    let Some(exec_client_message::Message::ShellStream(stream)) = message else {
        return (None, false);
    };
    let delta = match stream.event {
        Some(shell_stream::Event::Stdout(out)) => update::stdout_delta(out.data),
        Some(shell_stream::Event::Stderr(out)) => update::stderr_delta(out.data),
        Some(shell_stream::Event::Exit(_)) => return (None, true),
        _ => return (None, false),
    };
    (Some(update::delta(call, delta, model_call_id)), false)
}
