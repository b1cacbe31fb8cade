//! The bodies that were sent last: the next request of a conversation repeats one of them and encodes only what is new.
//!
//! Only copies of what the encoders make: one can be missing, never wrong. Must never know: JSON, or who sends the bytes.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::{ConversationId, ModelRequest, ProviderFailure};

/// Most conversations whose latest body is kept.
const CONVERSATIONS: usize = 16;
/// Most bytes in all kept bodies; the buffers behind them may be up to twice as large.
const BYTES: usize = 64 * 1024 * 1024;

/// A body from which that of a longer history can grow.
pub(crate) trait Growing: Sized {
    /// What one configured model's endpoint takes.
    type Profile;

    /// Encodes a whole request.
    fn encode(request: &ModelRequest, profile: &Self::Profile) -> Result<Self, ProviderFailure>;

    /// Encodes a request of which all but the history from the item `known` on is in this body.
    ///
    /// Gives what [`Self::encode`] gives. Copies none of the old bytes if nobody else holds them.
    fn extend(
        self,
        known: usize,
        request: &ModelRequest,
        profile: &Self::Profile,
    ) -> Result<Self, ProviderFailure>;

    /// Bytes of the body.
    fn size(&self) -> usize;
}

/// The latest body of each conversation of one model, the one used last at the back.
#[derive(Debug)]
pub(crate) struct Bodies<B>(Mutex<VecDeque<Sent<B>>>);

#[derive(Debug)]
struct Sent<B> {
    request: ModelRequest,
    body: B,
}

impl<B> Default for Bodies<B> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<B: Growing> Bodies<B> {
    /// Encodes a request, keeps its body, and gives what `take` makes of it.
    pub(crate) fn encode<T>(
        &self,
        request: &ModelRequest,
        profile: &B::Profile,
        take: impl FnOnce(&B) -> T,
    ) -> Result<T, ProviderFailure> {
        // Taken out, not looked at: a buffer that nobody else holds grows without a copy.
        let body = match self.take(&request.conversation) {
            Some(Sent {
                request: before,
                body,
            }) if extends(request, &before) => body.extend(before.history.len(), request, profile)?,
            _ => B::encode(request, profile)?,
        };
        let taken = take(&body);
        self.keep(Sent {
            request: request.clone(),
            body,
        });
        Ok(taken)
    }

    fn take(&self, conversation: &ConversationId) -> Option<Sent<B>> {
        let mut sent = self.lock();
        let index = sent
            .iter()
            .position(|sent| sent.request.conversation == *conversation)?;
        sent.remove(index)
    }

    fn keep(&self, newest: Sent<B>) {
        let mut sent = self.lock();
        // Two runs of one conversation may overlap while the newer one takes over.
        sent.retain(|sent| sent.request.conversation != newest.request.conversation);
        sent.push_back(newest);
        while sent.len() > CONVERSATIONS || held_bytes(&sent) > BYTES {
            sent.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Sent<B>>> {
        // A panic elsewhere cannot leave the list half made: each entry in it is finished.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn held_bytes<B: Growing>(sent: &VecDeque<Sent<B>>) -> usize {
    sent.iter().map(|sent| sent.body.size()).sum()
}

/// Whether a request is an earlier one with more history. Items that are the same in memory are not compared further.
fn extends(request: &ModelRequest, before: &ModelRequest) -> bool {
    request.prompt == before.prompt
        && request.model == before.model
        && request.history.starts_with(&before.history)
}

#[cfg(test)]
#[path = "bodies_tests.rs"]
mod tests;
