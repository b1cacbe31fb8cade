//! The tools that each mode gives to the model: names, order and schemas, static ones first, MCP ones after them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

use std::collections::{BTreeMap, BTreeSet};

use cairn::cursor::prompting::{
    CompiledPrompt, McpTool, OfferedTools, Profile, PromptAssets, PromptNote, compile_prompt,
};
use cairn::cursor::proto::agent::{McpToolDefinition, McpTools};
use cairn::cursor::request::{Mode, RequestError, collect_mcp_tools};
use cairn::cursor::tools::{PROGRESS_TOOL, argument_names, known_tools};
use cairn::model::PromptChange;

/// The whole list of the main agent, in the order that the prompt has.
const AGENT_LIST: [&str; 20] = [
    "Shell",
    "Grep",
    "Delete",
    "WebSearch",
    "WebFetch",
    "GenerateImage",
    "EditNotebook",
    "TodoWrite",
    "StrReplace",
    "Write",
    "Read",
    "ReadLints",
    "Glob",
    "AskQuestion",
    "Task",
    "AwaitShell",
    "GetMcpTools",
    "FetchMcpResource",
    "SwitchMode",
    "CallMcpTool",
];

/// The whole list of a subagent.
const SUBAGENT_LIST: [&str; 20] = [
    "Shell",
    "Grep",
    "Delete",
    "WebSearch",
    "WebFetch",
    "GenerateImage",
    "ReadLints",
    "EditNotebook",
    "TodoWrite",
    "StrReplace",
    "Write",
    "Read",
    "Glob",
    "Task",
    "AwaitShell",
    "GetMcpTools",
    "FetchMcpResource",
    "SwitchMode",
    "UpdateCurrentStep",
    "CallMcpTool",
];

const ASK_LIST: [&str; 10] = [
    "Grep",
    "WebSearch",
    "WebFetch",
    "Read",
    "ReadLints",
    "Glob",
    "AskQuestion",
    "GetMcpTools",
    "FetchMcpResource",
    "SwitchMode",
];

const PLAN_LIST: [&str; 12] = [
    "Grep",
    "WebSearch",
    "WebFetch",
    "TodoWrite",
    "Read",
    "ReadLints",
    "Glob",
    "AskQuestion",
    "GetMcpTools",
    "FetchMcpResource",
    "SwitchMode",
    "CreatePlan",
];

fn compile(profile: impl Into<Profile>, tools: &[McpTool]) -> CompiledPrompt {
    compile_after(profile, tools, None)
}

/// The prompt of a run that follows one with another prompt.
fn compile_after(
    profile: impl Into<Profile>,
    tools: &[McpTool],
    before: Option<&CompiledPrompt>,
) -> CompiledPrompt {
    let offered = OfferedTools {
        tools: tools.to_vec(),
        ..OfferedTools::default()
    };
    // The note goes through its stored form, as it does between two runs.
    let note = before.map(|before| PromptNote::read(before.note.write().as_bytes()).unwrap());
    compile_prompt(&PromptAssets::load().unwrap(), profile, &offered, note.as_ref()).unwrap()
}

fn names(prompt: &CompiledPrompt) -> Vec<&str> {
    prompt.spec.tools.iter().map(|tool| &*tool.name).collect()
}

fn offer(definitions: &[(&str, &str, &str, &str)]) -> Vec<McpTool> {
    let definitions = definitions
        .iter()
        .map(|(server, tool, description, schema)| McpToolDefinition {
            name: format!("{server}-{tool}"),
            provider_identifier: (*server).to_owned(),
            tool_name: (*tool).to_owned(),
            description: (*description).to_owned(),
            input_schema_json: Some((*schema).to_owned()),
            ..McpToolDefinition::default()
        });
    let offered = McpTools {
        mcp_tools: definitions.collect(),
    };
    collect_mcp_tools(Some(&offered), None).tools
}

