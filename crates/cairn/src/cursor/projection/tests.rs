//! What a client keeps comes back as the same history, byte for byte.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what it saw by failing"
)]

use std::collections::HashSet;
use std::sync::Arc;

use super::*;
use crate::cursor::blob::{Blob, BlobId};
use crate::model::{
    Assistant, CallId, HistoryItem, Image, Message, Part, PendingAssistant, Reasoning, ReplayState, ToolCall,
    ToolContent, ToolResult, UserOrigin, project,
};

fn user(event: &str, parts: Vec<Part>) -> Arc<HistoryItem> {
    let origin = UserOrigin::Turn {
        event_id: event.into(),
    };
    let id = crate::cursor::request::message_id(&origin, &parts).unwrap();
    Arc::new(HistoryItem::User { id, origin, parts })
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: CallId::new(id),
        name: name.into(),
        arguments: arguments.into(),
    }
}

fn result(id: &str, content: &str, is_error: bool) -> Arc<HistoryItem> {
    Arc::new(HistoryItem::ToolResult(ToolResult {
        call: CallId::new(id),
        content: content.into(),
        is_error,
    }))
}

fn said(text: &str) -> Assistant {
    Assistant {
        text: text.into(),
        reasoning: Some(Reasoning {
            text: "hm \u{1f600}".into(),
            foreign_signature: None,
        }),
        replay: Some(ReplayState {
            issuer: "api|host|model|key".into(),
            payload: "{\"a\": 1.0}".into(),
        }),
    }
}

fn assistant(said: Assistant, calls: Vec<ToolCall>) -> Arc<HistoryItem> {
    let round = (!calls.is_empty()).then(|| crate::model::ToolRoundId::new("round"));
    Arc::new(HistoryItem::Assistant { said, round, calls })
}

/// What the client's roots give back, without the identities that only the import makes.
fn through_the_client(items: &[Arc<HistoryItem>]) -> Vec<HistoryItem> {
    let roots: Vec<(BlobId, DecodedRoot)> = encode_history(items)
        .unwrap()
        .into_iter()
        .map(|root| (root.id, decode_root(&root.id.to_string(), &root.data).unwrap()))
        .collect();
    let messages = import_history(&roots).unwrap();
    project(&messages)
        .unwrap()
        .iter()
        .map(|item| without_identity(item))
        .collect()
}

fn without_identity(item: &HistoryItem) -> HistoryItem {
    match item.clone() {
        HistoryItem::Assistant { said, calls, .. } => HistoryItem::Assistant {
            said,
            round: None,
            calls,
        },
        other => other,
    }
}

#[test]
fn a_history_comes_back_from_the_clients_roots_exactly() {
    let image = Image {
        mime_type: "image/png".into(),
        data: bytes::Bytes::from_static(&[0, 255, 7]),
    };
    let items = vec![
        user("context", vec![Part::Text("rules".into())]),
        user(
            "1",
            vec![
                Part::Text("look".into()),
                Part::Image(image.clone()),
                Part::Text("here".into()),
            ],
        ),
        assistant(
            said("three"),
            vec![
                call("a", "Read", "{ \"z\" : 1.0,\n\"a\":1e3, \"\\u00e9\":\"x\" }"),
                call("b\nfc_1", "Shell", "{}"),
                call("c", "Grep", " {\"k\":9007199254740993} "),
            ],
        ),
        result("b\nfc_1", "out\r\n", false),
        result("a", "", true),
        result("c", "{\"looks\":\"like json\"}", false),
        assistant(said(""), vec![call("p", "Read", "{}"), call("q", "Read", "{}")]),
        Arc::new(HistoryItem::ToolResult(ToolResult {
            call: CallId::new("q"),
            content: ToolContent::new([Part::Image(image.clone())]),
            is_error: false,
        })),
        Arc::new(HistoryItem::ToolResult(ToolResult {
            call: CallId::new("p"),
            content: ToolContent::new([
                Part::Text("one".into()),
                Part::Image(image.clone()),
                Part::Text("two".into()),
                Part::Image(image.clone()),
            ]),
            is_error: true,
        })),
        assistant(
            Assistant {
                text: "done".into(),
                ..Default::default()
            },
            vec![],
        ),
    ];
    let expected: Vec<HistoryItem> = items.iter().map(|item| without_identity(item)).collect();
    assert_eq!(through_the_client(&items), expected);
}

