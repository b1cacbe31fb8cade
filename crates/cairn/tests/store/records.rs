//! A run's record says what is known of it, and nothing that is not.

use cairn::model::{
    CallId, ConversationId, Delegation, DelegationOrigin, FailureKind, ParentCall, PreparedRun,
    ProviderFailure, ProviderFault, RunFailure, RunId, RunKind, RunOutcome, SubagentKind, Usage,
};
use cairn::store::{RecordedFailure, RecordedOutcome, RunRecord, RunRecordEnd};

use sqlx::Row;

use crate::support::{Fixture, refusal};

#[tokio::test]
async fn a_record_tells_how_a_run_began_and_ended() {
    let f = Fixture::new().await;
    let mut prepared = f.prepared("run", &f.empty);
    prepared.root = ConversationId::new("root");
    prepared.kind = RunKind::Subagent {
        kind: SubagentKind::new("explore"),
        parent: Some(ParentCall {
            run: RunId::new("parent"),
            call: CallId::new("call"),
        }),
    };
    let begun = RunRecord {
        id: prepared.id.clone(),
        conversation: f.conversation.clone(),
        root: prepared.root.clone(),
        kind: prepared.kind.clone(),
        base: f.empty.clone(),
        model_id: "fast".into(),
        started_at_ms: 1_000,
        provider_call_index: None,
        provider_calls: 0,
        prefix_breaks: 0,
        outcome: None,
        ended_at_ms: None,
        superseded_by: None,
        usage: None,
    };
    assert_eq!(f.store.run_record(&prepared.id).await.unwrap(), None);
    f.store.begin_run(&prepared, 1_000).await.unwrap();
    assert_eq!(f.store.run_record(&prepared.id).await.unwrap().unwrap(), begun);

    for index in [0, 1, 1] {
        f.call(&prepared.id, index, 0, &[]).await.unwrap();
    }
    let failure = ProviderFailure::new(ProviderFault::RateLimited, "slow down\r\nplease");
    let usage = Usage {
        fresh_input: Some(10),
        output: Some(0),
        ..Usage::default()
    };
    let end = RunRecordEnd {
        outcome: &RunOutcome::Failed(RunFailure::Provider(failure)),
        usage: Some(usage),
        last_call: None,
        ended_at_ms: 3_000,
    };
    f.store.end_run(&prepared.id, &end).await.unwrap();
    let ended = RunRecord {
        provider_call_index: Some(1),
        provider_calls: 3,
        outcome: Some(RecordedOutcome::Failed(RecordedFailure {
            kind: FailureKind::Provider,
            provider_fault: Some(ProviderFault::RateLimited),
            cause: "slow down  please".to_owned(),
        })),
        ended_at_ms: Some(3_000),
        usage: Some(usage),
        ..begun
    };
    assert_eq!(f.store.run_record(&prepared.id).await.unwrap().unwrap(), ended);
    assert_eq!(f.store.runs_of(&f.conversation).await.unwrap(), [ended]);
}

#[tokio::test]
async fn every_outcome_and_failure_is_read_back() {
    let f = Fixture::new().await;
    let failed = |kind, cause: &str| {
        RecordedOutcome::Failed(RecordedFailure {
            kind,
            provider_fault: None,
            cause: cause.to_owned(),
        })
    };
    let cases = [
        (RunOutcome::Completed, RecordedOutcome::Completed),
        (RunOutcome::Cancelled, RecordedOutcome::Cancelled),
        (
            RunOutcome::Failed(RunFailure::Protocol("p".into())),
            failed(FailureKind::Protocol, "p"),
        ),
        (
            RunOutcome::Failed(RunFailure::Store("s".into())),
            failed(FailureKind::Store, "s"),
        ),
        (
            RunOutcome::Failed(RunFailure::Client("c".into())),
            failed(FailureKind::Client, "c"),
        ),
    ];
    for (at, (outcome, expected)) in cases.iter().enumerate() {
        let run = f.begin(&at.to_string(), &f.empty).await;
        let end = RunRecordEnd {
            outcome,
            usage: None,
            last_call: None,
            ended_at_ms: 2_000,
        };
        f.store.end_run(&run, &end).await.unwrap();
        let record = f.store.run_record(&run).await.unwrap().unwrap();
        assert_eq!(record.outcome.as_ref(), Some(expected));
    }
    let ids: Vec<String> = f
        .store
        .runs_of(&f.conversation)
        .await
        .unwrap()
        .iter()
        .map(|record| record.id.to_string())
        .collect();
    assert_eq!(ids, ["0", "1", "2", "3", "4"]);
}

