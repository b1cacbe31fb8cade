//! How full the context is, over the wire: what the client's state says of it, and what a run goes by in the next process.

use cairn::cursor::proto::agent::CairnSize;

use crate::support::strict_chat::Reply;
use crate::support::wire_bench::{Bench, Database, roles};

const BOTH: [Database; 2] = [Database::Kept, Database::Lost];

/// The bench's model: 85 % of 128,000 tokens.
const THRESHOLD: u64 = 108_800;

/// An answer of an endpoint that counts nothing.
fn uncounted(text: &str) -> Reply {
    Reply::text(text).with_body(|body| {
        let counts = r#""usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}"#;
        assert!(body.contains(counts), "the answer has no counts");
        body.replace(counts, r#""usage":null"#)
    })
}

#[tokio::test]
async fn without_usage_the_meter_shows_an_estimate_and_the_conversation_is_summarised_by_it() {
    for database in BOTH {
        let mut bench = Bench::new().await;
        // Each character is three bytes: a token by the estimate.
        let long = "言".repeat(110_000);
        bench.endpoint.reply(uncounted(&long));
        let report = bench.cursor.send("Tell me.").await.success();
        // Usage stays what the endpoint said: nothing.
        let spent = report.turn_ended.unwrap();
        assert_eq!((spent.input_tokens, spent.output_tokens), (None, None));
        let state = bench.cursor.state();
        let used = u64::from(state.token_details.unwrap().used_tokens);
        let request = bench.bodies()[0].len() as u64;
        // The prompt's bytes without those of JSON, by three.
        assert!(used > 110_000 && used < 110_000 + request / 3, "{used}");
        let estimated = CairnSize {
            estimated: true,
            after_compaction: None,
        };
        assert_eq!(state.cairn_size, Some(estimated));
        let mut bench = bench.restart(database).await;
        bench.endpoint.reply(uncounted("The gist."));
        bench.endpoint.reply(uncounted("Still so."));
        let report = bench.cursor.send("And now?").await.success();
        assert_eq!(
            report.summaries,
            ["started", "The gist.", "completed"],
            "{database:?}"
        );
        let state = bench.cursor.state();
        let after = state.token_details.unwrap().used_tokens;
        assert!(after < 20_000, "{after}");
        let estimated = CairnSize {
            estimated: true,
            after_compaction: Some(after.into()),
        };
        assert_eq!(state.cairn_size, Some(estimated));
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_reported_size_is_kept_where_a_later_answer_brings_none() {
    let mut bench = Bench::new().await;
    bench.endpoint.reply(Reply::text("One.").counted(50_000, 10));
    bench.cursor.send("One?").await.success();
    assert_eq!(bench.cursor.state().token_details.unwrap().used_tokens, 50_010);
    for reply in [uncounted("Two."), Reply::text("Three.").counted(0, 0)] {
        bench.endpoint.reply(reply);
        bench.cursor.send("More?").await.success();
        let state = bench.cursor.state();
        let used = state.token_details.unwrap().used_tokens;
        assert!(used > 50_010 && used < 51_000, "{used}");
        assert!(state.cairn_size.unwrap().estimated);
    }
    bench.endpoint.reply(Reply::text("Four.").counted(51_000, 10));
    bench.cursor.send("More?").await.success();
    let state = bench.cursor.state();
    assert_eq!(
        (state.token_details.unwrap().used_tokens, state.cairn_size),
        (51_010, None)
    );
    bench.assert_clean();
}

/// A weak summary: its first answer is above the threshold. The same turns with and without the database give the same.
#[tokio::test]
async fn a_compaction_that_did_not_help_is_repeated_only_for_enough_new_material_wherever_it_is_taken_up() {
    let mut shown = Vec::new();
    for database in BOTH {
        let mut bench = Bench::new().await;
        bench.endpoint.reply(Reply::text("0.").counted(THRESHOLD, 10));
        bench.cursor.send("0?").await.success();
        let mut turns = Vec::new();
        bench
            .endpoint
            .reply(Reply::text("The gist.").counted(THRESHOLD, 900));
        let grown = THRESHOLD + THRESHOLD / 16;
        for (turn, size) in [THRESHOLD, THRESHOLD + 200, grown - 100, grown, 9_000]
            .into_iter()
            .enumerate()
        {
            if turn == 4 {
                bench.endpoint.reply(Reply::text("The second gist."));
            }
            bench
                .endpoint
                .reply(Reply::text(&format!("{turn}.")).counted(size, 10));
            let report = bench.cursor.send("Go on.").await.success();
            turns.push((report.summaries.clone(), report.text.clone()));
            bench = bench.restart(database).await;
        }
        bench.endpoint.reply(Reply::text("Small.").counted(9_100, 10));
        bench.cursor.send("Sure?").await.success();
        assert_eq!(roles(&bench.added()), ["assistant", "user"]);
        assert_eq!(bench.endpoint.resets(), [2, 7], "{database:?}");
        bench.assert_clean();
        shown.push(turns);
    }
    let said = shown[0]
        .iter()
        .map(|(_, text)| text.contains("no summary brings it below"));
    assert_eq!(said.collect::<Vec<_>>(), [true, false, false, false, false]);
    assert_eq!(shown[0], shown[1], "the database makes a difference");
}