#[test]
fn a_result_with_a_picture_has_its_text_and_its_parts_in_its_root() {
    let content = ToolContent::new([
        Part::Text("one".into()),
        Part::Image(Image {
            mime_type: "image/png".into(),
            data: bytes::Bytes::from_static(&[1, 2, 3]),
        }),
        Part::Text("two".into()),
    ]);
    let items = vec![
        assistant(Assistant::default(), vec![call("a", "Read", "{}")]),
        Arc::new(HistoryItem::ToolResult(ToolResult {
            call: CallId::new("a"),
            content,
            is_error: false,
        })),
    ];
    let roots = encode_history(&items).unwrap();
    assert_eq!(
        std::str::from_utf8(&roots[1].data).unwrap(),
        concat!(
            r#"{"role":"tool","id":"a","content":[{"type":"tool-result","toolCallId":"a","toolName":"Read","#,
            r#""result":"one\ntwo","experimental_content":[{"type":"text","text":"one"},"#,
            r#"{"type":"image","data":"AQID","mimeType":"image/png"},{"type":"text","text":"two"}]}],"#,
            r#""providerOptions":{"cursor":{"highLevelToolCallResult":{"isError":false}}}}"#
        )
    );
}

#[test]
fn equal_items_have_equal_roots_and_old_roots_do_not_depend_on_what_follows() {
    let items = vec![
        user("1", vec![Part::Text("go".into())]),
        assistant(said(""), vec![call("a", "Read", "{}")]),
        result("a", "r", false),
    ];
    let whole = encode_history(&items).unwrap();
    let first = encode_history(&items[..1]).unwrap();
    let rest = encode_history(&items[1..]).unwrap();
    assert_eq!(whole, [first, rest].concat());
}

#[test]
fn a_pending_text_holds_the_whole_round_and_its_frozen_time() {
    let calls = vec![
        call("a", "StrReplace", "{\"p\": 1}"),
        call("b", "srv__tool", "{}"),
    ];
    let tools: Vec<Arc<str>> = vec!["StrReplace".into(), "srv__tool".into()];
    let context = PendingContext {
        provider_message_id: "request:0",
        started_at_ms: 1_700_000_000_123,
        allowed_tools: &tools,
        dynamic_tools: &HashSet::from(["srv__tool".into()]),
    };
    let json = encode_pending(&said("text"), &calls, &context).unwrap();
    let pending = decode_pending(&json).unwrap();
    assert_eq!(
        pending,
        PendingAssistant {
            round: Some(crate::model::ToolRoundId::new("request:0")),
            said: said("text"),
            calls,
            started_at_ms: 1_700_000_000_123
        }
    );
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let contracts = &value["providerOptions"]["cursor"]["pendingToolExecutionContracts"];
    assert_eq!(
        contracts,
        &serde_json::json!({
            "a": {
                "toolCallId": "a",
                "outerToolName": "StrReplace",
                "toolIdentifier": "STR_REPLACE",
                "isDynamic": false,
                "allowedToolNames": ["StrReplace", "srv__tool"],
            },
            "b": {
                "toolCallId": "b",
                "outerToolName": "srv__tool",
                "toolIdentifier": "MCP",
                "isDynamic": true,
                "allowedToolNames": ["StrReplace", "srv__tool"],
            },
        })
    );
}

