//! The client's state where a history was compacted: the roots begin anew, and an archive names those that were there
//! before, so that nothing is lost to the client.
//!
//! Must never know: why a history was compacted, or who made the summary.

use std::sync::Arc;

use prost::Message as _;
use sha2::{Digest, Sha256};

use super::frontier::{CheckpointError, Frontier};
use crate::cursor::blob::Blob;
use crate::cursor::projection::encode_history;
use crate::cursor::proto::agent::{ConversationSummary, ConversationSummaryArchive};
use crate::model::{HistoryItem, UserOrigin};

impl Frontier {
    /// Replaces all roots but the system root by those of a compacted history. How full the context is, nobody has
    /// measured yet.
    ///
    /// # Errors
    /// If a message does not serialise.
    pub fn begin_anew(&mut self, items: &[Arc<HistoryItem>], summary: &str) -> Result<(), CheckpointError> {
        let new = encode_history(items)?;
        let carrier = items.iter().position(|item| {
            matches!(
                **item,
                HistoryItem::User {
                    origin: UserOrigin::Summary { .. },
                    ..
                }
            )
        });
        let carrier = carrier.ok_or(CheckpointError::NoSummary)?;
        let archive = ConversationSummaryArchive {
            summarized_messages: self.history_roots().map(|id| id.to_wire()).collect(),
            summary: summary.to_owned(),
            window_tail: u32::try_from(new.len() - carrier - 1).unwrap_or(u32::MAX),
            summary_message: new.get(carrier).map(|root| root.id.to_wire()).unwrap_or_default(),
        };
        let archive = Blob::new(archive.encode_to_vec());
        let summary = Blob::new(
            ConversationSummary {
                summary: summary.to_owned(),
            }
            .encode_to_vec(),
        );
        self.summary = Some(summary.id.to_wire());
        self.summary_archives.push(archive.id.to_wire());
        self.unsent.extend([summary, archive]);
        self.token_details = None;
        self.cairn_size = None;
        self.keep_system_root_only();
        self.history_hash = Sha256::new();
        self.push_roots(new);
        Ok(())
    }
}
