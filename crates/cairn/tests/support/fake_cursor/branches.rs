//! What the client can begin beside a plain message: an edit of an earlier one, and a turn that background work wakes.

use std::collections::BTreeMap;

use bytes::Bytes;
use cairn::cursor::blob::Blob;
use cairn::cursor::proto::agent::{
    BackgroundTaskCompletion, BackgroundTaskCompletionAction, ConversationSummary,
    ConversationSummaryArchive, UserMessage, conversation_action,
};
use prost::Message as _;

use super::{FakeCursor, Turn, TurnReport};

impl FakeCursor {
    /// Sends an earlier message again, with other content.
    pub async fn edit(&mut self, message: UserMessage) -> TurnReport {
        let archived = self.archived();
        let mut turn = self.start_message(message).await;
        if let Some(oracle) = &mut turn.oracle {
            oracle.expect_branch(archived);
        }
        turn.finish().await
    }

    /// What the archives of the state name.
    fn archived(&self) -> BTreeMap<Bytes, Bytes> {
        let mut archived = BTreeMap::new();
        for id in self.state().summary_archives {
            let archive = ConversationSummaryArchive::decode(self.blobs.get(&id).unwrap().clone()).unwrap();
            let summary = Blob::new(
                ConversationSummary {
                    summary: archive.summary,
                }
                .encode_to_vec(),
            );
            for id in archive
                .summarized_messages
                .into_iter()
                .chain([summary.id.to_wire()])
            {
                let data = self.blobs.get(&id).unwrap().clone();
                archived.insert(id, data);
            }
        }
        archived
    }

    /// Wakes the agent because work in the background has ended. The turn must begin with this message, or go on
    /// where none is given.
    pub async fn start_wake(
        &mut self,
        completions: Vec<BackgroundTaskCompletion>,
        message: Option<UserMessage>,
    ) -> Turn<'_> {
        let action = BackgroundTaskCompletionAction { completions };
        let action = conversation_action::Action::BackgroundTaskCompletionAction(action);
        let message = message.map(|message| Bytes::from(message.encode_to_vec()));
        self.start(action, message).await
    }
}
