//! The proof at run time: a request that does not extend its predecessor is found, unless somebody declared why.

use std::path::Path;
use std::sync::Arc;

use cairn::model::{
    ConversationId, ItemDigest, ItemKind, ModelRequest, PrefixReset, PreparedRun, PromptBasis, PromptChange,
    PromptSpec, RequestDigest, RunId, RunOutcome,
};
use cairn::provider::{ModelEvent, ModelInvocation, ModelStream, Provider};
use cairn::run::PrefixBreaks;
use cairn::store::{ModelCallRecord, PrefixVerdict, Records, Store};
use futures_util::StreamExt;

use super::support::fake_client::Bench;
use super::support::fake_provider::{FakeProvider, text};

/// A provider whose requests are told of otherwise than they are.
#[derive(Clone, Debug)]
struct Tampering {
    inner: FakeProvider,
    tamper: fn(&mut RequestDigest),
}

impl Provider for Tampering {
    fn call(&self, request: &ModelRequest, invocation: ModelInvocation) -> ModelStream {
        let tamper = self.tamper;
        let tampered = self.inner.call(request, invocation).map(move |event| {
            event.map(|event| match event {
                ModelEvent::Sending(digest) => {
                    let mut digest = (*digest).clone();
                    tamper(&mut digest);
                    ModelEvent::Sending(Arc::new(digest))
                }
                other => other,
            })
        });
        tampered.boxed()
    }
}

/// A conversation whose runs follow each other.
struct Conversation {
    bench: Bench,
    provider: FakeProvider,
    runs: usize,
    head: Option<cairn::model::RevisionId>,
}

impl Conversation {
    async fn new() -> Self {
        Self {
            bench: Bench::new().await,
            provider: FakeProvider::new(),
            runs: 0,
            head: None,
        }
    }

    /// Plays a turn whose requests are told of as `tamper` says.
    async fn turn_as(
        &mut self,
        change: impl FnOnce(&mut PreparedRun),
        tamper: fn(&mut RequestDigest),
    ) -> RunOutcome {
        self.runs += 1;
        self.provider.answer(text("yes"));
        let name = format!("run-{}", self.runs);
        let mut run = self.bench.user_turn(&name, self.head.as_ref(), &name).await;
        change(&mut run);
        let provider = Tampering {
            inner: self.provider.clone(),
            tamper,
        };
        let mut client = self.bench.start(&provider, run);
        let outcome = client.finish(|_| unreachable!()).await;
        self.head = client.settled.clone();
        outcome
    }

    async fn turn(&mut self) {
        assert_eq!(self.turn_as(|_| {}, |_| {}).await, RunOutcome::Completed);
    }

    async fn calls(&self) -> Vec<ModelCallRecord> {
        calls(&self.bench.folder.path().join("cairn.db")).await
    }

    async fn verdicts(&self) -> Vec<PrefixVerdict> {
        self.calls().await.iter().map(|call| call.verdict).collect()
    }

    /// As after a restart of the process.
    async fn restart(&mut self) {
        self.bench.services.store.close().await.unwrap();
        let store = Store::open(&self.bench.folder.path().join("cairn.db"))
            .await
            .unwrap();
        self.bench.services.store = Arc::new(store);
        self.bench.services.views = Default::default();
    }
}

async fn calls(database: &Path) -> Vec<ModelCallRecord> {
    let mut records = Records::open(database).await.unwrap();
    records
        .model_calls(&ConversationId::new("conversation"))
        .await
        .unwrap()
}

/// Changes the first message of the request: tools and instructions stand before it.
fn edit_first_message(digest: &mut RequestDigest) {
    let first = digest
        .items
        .iter_mut()
        .find(|item| item.kind == ItemKind::Message);
    first.unwrap().hash[0] ^= 1;
}

/// The prompt of the bench has three tools and instructions.
const FIRST_MESSAGE: usize = 4;

#[tokio::test]
async fn a_break_that_nobody_declared_fails_the_run_before_the_request_goes_out() {
    let mut conversation = Conversation::new().await;
    conversation.turn().await;
    let outcome = conversation.turn_as(|_| {}, edit_first_message).await;
    let RunOutcome::Failed(failure) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(
        failure.to_string(),
        "request 0 of run run-2 does not extend its predecessor: item 4 (message 0) differs and no declared reset \
         explains it"
    );
    let record = conversation
        .bench
        .services
        .store
        .run_record(&RunId::new("run-2"))
        .await;
    assert_eq!(record.unwrap().unwrap().prefix_breaks, 1);
    let broken = PrefixVerdict::Broken { item: FIRST_MESSAGE };
    assert_eq!(conversation.verdicts().await, [PrefixVerdict::Extends, broken]);
}

