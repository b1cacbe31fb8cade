//! Uploads of the fake client, and how they can go wrong.

use cairn::cursor::proto::agent::agent_client_message::Message as ClientMessage;
use cairn::cursor::proto::agent::{AgentClientMessage, ClientHeartbeat};
use cairn::demo::wire_client::WireError;

use super::Turn;

/// What is done with an upload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendFault {
    None,
    /// It is sent right after the next one that the client has to say at once, such as the end after a result.
    Swap,
    /// It is sent twice.
    Repeat,
    /// It is never sent. The real client's signs of life go on. [sdk]
    Drop,
    /// It is sent after this many signs of life that come later in the order.
    After(usize),
}

/// A numbered message of the client.
pub type Upload = (i64, AgentClientMessage);

/// Changes what is at hand to be uploaded.
pub type Shuffle = Box<dyn FnMut(&mut Vec<Upload>) + Send>;

impl Turn<'_> {
    /// Uploads one message.
    pub async fn append(&mut self, message: ClientMessage) {
        self.append_all(vec![message]).await;
    }

    pub(super) async fn append_all(&mut self, messages: Vec<ClientMessage>) {
        let mut batch: Vec<Upload> = messages.into_iter().map(|message| self.number(message)).collect();
        if let Some(shuffle) = &mut self.cursor.hooks.shuffle {
            shuffle(&mut batch);
            // A shuffle may add messages of its own.
            let last = batch.iter().map(|(seqno, _)| *seqno).max();
            self.next_seqno = last.map_or(self.next_seqno, |last| self.next_seqno.max(last + 1));
        }
        for (seqno, message) in batch {
            match (self.cursor.hooks.append)(seqno) {
                AppendFault::Swap if self.swapped.is_none() => {
                    self.swapped = Some((seqno, message));
                    continue;
                }
                AppendFault::None | AppendFault::Swap => self.upload(seqno, &message).await,
                AppendFault::Repeat => {
                    self.upload(seqno, &message).await;
                    self.upload(seqno, &message).await;
                }
                AppendFault::Drop => self.signs_of_life(1).await,
                AppendFault::After(later) => {
                    self.signs_of_life(later).await;
                    self.upload(seqno, &message).await;
                }
            }
            self.flush().await;
        }
        // Nothing is held back that the server may be waiting for.
        self.flush().await;
    }

    async fn flush(&mut self) {
        if let Some((seqno, message)) = self.swapped.take() {
            self.upload(seqno, &message).await;
        }
    }

    fn number(&mut self, message: ClientMessage) -> Upload {
        let seqno = self.next_seqno;
        self.next_seqno += 1;
        let message = AgentClientMessage {
            message: Some(message),
        };
        (seqno, message)
    }

    async fn signs_of_life(&mut self, count: usize) {
        for _ in 0..count {
            let (seqno, heartbeat) = self.number(ClientMessage::ClientHeartbeat(ClientHeartbeat {}));
            self.upload(seqno, &heartbeat).await;
        }
    }

    async fn upload(&mut self, seqno: i64, message: &AgentClientMessage) {
        if self.unreachable.is_some() {
            return;
        }
        match self.cursor.client.append(&self.request_id, seqno, message).await {
            Ok(()) => {}
            Err(WireError::Refused { body, .. }) => self.report.refused.push(body),
            Err(WireError::Transport { cause, .. }) if self.cursor.hooks.may_die => {
                self.unreachable = Some(format!("append {seqno}: {cause}"));
            }
            Err(error) => panic!("{}: append {seqno}: {error}", self.request_id),
        }
    }
}
