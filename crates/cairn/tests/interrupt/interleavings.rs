//! Random interleavings of everything that can happen to runs of two conversations, against what must hold after each.
//!
//! A case is a list of steps; steps are taken without a pause in between, up to a [`Step::Settle`], which waits until
//! every run waits for something. So a case is the same whenever it is played.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use cairn::client::{Barrier, ClientCommand, ClientEvent, ClientHandle, StateCause};
use cairn::model::{
    CallId, ConversationId, HistoryItem, Message, MessageBody, ModelRequest, Part, PendingAssistant,
    RevisionId, RunAction, RunFailure, RunId, RunOutcome, ToolResult, ToolRound, ToolRoundId,
};
use cairn::provider::Provider;
use cairn::run::{RunServices, start};
use cairn::store::RecordedOutcome;
use futures_util::future::{FutureExt, select_all};
use proptest::prelude::*;
use proptest::sample::Index;
use tokio::task::JoinHandle;

use super::endpoint::{Endpoint, Model};
use super::support::fake_client::{Bench, prepared, user_message};
use super::support::fake_provider::pairing;

/// Longest time that a run may need for a step; only a run that hangs takes it.
const PATIENCE: Duration = Duration::from_secs(5);
/// What the model is told of a call that was stopped.
const INTERRUPTED: &str = "interrupted";

#[derive(Clone, Debug)]
enum Step {
    /// A new run of this conversation on its newest state, or on any earlier one.
    Run {
        conversation: usize,
        base: Option<Index>,
        resume: bool,
    },
    /// A run gets what it waits for: the client's confirmation, the endpoint's next words, or a result.
    Go(Index, Model, Index),
    /// The endpoint goes on with a run's open call.
    Model(Index, Model),
    /// A result for any call of a run's latest round, whether it has one already or not.
    Result(Index, Index),
    /// A result for a call that nobody made.
    UnknownResult(Index),
    /// Something happened; the same event can be told again.
    Event(Index, u8),
    /// The person stops a run.
    Cancel(Index),
    /// The client breaks its protocol.
    Fail(Index),
    /// The client vanishes.
    Vanish(Index),
    /// The client confirms the state that any run waits for, or waited for before it ended.
    Confirm(Index),
    /// The client refuses such a state.
    Refuse(Index),
    /// It forgets that state.
    Forget(Index),
    /// Every run goes on until it waits for something.
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    let run = || any::<Index>();
    let model = prop_oneof![
        10 => Just(Model::Text),
        6 => Just(Model::Answer),
        20 => (1_usize..4).prop_map(Model::Calls),
        1 => Just(Model::Failure),
        1 => Just(Model::Cut),
        1 => Just(Model::Nonsense),
    ];
    let base = prop_oneof![3 => Just(None), 1 => any::<Index>().prop_map(Some)];
    prop_oneof![
        4 => (0_usize..5, base, any::<bool>()).prop_map(|(conversation, base, resume)| Step::Run {
            conversation: usize::from(conversation == 0),
            base,
            resume,
        }),
        30 => (run(), model.clone(), any::<Index>()).prop_map(|(run, model, call)| Step::Go(run, model, call)),
        1 => (run(), model).prop_map(|(run, model)| Step::Model(run, model)),
        1 => (run(), any::<Index>()).prop_map(|(run, call)| Step::Result(run, call)),
        2 => run().prop_map(Step::Confirm),
        1 => prop_oneof![
            run().prop_map(Step::UnknownResult),
            run().prop_map(Step::Cancel),
            run().prop_map(Step::Fail),
            run().prop_map(Step::Vanish),
            run().prop_map(Step::Refuse),
            run().prop_map(Step::Forget),
        ],
        2 => (run(), 0_u8..4).prop_map(|(run, event)| Step::Event(run, event)),
        25 => Just(Step::Settle),
    ]
}

// === the client ===

