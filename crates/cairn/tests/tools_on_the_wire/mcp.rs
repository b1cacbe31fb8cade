//! The tools of MCP servers, by their own names and by the names of server and tool, and the servers' resources.

use super::*;
use bytes::Bytes;
use cairn::cursor::proto::agent::{
    get_mcp_tools_agent_result, list_mcp_resources_exec_result, mcp_result, mcp_state_exec_result,
    mcp_tool_result, mcp_tool_result_content_item, read_mcp_resource_exec_result, read_mcp_resource_success,
};
use prost::Message as _;
use prost_types::value::Kind;

fn value(kind: Kind) -> prost_types::Value {
    prost_types::Value { kind: Some(kind) }
}

fn encoded(kind: Kind) -> Bytes {
    value(kind).encode_to_vec().into()
}

fn definition(server: &str, tool: &str) -> pb::McpToolDefinition {
    pb::McpToolDefinition {
        name: format!("{server}-{tool}"),
        provider_identifier: server.to_owned(),
        tool_name: tool.to_owned(),
        description: format!("Does {tool}."),
        input_schema: Some(encoded(Kind::StructValue(prost_types::Struct {
            fields: [("type".to_owned(), value(Kind::StringValue("object".into())))].into(),
        }))),
        ..Default::default()
    }
}

/// A client of one MCP server when the run begins, that answers the other execs so.
async fn client(mut answers: impl FnMut(&Exec) -> Option<Answer> + Send + 'static) -> Bench {
    let mut bench = Bench::new().await;
    bench.cursor.hooks.exec = Box::new(move |exec| match exec.message.as_ref().unwrap() {
        Exec::RequestContextArgs(_) => {
            let server = pb::McpDescriptor {
                server_name: "notes".to_owned(),
                server_identifier: "notes".to_owned(),
                tools: vec![pb::McpToolDescriptor {
                    tool_name: "look.up".to_owned(),
                    ..Default::default()
                }],
                ..Default::default()
            };
            let context = pb::RequestContext {
                tools: vec![definition("notes", "look.up")],
                mcp_meta_tool_options: Some(pb::McpMetaToolOptions {
                    enabled: true,
                    mcp_descriptors: vec![server],
                }),
                ..Default::default()
            };
            answer(exec.id, told(context))
        }
        message => match answers(message) {
            Some(given) => answer(exec.id, given),
            None => ExecAnswer::Run,
        },
    });
    bench
}

fn called(result: mcp_result::Result) -> Answer {
    Answer::McpResult(pb::McpResult { result: Some(result) })
}

fn said(text: &str, is_error: bool) -> mcp_result::Result {
    mcp_result::Result::Success(pb::McpSuccess {
        content: vec![pb::McpToolResultContentItem {
            content: Some(mcp_tool_result_content_item::Content::Text(pb::McpTextContent {
                text: text.to_owned(),
                ..Default::default()
            })),
        }],
        is_error,
        ..Default::default()
    })
}

fn mcp_card(report: &TurnReport) -> mcp_tool_result::Result {
    match card(report) {
        Tool::McpToolCall(card) => card.result.unwrap().result.unwrap(),
        other => panic!("{other:?}"),
    }
}

const CALL: (&str, &str) = (
    "CallMcpTool",
    r#"{"server":"notes","tool_name":"look.up","arguments":{"word":"sea","limit":3}}"#,
);

/// What the client is asked for, whichever way the tool is called.
fn asked() -> Exec {
    Exec::McpArgs(pb::McpArgs {
        name: "notes-look.up".to_owned(),
        args: [
            ("limit".to_owned(), encoded(Kind::NumberValue(3.0))),
            ("word".to_owned(), encoded(Kind::StringValue("sea".into()))),
        ]
        .into(),
        tool_call_id: "call_1".to_owned(),
        provider_identifier: "notes".to_owned(),
        tool_name: "look.up".to_owned(),
        server_identifier: "notes".to_owned(),
        ..Default::default()
    })
}