#[test]
fn official_roots_with_the_same_wire_id_stay_two_rounds() {
    let batch = |id: &str, path: &str| {
        format!(
            r#"{{"id":"1","role":"assistant","extra":7,"content":[{{"type":"reasoning","text":"t","signature":"opaque_{id}"}},{{"type":"tool-call","toolCallId":"{id}","toolName":"Read","args":{{"path":"{path}"}}}}]}}"#
        )
    };
    let answer = |id: &str| {
        format!(
            r#"{{"role":"tool","id":"{id}","content":[{{"type":"tool-result","toolCallId":"{id}","toolName":"Read","result":"r"}}]}}"#
        )
    };
    let roots: Vec<(BlobId, DecodedRoot)> = [batch("x", "a"), answer("x"), batch("y", "b"), answer("y")]
        .into_iter()
        .map(Blob::new)
        .map(|blob| (blob.id, decode_root("root", &blob.data).unwrap()))
        .collect();
    let messages = import_history(&roots).unwrap();
    let ids: HashSet<_> = messages.iter().map(|message| message.id.clone()).collect();
    assert_eq!(ids.len(), 4);
    let history = project(&messages).unwrap();
    let rounds: Vec<_> = history
        .iter()
        .filter_map(|item| match item.as_ref() {
            HistoryItem::Assistant { round, said, .. } => {
                let reasoning = said.reasoning.as_ref().unwrap();
                assert!(
                    said.replay.is_none(),
                    "a foreign signature is no replay state of ours"
                );
                Some((
                    round.clone().unwrap(),
                    reasoning.foreign_signature.clone().unwrap(),
                ))
            }
            _ => None,
        })
        .collect();
    assert_eq!(rounds.len(), 2);
    assert_ne!(rounds[0].0, rounds[1].0);
    assert_eq!((&*rounds[0].1, &*rounds[1].1), ("opaque_x", "opaque_y"));
}

fn imported(roots: &[&str]) -> Vec<Message> {
    let roots: Vec<(BlobId, DecodedRoot)> = roots
        .iter()
        .map(|root| Blob::new((*root).to_owned()))
        .map(|blob| (blob.id, decode_root("root", &blob.data).unwrap()))
        .collect();
    import_history(&roots).unwrap()
}

const TWO_CALLS: &str = r#"{"role":"assistant","content":[{"type":"tool-call","toolCallId":"a","toolName":"Read","args":{}},{"type":"tool-call","toolCallId":"b","toolName":"Read","args":{}}]}"#;

fn tool_root(id: &str, text: &str) -> String {
    format!(
        r#"{{"role":"tool","content":[{{"type":"tool-result","toolCallId":"{id}","toolName":"Read","result":"{text}"}}]}}"#
    )
}

#[test]
fn one_call_with_other_results_or_in_another_order_shares_no_message() {
    let one = imported(&[TWO_CALLS, &tool_root("a", "1"), &tool_root("b", "2")]);
    let results = imported(&[TWO_CALLS, &tool_root("a", "1"), &tool_root("b", "3")]);
    let order = imported(&[TWO_CALLS, &tool_root("b", "2"), &tool_root("a", "1")]);
    let ids: HashSet<_> = [&one, &results, &order]
        .into_iter()
        .flatten()
        .map(|message| message.id.clone())
        .collect();
    assert_eq!(ids.len(), 12);
    assert_eq!(
        one,
        imported(&[TWO_CALLS, &tool_root("a", "1"), &tool_root("b", "2")])
    );
}

#[test]
fn call_ids_that_repeat_are_varied_together_with_their_results() {
    let (a, b) = (tool_root("a", "1"), tool_root("b", "2"));
    let messages = imported(&[TWO_CALLS, &a, &b, TWO_CALLS, &b, &a]);
    let history = project(&messages).unwrap();
    let ids: Vec<String> = history
        .iter()
        .flat_map(|item| match item.as_ref() {
            HistoryItem::Assistant { calls, .. } => calls.iter().map(|call| call.id.to_string()).collect(),
            HistoryItem::ToolResult(result) => vec![format!("={}", result.call)],
            HistoryItem::User { .. } => Vec::new(),
        })
        .collect();
    assert_eq!(ids, ["a", "b", "=a", "=b", "a-2", "b-2", "=b-2", "=a-2"]);
}

