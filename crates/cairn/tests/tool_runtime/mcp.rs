//! The tools about MCP servers: what there is, a call by server and name, a resource.

use cairn::cursor::proto::agent::{
    self as pb, exec_client_message as answer, exec_server_message as exec, get_mcp_tools_agent_result,
    list_mcp_resources_exec_result, mcp_result, mcp_state_exec_result, mcp_tool_result,
    read_mcp_resource_exec_result, read_mcp_resource_success, tool_call::Tool,
};
use cairn::cursor::tools::{ToolProtocolError, ToolRuntime};
use prost::Message as _;
use prost_types::value::Kind;

use super::tool_calls::*;

const TOOLS: [&str; 3] = ["GetMcpTools", "FetchMcpResource", "CallMcpTool"];

fn mcp_runtime() -> ToolRuntime {
    offering(&TOOLS, subagents())
}

fn value(kind: Kind) -> prost_types::Value {
    prost_types::Value { kind: Some(kind) }
}

/// Two servers as the client lists them now; neither is the one of the request context.
fn state(id: u32) -> pb::ExecClientMessage {
    let schema = value(Kind::StructValue(prost_types::Struct {
        fields: [
            ("type".to_owned(), value(Kind::StringValue("object".into()))),
            ("minProperties".to_owned(), value(Kind::NumberValue(1.0))),
        ]
        .into(),
    }));
    let tool = |server: &str, name: &str, description: &str| pb::McpToolDefinition {
        name: format!("{server}-{name}"),
        provider_identifier: format!("{server}-provider"),
        tool_name: name.into(),
        description: description.into(),
        input_schema: Some(schema.encode_to_vec().into()),
        ..Default::default()
    };
    let server = |identifier: &str, tools| pb::McpStateServer {
        server_name: identifier.into(),
        server_identifier: identifier.into(),
        tools,
        status: Some("connected".into()),
        ..Default::default()
    };
    let mut notes = server("notes", vec![tool("notes", "look.up", "Looks a note up.")]);
    notes.instructions = vec![pb::McpInstructions {
        server_name: "notes".into(),
        instructions: "Ask politely.".into(),
        ..Default::default()
    }];
    let clock = server(
        "clock",
        vec![tool("clock", "now", ""), tool("clock", "zones", "Lists zones.")],
    );
    client(
        id,
        answer::Message::McpStateExecResult(pb::McpStateExecResult {
            result: Some(mcp_state_exec_result::Result::Success(pb::McpStateSuccess {
                servers: vec![notes, clock],
            })),
        }),
    )
}

/// What the model reads for a question about the servers.
fn shown(arguments: &str) -> String {
    let mut tools = mcp_runtime();
    let effects = tools.execute(&call("a", "GetMcpTools", arguments), 0).unwrap();
    let (id, message) = one_exec(&effects);
    assert_eq!(
        message,
        exec::Message::McpStateExecArgs(pb::McpStateExecArgs::default())
    );
    let content = result(&tools.exec_message(state(id), 1).unwrap())
        .content
        .text()
        .into_owned();
    let card = tools.committed(&super::id("a")).unwrap().shown.unwrap().1;
    let Some(Tool::GetMcpToolsToolCall(card)) = card.tool else {
        panic!("{card:?}")
    };
    assert_eq!(
        card.result.unwrap().result,
        Some(get_mcp_tools_agent_result::Result::Success(
            pb::GetMcpToolsSuccess {
                content: content.clone(),
                output_file_path: None,
            }
        ))
    );
    content
}

