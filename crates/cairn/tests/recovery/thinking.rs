//! A pending round whose thinking its endpoint signed, sealed or wants back, taken up by a server that was restarted: the
//! thinking comes back in its place, byte for byte, whatever the server has left.

use serde_json::{Value, json};

use cairn::cursor::proto::agent::exec_server_message;

use super::support::fake_cursor::ExecAnswer;
use super::support::over_http::Endpoint;
use super::support::strict_anthropic::{self, Said};
use super::support::strict_chat::Reply;
use super::support::strict_responses::Items;
use super::support::wire_bench::{Bench, Database, messages, over_each_api, roles};

/// How the client goes on after the restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GoOn {
    Resume,
    Send,
}

const READ_B: (&str, &str, &str) = ("call_b", "Read", r#"{"path": "a.txt" }"#);
const READ_A: (&str, &str, &str) = ("call_a", "Read", r#"{"path":"b.txt"}"#);
const THOUGHT: &str = "Two \u{1f914} files,\r\n\n \"then\". ";

/// An answer that asks for two files, with all the thinking that the API knows between its parts; and what of it a later
/// request must bring.
fn thoughtful(endpoint: &Endpoint) -> (Reply, Vec<Value>) {
    match endpoint {
        Endpoint::Chat(chat) => {
            chat.requires_reasoning();
            let call = |(id, name, arguments): (&str, &str, &str)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
            let message = json!({"role": "assistant", "content": "Look.", "reasoning_content": THOUGHT,
                "tool_calls": [call(READ_B), call(READ_A)]});
            (
                Reply::answer(Some(THOUGHT), "Look.", &[READ_B, READ_A]),
                vec![message],
            )
        }
        Endpoint::Responses(_) => {
            let reply = Items::answer()
                .reasoning("sealed one", &[THOUGHT, "And on."])
                .message(Some("commentary"), "Look.")
                .reasoning("sealed two", &[])
                .call(READ_B.0, READ_B.1, READ_B.2)
                .call(READ_A.0, READ_A.1, READ_A.2);
            let summary = |text: &str| json!({"type": "summary_text", "text": text});
            let call = |(id, name, arguments): (&str, &str, &str)| json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments});
            let items = vec![
                json!({"type": "reasoning", "summary": [summary(THOUGHT), summary("And on.")],
                    "encrypted_content": "sealed one"}),
                json!({"type": "message", "role": "assistant", "phase": "commentary",
                    "content": [{"type": "output_text", "text": "Look."}]}),
                json!({"type": "reasoning", "summary": [], "encrypted_content": "sealed two"}),
                call(READ_B),
                call(READ_A),
            ];
            (reply.into(), items)
        }
        Endpoint::Anthropic(_) => {
            let reply = strict_anthropic::answer(&[
                Said::Thinking(THOUGHT, "signature one"),
                Said::Text("Look."),
                Said::Redacted("opaque"),
                Said::Call(READ_B.0, READ_B.1, READ_B.2),
                Said::Thinking("", "signature two"),
                Said::Call(READ_A.0, READ_A.1, READ_A.2),
            ]);
            let call = |(id, name, input): (&str, &str, &str)| json!({"type": "tool_use", "id": id, "name": name, "input": serde_json::from_str::<Value>(input).unwrap()});
            let blocks = json!([
                {"type": "thinking", "thinking": THOUGHT, "signature": "signature one"},
                {"type": "text", "text": "Look."},
                {"type": "redacted_thinking", "data": "opaque"},
                call(READ_B),
                {"type": "thinking", "thinking": "", "signature": "signature two"},
                call(READ_A),
            ]);
            (reply, vec![json!({"role": "assistant", "content": blocks})])
        }
    }
}

/// The items of a body as they were sent.
fn items(body: &[u8]) -> Vec<Value> {
    let body: Value = serde_json::from_slice(body).unwrap();
    let items = body.get("input").or(body.get("messages")).unwrap();
    items.as_array().unwrap().clone()
}

#[tokio::test]
async fn a_pending_round_brings_its_thinking_back_after_a_restart() {
    let ways = [
        (Database::Kept, GoOn::Resume),
        (Database::Lost, GoOn::Resume),
        (Database::Kept, GoOn::Send),
        (Database::Lost, GoOn::Send),
    ];
    for (api, (database, how)) in over_each_api(ways) {
        let mut bench = Bench::over(api).await;
        bench.file("a.txt", "one\n");
        bench.file("b.txt", "two\n");
        let (reply, expected) = thoughtful(&bench.endpoint);
        bench
            .endpoint
            .reply(bench.endpoint.said(Some("Hm."), "Which files?", &[]));
        bench.cursor.send("Read them.").await.success();
        bench.endpoint.reply(reply);
        bench.cursor.hooks.exec = Box::new(|exec| match exec.message {
            Some(exec_server_message::Message::RequestContextArgs(_)) => ExecAnswer::Run,
            _ => ExecAnswer::Hold,
        });
        let mut turn = bench.cursor.start_turn("Both.").await;
        turn.until_checkpoint(1).await;
        turn.close();
        bench.cursor.hooks.exec = Box::new(|_| ExecAnswer::Run);

        let mut bench = bench.restart(database).await;
        bench
            .endpoint
            .reply(bench.endpoint.said(Some("So."), "Done.", &[]));
        match how {
            GoOn::Resume => bench.cursor.resume().await,
            GoOn::Send => bench.cursor.send("Never mind.").await,
        }
        .success();
        let added = bench.added();
        match how {
            GoOn::Resume => assert_eq!(roles(&added), ["assistant", "tool", "tool"], "{database:?}"),
            GoOn::Send => assert_eq!(
                roles(&added),
                ["assistant", "tool", "tool", "user"],
                "{database:?}"
            ),
        }
        let results: Vec<_> = added[1..3]
            .iter()
            .map(|result| result["tool_call_id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(sorted(results), ["call_a", "call_b"]);
        let bodies = bench.bodies();
        let [_, earlier, later] = &bodies[..] else {
            panic!("{} requests", bodies.len())
        };
        let known = items(earlier).len();
        let brought = &items(later)[known..known + expected.len()];
        assert_eq!(brought, expected, "{how:?} {database:?}");

        // And it stays there, also for a server that has lost everything once more.
        let mut bench = bench.restart(database).await;
        bench
            .endpoint
            .reply(bench.endpoint.said(Some("Well."), "Yes.", &[]));
        bench.cursor.send("Sure?").await.success();
        let added = bench.added();
        assert_eq!(roles(&added), ["assistant", "user"], "{how:?} {database:?}");
        assert_eq!(added[0]["reasoning_content"], "So.");
        let last = bench.bodies().pop().unwrap();
        assert_eq!(items(&last)[known..known + expected.len()], expected);
        assert_eq!(messages(&last).last().unwrap()["role"], "user");
        bench.assert_clean();
    }
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}
