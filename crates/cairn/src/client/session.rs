//! The two ends of a run's channels. Events are bounded: a client that stops reading stops its run, not the process.
//! Commands are not: a run takes them whatever it waits for, and a client has at most one for each call and event.
//!
//! Must never know: how many clients there are, or what they are.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{ClientCommand, ClientEvent};

/// Events that may wait for a client before the run waits for it.
const EVENT_CAPACITY: usize = 256;

/// The client's end.
#[derive(Debug)]
pub struct ClientHandle {
    /// What the run says, in order.
    pub events: mpsc::Receiver<ClientEvent>,
    /// What the client says.
    pub commands: mpsc::UnboundedSender<ClientCommand>,
    /// Stops the run at once, whatever it waits for.
    pub cancel: CancellationToken,
}

/// The run's end.
#[derive(Debug)]
pub struct RunHandle {
    /// What the run says, in order.
    pub events: mpsc::Sender<ClientEvent>,
    /// What the client says.
    pub commands: mpsc::UnboundedReceiver<ClientCommand>,
    /// Stops the run at once, whatever it waits for.
    pub cancel: CancellationToken,
}

/// Makes the two ends of a run's channels.
pub fn session() -> (ClientHandle, RunHandle) {
    let (event_sender, event_receiver) = mpsc::channel(EVENT_CAPACITY);
    #[allow(
        clippy::disallowed_methods,
        reason = "a client has at most one command for each call and event, and must not wait for a run that waits for it"
    )]
    let (command_sender, command_receiver) = mpsc::unbounded_channel();
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
