//! Random interleavings of runs, appends and results against a model that keeps everything in memory.

use std::collections::{BTreeMap, BTreeSet};

use cairn::model::{RevisionId, RunId, RunOutcome, ToolRoundId};
use cairn::store::RunRecordEnd;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::{Fixture, ids, refusal, result, round, user};

const CALLS: [&str; 3] = ["x", "y", "z"];

#[derive(Clone, Debug)]
enum Step {
    /// A new run on any known revision.
    Begin(Index),
    /// Any run appends a few of a small set of messages.
    Append(Index, Vec<u8>),
    /// Any run begins a round with this many calls.
    Round(Index, usize),
    /// Any run commits a result to its latest round.
    Result(Index, usize),
    /// Any run ends.
    End(Index),
    /// The process is killed.
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => any::<Index>().prop_map(Step::Begin),
        6 => (any::<Index>(), prop::collection::vec(0_u8..12, 0..4)).prop_map(|(run, ids)| Step::Append(run, ids)),
        3 => (any::<Index>(), 1..=CALLS.len()).prop_map(|(run, calls)| Step::Round(run, calls)),
        9 => (any::<Index>(), 0..CALLS.len()).prop_map(|(run, call)| Step::Result(run, call)),
        1 => any::<Index>().prop_map(Step::End),
        1 => Just(Step::Kill),
    ]
}

/// What the store must do, in memory.
struct Expected {
    histories: BTreeMap<RevisionId, Vec<String>>,
    head: RevisionId,
    owner: Option<usize>,
    runs: Vec<Run>,
}

struct Run {
    id: RunId,
    /// Where the run believes the head to be.
    head: RevisionId,
    ended: bool,
    rounds: usize,
    open: Option<Open>,
}

struct Open {
    id: ToolRoundId,
    calls: usize,
    done: BTreeSet<usize>,
}

impl Expected {
    fn grow(&mut self, run: usize, child: RevisionId, new: Vec<String>) {
        let mut history = self.histories[&self.head].clone();
        history.extend(new);
        if let Some(before) = self.histories.insert(child.clone(), history.clone()) {
            assert_eq!(before, history, "a revision changed");
        }
        self.head = child.clone();
        self.runs[run].head = child;
    }
}

async fn play(steps: Vec<Step>) {
    let mut f = Fixture::new().await;
    let mut expected = Expected {
        histories: BTreeMap::from([(f.empty.clone(), Vec::new())]),
        head: f.empty.clone(),
        owner: None,
        runs: Vec::new(),
    };
    for step in steps {
        match step {
            Step::Begin(base) => begin(&f, &mut expected, base).await,
            Step::Kill => {
                (f.folder, f.store) = f.killed_and_reopened().await;
                // A superseded run has its outcome already and was stopping; only the owner was cut off.
                if let Some(owner) = expected.owner.take() {
                    expected.runs[owner].ended = true;
                    expected.runs[owner].open = None;
                }
            }
            _ if expected.runs.is_empty() => {}
            Step::Append(run, messages) => {
                let run = run.index(expected.runs.len());
                append(&f, &mut expected, run, &messages).await;
            }
            Step::Round(run, calls) => {
                let run = run.index(expected.runs.len());
                begin_round(&f, &mut expected, run, calls).await;
            }
            Step::Result(run, call) => {
                let run = run.index(expected.runs.len());
                commit(&f, &mut expected, run, call).await;
            }
            Step::End(run) => {
                let run = run.index(expected.runs.len());
                end(&f, &mut expected, run).await;
            }
        }
        assert_eq!(f.ids(&expected.head).await, expected.histories[&expected.head]);
    }
    let (_folder, cold) = f.killed_and_reopened().await;
    for (revision, history) in &expected.histories {
        assert_eq!(ids(&cold, revision).await, *history);
    }
    cold.check_integrity().await.unwrap();
}

