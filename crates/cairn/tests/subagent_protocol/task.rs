//! Task and UpdateCurrentStep at the tool runtime: the exec, the card, the model's text, and every way it can end.

use std::sync::Arc;

use cairn::cursor::prompting::PromptAssets;
use cairn::cursor::proto::agent::{
    self as pb, communicate_update_result, exec_client_message as answer, exec_server_message as exec,
    subagent_result, subagent_type::Type, task_result, tool_call::Tool,
};
use cairn::cursor::tools::{
    DerivedFact, Effect, ProgressUpdate, SubagentScope, ToolProtocolError, ToolRuntime, derived_facts,
};
use cairn::model::{
    ConversationId, Delegation, DelegationOrigin, SubagentKind, SubagentModel, SubagentModels, ToolResult,
};

use crate::support::tool_calls::*;

const TOOLS: [&str; 2] = ["Task", "UpdateCurrentStep"];

fn task_runtime() -> ToolRuntime {
    offering(&TOOLS, subagents())
}

fn arguments(rest: &str) -> String {
    format!(r#"{{"description":"look","prompt":"find it"{rest}}}"#)
}

/// The exec that a Task asks for.
fn asked(tools: &mut ToolRuntime, id: &str, rest: &str) -> (u32, pb::SubagentArgs) {
    let effects = tools.execute(&call(id, "Task", &arguments(rest)), 1_000).unwrap();
    match one_exec(&effects) {
        (exec_id, exec::Message::SubagentArgs(args)) => (exec_id, args),
        other => panic!("{other:?}"),
    }
}

fn refusal(scope: SubagentScope, rest: &str) -> String {
    let mut tools = offering(&TOOLS, scope);
    let effects = tools.execute(&call("a", "Task", &arguments(rest)), 0).unwrap();
    assert_eq!(execs(&effects), [], "nothing may be started");
    let refused = result(&effects);
    assert!(refused.is_error);
    let card = tools.committed(&id("a")).unwrap().shown.unwrap().1;
    let Some(Tool::TaskToolCall(card)) = card.tool else {
        panic!("{card:?}")
    };
    assert_eq!(
        card.result.unwrap().result,
        Some(task_result::Result::Error(pb::TaskError {
            error: refused.content.text().into_owned()
        }))
    );
    refused.content.text().into_owned()
}

fn success(exec_id: u32, success: pb::SubagentSuccess) -> pb::ExecClientMessage {
    client(
        exec_id,
        answer::Message::SubagentResult(pb::SubagentResult {
            result: Some(subagent_result::Result::Success(success)),
        }),
    )
}

fn failure(exec_id: u32, agent_id: Option<&str>, error: &str) -> pb::ExecClientMessage {
    client(
        exec_id,
        answer::Message::SubagentResult(pb::SubagentResult {
            result: Some(subagent_result::Result::Error(pb::SubagentError {
                agent_id: agent_id.map(str::to_owned),
                error: error.into(),
            })),
        }),
    )
}

fn complete(content: &str, is_error: bool) -> Effect {
    Effect::Complete(ToolResult {
        call: id("a"),
        content: content.into(),
        is_error,
    })
}

/// child-1 works for the call that began at 1000.
fn delegated(background: bool) -> Effect {
    Effect::Delegated(Delegation {
        call: id("a"),
        child: ConversationId::new("child-1"),
        since_ms: 1_000,
        background,
        origin: DelegationOrigin::Own,
    })
}

fn card_of(tools: &mut ToolRuntime) -> pb::TaskToolCall {
    let card = tools.committed(&id("a")).unwrap().shown.unwrap().1;
    match card.tool {
        Some(Tool::TaskToolCall(card)) => card,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_exec_names_the_kind_the_model_and_both_conversations() {
    let mut tools = task_runtime();
    let (_, args) = asked(&mut tools, "a", r#","subagent_type":"generalPurpose""#);
    let plain = pb::SubagentArgs {
        tool_call_id: "a".into(),
        subagent_type: "generalPurpose".into(),
        model_id: "main".into(),
        prompt: "find it".into(),
        run_in_background: Some(false),
        parent_conversation_id: Some("conversation".into()),
        root_parent_conversation_id: Some("root".into()),
        ..Default::default()
    };
    assert_eq!(args, plain);
    let rest = r#","subagent_type":"explore","model":"small","readonly":true,"run_in_background":true,"resume":"child-1","environment":"local""#;
    let (_, args) = asked(&mut tools, "b", rest);
    assert_eq!(
        args,
        pb::SubagentArgs {
            tool_call_id: "b".into(),
            subagent_type: "explore".into(),
            model_id: "small".into(),
            readonly: true,
            run_in_background: Some(true),
            resume_agent_id: Some("child-1".into()),
            environment: pb::SubagentExecutionEnvironment::Local.into(),
            ..plain
        }
    );
}

/// A run that goes on with its own conversation, or with the one above it, would be stopped by what it started.
#[test]
fn a_subagent_cannot_be_the_conversation_that_asks() {
    for own in ["conversation", "root"] {
        let mut tools = task_runtime();
        let arguments = format!(
            r#"{{"description":"d","prompt":"p","subagent_type":"generalPurpose","resume":"{own}"}}"#
        );
        let effects = tools.execute(&call("a", "Task", &arguments), 0).unwrap();
        assert_eq!(execs(&effects), []);
        let refused = result(&effects);
        assert!(refused.is_error);
        let words = format!("The subagent was not started: {own} is this conversation or the one above it");
        assert!(
            refused.content.text().starts_with(&words),
            "{}",
            refused.content.text()
        );
    }
}

/// Its words, its model and its limits are those of its kind: under another one it could write where it may not.
#[test]
fn a_subagent_goes_on_as_the_kind_that_it_is() {
    assert_eq!(
        refusal(
            subagents(),
            r#","subagent_type":"generalPurpose","resume":"child-1""#
        ),
        "The subagent was not started: child-1 is of the kind explore and stays so. Name that kind to go on with it."
    );
}

/// The client starts a new subagent under whatever id it is given, and that one remembers nothing.
#[test]
fn a_subagent_that_nobody_knows_cannot_go_on() {
    let rest = r#","subagent_type":"generalPurpose","resume":"child-7""#;
    let refused = |known: &str| {
        format!(
            "The subagent was not started: this conversation has no subagent child-7 that could go on. {known} To start \
             a new one, leave resume out and put all that it has to know into the prompt."
        )
    };
    let children = |children: Vec<String>| SubagentScope {
        children: children
            .into_iter()
            .map(|child| (child, SubagentKind::new("generalPurpose")))
            .collect(),
        ..subagents()
    };
    assert_eq!(refusal(children(Vec::new()), rest), refused("It has none yet."));
    let many = (10..25).map(|n| format!("child-{n}")).collect();
    let latest =
        "child-24, child-23, child-22, child-21, child-20, child-19, child-18, child-17, child-16, child-15";
    assert_eq!(
        refusal(children(many), rest),
        refused(&format!("The latest are: {latest}."))
    );
    // One that this run itself has started is known from its first answer on, whether it failed or not.
    for answer in [
        success(
            1,
            pb::SubagentSuccess {
                agent_id: "child-7".into(),
                ..Default::default()
            },
        ),
        failure(1, Some("child-7"), "down"),
    ] {
        let mut tools = offering(&TOOLS, children(Vec::new()));
        let (exec_id, _) = asked(&mut tools, "a", r#","subagent_type":"generalPurpose""#);
        let answer = pb::ExecClientMessage {
            id: exec_id,
            ..answer
        };
        tools.exec_message(answer, 2_000).unwrap();
        let (_, args) = asked(&mut tools, "b", rest);
        assert_eq!(args.resume_agent_id.as_deref(), Some("child-7"));
    }
}

#[test]
fn a_kind_is_typed_in_the_card_and_a_name_in_the_exec() {
    for (kind, shown) in [
        (
            "generalPurpose",
            Type::Unspecified(pb::SubagentTypeUnspecified {}),
        ),
        ("explore", Type::Explore(pb::SubagentTypeExplore {})),
        ("shell", Type::Shell(pb::SubagentTypeShell {})),
        ("browserUse", Type::BrowserUse(pb::SubagentTypeBrowserUse {})),
        (
            "Reviewer",
            Type::Custom(pb::SubagentTypeCustom {
                name: "Reviewer".into(),
            }),
        ),
    ] {
        let mut tools = task_runtime();
        let (exec_id, args) = asked(&mut tools, "a", &format!(r#","subagent_type":"{kind}""#));
        assert_eq!(args.subagent_type, kind);
        tools
            .exec_message(success(exec_id, pb::SubagentSuccess::default()), 2_000)
            .unwrap();
        let shown_args = card_of(&mut tools).args.unwrap();
        assert_eq!(shown_args.subagent_type.unwrap().r#type, Some(shown), "{kind}");
    }
}

const KINDS: &str = "generalPurpose, explore, shell, bash, debug, browserUse, computerUse, mediaReview, watchVideo, \
                     vmSetupHelper";

#[test]
fn the_model_is_told_of_every_kind_of_the_clients() {
    let prompts = PromptAssets::load().unwrap();
    for variant in ["Task", "Task/subagent"] {
        let tool = prompts.catalog().get(variant).unwrap();
        let schema: serde_json::Value = serde_json::from_str(&tool.parameters).unwrap();
        let told = schema["properties"]["subagent_type"]["description"]
            .as_str()
            .unwrap();
        for kind in KINDS.split(", ") {
            assert!(
                told.contains(&format!("`{kind}`")),
                "{variant} says nothing of {kind}"
            );
        }
    }
}

#[test]
fn a_definition_limits_its_kind_and_says_where_it_works() {
    let started = |rest: &str| {
        let (_, args) = asked(&mut task_runtime(), "a", rest);
        (args.readonly, args.run_in_background)
    };
    assert_eq!(started(r#","subagent_type":"Reviewer""#), (false, Some(false)));
    assert_eq!(started(r#","subagent_type":"tester""#), (true, Some(true)));
    // The person's limit holds; where it works is for the model to say.
    let rest = r#","subagent_type":"tester","readonly":false,"run_in_background":false"#;
    assert_eq!(started(rest), (true, Some(false)));
}

#[test]
fn a_kind_that_nobody_defines_is_refused_with_those_that_there_are() {
    assert_eq!(
        refusal(subagents(), r#","subagent_type":"reviewer""#),
        format!("There is no kind of subagent named reviewer. The kinds are: {KINDS}, Reviewer, tester.")
    );
    let mut scope = subagents();
    scope.models = Arc::new(SubagentModels {
        candidates: Vec::new(),
        overrides: vec![(SubagentKind::new("tester"), SubagentModel::Disabled)],
    });
    assert_eq!(
        refusal(scope.clone(), r#","subagent_type":"x""#),
        format!("There is no kind of subagent named x. The kinds are: {KINDS}, Reviewer.")
    );
    assert_eq!(
        refusal(scope, r#","subagent_type":"tester""#),
        "The subagent was not started: subagents of the kind tester are switched off by the person."
    );
}

#[test]
fn the_model_is_what_the_person_decided_then_what_is_asked_then_what_the_kind_says() {
    let general = SubagentKind::new("generalPurpose");
    let chosen = |models: SubagentModels, rest: &str| {
        let mut tools = offering(
            &TOOLS,
            SubagentScope {
                models: Arc::new(models),
                ..subagents()
            },
        );
        asked(&mut tools, "a", rest).1.model_id
    };
    let candidates = || vec![model("small"), model("other")];
    let with = |decided: Option<SubagentModel>| SubagentModels {
        candidates: candidates(),
        overrides: decided
            .map(|model| (general.clone(), model))
            .into_iter()
            .collect(),
    };
    let plain = r#","subagent_type":"generalPurpose""#;
    let asks = r#","subagent_type":"generalPurpose","model":"small""#;
    assert_eq!(chosen(with(None), plain), "main");
    assert_eq!(chosen(with(None), asks), "small");
    assert_eq!(chosen(with(Some(SubagentModel::Inherit)), asks), "main");
    assert_eq!(
        chosen(with(Some(SubagentModel::Explicit(model("other")))), asks),
        "other"
    );
    assert_eq!(chosen(with(None), r#","subagent_type":"tester""#), "small");
    assert_eq!(
        chosen(with(None), r#","subagent_type":"tester","model":"main""#),
        "main"
    );
    let refused = |models: SubagentModels, rest: &str| {
        refusal(
            SubagentScope {
                models: Arc::new(models),
                ..subagents()
            },
            rest,
        )
    };
    assert_eq!(
        refused(with(None), r#","subagent_type":"generalPurpose","model":"gone""#),
        "The subagent was not started: a subagent cannot run on the model \"gone\"; it can run on main, small, other."
    );
    assert_eq!(
        refused(with(Some(SubagentModel::Unconfigured("far".into()))), plain),
        "The subagent was not started: the model \"far\" that the person chose for subagents of the kind \
         generalPurpose is not configured."
    );
}

#[test]
fn a_cloud_subagent_needs_a_client_that_starts_them() {
    let rest = r#","subagent_type":"generalPurpose","environment":"cloud","cloud_base_branch":"main""#;
    assert_eq!(
        refusal(subagents(), rest),
        "This client starts subagents on the person's own machine only. Leave environment out."
    );
    let mut tools = offering(
        &TOOLS,
        SubagentScope {
            cloud: true,
            ..subagents()
        },
    );
    let (_, args) = asked(&mut tools, "a", rest);
    assert_eq!(args.environment(), pb::SubagentExecutionEnvironment::Cloud);
    assert_eq!(args.cloud_base_branch.as_deref(), Some("main"));
}

#[test]
fn a_finished_subagent_speaks_its_final_message_under_its_id() {
    let mut tools = task_runtime();
    let (exec_id, _) = asked(&mut tools, "a", r#","subagent_type":"Reviewer""#);
    let done = success(
        exec_id,
        pb::SubagentSuccess {
            agent_id: "child-1".into(),
            final_message: Some("It is in a.rs:7.".into()),
            tool_call_count: 3,
            ..Default::default()
        },
    );
    assert_eq!(
        tools.exec_message(done, 4_500).unwrap(),
        [
            delegated(false),
            complete(
                "The Reviewer subagent child-1 has finished and says:\nIt is in a.rs:7.",
                false
            )
        ]
    );
    assert_eq!(tools.exec_control(close(exec_id), 4_501).unwrap(), []);
    let card = card_of(&mut tools);
    assert_eq!(card.args.unwrap().model.as_deref(), Some("main"));
    assert_eq!(
        card.result.unwrap().result,
        Some(task_result::Result::Success(pb::TaskSuccess {
            agent_id: Some("child-1".into()),
            duration_ms: Some(3_500),
            ..Default::default()
        }))
    );
}

#[test]
fn a_background_subagent_is_named_at_once() {
    let mut tools = task_runtime();
    let rest = r#","subagent_type":"generalPurpose","run_in_background":true"#;
    let (exec_id, _) = asked(&mut tools, "a", rest);
    let reason = pb::SubagentBackgroundReason::AgentRequest;
    let started = success(
        exec_id,
        pb::SubagentSuccess {
            agent_id: "child-1".into(),
            background_reason: reason.into(),
            ..Default::default()
        },
    );
    assert_eq!(
        tools.exec_message(started, 1_010).unwrap(),
        [
            delegated(true),
            complete(
                "The generalPurpose subagent child-1 works in the background. What it says at its end comes to you as a \
                 message; do not wait for it and do not do its work yourself.",
                false
            )
        ]
    );
    assert_eq!(
        card_of(&mut tools).result.unwrap().result,
        Some(task_result::Result::Success(pb::TaskSuccess {
            agent_id: Some("child-1".into()),
            is_background: true,
            background_reason: reason.into(),
            ..Default::default()
        }))
    );
}

#[test]
fn a_failed_subagent_is_a_tool_error_that_names_it() {
    for (agent_id, text) in [
        (
            Some("child-1"),
            "The generalPurpose subagent child-1 failed: [unavailable] down",
        ),
        (
            None,
            "The generalPurpose subagent could not be started: [unavailable] down",
        ),
    ] {
        let mut tools = task_runtime();
        let (exec_id, _) = asked(&mut tools, "a", r#","subagent_type":"generalPurpose""#);
        let started = agent_id.map(|_| delegated(false));
        assert_eq!(
            tools
                .exec_message(failure(exec_id, agent_id, "[unavailable] down"), 2_000)
                .unwrap(),
            Vec::from_iter(started.into_iter().chain([complete(text, true)]))
        );
        assert_eq!(
            card_of(&mut tools).result.unwrap().result,
            Some(task_result::Result::Error(pb::TaskError { error: text.into() }))
        );
    }
}

#[test]
fn a_second_end_and_a_foreign_answer_break_the_protocol() {
    let mut tools = task_runtime();
    let (exec_id, _) = asked(&mut tools, "a", r#","subagent_type":"generalPurpose""#);
    assert_eq!(
        tools.exec_message(read_text(exec_id, "x"), 1),
        Err(ToolProtocolError::WrongAnswer {
            exec_id,
            call: id("a"),
            expected: "subagent_result",
            got: "read_result",
        })
    );
    let empty = answer::Message::SubagentResult(pb::SubagentResult { result: None });
    assert_eq!(
        tools.exec_message(client(exec_id, empty), 1),
        Err(ToolProtocolError::EmptyAnswer {
            exec_id,
            call: id("a"),
            expected: "subagent_result",
        })
    );
    let done = || success(exec_id, pb::SubagentSuccess::default());
    tools.exec_message(done(), 2).unwrap();
    assert_eq!(
        tools.exec_message(done(), 3),
        Err(ToolProtocolError::FinishedExec {
            exec_id,
            call: Some(id("a")),
        })
    );
    assert_eq!(
        tools.exec_message(success(exec_id + 1, pb::SubagentSuccess::default()), 4),
        Err(ToolProtocolError::UnknownExec { exec_id: exec_id + 1 })
    );
}

#[test]
fn a_step_is_shown_where_it_stands_in_the_turn() {
    let mut tools = task_runtime();
    let arguments = r#"{"current_step":"reading","final_summary":"read it"}"#;
    let effects = tools
        .execute(&call("a", "UpdateCurrentStep", arguments), 0)
        .unwrap();
    assert_eq!(execs(&effects), []);
    assert_eq!(&*result(&effects).content.text(), "The step is shown. Go on.");
    tools.place(&id("a"), 7);
    let committed = tools.committed(&id("a")).unwrap();
    let shown = committed.shown.unwrap().1.tool.unwrap();
    assert_eq!(
        derived_facts(&shown),
        [DerivedFact::Progress {
            update: ProgressUpdate {
                current_step: "reading".into(),
                final_summary: Some("read it".into()),
                completed_subtitle: None,
            },
            message_index: 7,
        }]
    );
    let Tool::CommunicateUpdateToolCall(card) = shown else {
        panic!("no card")
    };
    assert_eq!(
        card,
        pb::CommunicateUpdateToolCall {
            args: Some(pb::CommunicateUpdateArgs {
                current_step: Some("reading".into()),
                final_summary: Some("read it".into()),
                completed_subtitle: None,
            }),
            result: Some(pb::CommunicateUpdateResult {
                result: Some(communicate_update_result::Result::Success(
                    pb::CommunicateUpdateSuccess {
                        current_step: "reading".into(),
                        message_index: 7,
                    }
                )),
            }),
        }
    );
}