/// What the client holds of a conversation at some time, and what must hold for a run that goes on from there.
#[derive(Clone, Debug)]
struct Held {
    revision: RevisionId,
    pending: Option<PendingAssistant>,
    /// What the model saw last on the way to this state, or from it.
    seen: Vec<Arc<HistoryItem>>,
    /// The runs whose words may occur from here on.
    lineage: BTreeSet<usize>,
}

struct Run {
    id: RunId,
    conversation: usize,
    /// Gone once the client has vanished.
    handle: Option<ClientHandle>,
    task: JoinHandle<()>,
    /// Index of the state that it is at, in those of its conversation.
    at: usize,
    lineage: BTreeSet<usize>,
    /// The last request of this run.
    requested: Option<Vec<Arc<HistoryItem>>>,
    barrier: Option<(RevisionId, Barrier)>,
    /// What it waited for when it ended.
    late: Option<Barrier>,
    round: Option<Arc<ToolRound>>,
    /// Calls that a result was sent for.
    answered: BTreeSet<(ToolRoundId, CallId)>,
    /// Results that were sent and are not stored yet.
    unanswered: usize,
    /// The round of an older run that this one was told to answer as stopped.
    interrupted: Option<ToolRoundId>,
    /// What it was told of, but for what came after its last state was confirmed.
    events: BTreeSet<String>,
    confirmed_end: bool,
    /// Whether the state that it waits for is a final one.
    at_end: bool,
    /// The newest revision that the client confirmed.
    confirmed: Option<RevisionId>,
    /// Whether something gave it a reason to end early.
    stopping: bool,
    outcome: Option<RunOutcome>,
}

struct World {
    bench: Bench,
    endpoint: Endpoint,
    runs: Vec<Run>,
    /// Results that were stored, by run and round, in their order.
    stored: BTreeMap<(usize, ToolRoundId), Vec<ToolResult>>,
    /// What the client holds or held of each conversation, newest last.
    held: [Vec<Held>; 2],
    words: usize,
}

impl World {
    async fn new() -> Self {
        let bench = Bench::new().await;
        let mut held = Vec::new();
        for name in ["one", "two"] {
            let revision = bench
                .services
                .store
                .empty_revision(&ConversationId::new(name))
                .await
                .unwrap();
            held.push(vec![Held {
                revision,
                pending: None,
                seen: Vec::new(),
                lineage: BTreeSet::new(),
            }]);
        }
        Self {
            bench,
            endpoint: Endpoint::default(),
            runs: Vec::new(),
            stored: BTreeMap::new(),
            held: held.try_into().unwrap(),
            words: 0,
        }
    }

