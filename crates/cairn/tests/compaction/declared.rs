//! What the server's own proof says of a compaction: one declared reset, and a question beside the conversation.

use cairn::model::{ConversationId, PrefixReset, RunOutcome};
use cairn::store::{PrefixVerdict, Records};

use crate::talk::{THRESHOLD, Talk};

/// Each recorded call: whether it is beside the conversation, its verdict, and the items that it shares and has.
async fn calls(talk: &Talk) -> Vec<(bool, PrefixVerdict, usize, usize)> {
    let database = talk.bench.folder.path().join("cairn.db");
    let mut records = Records::open(&database).await.unwrap();
    let calls = records
        .model_calls(&ConversationId::new("conversation"))
        .await
        .unwrap();
    calls
        .into_iter()
        .map(|call| (call.beside, call.verdict, call.kept, call.items.len()))
        .collect()
}

/// Three tools and the instructions.
const HEAD: usize = 4;
const RESET: PrefixVerdict = PrefixVerdict::Reset(PrefixReset::Compaction);

#[tokio::test]
async fn a_compaction_by_size_is_one_declared_reset() {
    let mut talk = Talk::new().await;
    talk.answer("Done.", THRESHOLD);
    assert_eq!(talk.say("Do it.").await, RunOutcome::Completed);
    talk.answer("The gist.", THRESHOLD + 20);
    talk.answer("Still done.", 300);
    talk.base_size = Some(THRESHOLD);
    assert_eq!(talk.say("And now?").await, RunOutcome::Completed);
    talk.base_size = Some(300);
    talk.answer("Yes.", 320);
    assert_eq!(talk.say("Sure?").await, RunOutcome::Completed);
    assert_eq!(
        calls(&talk).await,
        [
            (false, PrefixVerdict::Extends, 0, HEAD + 2),
            (true, PrefixVerdict::Extends, HEAD + 2, HEAD + 5),
            (false, RESET, HEAD + 1, HEAD + 3),
            (false, PrefixVerdict::Extends, HEAD + 3, HEAD + 5),
        ]
    );
}

/// The question after a refusal is about less than was refused, and still no break.
#[tokio::test]
async fn a_compaction_after_a_refusal_is_one_declared_reset() {
    let mut talk = Talk::new().await;
    talk.answer("Done.", 500);
    assert_eq!(talk.say("Do it.").await, RunOutcome::Completed);
    talk.refuse();
    talk.answer("The gist.", 520);
    talk.answer("Still done.", 300);
    assert_eq!(talk.say("And now?").await, RunOutcome::Completed);
    assert_eq!(
        calls(&talk).await,
        [
            (false, PrefixVerdict::Extends, 0, HEAD + 2),
            (false, PrefixVerdict::Extends, HEAD + 2, HEAD + 4),
            (true, PrefixVerdict::Extends, HEAD + 3, HEAD + 4),
            (false, RESET, HEAD + 1, HEAD + 3),
        ]
    );
}