#[tokio::test]
async fn call_mcp_tool_and_the_tools_own_name_are_the_same_call() {
    let (name, arguments) = CALL;
    let mut bench = client(|_| Some(called(said("salt water", false)))).await;
    let (report, text) = round(&mut bench, name, serde_json::from_str(arguments).unwrap()).await;
    assert_eq!(text, "salt water");
    assert_eq!(execs(&report), [asked()]);
    assert_eq!(
        mcp_card(&report),
        match said("salt water", false) {
            mcp_result::Result::Success(success) => mcp_tool_result::Result::Success(success),
            _ => unreachable!(),
        }
    );

    let body: Value = serde_json::from_slice(&bench.bodies()[0]).unwrap();
    let mut names = body["tools"].as_array().unwrap().iter();
    let own = names
        .find_map(|tool| {
            tool["function"]["name"]
                .as_str()
                .filter(|name| name.contains('_'))
        })
        .unwrap()
        .to_owned();
    let mut bench = client(|_| Some(called(said("salt water", false)))).await;
    let (report, text) = round(&mut bench, &own, json!({"word": "sea", "limit": 3})).await;
    assert_eq!(text, "salt water");
    assert_eq!(execs(&report), [asked()]);
}

/// A value in which objects stand in objects, so many levels deep, as the client sends it: written from the inside out.
fn nested(levels: usize) -> Bytes {
    let innermost = value(Kind::StringValue("x".to_owned())).encode_to_vec();
    let nested = (1..levels).fold(innermost, |inner, _| {
        let object = pb::JsonObject {
            fields: [("n".to_owned(), inner.into())].into(),
        };
        let kind = pb::json_value::Kind::StructValue(object.encode_to_vec().into());
        pb::JsonValue { kind: Some(kind) }.encode_to_vec()
    });
    nested.into()
}