#[tokio::test]
async fn in_service_a_break_is_counted_and_the_person_gets_the_answer() {
    let mut conversation = Conversation::new().await;
    conversation.bench.services.prefix_breaks = PrefixBreaks::Report;
    conversation.turn().await;
    let outcome = conversation.turn_as(|_| {}, edit_first_message).await;
    assert_eq!(outcome, RunOutcome::Completed);
    // What went out is what the next request is held against.
    assert_eq!(
        conversation.turn_as(|_| {}, edit_first_message).await,
        RunOutcome::Completed
    );
    let broken = PrefixVerdict::Broken { item: FIRST_MESSAGE };
    assert_eq!(
        conversation.verdicts().await,
        [PrefixVerdict::Extends, broken, PrefixVerdict::Extends]
    );
    let breaks = |run: &'static str| {
        let store = conversation.bench.services.store.clone();
        async move {
            store
                .run_record(&RunId::new(run))
                .await
                .unwrap()
                .unwrap()
                .prefix_breaks
        }
    };
    assert_eq!(
        [
            breaks("run-1").await,
            breaks("run-2").await,
            breaks("run-3").await
        ],
        [0, 1, 0]
    );
}

#[tokio::test]
async fn a_dropped_message_is_a_break_and_a_restart_forgets_nothing() {
    let mut conversation = Conversation::new().await;
    for _ in 0..3 {
        conversation.turn().await;
    }
    conversation.restart().await;
    let outcome = conversation
        .turn_as(|_| {}, |digest| digest.items.truncate(FIRST_MESSAGE + 2))
        .await;
    assert!(matches!(outcome, RunOutcome::Failed(_)), "{outcome:?}");
    let verdicts = conversation.verdicts().await;
    assert_eq!(verdicts[..3], [PrefixVerdict::Extends; 3]);
    // The first item that is missing stands behind the last one that is there.
    assert_eq!(
        verdicts[3],
        PrefixVerdict::Broken {
            item: FIRST_MESSAGE + 2
        }
    );
}

#[tokio::test]
async fn a_changed_prompt_is_a_break_unless_it_is_declared_and_never_excuses_a_message() {
    let prompt = |run: &mut PreparedRun| {
        run.prompt = Arc::new(PromptSpec {
            instructions: "be brief".into(),
            tools: run.prompt.tools.clone(),
        });
    };
    let declared = move |run: &mut PreparedRun| {
        prompt(run);
        run.basis = PromptBasis {
            note: "note".into(),
            change: Some(PromptChange::ModeSwitch),
        };
    };
    let first_turn = async || {
        let mut conversation = Conversation::new().await;
        conversation.turn().await;
        conversation
            .provider
            .expect_reset(&ConversationId::new("conversation"));
        conversation
    };
    let mut conversation = first_turn().await;
    assert!(matches!(
        conversation.turn_as(prompt, |_| {}).await,
        RunOutcome::Failed(_)
    ));
    // The instructions stand behind the three tools.
    assert_eq!(
        conversation.verdicts().await[1],
        PrefixVerdict::Broken { item: 3 }
    );

    let mut conversation = first_turn().await;
    assert_eq!(
        conversation.turn_as(declared, |_| {}).await,
        RunOutcome::Completed
    );
    let switch = PrefixVerdict::Reset(PrefixReset::Prompt(PromptChange::ModeSwitch));
    let calls = conversation.calls().await;
    assert_eq!((calls[1].verdict, calls[1].kept), (switch, 3));

    let mut conversation = first_turn().await;
    assert!(matches!(
        conversation.turn_as(declared, edit_first_message).await,
        RunOutcome::Failed(_)
    ));
    let broken = PrefixVerdict::Broken { item: FIRST_MESSAGE };
    assert_eq!(conversation.verdicts().await[1], broken);
}

#[tokio::test]
async fn each_lineage_is_held_against_itself() {
    let other = |digest: &mut RequestDigest| digest.lineage = "other".into();
    let mut conversation = Conversation::new().await;
    conversation.turn().await;
    assert_eq!(conversation.turn_as(|_| {}, other).await, RunOutcome::Completed);
    conversation.turn().await;
    assert_eq!(conversation.turn_as(|_| {}, other).await, RunOutcome::Completed);
    let switch = PrefixVerdict::Reset(PrefixReset::ModelSwitch);
    let extends = PrefixVerdict::Extends;
    assert_eq!(conversation.verdicts().await, [extends, switch, extends, extends]);
    let kept: Vec<usize> = conversation.calls().await.iter().map(|call| call.kept).collect();
    // Each turn is a message and an answer; the other lineage begins at nothing.
    assert_eq!(kept, [0, 0, FIRST_MESSAGE + 1, FIRST_MESSAGE + 3]);
}

#[tokio::test]
async fn a_run_from_an_earlier_point_is_a_branch() {
    let mut conversation = Conversation::new().await;
    conversation.turn().await;
    let earlier = conversation.head.clone();
    conversation.turn().await;
    conversation.head = earlier;
    conversation
        .provider
        .expect_reset(&ConversationId::new("conversation"));
    conversation.turn().await;
    let calls = conversation.calls().await;
    assert_eq!(calls[2].verdict, PrefixVerdict::Reset(PrefixReset::Branch));
    // What both branches have in common is still shared.
    assert_eq!(calls[2].kept, FIRST_MESSAGE + 2);
}

