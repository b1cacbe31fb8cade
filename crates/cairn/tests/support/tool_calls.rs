//! Calls, client answers and what a tool runtime did with them, in short forms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cairn::cursor::proto::agent::{
    self as pb, agent_server_message::Message, exec_client_control_message as control,
    exec_client_message as answer, exec_server_message as exec, interaction_update as update, read_result,
    read_success, shell_stream, tool_call::Tool,
};
use cairn::cursor::request::Mode;
use cairn::cursor::tools::{DefinedSubagent, Effect, McpTool, SubagentScope, ToolRuntime, ToolRuntimeConfig};
use cairn::model::{
    CallId, EntryLimits, Latency, ModelSpec, ReasoningSpec, SubagentKind, SubagentModels, ToolCall,
    ToolResult,
};

const TOOLS: [&str; 11] = [
    "Shell",
    "AwaitShell",
    "EditNotebook",
    "ReadLints",
    "Read",
    "Write",
    "StrReplace",
    "Delete",
    "Grep",
    "Glob",
    "TodoWrite",
];

pub fn runtime() -> ToolRuntime {
    offering(&TOOLS, subagents())
}

/// A configured model.
pub fn model(id: &str) -> Arc<ModelSpec> {
    Arc::new(ModelSpec {
        model_id: id.into(),
        display_name: None,
        reasoning: ReasoningSpec::default(),
        latency: Latency::Standard,
        max_output_tokens: None,
        context_window: None,
        vision: false,
        entry: EntryLimits::default(),
    })
}

/// A run on the model `main` whose subagents may also get `small`, in a workspace that defines two kinds.
pub fn subagents() -> SubagentScope {
    SubagentScope {
        root: "root".into(),
        parent_model: model("main"),
        models: Arc::new(SubagentModels {
            candidates: vec![model("main"), model("small")],
            overrides: Vec::new(),
        }),
        defined: BTreeMap::from([
            ("Reviewer".into(), DefinedSubagent::default()),
            (
                "tester".into(),
                DefinedSubagent {
                    model: Some("small".into()),
                    readonly: true,
                    background: true,
                },
            ),
        ]),
        children: vec![("child-1".into(), SubagentKind::new("explore"))],
        at_work: BTreeSet::new(),
        readonly: false,
        cloud: false,
    }
}

/// A runtime that offers these tools and one of an MCP server.
pub fn offering(tools: &[&str], subagents: SubagentScope) -> ToolRuntime {
    let mut offered: BTreeSet<Arc<str>> = tools.iter().map(|name| Arc::from(*name)).collect();
    offered.insert("db-query".into());
    ToolRuntime::new(ToolRuntimeConfig {
        result_limit: 100_000,
        conversation_id: "conversation".into(),
        offered,
        mcp: BTreeMap::from([(
            "db-query".into(),
            McpTool {
                name: "db-query".into(),
                provider_identifier: "db".into(),
                server_identifier: "user-db".into(),
                tool_name: "query".into(),
                connected: true,
            },
        )]),
        todos: Vec::new(),
        mode: Mode::Agent,
        working_directory: Some("/w".into()),
        terminals_folder: Some("/t/".into()),
        subagents,
    })
}

pub fn id(text: &str) -> CallId {
    CallId::new(text)
}

pub fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: CallId::new(id),
        name: name.into(),
        arguments: arguments.into(),
    }
}

pub fn execs(effects: &[Effect]) -> Vec<(u32, exec::Message)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send(Message::ExecServerMessage(message)) => {
                Some((message.id, message.message.clone().unwrap()))
            }
            _ => None,
        })
        .collect()
}

pub fn one_exec(effects: &[Effect]) -> (u32, exec::Message) {
    let mut execs = execs(effects);
    assert_eq!(execs.len(), 1, "{effects:?}");
    execs.remove(0)
}

pub fn updates(effects: &[Effect]) -> Vec<update::Message> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send(Message::InteractionUpdate(message)) => message.message.clone(),
            _ => None,
        })
        .collect()
}

pub fn result(effects: &[Effect]) -> ToolResult {
    let results: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Complete(result) => Some(result.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 1, "{effects:?}");
    results[0].clone()
}

pub fn client(id: u32, message: answer::Message) -> pb::ExecClientMessage {
    pb::ExecClientMessage {
        id,
        message: Some(message),
        ..Default::default()
    }
}

pub fn read_text(id: u32, text: &str) -> pb::ExecClientMessage {
    client(
        id,
        answer::Message::ReadResult(pb::ReadResult {
            result: Some(read_result::Result::Success(pb::ReadSuccess {
                path: "/w/a".into(),
                total_lines: 1 + i32::try_from(text.matches('\n').count()).unwrap(),
                file_size: i64::try_from(text.len()).unwrap(),
                output: Some(read_success::Output::Content(text.into())),
                ..Default::default()
            })),
        }),
    )
}

pub fn shell(id: u32, event: shell_stream::Event) -> pb::ExecClientMessage {
    client(
        id,
        answer::Message::ShellStream(pb::ShellStream { event: Some(event) }),
    )
}

pub fn stdout(id: u32, data: &str) -> pb::ExecClientMessage {
    shell(
        id,
        shell_stream::Event::Stdout(pb::ShellStreamStdout { data: data.into() }),
    )
}

pub fn exit(id: u32, code: u32) -> pb::ExecClientMessage {
    shell(
        id,
        shell_stream::Event::Exit(pb::ShellStreamExit {
            code,
            cwd: "/w".into(),
            local_execution_time_ms: Some(22),
            ..Default::default()
        }),
    )
}

pub fn close(id: u32) -> pb::ExecClientControlMessage {
    pb::ExecClientControlMessage {
        message: Some(control::Message::StreamClose(pb::ExecClientStreamClose { id })),
    }
}

pub fn throw(id: u32) -> pb::ExecClientControlMessage {
    pb::ExecClientControlMessage {
        message: Some(control::Message::Throw(pb::ExecClientThrow {
            id,
            error: "no handler".into(),
            ..Default::default()
        })),
    }
}

pub fn read_card(path: &str) -> Tool {
    Tool::ReadToolCall(pb::ReadToolCall {
        args: Some(pb::ReadToolArgs {
            path: path.into(),
            ..Default::default()
        }),
        result: None,
    })
}
