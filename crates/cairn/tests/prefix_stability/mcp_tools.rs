//! The tools of MCP servers in the request: their order, their bytes and their schemas' numbers, whatever the servers do, at
//! each of the three APIs.

use std::collections::BTreeMap;

use bytes::Bytes;
use cairn::cursor::proto::agent::agent_client_message::Message as ClientMessage;
use cairn::cursor::proto::agent::{
    AgentMode, ExecClientMessage, ExecServerMessage, McpArgs, McpResult, McpSuccess, McpToolDefinition,
    RequestContext, exec_client_message, exec_server_message, mcp_result,
};
use cairn::model::{PrefixReset, PromptChange};
use cairn::store::PrefixVerdict;
use prost::Message as _;
use prost_types::value::Kind;
use serde_json::{Value, json};

use super::program::{Program, log_of};
use super::rig::{Rig, rule, verdicts};
use super::support::cairn_server::KEY;
use super::support::fake_cursor::{ExecAnswer, FakeCursor};
use super::support::strict_chat::StrictChat;
use super::support::wire_bench::Database;

/// A context with one tool for each of these servers, in this order.
fn servers(servers: &[(&str, &str)]) -> RequestContext {
    RequestContext {
        tools: servers
            .iter()
            .map(|(server, schema)| McpToolDefinition {
                name: format!("{server}-look"),
                provider_identifier: (*server).to_owned(),
                tool_name: "look".to_owned(),
                description: format!("Looks at {server}."),
                input_schema_json: Some((*schema).to_owned()),
                ..McpToolDefinition::default()
            })
            .collect(),
        ..rule("Be kind.")
    }
}

#[tokio::test]
async fn an_mcp_server_that_reconnects_or_is_gone_for_a_turn_changes_nothing() {
    let (plain, turned) = (
        r#"{"type":"object","properties":{"p":{"type":"string","minLength":1}}}"#,
        r#"{"properties":{"p":{"minLength":1.0,"type":"string"}},"type":"object"}"#,
    );
    for mut rig in Rig::all().await {
        let orders: [&[(&str, &str)]; 4] = [
            &[("a", plain), ("b", plain), ("c", plain)],
            &[("c", turned), ("a", plain), ("b", turned)],
            &[("a", plain), ("c", plain)],
            &[("b", plain), ("a", plain), ("c", plain)],
        ];
        for (turn, order) in orders.into_iter().enumerate() {
            if turn == 2 {
                rig = rig.restart(Database::Kept).await;
            }
            rig.turn(&format!("turn {turn}"), AgentMode::Agent, servers(order))
                .await;
        }
        let bodies = rig.endpoint.bodies();
        assert_eq!(bodies.len(), 8);
        for body in &bodies {
            assert_eq!(body["tools"].to_string(), bodies[0]["tools"].to_string());
        }
        // A tool with other words is one declared reset, and then all is still again: no other tool has changed or moved.
        let described = || {
            let mut context = servers(&[("c", plain), ("b", plain), ("a", plain)]);
            context.tools[1].description = "Looks at b, and says more of it.".to_owned();
            context
        };
        rig.endpoint.allow_reset();
        rig.turn("described", AgentMode::Agent, described()).await;
        rig.turn("still", AgentMode::Agent, described()).await;
        let described = &rig.endpoint.bodies()[8]["tools"];
        let mut expected = bodies[0]["tools"].clone();
        let tools = expected.as_array_mut().unwrap();
        let at = tools.len() - 2;
        let b = tools[at].to_string();
        tools[at] =
            serde_json::from_str(&b.replace("Looks at b.", "Looks at b, and says more of it.")).unwrap();
        assert_ne!(tools[at].to_string(), b);
        assert_eq!(described.to_string(), expected.to_string());
        // So is a server that brings something new.
        rig.endpoint.allow_reset();
        let more = [("a", plain), ("b", plain), ("c", plain), ("aa", plain)];
        rig.turn("more", AgentMode::Agent, servers(&more)).await;
        rig.turn("quiet", AgentMode::Agent, servers(&more)).await;
        rig.assert_clean();
        let reset = PrefixVerdict::Reset(PrefixReset::Prompt(PromptChange::ToolsChange));
        let mut expected = vec![PrefixVerdict::Extends; 16];
        (expected[8], expected[12]) = (reset, reset);
        assert_eq!(verdicts(&rig).await, expected);
    }
}

