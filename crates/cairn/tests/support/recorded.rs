//! Requests as they were recorded: two of one conversation, and the endpoint's stream between them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "shared test support; not every test file uses all of it"
)]

use std::collections::BTreeSet;
use std::path::Path;

use cairn::model::{HistoryItem, ModelRequest, ModelSpec};

use super::model_events::Answer;
use super::provider_input::{assistant, request_of, result, said, user};

/// What one endpoint was sent, and what it answered.
pub struct Recorded {
    pub name: &'static str,
    /// TOML.
    pub options: &'static str,
    /// What the run asks of the model, so that the endpoint's parameters show.
    pub asked: ModelSpec,
    /// The two requests.
    pub requests: [&'static str; 2],
    /// The answer to the first.
    pub stream: &'static str,
}

/// A recorded conversation of this name in an API's folder: its two requests, and one of the API's streams.
#[macro_export]
macro_rules! recorded {
    ($api:literal, $name:literal, $stream:literal, $options:expr, $asked:expr) => {
        $crate::recorded::Recorded {
            name: $name,
            options: $options,
            asked: $asked,
            requests: [
                include_str!(concat!("../fixtures/", $api, "/requests/", $name, ".first.json")),
                include_str!(concat!("../fixtures/", $api, "/requests/", $name, ".second.json")),
            ],
            stream: include_str!(concat!("../fixtures/", $api, "/", $stream, ".sse")),
        }
    };
}

/// An answer as the history holds it.
pub fn item_of(answer: &Answer) -> HistoryItem {
    let mut spoken = said(&answer.text);
    spoken.replay = answer.replay.clone();
    assistant(spoken, &calls_of(answer))
}

/// The first request of a conversation, and the one after this answer: its results, a plain answer, and a new question.
pub fn conversation(asked: &ModelSpec, answer: &Answer) -> [ModelRequest; 2] {
    let mut history = vec![user("Read it.")];
    let first = request_of(asked.clone(), history.clone());
    history.push(item_of(answer));
    if !answer.calls.is_empty() {
        history.extend(calls_of(answer).iter().map(|(id, ..)| result(id, "one\n")));
        history.push(assistant(said("Done."), &[]));
    }
    history.push(user("Thanks."));
    [first, request_of(asked.clone(), history)]
}

fn calls_of(answer: &Answer) -> Vec<(&str, &str, &str)> {
    let calls = answer.calls.iter();
    calls
        .map(|(id, name, arguments)| (id.as_deref().unwrap(), name.as_str(), arguments.as_str()))
        .collect()
}

/// The bodies are the recorded ones byte for byte, and the second repeats the first up to the end of its last list.
#[track_caller]
pub fn assert_recorded(name: &str, bodies: [&[u8]; 2], recorded: [&str; 2]) {
    for (body, recorded) in bodies.iter().zip(recorded) {
        assert_eq!(std::str::from_utf8(body).unwrap(), recorded.trim_end(), "{name}");
    }
    assert_extends(name, recorded[0].trim_end(), recorded[1].trim_end());
}

#[track_caller]
pub fn assert_extends(name: &str, first: &str, second: &str) {
    let open = first.strip_suffix("]}").unwrap();
    assert!(
        second.starts_with(open),
        "{name}: {second}\ndoes not extend {first}"
    );
}

/// Every recorded file with this ending in an API's folder is among these: none is forgotten.
#[track_caller]
pub fn assert_all_of_the_folder(
    folder: &str,
    ending: &str,
    names: impl IntoIterator<Item = impl Into<String>>,
) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(folder);
    let files: BTreeSet<String> = std::fs::read_dir(path)
        .unwrap()
        .filter_map(|entry| {
            Some(
                entry
                    .unwrap()
                    .file_name()
                    .to_str()?
                    .strip_suffix(ending)?
                    .to_owned(),
            )
        })
        .collect();
    let named: BTreeSet<String> = names.into_iter().map(Into::into).collect();
    assert_eq!(named, files, "{folder}");
}