#[test]
fn each_profile_has_its_tools_in_its_order() {
    assert_eq!(names(&compile(Mode::Agent, &[])), AGENT_LIST);
    assert_eq!(
        names(&compile(Profile::Subagent(Mode::Agent), &[])),
        SUBAGENT_LIST
    );
    assert_eq!(names(&compile(Mode::Ask, &[])), ASK_LIST);
    assert_eq!(names(&compile(Mode::Plan, &[])), PLAN_LIST);
    assert_eq!(names(&compile(Mode::Debug, &[])), AGENT_LIST);
    assert_eq!(names(&compile(Mode::Multitask, &[])), AGENT_LIST);
    // Of a mode that only looks, a subagent has what looks, and its steps: nobody is there to answer or to take a plan.
    for (mode, list) in [(Mode::Ask, &ASK_LIST[..]), (Mode::Plan, &PLAN_LIST)] {
        let looks = list.iter().copied();
        let looks = looks.filter(|name| !["AskQuestion", "CreatePlan"].contains(name));
        let expected: Vec<&str> = looks.chain([PROGRESS_TOOL]).collect();
        assert_eq!(names(&compile(Profile::Subagent(mode), &[])), expected);
    }
    for mode in [Mode::Debug, Mode::Multitask] {
        assert_eq!(names(&compile(Profile::Subagent(mode), &[])), SUBAGENT_LIST);
    }
}

#[test]
fn a_subagents_task_starts_nothing_in_the_cloud_and_its_steps_can_be_suppressed() {
    let agent = compile(Mode::Agent, &[]);
    let child = compile(Profile::Subagent(Mode::Agent), &[]);
    let of = |prompt: &CompiledPrompt, name: &str| {
        let tool = prompt.spec.tools.iter().find(|tool| *tool.name == *name);
        tool.cloned()
    };
    for name in SUBAGENT_LIST {
        match (of(&agent, name), of(&child, name)) {
            (Some(agents), Some(childs)) if name == "Task" => {
                for property in ["environment", "cloud_base_branch"] {
                    assert!(agents.parameters.contains(&format!("\"{property}\"")));
                    assert!(!childs.parameters.contains(property));
                }
                assert_eq!(agents.description, childs.description);
            }
            (Some(agents), childs) => assert_eq!(Some(agents), childs),
            (None, childs) => assert!(childs.is_some() && name == PROGRESS_TOOL, "{name}"),
        }
    }
    let quiet = compile(Profile::QuietSubagent(Mode::Agent), &[]);
    let left: Vec<&str> = SUBAGENT_LIST
        .into_iter()
        .filter(|name| *name != PROGRESS_TOOL)
        .collect();
    assert_eq!(names(&quiet), left);
}

#[test]
fn a_subagent_has_the_agents_instructions() {
    for mode in Mode::ALL {
        assert_eq!(
            compile(Profile::Subagent(mode), &[]).spec.instructions,
            compile(mode, &[]).spec.instructions
        );
    }
}

/// A tool is offered exactly where it is executed, and its schema names exactly the arguments that are read.
#[test]
fn what_is_offered_is_what_is_executed() {
    let assets = PromptAssets::load().unwrap();
    let profiles = Mode::ALL
        .into_iter()
        .flat_map(|mode| [Profile::Main(mode), Profile::Subagent(mode)]);
    let offered: BTreeSet<std::sync::Arc<str>> = profiles
        .flat_map(|profile| assets.tools(profile))
        .map(|tool| tool.name)
        .collect();
    assert_eq!(offered, known_tools().map(Into::into).collect::<BTreeSet<_>>());
    let mut described: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for entry in assets.catalog().entries() {
        let tool = &entry.tool;
        assert!(offered.contains(&*tool.name), "{} is in no list", tool.name);
        let schema: serde_json::Value = serde_json::from_str(&tool.parameters).unwrap();
        let properties = schema["properties"].as_object().unwrap().keys().cloned();
        described.entry(&tool.name).or_default().extend(properties);
    }
    // A variant may leave arguments out; all variants together have them all.
    for (name, described) in described {
        let known = argument_names(name).unwrap();
        assert_eq!(
            described,
            known.iter().map(|name| (*name).to_owned()).collect(),
            "{name}"
        );
    }
}

/// What the model is told of the tools is the head of every cached prefix: a change here must be meant.
#[test]
fn the_tools_go_out_as_recorded() {
    let assets = PromptAssets::load().unwrap();
    let agent = compile(Mode::Agent, &[]).spec.tools;
    let others = assets.catalog().entries().iter();
    let others = others
        .map(|entry| entry.tool.clone())
        .filter(|tool| !agent.contains(tool));
    let mut actual = String::new();
    for tool in agent.iter().cloned().chain(others) {
        actual += &format!("## {}\n{}\n{}\n\n", tool.name, tool.description, tool.parameters);
    }
    let recorded = include_str!("fixtures/tools.txt");
    assert!(
        actual == recorded,
        "the tools differ from tests/fixtures/tools.txt; if that is meant, record this:\n{actual}"
    );
}