#[tokio::test]
async fn the_tools_of_an_absent_server_survive_a_lost_database() {
    let plain = r#"{"type":"object","properties":{"p":{"type":"string"}}}"#;
    let all = [("a", plain), ("b", plain), ("c", plain)];
    let without_b = [("c", plain), ("a", plain)];
    for mut rig in Rig::all().await {
        rig.turn("all", AgentMode::Agent, servers(&all)).await;
        rig.turn("gone", AgentMode::Agent, servers(&without_b)).await;
        rig = rig.restart(Database::Lost).await;
        // The server is still gone, and the model calls its tool.
        rig.endpoint
            .reply_call_of("call_lost", ("b__look", r#"{"p":"x"}"#));
        rig.endpoint.reply_text("I go on without it.");
        rig.send("Look.", AgentMode::Agent, servers(&without_b)).await;
        let last = rig.endpoint.bodies().pop().unwrap().to_string();
        assert!(
            last.contains(
                "b__look was not executed: the MCP server b is not connected, or does not offer this tool now."
            ),
            "{last}"
        );
        rig = rig.restart(Database::Lost).await;
        rig.turn("back", AgentMode::Agent, servers(&all)).await;
        rig.assert_clean();
        let bodies = rig.endpoint.bodies();
        assert_eq!(bodies.len(), 8);
        for body in &bodies {
            assert_eq!(body["tools"].to_string(), bodies[0]["tools"].to_string());
        }
    }
}

/// JSON as the client sends it: every number is a double.
fn tree(value: &Value) -> prost_types::Value {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(*value),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(list) => Kind::ListValue(prost_types::ListValue {
            values: list.iter().map(tree).collect(),
        }),
        Value::Object(members) => Kind::StructValue(prost_types::Struct {
            fields: members
                .iter()
                .map(|(name, value)| (name.clone(), tree(value)))
                .collect(),
        }),
    };
    prost_types::Value { kind: Some(kind) }
}

#[tokio::test]
async fn whole_numbers_are_whole_in_schemas_and_in_calls() {
    let schema = json!({
        "type": "object",
        "properties": {
            "n": { "type": "integer" },
            "scope": { "anyOf": [
                { "type": "null" },
                { "type": "object", "properties": { "rootPaths": {
                    "type": "array", "minItems": 1.0, "maxLength": 64.0, "minimum": 0.0, "default": 1.5,
                    "examples": [1.0], "multipleOf": 0.5, "enum": [1.0, 2.5], "maximum": 1e21,
                } } },
            ] },
        },
    });
    let expected = r#"{"properties":{"n":{"type":"integer"},"scope":{"anyOf":[{"type":"null"},{"properties":{"rootPaths":{"default":1.5,"enum":[1,2.5],"examples":[1],"maxLength":64,"maximum":1000000000000000000000,"minItems":1,"minimum":0,"multipleOf":0.5,"type":"array"}},"type":"object"}]}},"type":"object"}"#;
    let offered = || {
        let mut context = servers(&[("a", "{}")]);
        context.tools[0].input_schema_json = None;
        context.tools[0].input_schema = Some(tree(&schema).encode_to_vec().into());
        context
    };
    for mut rig in Rig::all().await {
        rig.cursor.hooks.exec = Box::new(|exec| match &exec.message {
            Some(exec_server_message::Message::McpArgs(_)) => {
                let success = mcp_result::Result::Success(McpSuccess::default());
                let result = McpResult {
                    result: Some(success),
                };
                ExecAnswer::Reply(vec![ClientMessage::ExecClientMessage(ExecClientMessage {
                    id: exec.id,
                    message: Some(exec_client_message::Message::McpResult(result)),
                    ..ExecClientMessage::default()
                })])
            }
            _ => ExecAnswer::Run,
        });
        rig.endpoint
            .reply_call_of("call_small", ("a__look", r#"{"n": 3}"#));
        rig.endpoint
            .reply_call_of("call_large", ("a__look", r#"{"n": 9007199254740993}"#));
        rig.endpoint.reply_text("Done.");
        let report = rig.send("Count.", AgentMode::Agent, offered()).await;
        rig.endpoint.reply_text("Still done.");
        rig.send("Again.", AgentMode::Agent, offered()).await;
        rig.assert_clean();
        // Only what a double holds is carried out; the other call is answered with what to do.
        let calls: Vec<&McpArgs> = report
            .execs
            .iter()
            .filter_map(|exec| match &exec.message {
                Some(exec_server_message::Message::McpArgs(args)) => Some(args),
                _ => None,
            })
            .collect();
        let [call] = calls[..] else { panic!("{calls:?}") };
        let three = prost_types::Value {
            kind: Some(Kind::NumberValue(3.0)),
        };
        assert_eq!(
            BTreeMap::from_iter(call.args.clone()),
            BTreeMap::from([("n".to_owned(), Bytes::from(three.encode_to_vec()))])
        );
        let requests = rig.endpoint.requests();
        assert_eq!(requests.len(), 4);
        for request in &requests {
            let body = std::str::from_utf8(&request.body).unwrap();
            let key = match request.json["tools"][0].get("input_schema") {
                Some(_) => "input_schema",
                None => "parameters",
            };
            assert_eq!(
                body.matches(&format!("\"{key}\":{expected}")).count(),
                1,
                "{body}"
            );
        }
        let last = requests[3].json.to_string();
        assert!(
            last.contains("the number 9007199254740993 at `n` cannot be passed on unchanged"),
            "{last}"
        );
    }
}

#[tokio::test]
async fn no_tool_of_a_server_takes_the_name_of_another() {
    let pairs = [
        ("", "Shell"),
        ("Shell", ""),
        ("a", "Shell"),
        ("a", "b__c"),
        ("a__b", "c"),
    ];
    let offered = || {
        let mut context = rule("Be kind.");
        context.tools = pairs
            .iter()
            .map(|(server, tool)| McpToolDefinition {
                provider_identifier: (*server).to_owned(),
                tool_name: (*tool).to_owned(),
                ..McpToolDefinition::default()
            })
            .collect();
        context
    };
    for mut rig in Rig::all().await {
        rig.endpoint
            .reply_call_of("call_own", ("Shell", r#"{"command":"echo own"}"#));
        rig.endpoint.reply_text("Done.");
        let report = rig.send("Run it.", AgentMode::Agent, offered()).await;
        rig.assert_clean();
        assert!(matches!(
            report.execs[..],
            [ExecServerMessage {
                message: Some(exec_server_message::Message::ShellStreamArgs(_)),
                ..
            }]
        ));
        let body = rig.endpoint.bodies().remove(0);
        let names: Vec<&str> = body["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| {
                tool["name"]
                    .as_str()
                    .or(tool["function"]["name"].as_str())
                    .unwrap()
            })
            .collect();
        let (own, dynamic) = names.split_at(names.len() - 4);
        assert!(own.contains(&"Shell") && own.iter().all(|name| !name.contains('_')));
        // The tool without a name is left out.
        assert_eq!(dynamic[1], "a__Shell");
        let hashed = [dynamic[0], dynamic[2], dynamic[3]].map(|name| name.rsplit_once('_').unwrap());
        assert_eq!(hashed.map(|(readable, _)| readable), ["Shell", "a_b_c", "a_b_c"]);
        assert_ne!(hashed[1].1, hashed[2].1);
    }
}

#[tokio::test]
async fn a_tool_with_an_unusable_schema_is_left_out_and_the_log_says_so_once() {
    let chat = StrictChat::start().await;
    chat.one_conversation();
    let (folder, workspace) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = Program::start(folder.path(), &chat.base_url());
    let mut cursor = FakeCursor::new(&program.address, KEY, "agent-1", workspace.path()).await;
    cursor.hooks.request = Box::new(|request| {
        use cairn::cursor::proto::agent::conversation_action::Action;
        let action = request.action.as_mut().and_then(|action| action.action.as_mut());
        if let Some(Action::UserMessageAction(action)) = action {
            action.request_context = Some(servers(&[("b", "{\"cut"), ("a", "{}")]));
        }
    });
    let turns = async |cursor: &mut FakeCursor| {
        for turn in 0..2 {
            chat.reply_text("Yes.");
            cursor.send(&format!("Turn {turn}.")).await.success();
        }
    };
    turns(&mut cursor).await;
    drop(program);
    let program = Program::start(folder.path(), &chat.base_url());
    cursor.reconnect(&program.address, KEY).await;
    turns(&mut cursor).await;
    drop(program);
    std::fs::remove_dir_all(folder.path().join("data")).unwrap();
    let program = Program::start(folder.path(), &chat.base_url());
    cursor.reconnect(&program.address, KEY).await;
    turns(&mut cursor).await;
    drop(program);
    assert_eq!(chat.requests().len(), 6);
    for request in chat.requests() {
        let tools = request.json["tools"].as_array().unwrap();
        let dynamic: Vec<&str> = tools
            .iter()
            .filter_map(|tool| tool["function"]["name"].as_str())
            .filter(|name| name.contains("__"))
            .collect();
        assert_eq!(dynamic, ["a__look"]);
    }
    let log = std::fs::read_to_string(log_of(folder.path())).unwrap();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains(" WARN ")).collect();
    let [warning] = warnings[..] else {
        panic!("{warnings:?}")
    };
    let (_, said) = warning.split_once("cairn::cursor::request::prepare: ").unwrap();
    assert_eq!(
        said,
        "an MCP tool is left out; mend its server, or disable the tool conversation=agent-1 server=\"b\" tool=\"look\" \
         fault=\"its input schema is not valid JSON\""
    );
    cursor.assert_clean();
    chat.assert_clean();
}