    /// A text that occurs once and names the run that it belongs to.
    fn word(&mut self, run: usize) -> String {
        self.words += 1;
        format!("<{run}:{}>", self.words)
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Run {
                conversation,
                base,
                resume,
            } => self.begin(conversation, base, resume),
            Step::Settle => self.settle().await,
            _ if self.runs.is_empty() => {}
            Step::Go(run, model, call) => {
                let live: Vec<usize> = (0..self.runs.len())
                    .filter(|run| !self.runs[*run].stopping && self.runs[*run].outcome.is_none())
                    .collect();
                if live.is_empty() {
                    return;
                }
                let run = *run.get(&live);
                if self.runs[run].barrier.is_some() {
                    self.confirm(run);
                } else if let Some(round) = self.runs[run].round.clone() {
                    let open: Vec<_> = round
                        .calls
                        .iter()
                        .filter(|open| {
                            !self.runs[run]
                                .answered
                                .contains(&(round.id.clone(), open.id.clone()))
                        })
                        .collect();
                    if !open.is_empty() {
                        let id = call.get(&open).id.clone();
                        self.result(run, id);
                    }
                } else {
                    self.model(run, model);
                }
            }
            Step::Model(run, model) => self.model(run.index(self.runs.len()), model),
            Step::Result(run, call) => {
                let run = run.index(self.runs.len());
                if let Some(round) = self.runs[run].round.clone() {
                    let call = call.get(&round.calls).id.clone();
                    self.result(run, call);
                }
            }
            Step::UnknownResult(run) => {
                self.result(run.index(self.runs.len()), CallId::new("unknown"));
            }
            Step::Event(run, event) => {
                let run = run.index(self.runs.len());
                let word = format!("<{run}:event-{event}>");
                let message = user_message(&format!("event-{run}-{event}"), &word);
                let told = self.tell(run, ClientCommand::RuntimeEvent(message));
                if told && !self.runs[run].confirmed_end {
                    self.runs[run].events.insert(word);
                }
            }
            Step::Cancel(run) => self.stop(run, ClientCommand::Cancel),
            Step::Fail(run) => self.stop(
                run,
                ClientCommand::ClientClosed(RunFailure::Protocol("broken".into())),
            ),
            Step::Vanish(run) => {
                let run = run.index(self.runs.len());
                let run = &mut self.runs[run];
                run.stopping = true;
                run.barrier = None;
                run.handle = None;
            }
            Step::Confirm(run) => {
                let run = run.index(self.runs.len());
                self.confirm(run);
                if let Some(late) = self.runs[run].late.take() {
                    late.release();
                }
            }
            Step::Refuse(run) => {
                let run = run.index(self.runs.len());
                if let Some(late) = self.runs[run].late.take() {
                    late.fail(RunFailure::Client("no space".into()));
                }
                if let Some((_, barrier)) = self.runs[run].barrier.take() {
                    self.runs[run].stopping = true;
                    barrier.fail(RunFailure::Client("no space".into()));
                }
            }
            Step::Forget(run) => {
                let run = run.index(self.runs.len());
                if self.runs[run].barrier.take().is_some() {
                    self.runs[run].stopping = true;
                }
            }
        }
    }

    fn begin(&mut self, conversation: usize, base: Option<Index>, resume: bool) {
        let index = self.runs.len();
        let states = &self.held[conversation];
        let at = base.map_or(states.len() - 1, |base| base.index(states.len()));
        let held = states[at].clone();
        let name = format!("run-{index}");
        let begun = at > 0;
        let interrupted = held
            .pending
            .as_ref()
            .filter(|_| !resume || !begun)
            .and_then(|pending| pending.round.clone());
        let action = if resume && begun {
            RunAction::Resume {
                pending: held.pending,
            }
        } else {
            let word = self.word(index);
            RunAction::Start {
                interrupted: held.pending,
                messages: vec![user_message(&name, &word)],
            }
        };
        let mut run = prepared(&name, held.revision, action);
        run.conversation = ConversationId::new(["one", "two"][conversation]);
        let provider: Arc<dyn Provider> = Arc::new(self.endpoint.clone());
        let services = RunServices {
            providers: Arc::new(HashMap::from([("fake".to_owned(), provider)])),
            ..self.bench.services.clone()
        };
        for older in &mut self.runs {
            if older.conversation == conversation {
                older.stopping = true;
            }
        }
        let (handle, task) = start(services, run.clone());
        let mut lineage = held.lineage;
        lineage.insert(index);
        self.runs.push(Run {
            id: run.id,
            conversation,
            handle: Some(handle),
            task,
            at,
            lineage,
            requested: None,
            barrier: None,
            late: None,
            round: None,
            answered: BTreeSet::new(),
            unanswered: 0,
            interrupted,
            events: BTreeSet::new(),
            confirmed_end: false,
            at_end: false,
            confirmed: None,
            stopping: false,
            outcome: None,
        });
    }

    fn model(&mut self, run: usize, model: Model) {
        let text = self.word(run);
        self.endpoint.play(&self.runs[run].id, model, &text);
    }

    fn result(&mut self, run: usize, call: CallId) {
        if let Some(round) = &self.runs[run].round {
            let answered = (round.id.clone(), call.clone());
            self.runs[run].answered.insert(answered);
        }
        let content = self.word(run);
        let result = ToolResult {
            call,
            content: content.into(),
            is_error: false,
        };
        if self.tell(run, ClientCommand::ToolResult(result)) {
            self.runs[run].unanswered += 1;
        }
    }

    fn stop(&mut self, run: Index, command: ClientCommand) {
        let run = run.index(self.runs.len());
        if self.tell(run, command) {
            self.runs[run].stopping = true;
        }
    }

    /// Whether there was somebody to tell. A run that has ended is told too, and must not listen.
    fn tell(&self, run: usize, command: ClientCommand) -> bool {
        let run = &self.runs[run];
        let sent = run
            .handle
            .as_ref()
            .is_some_and(|handle| handle.commands.send(command).is_ok());
        sent && run.outcome.is_none()
    }

    /// The client holds the state from now on.
    fn confirm(&mut self, run: usize) {
        let Some((revision, barrier)) = self.runs[run].barrier.take() else {
            return;
        };
        let seen = self.seen_by(run);
        self.runs[run].confirmed = Some(revision.clone());
        self.runs[run].confirmed_end = self.runs[run].at_end;
        self.hold(run, revision, None, seen);
        barrier.release();
    }

    fn seen_by(&self, run: usize) -> Vec<Arc<HistoryItem>> {
        let run = &self.runs[run];
        match &run.requested {
            Some(seen) => seen.clone(),
            None => self.held[run.conversation][run.at].seen.clone(),
        }
    }

    fn hold(
        &mut self,
        run: usize,
        revision: RevisionId,
        pending: Option<PendingAssistant>,
        seen: Vec<Arc<HistoryItem>>,
    ) {
        let run = &mut self.runs[run];
        let states = &mut self.held[run.conversation];
        run.at = states.len();
        states.push(Held {
            revision,
            pending,
            seen,
            lineage: run.lineage.clone(),
        });
    }

    /// Whether a run waits for a step.
    fn is_settled(&self, run: &Run) -> bool {
        if run.outcome.is_some() || run.handle.is_none() {
            return run.task.is_finished();
        }
        !run.stopping
            && (run.barrier.is_some()
                || (run.round.is_some() && run.unanswered == 0)
                || (run.round.is_none() && self.endpoint.is_waited_for(&run.id)))
    }

    /// Waits until every run waits for something, and checks all that is seen on the way.
    async fn settle(&mut self) {
        let settled = async {
            loop {
                self.drain();
                if self.runs.iter().all(|run| self.is_settled(run)) {
                    return;
                }
                self.change().await;
            }
        };
        tokio::time::timeout(PATIENCE, settled)
            .await
            .expect("a run neither ended nor waits for anything that it can be given");
    }

    /// Takes every event and request that is there.
    fn drain(&mut self) {
        for index in 0..self.runs.len() {
            while let Some(event) = self.runs[index]
                .handle
                .as_mut()
                .and_then(|handle| handle.events.try_recv().ok())
            {
                self.event(index, event);
            }
        }
        loop {
            let Some((run, request)) = self.endpoint.next_request() else {
                return;
            };
            let index = self.runs.iter().position(|known| known.id == run).unwrap();
            self.request(index, &request);
        }
    }

    /// Waits for the next event of any run, the next request, or the end of a run whose client has vanished.
    async fn change(&mut self) {
        let endpoint = self.endpoint.clone();
        let waits = async move {
            endpoint.changed().await;
            (usize::MAX, None)
        };
        let mut changes = vec![waits.boxed()];
        for (index, run) in self.runs.iter_mut().enumerate() {
            match (&mut run.handle, &run.outcome) {
                (Some(handle), None) => {
                    changes.push(async move { (index, handle.events.recv().await) }.boxed());
                }
                // Polled only while it has not ended.
                _ if !run.task.is_finished() => {
                    let task = &mut run.task;
                    changes.push(async move { (index, task.await.map(|()| None).unwrap()) }.boxed());
                }
                _ => {}
            }
        }
        let ((index, event), _, rest) = select_all(changes).await;
        drop(rest);
        if let Some(event) = event {
            self.event(index, event);
        }
    }

    fn event(&mut self, index: usize, event: ClientEvent) {
        let run = &mut self.runs[index];
        assert!(run.outcome.is_none(), "{}: {event:?} after the end", run.id);
        match event {
            ClientEvent::StateCommitted {
                revision,
                cause,
                barrier,
                ..
            } => match cause {
                StateCause::ToolRoundStarted(round) => {
                    let pending = PendingAssistant {
                        round: Some(round.id.clone()),
                        said: round.said.clone(),
                        calls: round.calls.clone(),
                        started_at_ms: round.started_at_ms,
                    };
                    let seen = self.seen_by(index);
                    self.hold(index, revision, Some(pending), seen);
                }
                StateCause::ToolResult(result) => {
                    run.unanswered -= 1;
                    let round = run.round.as_ref().unwrap().id.clone();
                    self.stored.entry((index, round)).or_default().push(result);
                }
                StateCause::ToolRoundSettled(round) => {
                    let stored = &self.stored[&(index, round.id.clone())];
                    assert_eq!(stored.len(), round.calls.len());
                    run.round = None;
                    run.at_end = false;
                    run.barrier = Some((revision, barrier.unwrap()));
                }
                StateCause::Compacted { .. } => panic!("no run here compacts"),
                cause @ (StateCause::Initial | StateCause::RuntimeEvents | StateCause::Final) => {
                    run.at_end = matches!(cause, StateCause::Final);
                    run.confirmed_end = false;
                    run.barrier = Some((revision, barrier.unwrap()));
                }
            },
            ClientEvent::ExecuteToolRound(round) => run.round = Some(round),
            ClientEvent::Ended(outcome) => {
                assert!(
                    run.stopping || outcome != RunOutcome::Cancelled,
                    "{}: cancelled, and nobody asked for it",
                    run.id
                );
                run.outcome = Some(outcome);
                run.late = run.barrier.take().map(|(_, barrier)| barrier);
            }
            _ => {}
        }
    }

    /// Checks a request as it is made.
    fn request(&mut self, index: usize, request: &ModelRequest) {
        let history = &request.history;
        let run = &self.runs[index];
        pairing(history).unwrap();
        let seen = self.seen_by(index);
        assert!(
            history.starts_with(&seen),
            "{}: a request does not extend the one before it:\n{seen:#?}\n{history:#?}",
            run.id
        );
        let mut words = BTreeSet::new();
        for word in history.iter().flat_map(|item| words_of(item)) {
            let owner: usize = word[1..word.find(':').unwrap()].parse().unwrap();
            assert!(
                run.lineage.contains(&owner),
                "{}: {word} is of another branch",
                run.id
            );
            assert!(words.insert(word.clone()), "{}: {word} occurs twice", run.id);
        }
        for ((owner, round), stored) in &self.stored {
            if *owner == index {
                assert_eq!(results_of(history, round), *stored, "{}: {round}", run.id);
            } else if run.interrupted.as_ref() == Some(round) {
                let results = results_of(history, &ToolRoundId::restored(&run.id));
                assert!(
                    results.starts_with(stored),
                    "{}: {results:?} lost {stored:?}",
                    run.id
                );
            }
        }
        self.runs[index].requested = Some(history.clone());
        let (conversation, at) = (self.runs[index].conversation, self.runs[index].at);
        self.held[conversation][at].seen = history.clone();
    }

    /// Ends everything, and checks what is left.
    async fn finish(mut self) {
        self.settle().await;
        for index in 0..self.runs.len() {
            if self.tell(index, ClientCommand::Cancel) {
                self.runs[index].stopping = true;
            }
        }
        self.settle().await;
        let store = self.bench.services.store.clone();
        for run in &self.runs {
            assert!(run.task.is_finished());
            if run.outcome == Some(RunOutcome::Completed) {
                let stored = store.history(run.confirmed.as_ref().unwrap()).await.unwrap();
                let words: BTreeSet<_> = stored.iter().flat_map(|message| words_in(message)).collect();
                assert!(
                    run.events.is_subset(&words),
                    "{}: {:?} were told, {words:?} are stored",
                    run.id,
                    run.events
                );
            }
            let record = store.run_record(&run.id).await.unwrap();
            let recorded = record.and_then(|record| record.outcome);
            let expected = match &run.outcome {
                Some(RunOutcome::Completed) => Some(RecordedOutcome::Completed),
                Some(RunOutcome::Cancelled) => Some(RecordedOutcome::Cancelled),
                Some(RunOutcome::Failed(_)) | None => continue,
            };
            // A run that a newer one replaced before it began has no record.
            assert!(
                recorded == expected || (recorded.is_none() && run.outcome == Some(RunOutcome::Cancelled)),
                "{}: {recorded:?} is recorded, {:?} was told",
                run.id,
                run.outcome
            );
        }
        for (held, name) in self.held.iter().zip(["one", "two"]) {
            let base = held[0].revision.clone();
            let mut probe = prepared(
                &format!("probe-{name}"),
                base,
                RunAction::Resume { pending: None },
            );
            probe.conversation = ConversationId::new(name);
            let begun = store.begin_run(&probe, 1).await.unwrap();
            assert_eq!(begun.superseded, None, "an ended run still owns {name}");
            for state in held {
                let stored = store.history(&state.revision).await.unwrap();
                let words: Vec<_> = stored.iter().flat_map(|message| words_in(message)).collect();
                let once: BTreeSet<_> = words.iter().cloned().collect();
                assert_eq!(once.len(), words.len(), "something is stored twice: {words:?}");
            }
        }
        store.check_integrity().await.unwrap();
    }
}