fn other_settings(digest: &mut RequestDigest) {
    digest.settings[0] ^= 1;
}

/// Changes of the first message what no setting decides, too.
fn rewrite_first_message(digest: &mut RequestDigest) {
    edit_first_message(digest);
    let first = digest
        .items
        .iter_mut()
        .find(|item| item.kind == ItemKind::Message);
    first.unwrap().settled.as_mut().unwrap()[0] ^= 1;
}

/// A second turn whose requests are told of as `tamper` says: its outcome and its verdict.
async fn second_turn_as(tamper: fn(&mut RequestDigest)) -> (RunOutcome, PrefixVerdict) {
    let mut conversation = Conversation::new().await;
    conversation.turn().await;
    let outcome = conversation.turn_as(|_| {}, tamper).await;
    (outcome, conversation.verdicts().await[1])
}

#[tokio::test]
async fn other_settings_explain_what_they_decide_of_a_message_and_nothing_else() {
    let explained = second_turn_as(|digest| {
        edit_first_message(digest);
        other_settings(digest);
    });
    let settings = PrefixVerdict::Reset(PrefixReset::SettingsChange);
    assert_eq!(explained.await, (RunOutcome::Completed, settings));

    for (tamper, item, place) in [
        (
            (|digest| {
                rewrite_first_message(digest);
                other_settings(digest);
            }) as fn(&mut RequestDigest),
            FIRST_MESSAGE,
            "message 0",
        ),
        (
            |digest| {
                digest.items[1].hash[0] ^= 1;
                other_settings(digest);
            },
            1,
            "tool 1",
        ),
        (
            |digest| {
                // Its answer of the first turn is gone; the new message stands in its place.
                digest.items.remove(FIRST_MESSAGE + 1);
                digest.items.remove(FIRST_MESSAGE);
                other_settings(digest);
            },
            FIRST_MESSAGE,
            "message 0",
        ),
    ] {
        let (outcome, verdict) = second_turn_as(tamper).await;
        assert_eq!(verdict, PrefixVerdict::Broken { item });
        let RunOutcome::Failed(failure) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(
            failure.to_string(),
            format!(
                "request 0 of run run-2 does not extend its predecessor: item {item} ({place}) differs and no declared \
                 reset explains it"
            )
        );
    }
}

#[tokio::test]
async fn a_refusal_explains_that_reasoning_is_left_out_and_nothing_else() {
    /// The first turn's message is followed by reasoning.
    fn with_reasoning(digest: &mut RequestDigest) {
        let reasoning = ItemDigest {
            kind: ItemKind::Message,
            bytes: 7,
            hash: [7; 16],
            settled: None,
        };
        digest.items.insert(FIRST_MESSAGE + 1, reasoning);
    }
    let second_turn = async |tamper: fn(&mut RequestDigest)| {
        let mut conversation = Conversation::new().await;
        conversation.turn_as(|_| {}, with_reasoning).await;
        let outcome = conversation.turn_as(|_| {}, tamper).await;
        (outcome == RunOutcome::Completed, conversation.verdicts().await[1])
    };
    let broken = |item| (false, PrefixVerdict::Broken { item });
    let refused = (true, PrefixVerdict::Reset(PrefixReset::ReasoningRefused));
    assert_eq!(second_turn(|_| {}).await, broken(FIRST_MESSAGE + 1));
    let left_out = |digest: &mut RequestDigest| digest.without_reasoning = true;
    assert_eq!(second_turn(left_out).await, refused);
    let rewritten = |digest: &mut RequestDigest| {
        digest.without_reasoning = true;
        rewrite_first_message(digest);
    };
    assert_eq!(second_turn(rewritten).await, broken(FIRST_MESSAGE));
    let other_tools = |digest: &mut RequestDigest| {
        digest.without_reasoning = true;
        digest.items.remove(2);
    };
    assert_eq!(second_turn(other_tools).await, broken(2));
}

#[tokio::test]
async fn a_branch_explains_other_messages_and_no_other_tool() {
    let branch = async |tamper: fn(&mut RequestDigest)| {
        let mut conversation = Conversation::new().await;
        conversation.turn().await;
        let earlier = conversation.head.clone();
        conversation.turn().await;
        conversation.head = earlier;
        conversation
            .provider
            .expect_reset(&ConversationId::new("conversation"));
        conversation.turn_as(|_| {}, tamper).await;
        conversation.verdicts().await[2]
    };
    assert_eq!(branch(|_| {}).await, PrefixVerdict::Reset(PrefixReset::Branch));
    let other_tool = |digest: &mut RequestDigest| digest.items[1].hash[0] ^= 1;
    assert_eq!(branch(other_tool).await, PrefixVerdict::Broken { item: 1 });
}