#[tokio::test]
async fn usage_that_nobody_reported_stays_absent() {
    let f = Fixture::new().await;
    let columns =
        "SELECT fresh_input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens
                   FROM runs WHERE id = ?";
    let partial = Usage {
        cache_read: Some(5),
        ..Usage::default()
    };
    let cases = [
        ("none", None, [None; 5]),
        ("partial", Some(partial), [None, Some(5), None, None, None]),
    ];
    for (id, usage, expected) in cases {
        let run = f.begin(id, &f.empty).await;
        let end = RunRecordEnd {
            outcome: &RunOutcome::Completed,
            usage,
            last_call: None,
            ended_at_ms: 2_000,
        };
        f.store.end_run(&run, &end).await.unwrap();
        let row = sqlx::query(columns)
            .bind(id)
            .fetch_one(&mut f.sql().await)
            .await
            .unwrap();
        let found: [Option<i64>; 5] = std::array::from_fn(|column| row.get(column));
        assert_eq!(found, expected);
        assert_eq!(f.store.run_record(&run).await.unwrap().unwrap().usage, usage);
    }
}

#[tokio::test]
async fn provider_calls_are_counted_in_their_order() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    assert_eq!(refusal(f.call(&run, 1, 0, &[]).await), "ProviderCallOrder");
    f.call(&run, 0, 0, &[]).await.unwrap();
    f.call(&run, 1, 0, &[]).await.unwrap();
    for index in [0, 3] {
        assert_eq!(refusal(f.call(&run, index, 0, &[]).await), "ProviderCallOrder");
    }
}

#[tokio::test]
async fn delegations_are_kept_in_order_each_once_and_apart_by_conversation() {
    let f = Fixture::new().await;
    let delegation = |call: &str, child: &str, since_ms| Delegation {
        call: CallId::new(call),
        child: ConversationId::new(child),
        since_ms,
        background: true,
        origin: DelegationOrigin::Own,
    };
    let first = delegation("call-2", "child-b", 20);
    let second = delegation("call-1", "child-a", 30);
    for noted in [&first, &second, &first] {
        f.store.note_delegation(&f.conversation, noted).await.unwrap();
    }
    let other = ConversationId::new("another");
    f.store.empty_revision(&other).await.unwrap();
    f.store
        .note_delegation(&other, &delegation("call-1", "child-c", 1))
        .await
        .unwrap();
    let known = f.store.delegations(&f.conversation).await.unwrap();
    assert_eq!(known, [first, second]);
    let stranger = ConversationId::new("stranger");
    assert_eq!(f.store.delegations(&stranger).await.unwrap(), []);
    assert_eq!(f.store.head(&stranger).await.unwrap(), None);
    assert_eq!(
        f.store.head(&f.conversation).await.unwrap(),
        Some(f.empty.clone())
    );
}

#[tokio::test]
async fn a_delegation_is_told_to_its_latest_heir_alone_and_a_child_counts_once_it_has_a_run() {
    let f = Fixture::new().await;
    let [parent, child] = ["parent", "child"].map(ConversationId::new);
    for conversation in [&parent, &child] {
        f.store.empty_revision(conversation).await.unwrap();
    }
    let made = Delegation {
        call: CallId::new("call"),
        child: f.conversation.clone(),
        since_ms: 7,
        background: true,
        origin: DelegationOrigin::Own,
    };
    f.store.note_delegation(&child, &made).await.unwrap();
    let own = [made.clone()];
    assert_eq!(f.store.delegations(&child).await.unwrap(), own);
    assert_eq!(f.store.children(&child).await.unwrap(), []);
    let explore = SubagentKind::new("explore");
    let run = PreparedRun {
        kind: RunKind::Subagent {
            kind: explore.clone(),
            parent: None,
        },
        ..f.prepared("run", &f.empty)
    };
    f.store.begin_run(&run, 1_000).await.unwrap();
    let grandchild = [(f.conversation.clone(), explore)];
    assert_eq!(f.store.children(&child).await.unwrap(), grandchild);

    let inherited = |call: &str| Delegation {
        call: CallId::new(call),
        origin: DelegationOrigin::Inherited {
            conversation: child.clone(),
            call: CallId::new("call"),
        },
        ..made.clone()
    };
    let to_parent = f
        .store
        .hand_over(&child, made.clone(), &parent, &CallId::new("above"))
        .await
        .unwrap();
    assert_eq!(to_parent, inherited("above"));
    let (_folder, cold) = f.killed_and_reopened().await;
    for store in [&f.store, &cold] {
        assert_eq!(store.delegations(&child).await.unwrap(), []);
        assert_eq!(store.delegations(&parent).await.unwrap(), [inherited("above")]);
        assert_eq!(store.children(&parent).await.unwrap(), grandchild);
    }
    let top = ConversationId::new("top");
    f.store.empty_revision(&top).await.unwrap();
    let to_top = f
        .store
        .hand_over(&parent, to_parent, &top, &CallId::new("top"))
        .await
        .unwrap();
    assert_eq!(to_top, inherited("top"));
    assert_eq!(f.store.delegations(&parent).await.unwrap(), []);
    assert_eq!(f.store.delegations(&top).await.unwrap(), [inherited("top")]);
}