/// The results of a round in a history, as they stand there.
fn results_of(history: &[Arc<HistoryItem>], wanted: &ToolRoundId) -> Vec<ToolResult> {
    history
        .iter()
        .skip_while(|item| {
            !matches!(item.as_ref(), HistoryItem::Assistant { round: Some(round), .. } if round == wanted)
        })
        .skip(1)
        .map_while(|item| match item.as_ref() {
            HistoryItem::ToolResult(result) => Some(result.clone()),
            _ => None,
        })
        .collect()
}

fn words_of(item: &HistoryItem) -> Vec<String> {
    match item {
        HistoryItem::User { parts, .. } => split(&text_of(parts)),
        HistoryItem::Assistant { said, .. } => split(&said.text),
        HistoryItem::ToolResult(result) => result_words(result),
    }
}

fn words_in(message: &Message) -> Vec<String> {
    match &message.body {
        MessageBody::User { parts, .. } => split(&text_of(parts)),
        MessageBody::Assistant(said) => split(&said.text),
        MessageBody::ToolCall { said, .. } => said.as_ref().map(|said| split(&said.text)).unwrap_or_default(),
        MessageBody::ToolResult { result, .. } => result_words(result),
    }
}

/// What stopped calls are told is the same for all of them.
fn result_words(result: &ToolResult) -> Vec<String> {
    match result.is_error && result.content.text().contains(INTERRUPTED) {
        true => Vec::new(),
        false => split(&result.content.text()),
    }
}

fn text_of(parts: &[Part]) -> String {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.to_string(),
            Part::Image(_) => String::new(),
        })
        .collect()
}

/// Texts of an answer follow each other without a gap.
fn split(text: &str) -> Vec<String> {
    text.split_inclusive('>').map(str::to_owned).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_any_interleaving_each_run_has_ended_once_and_nothing_is_lost_or_doubled(
        steps in prop::collection::vec(step(), 20..160)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new().await;
            for step in steps {
                world.take(step).await;
            }
            world.finish().await;
        });
    }
}
