//! Where a request is marked for the endpoint's prompt cache.
//!
//! The endpoint writes an entry at each marked block and, from each marked block, looks for an entry of an earlier request
//! in at most 20 positions, the marked one included. At most four blocks may be marked. The scheme:
//!
//! 1. **The head**: the system prompt (without one, the last tool) is always marked, so that conversations share it.
//! 2. **The end**: the last block is marked, in automatic mode by the endpoint itself. The next request looks back from
//!    its own end and finds this entry, if it added only a few blocks.
//! 3. **Bridges**: what is added between two requests is an assistant message and what follows it, here called a step. In
//!    a step that gets long, the block [`SPAN`] positions behind the step's start is marked: from there the entry of the
//!    request that the assistant answered is in sight. Whether a block is a bridge depends only on what stands before it,
//!    so it is marked when it is first sent and stays so. Only the last [`BRIDGES`] are kept, to stay within four.
//!
//! So in automatic mode the bytes of earlier messages change only when a third step of that length begins, and then only
//! by a marker that goes away; in explicit mode also by the marker of the end, which moves. (A step that begins with
//! [`SPAN`] blocks of thinking and nothing else has no block to be a bridge; there the entry's own block is marked.) A
//! marker is no part of what the endpoint hashes.
//!
//! Must never know: what a block says.

/// How far behind the start of a step its bridge stands. Less than the 19 that the endpoint allows, so that an endpoint
/// that also counts the borders of messages still finds the entry.
const SPAN: usize = 15;

/// How many bridges a request has at most: four markers less the head's and the end's.
const BRIDGES: usize = 2;

/// The bridges among the blocks of the messages, in order. `markable` says of each block whether it may be marked;
/// `steps` holds the index of the first block of each assistant message.
pub(super) fn bridges(markable: &[bool], steps: &[usize]) -> Vec<usize> {
    let mut found: Vec<usize> = steps
        .iter()
        .enumerate()
        .rev()
        .filter_map(|(number, start)| {
            let end = steps.get(number + 1).copied().unwrap_or(markable.len());
            // Where the request that this message answered had its entry.
            let entry = last_markable(markable, *start)?;
            let reach = entry + SPAN;
            // If nothing but thinking comes up to there, it is the entry's own block.
            (reach < end)
                .then(|| last_markable(markable, reach + 1))
                .flatten()
        })
        .take(BRIDGES)
        .collect();
    found.reverse();
    found
}

/// The last block that may be marked.
pub(super) fn end(markable: &[bool]) -> Option<usize> {
    last_markable(markable, markable.len())
}

/// The last block before `end` that may be marked.
fn last_markable(markable: &[bool], end: usize) -> Option<usize> {
    markable[..end].iter().rposition(|may| *may)
}

#[cfg(test)]
mod tests {
    use super::{BRIDGES, SPAN, bridges};

    #[test]
    fn a_long_step_has_one_bridge_that_does_not_move() {
        for length in 2..100 {
            let expected = (length > SPAN).then_some(SPAN);
            assert_eq!(
                bridges(&vec![true; length], &[1]),
                Vec::from_iter(expected),
                "{length}"
            );
        }
    }

    #[test]
    fn a_bridge_steps_back_from_a_block_that_cannot_be_marked() {
        let mut markable = vec![true; 40];
        markable[SPAN] = false;
        markable[SPAN - 1] = false;
        assert_eq!(bridges(&markable, &[1]), [SPAN - 2]);
        markable[1..=SPAN].fill(false);
        assert_eq!(bridges(&markable, &[1]), [0]);
    }

    #[test]
    fn the_oldest_bridges_give_way() {
        let steps: Vec<usize> = (0..5).map(|step| 1 + step * 30).collect();
        let expected: Vec<usize> = (5 - BRIDGES..5).map(|step| step * 30 + SPAN).collect();
        assert_eq!(bridges(&[true; 151], &steps), expected);
    }

    #[test]
    fn a_history_without_answers_has_none() {
        assert_eq!(bridges(&[true; 100], &[]), Vec::<usize>::new());
        assert_eq!(bridges(&[true; 100], &[0]), Vec::<usize>::new());
    }
}
