//! A long turn without a compaction: what once entered the history is never edited, however large it was and however often
//! the same was read.

use cairn::client::{ClientCommand, ClientEvent};
use cairn::model::{HistoryItem, Image, Part, RunOutcome, ToolContent, ToolResult};

use crate::over_every_http_api;
use crate::support::fake_provider::{calls, text};
use crate::support::over_http::Over;
use crate::support::wire_bench::{Bench, added, roles};
use crate::talk::Talk;

const ROUNDS: usize = 40;

over_every_http_api! { every_request_of_forty_rounds_extends_the_one_before }

/// The strict endpoints hold each body against the one before, byte for byte.
async fn every_request_of_forty_rounds_extends_the_one_before(over: Over) {
    let mut talk = Talk::over(over).await;
    for round in 0..ROUNDS {
        let arguments = format!("{{\"path\":\"{}\"}}", round % 3);
        talk.provider
            .answer(calls("", &[(&format!("call_{round}"), "alpha", &arguments)]));
    }
    talk.provider.answer(text("Done."));
    let mut run = talk.prepared_turn("Go.").await;
    run.compaction = None;
    let mut client = talk.bench.start(&talk.provider, run);
    for round in 0..ROUNDS {
        let given = client.until_round().await;
        let content = match round {
            7 => ToolContent::from("y".repeat(200_000)),
            11 => ToolContent::new([
                Part::Text("A picture.".into()),
                Part::Image(Image {
                    mime_type: "image/png".into(),
                    data: bytes::Bytes::from_static(b"\x89PNG\r\n\x1a\n"),
                }),
            ]),
            _ => ToolContent::from("x".repeat(6_000)),
        };
        let result = ToolResult {
            call: given.calls[0].id.clone(),
            content,
            is_error: false,
        };
        client
            .handle
            .commands
            .send(ClientCommand::ToolResult(result))
            .unwrap();
    }
    client
        .until(|event| matches!(event, ClientEvent::Ended(RunOutcome::Completed)))
        .await;
    let requests = talk.provider.requests();
    assert_eq!(requests.len(), ROUNDS + 1);
    let last = &requests[ROUNDS].history;
    for request in &requests {
        assert!(last.starts_with(&request.history));
    }
    let long = last.iter().filter(|item| match &***item {
        HistoryItem::ToolResult(result) => result.content.text().len() == 200_000,
        HistoryItem::User { .. } | HistoryItem::Assistant { .. } => false,
    });
    assert_eq!(long.count(), 1);
    talk.provider.assert_clean();
}

/// Over the wire a long output is cut once, before it first enters the history, by a rule of that output alone.
#[tokio::test]
async fn a_long_output_is_cut_once_and_stays_so_for_forty_rounds() {
    let mut bench = Bench::new().await;
    bench.file("long.txt", &"0123456789abcdef\n".repeat(12_000));
    bench.file("a.txt", &"a line\n".repeat(850));
    for round in 0..ROUNDS {
        let path = if round == 3 || round == 30 {
            "long.txt"
        } else {
            "a.txt"
        };
        let arguments = format!("{{\"path\":\"{path}\"}}");
        bench
            .endpoint
            .reply_calls([(&*format!("call_{round}"), "Read", &*arguments)]);
    }
    bench.endpoint.reply_text("Done.");
    bench.cursor.send("Read and read again.").await.success();
    let bodies = bench.bodies();
    assert_eq!(bodies.len(), ROUNDS + 1);
    let results: Vec<String> = bodies
        .windows(2)
        .map(|pair| {
            let new = added(&pair[0], &pair[1]);
            assert_eq!(roles(&new), ["assistant", "tool"]);
            new[1]["content"].as_str().unwrap().to_owned()
        })
        .collect();
    let note = "characters are left out here.";
    for (round, result) in results.iter().enumerate() {
        let is_long = round == 3 || round == 30;
        assert_eq!(result.contains(note), is_long, "round {round}");
        assert_eq!(result, &results[if is_long { 3 } else { 0 }], "round {round}");
    }
    assert_eq!(bench.endpoint.resets(), Vec::<usize>::new());
    bench.assert_clean();
}
