//! Endpoints that say nothing for minutes and are alive, and calls whose arguments take a quarter of an hour.

use std::time::Duration;

use bytes::Bytes;
use cairn::config::Api;
use cairn::model::{ProviderFailure, RunOutcome};
use cairn::provider::{ModelEvent, StopReason};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::api;
use crate::support::fake_client::{Bench, FakeClient};
use crate::support::fake_provider::{FakeProvider, text};
use crate::support::over_http::{Over, Writer};
use crate::support::strict_chat::Reply;

/// Time that only moves when the test says so: as long as this lives, the runtime always has something to do, and a clock
/// that stands still is moved on by itself only when there is nothing.
struct StillClock(JoinHandle<()>);

impl StillClock {
    fn new() -> Self {
        tokio::time::pause();
        Self(tokio::spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        }))
    }
}

impl Drop for StillClock {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A run whose only model call gets what the sender sends.
async fn fed_run(
    over: Over,
) -> (
    Bench,
    FakeProvider,
    mpsc::Sender<Bytes>,
    JoinHandle<(RunOutcome, FakeClient)>,
) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    let (sender, pieces) = mpsc::channel(1);
    provider.replies(vec![Reply::fed(pieces)]);
    let mut client = bench.start(&provider, bench.user_turn("run", None, "go").await);
    let run = tokio::spawn(async move {
        let outcome = client.finish(|_| "ok".to_owned()).await;
        (outcome, client)
    });
    (bench, provider, sender, run)
}

/// What an API's endpoint sends where it has nothing to say.
fn nothings(api: Api) -> Vec<&'static str> {
    let of_api: &[&str] = match api {
        Api::OpenAiChat => &[
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":null}]}\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":null}]}\n\n",
            "data: {\"choices\":[],\"usage\":null}\n\n",
        ],
        Api::OpenAiResponses => &[
            "event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":3}\n\n",
            "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"\"}\n\n",
            "data: {\"type\":\"response.in_progress\",\"response\":{\"status\":\"in_progress\"}}\n\n",
        ],
        Api::Anthropic => &[
            "event: ping\ndata: {\"type\": \"ping\"}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\"}}\n\n",
        ],
        Api::Scripted => unreachable!(),
    };
    let everyone = [": keepalive\n\n", ":\n\n", "data:\n\n"];
    everyone.iter().chain(of_api).copied().collect()
}

pub async fn ten_minutes_without_a_word_are_no_silence(over: Over) {
    let api = api(over);
    for nothing in nothings(api) {
        let (_bench, provider, sender, run) = fed_run(over).await;
        let _clock = StillClock::new();
        let mut writer = Writer::new(api);
        let mut events = text("at last").into_iter().map(Ok::<_, ProviderFailure>);
        // The answer's first block is open.
        for event in events.by_ref().take(2) {
            sender.send(writer.step(&event).into()).await.unwrap();
        }
        for _ in 0..40 {
            tokio::time::advance(Duration::from_secs(15)).await;
            sender.send(nothing.into()).await.unwrap();
        }
        for event in events {
            sender.send(writer.step(&event).into()).await.unwrap();
        }
        drop(sender);
        let (outcome, client) = run.await.unwrap();
        assert_eq!(outcome, RunOutcome::Completed, "{nothing:?}");
        assert!(
            client.log.contains(&"text at last".to_owned()),
            "{:?}",
            client.log
        );
        provider.assert_clean();
        tokio::time::resume();
    }
}

/// The other side of it: so much time without any byte is the end.
pub async fn five_minutes_without_a_byte_are_silence(over: Over) {
    let api = api(over);
    let (_bench, provider, sender, run) = fed_run(over).await;
    let _clock = StillClock::new();
    let mut writer = Writer::new(api);
    let mut begun = text("never");
    begun.truncate(3);
    for event in begun {
        sender.send(writer.step(&Ok(event)).into()).await.unwrap();
    }
    // The wait begins with the last byte, whenever that is read.
    while !run.is_finished() {
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    let (outcome, _) = run.await.unwrap();
    let RunOutcome::Failed(failure) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(
        failure.to_string().contains("raise idle_timeout_seconds"),
        "{failure}"
    );
    sender.closed().await;
    provider.assert_clean();
}

pub async fn four_megabytes_of_arguments_in_a_quarter_of_an_hour_are_one_call(over: Over) {
    const PIECES: usize = 900;
    let api = api(over);
    let (_bench, provider, sender, run) = fed_run(over).await;
    provider.answer(text("done"));
    let _clock = StillClock::new();
    let mut writer = Writer::new(api);
    let piece = "ü😀 \\\"q\\\" ".repeat(400);
    let arguments = format!("{{\"content\":\"{}\"}}", piece.repeat(PIECES));
    assert!(arguments.len() > 4_000_000);
    let begun = [
        ModelEvent::Start,
        ModelEvent::ToolCallStart {
            index: 0,
            id: Some("a".into()),
            name: "alpha".into(),
        },
    ];
    let deltas = std::iter::once("{\"content\":\"".to_owned())
        .chain(std::iter::repeat_n(piece, PIECES))
        .chain(["\"}".to_owned()])
        .map(|delta| ModelEvent::ToolCallArguments {
            index: 0,
            delta: delta.into(),
        });
    let ended = [
        ModelEvent::ToolCallEnd { index: 0 },
        ModelEvent::Done(StopReason::ToolUse),
    ];
    for event in begun.into_iter().chain(deltas).chain(ended) {
        let bytes = Bytes::from(writer.step(&Ok(event)));
        if !bytes.is_empty() {
            sender.send(bytes).await.unwrap();
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    }
    drop(sender);
    let (outcome, client) = run.await.unwrap();
    assert_eq!(outcome, RunOutcome::Completed);
    assert!(
        *client.rounds[0].calls[0].arguments == *arguments,
        "the arguments were changed on the way"
    );
    provider.assert_clean();
}