#[test]
fn a_pending_text_that_no_round_can_be_is_refused() {
    let refused = |calls: &str, at: &str| {
        let json = format!(
            r#"{{"role":"assistant","content":[{calls}],"providerOptions":{{"cursor":{{"pendingToolCallStartedAtMs":{at}}}}}}}"#
        );
        decode_pending(&json).unwrap_err().to_string()
    };
    let call = r#"{"type":"tool-call","toolCallId":"a","toolName":"Read","args":{}}"#;
    assert_eq!(
        refused(&format!("{call},{call}"), "1"),
        "root pending_tool_calls[0]: call a stands in it twice"
    );
    assert_eq!(
        refused(call, "18446744073709551615"),
        "root pending_tool_calls[0] is not a message: its pendingToolCallStartedAtMs is no time"
    );
}

#[test]
fn what_cannot_be_read_whole_is_a_named_error() {
    let check = |json: &str, expected: &str| {
        let error = decode_root("root", json.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, expected);
    };
    check(
        "{\"role\":\"user\"",
        "root root is not a message: JSON error at line 1, column 14",
    );
    check(
        r#"{"role":"developer","content":"x"}"#,
        r#"root root has the role "developer", which cannot stand here"#,
    );
    check(
        r#"{"role":"user","content":[{"type":"file","data":"x"}]}"#,
        r#"root root holds a content part of type "file", which cannot be read"#,
    );
    check(
        r#"{"role":"assistant","content":[{"type":"tool-call","toolName":"x","args":{}}]}"#,
        "a tool-call part of root root has no toolCallId",
    );
    check(
        r#"{"role":"assistant","content":[{"type":"reasoning","text":"","signature":"cairn.replay.1.!!"}]}"#,
        "the replay state in root root is damaged",
    );
    check(
        r#"{"role":"assistant","content":[{"type":"reasoning","text":"","signature":"cairn.replay.1"}]}"#,
        "the replay state in root root is damaged",
    );
    check(
        r#"{"role":"assistant","content":[{"type":"reasoning","text":"","signature":"cairn.replay.2.e30"}]}"#,
        "the replay state in root root has version 2, which this cairn does not know; serve the conversation with \
         the newer cairn that wrote it",
    );
    let lonely = [(
        BlobId::of(b"x"),
        DecodedRoot::Assistant {
            said: said(""),
            calls: vec![call("a", "Read", "{}")],
        },
    )];
    assert!(matches!(
        import_history(&lonely),
        Err(ProjectionError::Unpaired { .. })
    ));
}

#[test]
fn a_system_root_keeps_the_note_about_the_prompt_as_it_was_written() {
    let note = r#"{"version":1,"mcp":[{"schema":"{\"minimum\":1.5}"}]}"#;
    let root = encode_system("Be brief.", note.as_bytes()).unwrap();
    assert_eq!(
        std::str::from_utf8(&root.data).unwrap(),
        format!(
            r#"{{"role":"system","content":"Be brief.","providerOptions":{{"cairn":{{"prompt":{note}}}}}}}"#
        )
    );
    let read = |json: &str| decode_root("root", json.as_bytes());
    assert_eq!(
        decode_root("root", &root.data),
        Ok(DecodedRoot::System {
            prompt_note: Some(note.to_owned())
        })
    );
    // Another server's.
    for foreign in [
        r#"{"role":"system","content":"Be brief."}"#,
        r#"{"role":"system","content":"Be brief.","providerOptions":{"cursor":{}}}"#,
    ] {
        assert_eq!(read(foreign), Ok(DecodedRoot::System { prompt_note: None }));
    }
    assert!(matches!(
        read(r#"{"role":"system","content":"","providerOptions":{"cairn":{}}}"#),
        Err(ProjectionError::NotAMessage { .. })
    ));
}
