//! What was sent is read back as it was, call by call, also beside a server that has the database open.

use cairn::model::{ItemDigest, ItemKind, PrefixReset, PromptBasis, PromptChange, Usage};
use cairn::store::{ModelCallEnd, NewModelCall, PrefixVerdict, Records, RunRecordEnd, StoreError};

use crate::support::Fixture;

fn items(text: &str) -> Vec<ItemDigest> {
    text.bytes()
        .map(|byte| ItemDigest {
            kind: ItemKind::Message,
            bytes: u32::from(byte),
            hash: [byte; 16],
            settled: Some([byte; 16]),
        })
        .collect()
}

#[tokio::test]
async fn a_lineage_is_read_back_as_it_was_sent() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let call = NewModelCall {
        run: &run,
        index: 0,
        revision: &f.empty,
        lineage: "one",
        settings: [7; 16],
        kept: 0,
        added: &items("abc"),
        beside: false,
        without_reasoning: false,
        verdict: PrefixVerdict::Extends,
    };
    f.store.record_model_call(&call, None).await.unwrap();
    let usage = Usage {
        fresh_input: Some(5),
        cache_read: Some(90),
        ..Usage::default()
    };
    let end = ModelCallEnd {
        answered: true,
        usage: Some(usage),
    };
    // Beside the conversation: what follows it does not grow out of it.
    let beside = NewModelCall {
        index: 1,
        kept: 3,
        added: &items("summary"),
        beside: true,
        ..call
    };
    f.store.record_model_call(&beside, Some(end)).await.unwrap();
    let other = NewModelCall {
        index: 2,
        lineage: "two",
        added: &items("xy"),
        verdict: PrefixVerdict::Reset(PrefixReset::ModelSwitch),
        ..call
    };
    f.store.record_model_call(&other, None).await.unwrap();
    let shorter = NewModelCall {
        index: 3,
        kept: 2,
        added: &items("d"),
        verdict: PrefixVerdict::Broken { item: 2 },
        without_reasoning: true,
        ..call
    };
    let key = f.store.record_model_call(&shorter, None).await.unwrap();

    let latest = f
        .store
        .latest_model_call(&f.conversation, "one")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(latest.key, key);
    assert_eq!((latest.items, latest.settings), (items("abd"), [7; 16]));
    assert!(latest.refusal_unsettled);
    assert_eq!(
        f.store.latest_model_call(&f.conversation, "three").await.unwrap(),
        None
    );
    assert!(f.store.has_other_lineage(&f.conversation, "two").await.unwrap());
    assert_eq!(f.store.run_record(&run).await.unwrap().unwrap().prefix_breaks, 1);

    let finish = RunRecordEnd {
        outcome: &cairn::model::RunOutcome::Completed,
        usage: None,
        last_call: Some(ModelCallEnd {
            answered: true,
            usage: None,
        }),
        ended_at_ms: 2_000,
    };
    f.store.end_run(&run, &finish).await.unwrap();
    let latest = f
        .store
        .latest_model_call(&f.conversation, "one")
        .await
        .unwrap()
        .unwrap();
    assert!(!latest.refusal_unsettled, "its answer is known now");

    let mut records = Records::open(&f.path()).await.unwrap();
    let calls = records.model_calls(&f.conversation).await.unwrap();
    let seen: Vec<_> = calls
        .iter()
        .map(|call| {
            (
                call.index,
                &*call.lineage,
                call.items.len(),
                call.kept,
                call.beside,
                call.verdict,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (0, "one", 3, 0, false, PrefixVerdict::Extends),
            (1, "one", 10, 3, true, PrefixVerdict::Extends),
            (
                2,
                "two",
                2,
                0,
                false,
                PrefixVerdict::Reset(PrefixReset::ModelSwitch)
            ),
            (3, "one", 3, 2, false, PrefixVerdict::Broken { item: 2 }),
        ]
    );
    assert_eq!(calls[0].end, Some(end));
    assert_eq!(calls[3].end, finish.last_call);
    f.store.check_integrity().await.unwrap();
}

#[tokio::test]
async fn a_prompts_note_and_its_changes_outlive_the_run() {
    let f = Fixture::new().await;
    assert_eq!(f.store.latest_prompt_note(&f.conversation).await.unwrap(), None);
    let mut run = f.prepared("one", &f.empty);
    run.basis = PromptBasis {
        note: "first".into(),
        change: None,
    };
    f.store.begin_run(&run, 1_000).await.unwrap();
    f.call(&run.id, 0, 0, &items("a")).await.unwrap();
    let sent = f
        .store
        .latest_model_call(&f.conversation, "lineage")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(f.store.prompt_changes_since(&sent).await.unwrap(), []);
    for (id, note, change) in [
        ("two", "second", Some(PromptChange::ModeSwitch)),
        ("three", "second", None),
        ("four", "first", Some(PromptChange::ToolsChange)),
    ] {
        let mut run = f.prepared(id, &f.empty);
        run.basis = PromptBasis {
            note: note.into(),
            change,
        };
        f.store.begin_run(&run, 1_000).await.unwrap();
        assert_eq!(
            f.store
                .latest_prompt_note(&f.conversation)
                .await
                .unwrap()
                .unwrap(),
            note
        );
    }
    assert_eq!(
        f.store.prompt_changes_since(&sent).await.unwrap(),
        [PromptChange::ToolsChange, PromptChange::ModeSwitch]
    );
}

#[tokio::test]
async fn records_are_read_where_there_are_any_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("cairn.db");
    let error = Records::open(&absent).await.unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    std::fs::write(
        &absent,
        "no database at all, but long enough to be looked at as one".repeat(20),
    )
    .unwrap();
    let error = Records::open(&absent).await.unwrap_err();
    assert!(matches!(error, StoreError::Schema { .. }), "{error:?}");
    // A closed store's file is as good as an open one's.
    let f = Fixture::new().await;
    f.store.close().await.unwrap();
    let mut records = Records::open(&f.path()).await.unwrap();
    assert_eq!(records.model_calls(&f.conversation).await.unwrap(), []);
    let unknown = cairn::model::ConversationId::new("nobody");
    let error = records.model_calls(&unknown).await.unwrap_err();
    assert!(matches!(error, StoreError::UnknownConversation(_)), "{error:?}");
}
