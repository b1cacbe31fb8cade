//! Each request to the endpoint is the one before, byte for byte, with something added to its end.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    clippy::duplicate_mod,
    missing_docs,
    dead_code,
    reason = "a test says what it saw by failing"
)]

#[path = "support"]
mod support {
    pub mod cairn_server;
    pub mod fake_client;
    pub mod fake_cursor;
    pub mod fake_provider;
    pub mod over_http;
    pub mod provider_input;
    pub mod strict_anthropic;
    pub mod strict_chat;
    pub mod strict_responses;
    pub mod wire_bench;
    pub mod wire_oracle;
}

#[path = "prefix_stability/command.rs"]
mod command;
#[path = "prefix_stability/context.rs"]
mod context;
#[path = "prefix_stability/digests.rs"]
mod digests;
#[path = "prefix_stability/mcp_tools.rs"]
mod mcp_tools;
#[path = "prefix_stability/program.rs"]
mod program;
#[path = "prefix_stability/proof.rs"]
mod proof;
#[path = "reasoning/duty.rs"]
mod reasoning_duty;
#[path = "prefix_stability/rig.rs"]
mod rig;
#[path = "prefix_stability/three_apis.rs"]
mod three_apis;

use cairn::config::Api;
use serde_json::Value;
use support::wire_bench::{APIS, Bench, Database, added, over_each_api, roles};

#[tokio::test]
async fn ten_turns_with_tools_and_restarts_are_one_growing_prefix() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.file("a.txt", "one\ntwo\n");
        for turn in 0..10 {
            match turn {
                3 => bench = bench.restart(Database::Kept).await,
                7 => bench = bench.restart(Database::Lost).await,
                _ => {}
            }
            let read = format!("read_{turn}");
            let run = format!("run_{turn}");
            let command = format!(r#"{{"command":"echo turn {turn}"}}"#);
            bench.endpoint.reply_calls([
                (read.as_str(), "Read", r#"{"path":"a.txt"}"#),
                (run.as_str(), "Shell", command.as_str()),
            ]);
            bench.endpoint.reply_text(&format!("Turn {turn} is done."));
            bench
                .cursor
                .send(&format!("Turn {turn}, please."))
                .await
                .success();
        }
        let bodies = bench.bodies();
        assert_eq!(bodies.len(), 20);
        for pair in bodies.windows(2) {
            assert!(!added(&pair[0], &pair[1]).is_empty());
        }
        let tools = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap()["tools"].clone();
        assert_eq!(tools(&bodies[0]), tools(&bodies[19]));
        assert_eq!(bench.cursor.state().turns.len(), 10);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn argument_text_is_replayed_as_the_model_wrote_it() {
    let odd = " {\"path\" :\t\"a\\u002etxt\" ,\n  \"limit\": 1e3,\"offset\":1.0 } ";
    for (api, database) in over_each_api([None, Some(Database::Kept), Some(Database::Lost)]) {
        let mut bench = Bench::over(api).await;
        bench.file("a.txt", "one\n");
        bench.endpoint.reply_calls([("call_1", "Read", odd)]);
        bench.endpoint.reply_text("Done.");
        bench.cursor.send("Read it.").await.success();
        let added = bench.added();
        let sent = &added[0]["tool_calls"][0]["function"]["arguments"];
        // Where they are sent as an object, the space around it is no part of them.
        assert_eq!(sent, if api == Api::Anthropic { odd.trim() } else { odd });
        bench = bench.maybe_restart(database).await;
        bench.endpoint.reply_text("Again.");
        bench.cursor.send("Again?").await.success();
        assert_eq!(roles(&bench.added()), ["assistant", "user"], "{database:?}");
        bench.assert_clean();
    }
}

#[tokio::test]
async fn no_arguments_are_an_empty_object_once_and_for_all() {
    for (api, database) in over_each_api([Database::Kept, Database::Lost]) {
        let mut bench = Bench::over(api).await;
        bench.endpoint.reply_calls([("call_1", "TodoWrite", "")]);
        bench.endpoint.reply_text("Done.");
        bench.cursor.send("Do it.").await.success();
        assert_eq!(bench.added()[0]["tool_calls"][0]["function"]["arguments"], "{}");
        let mut bench = bench.restart(database).await;
        bench.endpoint.reply_text("Again.");
        bench.cursor.send("Again?").await.success();
        assert_eq!(roles(&bench.added()), ["assistant", "user"], "{database:?}");
        bench.assert_clean();
    }
}

#[tokio::test]
async fn thinking_goes_back_as_it_came() {
    for (api, database) in over_each_api([None, Some(Database::Kept), Some(Database::Lost)]) {
        let mut bench = Bench::over(api).await;
        bench.file("a.txt", "one\n");
        let thought = "First \u{1f914}, then\n\n  \"read\". ";
        bench.endpoint.reply(bench.endpoint.said(
            Some(thought),
            "Let me look.",
            &[("call_1", "Read", r#"{"path":"a.txt"}"#)],
        ));
        bench
            .endpoint
            .reply(bench.endpoint.said(Some("Easy."), "One line.", &[]));
        let report = bench.cursor.send("Read it.").await.success();
        assert_eq!(report.thinking, format!("{thought}Easy."));
        assert_eq!(bench.added()[0]["reasoning_content"], thought);
        bench = bench.maybe_restart(database).await;
        bench.endpoint.reply_text("Again.");
        bench.cursor.send("Again?").await.success();
        let added = bench.added();
        assert_eq!(roles(&added), ["assistant", "user"], "{database:?}");
        assert_eq!(added[0]["reasoning_content"], "Easy.");
        bench.assert_clean();
    }
}

#[tokio::test]
async fn multi_byte_text_survives_every_way_of_being_stored() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        let text = "Grüße, 世界 \u{1f680} — \u{2028}\"quoted\" \\ \u{7f}";
        bench.endpoint.reply(bench.endpoint.text(text).split_every(1));
        let report = bench.cursor.send(text).await.success();
        assert_eq!(report.text, text);
        let mut bench = bench.restart(Database::Lost).await;
        bench.endpoint.reply_text("Again.");
        bench.cursor.send("Again?").await.success();
        assert_eq!(bench.added()[0]["content"], text);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_turn_without_news_adds_one_message() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        for turn in 0..3 {
            bench.endpoint.reply_text("Yes.");
            bench.cursor.send(&format!("Question {turn}?")).await.success();
        }
        let bodies = bench.bodies();
        // The request context has not changed, so it is said once.
        assert_eq!(roles(&added(&bodies[0], &bodies[1])), ["assistant", "user"]);
        assert_eq!(roles(&added(&bodies[1], &bodies[2])), ["assistant", "user"]);
        bench.assert_clean();
    }
}