async fn begin(f: &Fixture, expected: &mut Expected, base: Index) {
    let base = base
        .get(&expected.histories.keys().collect::<Vec<_>>())
        .to_owned()
        .clone();
    let run = f.prepared(&format!("run{}", expected.runs.len()), &base);
    let begun = f.store.begin_run(&run, 1_000).await.unwrap();
    let superseded = expected.owner.map(|owner| expected.runs[owner].id.clone());
    assert_eq!(begun.superseded, superseded);
    if let Some(old) = expected.owner {
        expected.runs[old].open = None;
    }
    expected.owner = Some(expected.runs.len());
    expected.head = base.clone();
    expected.runs.push(Run {
        id: run.id,
        head: base,
        ended: false,
        rounds: 0,
        open: None,
    });
}

async fn append(f: &Fixture, expected: &mut Expected, run: usize, messages: &[u8]) {
    let names: Vec<String> = messages.iter().map(|n| format!("m{n}")).collect();
    let messages: Vec<_> = names.iter().map(|name| user(name, name)).collect();
    let Run { id, head, .. } = &expected.runs[run];
    let appended = f.store.append(id, head, &messages).await;
    if expected.owner != Some(run) {
        assert_eq!(refusal(appended), "NotOwner");
        return;
    }
    let mut new: Vec<String> = Vec::new();
    for name in names {
        if !new.contains(&name) && !expected.histories[&expected.head].contains(&name) {
            new.push(name);
        }
    }
    let child = appended.unwrap();
    assert_eq!(new.is_empty(), child == expected.head);
    expected.grow(run, child, new);
}

async fn begin_round(f: &Fixture, expected: &mut Expected, run: usize, calls: usize) {
    let owns = expected.owner == Some(run);
    let state = &mut expected.runs[run];
    let id = format!("{}/round/{}", state.id, state.rounds);
    let begun = round(&id, &state.id, &state.head, &CALLS[..calls]);
    let outcome = f.store.begin_tool_round(&begun).await;
    match (owns, &state.open) {
        (false, _) => assert_eq!(refusal(outcome), "NotOwner"),
        (true, Some(_)) => assert_eq!(refusal(outcome), "RoundConflict"),
        (true, None) => {
            outcome.unwrap();
            state.rounds += 1;
            state.open = Some(Open {
                id: begun.id,
                calls,
                done: BTreeSet::new(),
            });
        }
    }
}

async fn commit(f: &Fixture, expected: &mut Expected, run: usize, call: usize) {
    let owns = expected.owner == Some(run);
    let state = &mut expected.runs[run];
    let named = match &state.open {
        Some(open) => open.id.clone(),
        None => ToolRoundId::new("none"),
    };
    let outcome = f
        .store
        .commit_tool_result(&state.id, &state.head, &named, &result(CALLS[call]))
        .await;
    match &mut state.open {
        _ if !owns => assert_eq!(refusal(outcome), "NotOwner"),
        None => assert_eq!(refusal(outcome), "UnknownRound"),
        Some(open) if call >= open.calls => assert_eq!(refusal(outcome), "UnknownCall"),
        Some(open) if open.done.contains(&call) => assert_eq!(refusal(outcome), "RepeatedResult"),
        Some(open) => {
            open.done.insert(call);
            let committed = outcome.unwrap();
            assert_eq!(committed.settled, open.done.len() == open.calls);
            if committed.settled {
                state.open = None;
            }
            let new = vec![format!("{named}/{call}/call"), format!("{named}/{call}/result")];
            expected.grow(run, committed.revision, new);
        }
    }
}

async fn end(f: &Fixture, expected: &mut Expected, run: usize) {
    let end = RunRecordEnd {
        outcome: &RunOutcome::Completed,
        usage: None,
        last_call: None,
        ended_at_ms: 2_000,
    };
    let state = &mut expected.runs[run];
    let ended = f.store.end_run(&state.id, &end).await;
    if state.ended {
        assert_eq!(refusal(ended), "RunEnded");
        return;
    }
    ended.unwrap();
    state.ended = true;
    state.open = None;
    if expected.owner == Some(run) {
        expected.owner = None;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_keeps_histories_and_ownership_right(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(steps));
    }
}