#[test]
fn a_tool_is_the_same_in_every_mode() {
    let assets = PromptAssets::load().unwrap();
    for mode in Mode::ALL {
        for tool in compile(mode, &[]).spec.tools {
            assert_eq!(assets.catalog().get(&tool.name), Some(&tool), "{mode:?}");
        }
    }
}

#[test]
fn instructions_differ_by_mode_and_by_nothing_else() {
    let tools = offer(&[("a", "t", "d", "{}")]);
    let mut seen = std::collections::BTreeSet::new();
    for mode in Mode::ALL {
        let bare = compile(mode, &[]);
        assert_eq!(bare.spec.instructions, compile(mode, &tools).spec.instructions);
        assert!(seen.insert(bare.spec.instructions));
    }
}

#[test]
fn mcp_tools_follow_the_static_ones_whatever_their_order_or_key_order() {
    let here = offer(&[
        (
            "a",
            "x",
            "ax",
            r#"{"type":"object","properties":{"p":{"type":"string","minLength":1}},"required":["p"]}"#,
        ),
        ("b", "x", "bx", "{}"),
        ("c", "y", "cy", "{}"),
    ]);
    let mut there = offer(&[
        ("c", "y", "cy", r#"{"properties":{},"type":"object"}"#),
        (
            "a",
            "x",
            "ax",
            r#"{"required":["p"],"properties":{"p":{"minLength":1.0,"type":"string"}},"type":"object"}"#,
        ),
        ("b", "x", "bx", r#"{"type":"object"}"#),
    ]);
    there.reverse();
    for mode in Mode::ALL {
        let (one, other) = (compile(mode, &here), compile(mode, &there));
        assert_eq!(one, other);
        let bare = compile(mode, &[]);
        let (statics, dynamics) = one.spec.tools.split_at(bare.spec.tools.len());
        assert_eq!(statics, bare.spec.tools);
        let dynamics: Vec<&str> = dynamics.iter().map(|tool| &*tool.name).collect();
        assert_eq!(dynamics, ["a__x", "b__x", "c__y"]);
    }
}

#[test]
fn another_server_renames_nothing() {
    let alone = compile(
        Mode::Agent,
        &offer(&[("a__b", "c", "", "{}"), ("a", "Shell", "", "{}")]),
    );
    let crowd = offer(&[
        ("a", "b__c", "", "{}"),
        ("a__b", "c", "", "{}"),
        ("a", "Shell", "", "{}"),
        ("a b", "c", "", "{}"),
    ]);
    let crowd = compile(Mode::Agent, &crowd);
    for name in names(&alone) {
        assert!(names(&crowd).contains(&name), "{name}");
    }
    for (name, tool) in alone.mcp.iter() {
        assert_eq!(crowd.mcp.get(name), Some(tool));
    }
}

#[test]
fn every_name_leads_back_to_its_server_and_tool_and_none_shadows_a_static_tool() {
    let long = "t".repeat(70);
    let other = format!("{long}2");
    let pairs = [
        ("enterprise-database-management", long.as_str()),
        ("enterprise-database-management", other.as_str()),
        ("a", "execute_sql"),
        ("b", "execute_sql"),
        ("", "Shell"),
        ("my.server", "Shell"),
        ("a/b c", "查询"),
        ("x__y", "z"),
    ];
    let definitions: Vec<_> = pairs.iter().map(|(s, t)| (*s, *t, "", "{}")).collect();
    let prompt = compile(Mode::Agent, &offer(&definitions));
    let all = names(&prompt);
    let unique: std::collections::BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!(unique.len(), all.len());
    let agent = AGENT_LIST;
    assert_eq!(all[..agent.len()], agent);
    for name in &agent {
        assert_eq!(prompt.mcp.get(name), None);
    }
    let mut back: Vec<(&str, &str)> = all[agent.len()..]
        .iter()
        .map(|name| {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            assert!((1..=64).contains(&name.len()) && name.chars().all(fits), "{name}");
            let tool = prompt.mcp.get(name).unwrap();
            assert_eq!(
                *tool.client_name,
                format!("{}-{}", tool.provider_identifier, tool.tool_name)
            );
            (&*tool.provider_identifier, &*tool.tool_name)
        })
        .collect();
    back.sort_unstable();
    let mut expected = pairs.to_vec();
    expected.sort_unstable();
    assert_eq!(back, expected);
}

#[test]
fn one_tool_twice_is_refused() {
    let twice = [
        offer(&[("a", "t", "", "{}")]),
        offer(&[("a", "t", "other", "{}")]),
    ]
    .concat();
    let offered = OfferedTools {
        tools: twice,
        ..OfferedTools::default()
    };
    let result = compile_prompt(&PromptAssets::load().unwrap(), Mode::Agent, &offered, None);
    assert_eq!(
        result,
        Err(RequestError::McpTool {
            server: "a".to_owned(),
            tool: "t".to_owned(),
            fault: "it is offered twice".to_owned(),
        })
    );
}

/// What the model reads of the MCP tools, and which of them can be called.
fn mcp_part(prompt: &CompiledPrompt) -> Vec<(&str, &str, bool)> {
    prompt.spec.tools[AGENT_LIST.len()..]
        .iter()
        .map(|tool| (&*tool.name, &*tool.description, !prompt.gone.contains(&tool.name)))
        .collect()
}

#[test]
fn a_server_that_is_gone_for_a_while_keeps_its_place_and_its_bytes() {
    let all = [
        ("a", "x", "ax", "{}"),
        ("b", "x", "bx", "{}"),
        ("c", "x", "cx", "{}"),
    ];
    let without_b = [all[2], all[0]];
    let first = compile(Mode::Agent, &offer(&all));
    assert_eq!(first.change, None);
    let second = compile_after(Mode::Agent, &offer(&without_b), Some(&first));
    assert_eq!(second.spec, first.spec);
    assert_eq!(second.change, None);
    assert_eq!(
        mcp_part(&second),
        [("a__x", "ax", true), ("b__x", "bx", false), ("c__x", "cx", true)]
    );
    // Gone for another turn, then back, then all gone at once.
    let third = compile_after(Mode::Agent, &offer(&without_b), Some(&second));
    let fourth = compile_after(Mode::Agent, &offer(&all), Some(&third));
    let fifth = compile_after(Mode::Agent, &[], Some(&fourth));
    for later in [&third, &fourth, &fifth] {
        assert_eq!((&later.spec, later.change), (&first.spec, None));
    }
    assert!(fourth.gone.is_empty());
    assert_eq!(fifth.gone.len(), 3);
}

#[test]
fn a_new_or_changed_tool_is_one_declared_reset_to_the_canonical_list() {
    let before = compile(
        Mode::Agent,
        &offer(&[("b", "x", "bx", "{}"), ("c", "x", "cx", "{}")]),
    );
    let changed = [("c", "x", "now otherwise", "{}"), ("b", "x", "bx", "{}")];
    let added = [
        ("b", "x", "bx", "{}"),
        ("c", "x", "cx", "{}"),
        ("a", "x", "ax", "{}"),
    ];
    let added_while_b_is_gone = [("c", "x", "cx", "{}"), ("a", "x", "ax", "{}")];
    for offered in [&changed[..], &added, &added_while_b_is_gone] {
        let offered = offer(offered);
        let after = compile_after(Mode::Agent, &offered, Some(&before));
        assert_eq!(after.change, Some(PromptChange::ToolsChange));
        // As a conversation that begins with these tools has them.
        assert_eq!(after.spec, compile(Mode::Agent, &offered).spec);
        assert!(after.gone.is_empty());
        let again = compile_after(Mode::Agent, &offered, Some(&after));
        assert_eq!((again.spec, again.change), (after.spec, None));
    }
}

#[test]
fn a_switch_of_mode_is_declared_and_leaves_out_what_is_gone() {
    let all = offer(&[("a", "x", "ax", "{}"), ("b", "x", "bx", "{}")]);
    let agent = compile(Mode::Agent, &all);
    let plan = compile_after(Mode::Plan, &all[..1], Some(&agent));
    assert_eq!(plan.change, Some(PromptChange::ModeSwitch));
    assert_eq!(plan.spec, compile(Mode::Plan, &all[..1]).spec);
    let back = compile_after(Mode::Agent, &all, Some(&plan));
    assert_eq!(back.change, Some(PromptChange::ModeSwitch));
    assert_eq!(back.spec, agent.spec);
}