#[tokio::test]
async fn a_schema_or_a_result_of_any_depth_leaves_the_message_that_holds_it_readable() {
    let mut bench = Bench::new().await;
    bench.cursor.hooks.exec = Box::new(|exec| match exec.message.as_ref().unwrap() {
        Exec::RequestContextArgs(_) => {
            let tool = |name: &str, levels| pb::McpToolDefinition {
                input_schema: Some(nested(levels)),
                ..definition("notes", name)
            };
            let tools = vec![
                definition("notes", "look"),
                tool("deep", 90),
                tool("endless", 5000),
            ];
            answer(
                exec.id,
                told(pb::RequestContext {
                    tools,
                    ..Default::default()
                }),
            )
        }
        _ => {
            let object = pb::JsonObject {
                fields: [("n".to_owned(), nested(5000))].into(),
            };
            let success = pb::McpSuccess {
                structured_content: Some(object.encode_to_vec().into()),
                ..Default::default()
            };
            answer(exec.id, called(mcp_result::Result::Success(success)))
        }
    });
    let (_, text) = round(&mut bench, "notes__look", json!({})).await;
    assert_eq!(
        text,
        "[The result cannot be read: it is nested more than 100 levels deep.]"
    );
    let body: Value = serde_json::from_slice(&bench.bodies()[0]).unwrap();
    let schema = |name: &str| {
        let mut tools = body["tools"].as_array().unwrap().iter();
        let tool = tools.find(|tool| tool["function"]["name"] == name)?;
        Some(tool["function"]["parameters"].to_string())
    };
    assert_eq!(schema("notes__deep").unwrap().matches(r#""n":"#).count(), 89);
    // It is left out, and nothing else with it.
    assert_eq!(schema("notes__endless"), None);
    assert!(schema("notes__look").is_some());
}

#[tokio::test]
async fn call_mcp_tool_that_fails_is_told_with_the_servers_words() {
    use mcp_result::Result;
    let (name, arguments) = CALL;
    for (given, expected) in [
        (said("the index is shut", true), "the index is shut"),
        (
            Result::Error(pb::McpError {
                error: "the index is shut".to_owned(),
            }),
            "notes-look.up failed: the index is shut",
        ),
    ] {
        let mut bench = client(move |_| Some(called(given.clone()))).await;
        let (report, text) = round(&mut bench, name, serde_json::from_str(arguments).unwrap()).await;
        assert_eq!(text, expected);
        assert_eq!(execs(&report), [asked()]);
        match mcp_card(&report) {
            mcp_tool_result::Result::Success(success) => assert!(success.is_error),
            mcp_tool_result::Result::Error(error) => assert_eq!(error.error, "the index is shut"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn call_mcp_tool_that_nobody_offers_asks_for_nothing() {
    let mut bench = client(|_| None).await;
    let arguments = json!({"server": "notes", "tool_name": "lose"});
    let (report, text) = round(&mut bench, "CallMcpTool", arguments).await;
    assert_eq!(
        text,
        "No tool lose of a server notes is known. GetMcpTools shows what there is now, with the exact names."
    );
    assert_eq!(execs(&report), []);
    let mcp_tool_result::Result::Error(error) = mcp_card(&report) else {
        panic!("{report:?}")
    };
    assert_eq!(error.error, text);
}

#[tokio::test]
async fn call_mcp_tool_that_is_refused_is_told_as_refused() {
    let (name, arguments) = CALL;
    let rejected = pb::McpRejected {
        reason: "not that server".to_owned(),
        is_readonly: false,
    };
    let given = mcp_result::Result::Rejected(rejected.clone());
    let mut bench = client(move |_| Some(called(given.clone()))).await;
    let (report, text) = round(&mut bench, name, serde_json::from_str(arguments).unwrap()).await;
    assert_eq!(text, "The call of notes-look.up was refused: not that server");
    assert_eq!(mcp_card(&report), mcp_tool_result::Result::Rejected(rejected));

    let denied = pb::McpPermissionDenied {
        error: "read-only".to_owned(),
        is_readonly: true,
    };
    let given = mcp_result::Result::PermissionDenied(denied.clone());
    let mut bench = client(move |_| Some(called(given.clone()))).await;
    let (report, text) = round(&mut bench, name, serde_json::from_str(arguments).unwrap()).await;
    assert_eq!(text, "No permission to call notes-look.up: read-only");
    assert_eq!(
        mcp_card(&report),
        mcp_tool_result::Result::PermissionDenied(denied)
    );
}

fn state(result: mcp_state_exec_result::Result) -> Answer {
    Answer::McpStateExecResult(pb::McpStateExecResult { result: Some(result) })
}

fn listing_card(report: &TurnReport) -> get_mcp_tools_agent_result::Result {
    match card(report) {
        Tool::GetMcpToolsToolCall(card) => card.result.unwrap().result.unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn get_mcp_tools_finds_a_server_that_came_later_and_its_tools_can_be_called() {
    let mut bench = client(|exec| match exec {
        Exec::McpStateExecArgs(_) => Some(state(mcp_state_exec_result::Result::Success(
            pb::McpStateSuccess {
                servers: vec![pb::McpStateServer {
                    server_name: "clock".to_owned(),
                    server_identifier: "clock".to_owned(),
                    tools: vec![definition("clock", "now")],
                    status: Some("connected".to_owned()),
                    ..Default::default()
                }],
            },
        ))),
        _ => Some(called(said("noon", false))),
    })
    .await;
    bench
        .endpoint
        .reply_calls([("call_0", "GetMcpTools", r#"{"pattern":"NOW"}"#)]);
    let (report, text) = {
        let arguments = json!({"server": "clock", "tool_name": "now"});
        bench
            .endpoint
            .reply_calls([("call_1", "CallMcpTool", arguments.to_string().as_str())]);
        bench.endpoint.reply_text("Done.");
        let report = bench.cursor.send("Go.").await.success();
        bench.assert_clean();
        let body: Value = serde_json::from_slice(bench.bodies().last().unwrap()).unwrap();
        let messages = body["messages"].as_array().unwrap().clone();
        let results = messages.iter().filter(|message| message["role"] == "tool");
        let texts: Vec<_> = results
            .map(|message| message["content"].as_str().unwrap().to_owned())
            .collect();
        (report, texts)
    };
    let listing =
        "server: clock\nstatus: connected\n- tool: now\n  Does now.\n  arguments: {\"type\":\"object\"}\n";
    assert_eq!(text, [listing, "noon"]);
    let [Exec::McpStateExecArgs(_), Exec::McpArgs(args)] = &execs(&report)[..] else {
        panic!("{:?}", execs(&report))
    };
    assert_eq!(
        (args.name.as_str(), args.provider_identifier.as_str()),
        ("clock-now", "clock")
    );
    let Some(Tool::GetMcpToolsToolCall(shown)) = report.calls[0].completed.clone().unwrap().tool else {
        panic!("{report:?}")
    };
    assert_eq!(
        shown.result.unwrap().result,
        Some(get_mcp_tools_agent_result::Result::Success(
            pb::GetMcpToolsSuccess {
                content: listing.to_owned(),
                output_file_path: None,
            }
        ))
    );
}

#[tokio::test]
async fn get_mcp_tools_that_fails_or_is_refused_says_so() {
    use mcp_state_exec_result::Result;
    for (given, expected) in [
        (
            Result::Error(pb::McpStateError {
                error: "starting up".to_owned(),
            }),
            "The client could not list its MCP servers: starting up",
        ),
        (
            Result::Rejected(pb::McpStateRejected {
                reason: "not now".to_owned(),
            }),
            "The user refused to list the MCP servers: not now",
        ),
    ] {
        let mut bench = client(move |_| Some(state(given.clone()))).await;
        let (report, text) = round(&mut bench, "GetMcpTools", json!({})).await;
        assert_eq!(text, expected);
        assert_eq!(
            listing_card(&report),
            get_mcp_tools_agent_result::Result::Error(pb::GetMcpToolsError { error: text })
        );
    }
}

fn resource(result: read_mcp_resource_exec_result::Result) -> Answer {
    Answer::ReadMcpResourceExecResult(pb::ReadMcpResourceExecResult { result: Some(result) })
}

fn resource_card(report: &TurnReport) -> read_mcp_resource_exec_result::Result {
    match card(report) {
        Tool::ReadMcpResourceToolCall(card) => card.result.unwrap().result.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn resource_arguments() -> Value {
    json!({"server": "notes", "uri": "word://sea"})
}

fn read_resource() -> Exec {
    Exec::ReadMcpResourceExecArgs(pb::ReadMcpResourceExecArgs {
        server: "notes".to_owned(),
        uri: "word://sea".to_owned(),
        tool_call_id: "call_1".to_owned(),
        ..Default::default()
    })
}

#[tokio::test]
async fn fetch_mcp_resource() {
    let success = read_mcp_resource_exec_result::Result::Success(pb::ReadMcpResourceSuccess {
        uri: "word://sea".to_owned(),
        mime_type: Some("text/plain".to_owned()),
        content: Some(read_mcp_resource_success::Content::Text(
            "sea: salt water".to_owned(),
        )),
        ..Default::default()
    });
    let given = success.clone();
    let mut bench = client(move |_| Some(resource(given.clone()))).await;
    let (report, text) = round(&mut bench, "FetchMcpResource", resource_arguments()).await;
    assert_eq!(text, "sea: salt water");
    assert_eq!(execs(&report), [read_resource()]);
    assert_eq!(resource_card(&report), success);
}

#[tokio::test]
async fn fetch_mcp_resource_that_is_not_there_names_those_that_are() {
    let error = read_mcp_resource_exec_result::Result::Error(pb::ReadMcpResourceError {
        uri: "word://sea".to_owned(),
        error: "no such word".to_owned(),
    });
    let given = error.clone();
    let mut bench = client(move |exec| match exec {
        Exec::ReadMcpResourceExecArgs(_) => Some(resource(given.clone())),
        _ => Some(Answer::ListMcpResourcesExecResult(
            pb::ListMcpResourcesExecResult {
                result: Some(list_mcp_resources_exec_result::Result::Success(
                    pb::ListMcpResourcesSuccess {
                        resources: vec![list_mcp_resources_exec_result::McpResource {
                            uri: "word://shore".to_owned(),
                            server: "notes".to_owned(),
                            ..Default::default()
                        }],
                    },
                )),
            },
        )),
    })
    .await;
    let (report, text) = round(&mut bench, "FetchMcpResource", resource_arguments()).await;
    assert_eq!(
        text,
        "word://sea of the MCP server notes could not be read: no such word\nThe server has:\n- word://shore"
    );
    let list = Exec::ListMcpResourcesExecArgs(pb::ListMcpResourcesExecArgs {
        server: Some("notes".to_owned()),
    });
    assert_eq!(execs(&report), [read_resource(), list]);
    assert_eq!(resource_card(&report), error);
}

#[tokio::test]
async fn fetch_mcp_resource_that_is_refused_is_told_as_refused() {
    let rejected = read_mcp_resource_exec_result::Result::Rejected(pb::ReadMcpResourceRejected {
        uri: "word://sea".to_owned(),
        reason: "private".to_owned(),
    });
    let given = rejected.clone();
    let mut bench = client(move |_| Some(resource(given.clone()))).await;
    let (report, text) = round(&mut bench, "FetchMcpResource", resource_arguments()).await;
    assert_eq!(text, "The user refused to read word://sea: private");
    assert_eq!(execs(&report), [read_resource()]);
    assert_eq!(resource_card(&report), rejected);
}