#[test]
fn servers_are_named_first_and_shown_whole_when_asked_for() {
    assert_eq!(
        shown("{}"),
        "server: notes\nstatus: connected\ninstructions: Ask politely.\n- tool: look.up\n  Looks a note up.\n\
         server: clock\nstatus: connected\n- tool: now\n- tool: zones\n  Lists zones.\n"
    );
    let arguments = r#"  arguments: {"minProperties":1,"type":"object"}"#;
    assert_eq!(
        shown(r#"{"server":"clock","tool_name":"now"}"#),
        format!("server: clock\nstatus: connected\n- tool: now\n{arguments}\n")
    );
    assert_eq!(
        shown(r#"{"pattern":"ZONES"}"#),
        format!("server: clock\nstatus: connected\n- tool: zones\n  Lists zones.\n{arguments}\n")
    );
    assert_eq!(
        shown(r#"{"server":"gone"}"#),
        "Nothing fits. The servers are: notes, clock."
    );
}

#[test]
fn a_call_by_name_carries_the_definition_that_was_listed_last() {
    let mut tools = mcp_runtime();
    let asked = |id: &str, server: &str, tool: &str| {
        let arguments =
            format!(r#"{{"server":"{server}","tool_name":"{tool}","arguments":{{"n":3,"s":"x"}}}}"#);
        call(id, "CallMcpTool", &arguments)
    };
    // Known from the request context, under the name that tells the server apart.
    let effects = tools.execute(&asked("a", "user-db", "query"), 0).unwrap();
    let (id, exec::Message::McpArgs(args)) = one_exec(&effects) else {
        panic!("{effects:?}")
    };
    assert_eq!(
        args,
        pb::McpArgs {
            name: "db-query".into(),
            args: [
                (
                    "n".to_owned(),
                    value(Kind::NumberValue(3.0)).encode_to_vec().into()
                ),
                (
                    "s".to_owned(),
                    value(Kind::StringValue("x".into())).encode_to_vec().into()
                ),
            ]
            .into(),
            tool_call_id: "a".into(),
            provider_identifier: "db".into(),
            tool_name: "query".into(),
            server_identifier: "user-db".into(),
            ..Default::default()
        }
    );
    let success = client(
        id,
        answer::Message::McpResult(pb::McpResult {
            result: Some(mcp_result::Result::Success(pb::McpSuccess::default())),
        }),
    );
    let effects = tools.exec_message(success, 1).unwrap();
    assert_eq!(
        &*result(&effects).content.text(),
        "The tool finished and returned nothing."
    );

    // Not known yet: nothing is sent, and the model is told how to find out.
    let effects = tools.execute(&asked("b", "notes", "look.up"), 2).unwrap();
    assert_eq!(execs(&effects), []);
    let refused = result(&effects);
    assert!(refused.is_error);
    assert_eq!(
        &*refused.content.text(),
        "No tool look.up of a server notes is known. GetMcpTools shows what there is now, with the exact names."
    );
    let card = tools.committed(&super::id("b")).unwrap().shown.unwrap().1;
    let Some(Tool::McpToolCall(card)) = card.tool else {
        panic!("{card:?}")
    };
    assert_eq!(card.args.unwrap().tool_name, "look.up");
    assert!(matches!(
        card.result.unwrap().result,
        Some(mcp_tool_result::Result::Error(_))
    ));

    // Listed: the definition goes out as it was given.
    let effects = tools.execute(&call("c", "GetMcpTools", "{}"), 3).unwrap();
    tools.exec_message(state(one_exec(&effects).0), 4).unwrap();
    let effects = tools.execute(&asked("d", "notes", "look.up"), 5).unwrap();
    let (_, exec::Message::McpArgs(args)) = one_exec(&effects) else {
        panic!("{effects:?}")
    };
    let identifiers = (
        args.name.as_str(),
        args.provider_identifier.as_str(),
        args.server_identifier.as_str(),
        args.tool_name.as_str(),
    );
    assert_eq!(
        identifiers,
        ("notes-look.up", "notes-provider", "notes", "look.up")
    );
    // What is no longer listed is no longer known.
    let effects = tools.execute(&asked("e", "user-db", "query"), 6).unwrap();
    assert!(result(&effects).is_error);
}

#[test]
fn a_number_that_would_change_is_refused_before_the_call() {
    let mut tools = mcp_runtime();
    let arguments = r#"{"server":"user-db","tool_name":"query","arguments":{"id":9007199254740993}}"#;
    let effects = tools.execute(&call("a", "CallMcpTool", arguments), 0).unwrap();
    assert_eq!(execs(&effects), []);
    assert_eq!(
        &*result(&effects).content.text(),
        "The tool was not called: the number 9007199254740993 at `id` cannot be passed on unchanged: the client's \
         number type is a double. Pass it as a string if the tool takes one."
    );
}

fn read(tools: &mut ToolRuntime) -> u32 {
    let arguments = r#"{"server":"notes","uri":"note://a"}"#;
    let effects = tools
        .execute(&call("a", "FetchMcpResource", arguments), 0)
        .unwrap();
    let (id, message) = one_exec(&effects);
    let args = pb::ReadMcpResourceExecArgs {
        server: "notes".into(),
        uri: "note://a".into(),
        tool_call_id: "a".into(),
        ..Default::default()
    };
    assert_eq!(message, exec::Message::ReadMcpResourceExecArgs(args));
    id
}

fn resource(id: u32, result: read_mcp_resource_exec_result::Result) -> pb::ExecClientMessage {
    client(
        id,
        answer::Message::ReadMcpResourceExecResult(pb::ReadMcpResourceExecResult { result: Some(result) }),
    )
}

#[test]
fn a_resource_is_its_text_or_named_by_size_and_type() {
    for (content, text) in [
        (
            read_mcp_resource_success::Content::Text("the note".into()),
            "the note",
        ),
        (
            read_mcp_resource_success::Content::Blob(vec![1, 2, 3].into()),
            "[A resource of 3 bytes, image/png, that cannot be shown here.]",
        ),
    ] {
        let mut tools = mcp_runtime();
        let id = read(&mut tools);
        let success = read_mcp_resource_exec_result::Result::Success(pb::ReadMcpResourceSuccess {
            uri: "note://a".into(),
            mime_type: Some("image/png".into()),
            content: Some(content),
            ..Default::default()
        });
        let effects = tools.exec_message(resource(id, success.clone()), 1).unwrap();
        assert_eq!(&*result(&effects).content.text(), text);
        let card = tools.committed(&super::id("a")).unwrap().shown.unwrap().1;
        let Some(Tool::ReadMcpResourceToolCall(card)) = card.tool else {
            panic!("{card:?}")
        };
        assert_eq!(card.result.unwrap().result, Some(success));
    }
}

#[test]
fn a_resource_that_cannot_be_read_comes_with_what_there_is_instead() {
    let mut tools = mcp_runtime();
    let id = read(&mut tools);
    let error = read_mcp_resource_exec_result::Result::Error(pb::ReadMcpResourceError {
        uri: "note://a".into(),
        error: "MCP error -32002".into(),
    });
    let effects = tools.exec_message(resource(id, error.clone()), 1).unwrap();
    let (list_id, message) = one_exec(&effects);
    assert_eq!(list_id, id + 1);
    assert_eq!(
        message,
        exec::Message::ListMcpResourcesExecArgs(pb::ListMcpResourcesExecArgs {
            server: Some("notes".into())
        })
    );
    // The list is awaited now, and nothing else.
    assert_eq!(
        tools.exec_message(read_text(list_id, "x"), 2),
        Err(ToolProtocolError::WrongAnswer {
            exec_id: list_id,
            call: super::id("a"),
            expected: "list_mcp_resources_exec_result",
            got: "read_result",
        })
    );
    let listed = |result| {
        answer::Message::ListMcpResourcesExecResult(pb::ListMcpResourcesExecResult { result: Some(result) })
    };
    let resources = vec![
        pb::list_mcp_resources_exec_result::McpResource {
            uri: "note://b".into(),
            name: Some("B".into()),
            description: Some("the b note".into()),
            server: "notes".into(),
            ..Default::default()
        },
        pb::list_mcp_resources_exec_result::McpResource {
            uri: "note://c".into(),
            server: "notes".into(),
            ..Default::default()
        },
    ];
    let list = listed(list_mcp_resources_exec_result::Result::Success(
        pb::ListMcpResourcesSuccess { resources },
    ));
    let effects = tools.exec_message(client(list_id, list), 3).unwrap();
    let failed = result(&effects);
    assert!(failed.is_error);
    assert_eq!(
        &*failed.content.text(),
        "note://a of the MCP server notes could not be read: MCP error -32002\nThe server has:\n- note://b: B: the b note\n- note://c"
    );
    let card = tools.committed(&super::id("a")).unwrap().shown.unwrap().1;
    let Some(Tool::ReadMcpResourceToolCall(card)) = card.tool else {
        panic!("{card:?}")
    };
    assert_eq!(card.result.unwrap().result, Some(error));
}

#[test]
fn a_list_that_fails_hides_nothing_of_the_failure_before_it() {
    let mut tools = mcp_runtime();
    let id = read(&mut tools);
    let missing = read_mcp_resource_exec_result::Result::NotFound(pb::ReadMcpResourceNotFound {
        uri: "note://a".into(),
    });
    let effects = tools.exec_message(resource(id, missing), 1).unwrap();
    let (list_id, _) = one_exec(&effects);
    let list = answer::Message::ListMcpResourcesExecResult(pb::ListMcpResourcesExecResult {
        result: Some(list_mcp_resources_exec_result::Result::Error(
            pb::ListMcpResourcesError {
                error: "no such server".into(),
            },
        )),
    });
    let effects = tools.exec_message(client(list_id, list), 2).unwrap();
    assert_eq!(
        &*result(&effects).content.text(),
        "The MCP server notes has no resource note://a."
    );
}
