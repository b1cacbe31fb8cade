//! How long each turn took: one entry a turn, in the order of the turns.
//!
//! No recording shows these entries, only their fields; so a list that does not match the turns one to one says
//! something else and goes back as it came. Must never know: what a turn did in its time.

use std::time::Duration;

use tokio::time::Instant;

use super::state::ClientState;
use crate::cursor::proto::agent::StepTiming;

/// The timings of a state's turns, the last of which goes on.
#[derive(Clone, Debug)]
pub(super) struct TurnTimings {
    /// Entries that this run does not change.
    fixed: Vec<StepTiming>,
    current: Option<Current>,
}

#[derive(Clone, Debug)]
struct Current {
    timestamp_ms: u64,
    /// What earlier runs of the turn took.
    before: Duration,
    since: Instant,
    measured: Duration,
}

impl TurnTimings {
    /// The client's state goes on with a turn of its own that begins now.
    pub(super) fn of_new_turn(state: &ClientState, now_ms: u64) -> Self {
        let matches = state.turn_timings.len() == state.turns.len();
        Self {
            fixed: state.turn_timings.clone(),
            current: matches.then(|| Current::new(now_ms, 0)),
        }
    }

    /// The last turn of the client's state goes on: the time in between does not count.
    pub(super) fn of_last_turn(state: &ClientState) -> Self {
        match state.turn_timings.split_last() {
            Some((last, before)) if state.turn_timings.len() == state.turns.len() => Self {
                fixed: before.to_vec(),
                current: Some(Current::new(last.timestamp_ms, last.duration_ms)),
            },
            _ => Self {
                fixed: state.turn_timings.clone(),
                current: None,
            },
        }
    }

    /// Brings the time that the turn has taken up to date.
    pub(super) fn measure(&mut self) {
        if let Some(current) = &mut self.current {
            current.measured = current.since.elapsed();
        }
    }

    /// The list as it stood when it was last measured.
    pub(super) fn to_wire(&self) -> Vec<StepTiming> {
        let current = self.current.as_ref().map(|current| StepTiming {
            duration_ms: millis(current.before.saturating_add(current.measured)),
            timestamp_ms: current.timestamp_ms,
        });
        self.fixed.iter().copied().chain(current).collect()
    }
}

impl Current {
    fn new(timestamp_ms: u64, before_ms: u64) -> Self {
        Self {
            timestamp_ms,
            before: Duration::from_millis(before_ms),
            since: Instant::now(),
            measured: Duration::ZERO,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::blob::BlobId;

    fn state(turns: usize, timings: &[(u64, u64)]) -> ClientState {
        ClientState {
            turns: vec![BlobId::of(b"turn"); turns],
            turn_timings: timings
                .iter()
                .map(|(duration_ms, timestamp_ms)| StepTiming {
                    duration_ms: *duration_ms,
                    timestamp_ms: *timestamp_ms,
                })
                .collect(),
            ..ClientState::default()
        }
    }

    fn shown(timings: &TurnTimings) -> Vec<(u64, u64)> {
        timings
            .to_wire()
            .iter()
            .map(|timing| (timing.duration_ms, timing.timestamp_ms))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_turn_has_its_own_entry_which_grows_when_it_is_measured() {
        let mut timings = TurnTimings::of_new_turn(&state(1, &[(7, 100)]), 900);
        assert_eq!(shown(&timings), [(7, 100), (0, 900)]);
        tokio::time::advance(Duration::from_millis(30)).await;
        assert_eq!(shown(&timings), [(7, 100), (0, 900)]);
        timings.measure();
        assert_eq!(shown(&timings), [(7, 100), (30, 900)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_resumed_turn_keeps_its_beginning_and_adds_its_time() {
        let mut timings = TurnTimings::of_last_turn(&state(2, &[(7, 100), (5, 200)]));
        tokio::time::advance(Duration::from_millis(30)).await;
        timings.measure();
        assert_eq!(shown(&timings), [(7, 100), (35, 200)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_does_not_match_the_turns_goes_back_as_it_came() {
        for timings in [
            TurnTimings::of_new_turn(&state(2, &[(7, 100)]), 900),
            TurnTimings::of_last_turn(&state(2, &[(7, 100)])),
        ] {
            let mut timings = timings;
            timings.measure();
            assert_eq!(shown(&timings), [(7, 100)]);
        }
        assert_eq!(shown(&TurnTimings::of_last_turn(&state(2, &[]))), []);
    }
}
