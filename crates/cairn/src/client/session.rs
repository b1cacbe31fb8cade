//! The two ends of a run's channels. Bounded: a client that stops reading stops its run, not the process.
//!
//! Must never know: how many clients there are, or what they are.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{ClientCommand, ClientEvent};

/// Events that may wait for a client before the run waits for it.
const EVENT_CAPACITY: usize = 256;
/// Commands that may wait for a run before the client waits for it.
const COMMAND_CAPACITY: usize = 256;

/// The client's end.
#[derive(Debug)]
pub struct ClientHandle {
    /// What the run says, in order.
    pub events: mpsc::Receiver<ClientEvent>,
    /// What the client says.
    pub commands: mpsc::Sender<ClientCommand>,
    /// Stops the run at once, whatever it waits for.
    pub cancel: CancellationToken,
}

/// The run's end.
#[derive(Debug)]
pub struct RunHandle {
    /// What the run says, in order.
    pub events: mpsc::Sender<ClientEvent>,
    /// What the client says.
    pub commands: mpsc::Receiver<ClientCommand>,
    /// Stops the run at once, whatever it waits for.
    pub cancel: CancellationToken,
}

/// Makes the two ends of a run's channels.
pub fn session() -> (ClientHandle, RunHandle) {
    let (event_sender, event_receiver) = mpsc::channel(EVENT_CAPACITY);
    let (command_sender, command_receiver) = mpsc::channel(COMMAND_CAPACITY);
    let cancel = CancellationToken::new();
    (
        ClientHandle {
            events: event_receiver,
            commands: command_sender,
            cancel: cancel.clone(),
        },
        RunHandle {
            events: event_sender,
            commands: command_receiver,
            cancel,
        },
    )
}
