//! A server that has forgotten everything asks the client for its blobs: one is missing, false, or never comes. Or a blob
//! that the client sends along unasked is false.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::conversation::{NEXT, Reference, Turn};
use super::inside::{Inside, pass, until_silent};
use super::rig::{Fault, block_on, try_all};
use super::support::fake_cursor::GetAnswer;

/// Tries an answer to each GET. The run must end with this code and these words.
fn with_each_get(kind: &str, answer: fn() -> GetAnswer, code: &'static str, words: &'static str) {
    let (reference, gets) = block_on(async {
        let reference = Inside::reference(Turn::Tools).await;
        let mut inside = forgetful().await;
        let report = inside.conversation.cursor.send(NEXT).await.success();
        (Arc::new(reference), report.gets.len())
    });
    assert!(gets > 10, "only {gets} blobs were asked for");
    let faults = (0..gets).map(|at| {
        let reference = reference.clone();
        Fault::new(format!("GET {}", at + 1), move || async move {
            trial(at, answer, code, words, &reference).await;
        })
    });
    try_all(kind, faults.collect());
}

async fn forgetful() -> Inside {
    let mut inside = Inside::new().await;
    let cursor = &mut inside.conversation.cursor;
    cursor.send(Turn::Tools.message()).await.success();
    let mut inside = inside.forget_everything().await;
    inside.conversation.cursor.hooks.request = Box::new(|request| request.pre_fetched_blobs.clear());
    inside
}

async fn trial(at: usize, answer: fn() -> GetAnswer, code: &str, words: &str, reference: &Reference) {
    let mut inside = forgetful().await;
    let model_calls = inside.conversation.chat.requests().len();
    let cursor = &mut inside.conversation.cursor;
    let mut seen = 0;
    cursor.hooks.get = Box::new(move |_| {
        seen += 1;
        if seen == at + 1 {
            answer()
        } else {
            GetAnswer::Stored
        }
    });
    let mut turn = cursor.start_turn(NEXT).await;
    if matches!(answer(), GetAnswer::Withhold) {
        while turn.report().gets.len() <= at {
            turn.next().await.unwrap();
        }
        until_silent(&mut turn).await;
        pass(Duration::from_secs(58)).await;
        until_silent(&mut turn).await;
        pass(Duration::from_secs(3)).await;
    }
    let report = turn.finish().await;
    let (got, message) = report.error();
    let blob = hex::encode(&report.gets[at]);
    assert_eq!(got, code, "{message}");
    assert!(message.contains(&blob) && message.contains(words), "{message}");
    assert_eq!(
        inside.conversation.chat.requests().len(),
        model_calls,
        "the model was called without the history"
    );
    inside.conversation.cursor.hooks.get = Box::new(|_| GetAnswer::Stored);
    inside.conversation.nothing_happened(reference).await;
}

#[test]
fn a_blob_that_the_client_lost_is_named() {
    with_each_get(
        "GET of a lost blob",
        || GetAnswer::Missing,
        "invalid_argument",
        "has no blob",
    );
}

#[test]
fn a_blob_of_other_bytes_is_named() {
    let false_bytes = || GetAnswer::Bytes(Bytes::from_static(br#"{"role":"user","content":"x"}"#));
    with_each_get("GET answered falsely", false_bytes, "invalid_argument", "SHA-256");
}

#[test]
fn a_blob_that_never_comes_is_named() {
    with_each_get(
        "GET never answered",
        || GetAnswer::Withhold,
        "aborted",
        "within 60 seconds",
    );
}

/// Whether the server that is sent a false blob still has its database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Database {
    Kept,
    Lost,
}

async fn after_a_turn(database: Database) -> Inside {
    let mut inside = Inside::new().await;
    let cursor = &mut inside.conversation.cursor;
    cursor.send(Turn::Tools.message()).await.success();
    match database {
        Database::Kept => inside,
        Database::Lost => inside.forget_everything().await,
    }
}

/// One of the blobs that come along is false: it is named if it is needed, and otherwise nothing of it is believed.
fn with_each_blob_sent_along(kind: &str, database: Database) {
    let reference = Arc::new(block_on(Inside::reference(Turn::Tools)));
    let sent_along = block_on(async {
        let inside = after_a_turn(database).await;
        let cursor = &inside.conversation.cursor;
        cursor.blobs().graph(&cursor.state()).unwrap().len()
    });
    let faults = (0..sent_along).map(|at| {
        let reference = reference.clone();
        Fault::new(format!("blob {}", at + 1), move || async move {
            false_blob(at, database, &reference).await;
        })
    });
    try_all(kind, faults.collect());
}

async fn false_blob(at: usize, database: Database, reference: &Reference) {
    let mut inside = after_a_turn(database).await;
    let model_calls = inside.conversation.chat.requests().len();
    let cursor = &mut inside.conversation.cursor;
    let state = cursor.state();
    let blob = cursor.blobs().graph(&state).unwrap()[at].id.clone();
    // With its database the server reads the to-do list alone; without it, the messages too.
    let is_needed = state.todos.contains(&blob)
        || database == Database::Lost && state.root_prompt_messages_json.contains(&blob);
    cursor.hooks.request = Box::new(move |request| {
        request.pre_fetched_blobs[at].value = Bytes::from_static(br#"{"role":"user","content":"x"}"#);
    });
    let report = cursor.send(NEXT).await;
    cursor.hooks.request = Box::new(|_| {});
    assert_eq!(report.gets, Vec::<Bytes>::new());
    if is_needed {
        let (code, message) = report.error();
        assert_eq!(code, "invalid_argument", "{message}");
        assert!(
            message.contains(&hex::encode(&blob)) && message.contains("SHA-256"),
            "{message}"
        );
        assert_eq!(inside.conversation.chat.requests().len(), model_calls);
        inside.conversation.cursor.send(NEXT).await.success();
    } else {
        report.success();
    }
    match database {
        Database::Kept => inside.went_well(reference).await,
        Database::Lost => inside.conversation.told_as_in(reference),
    }
}

#[test]
fn a_false_blob_that_comes_along_is_named_or_not_read_where_the_database_is_kept() {
    with_each_blob_sent_along("false blob sent along, database kept", Database::Kept);
}

#[test]
fn a_false_blob_that_comes_along_is_named_or_not_read_where_the_database_is_lost() {
    with_each_blob_sent_along("false blob sent along, database lost", Database::Lost);
}
