//! What holds for the conversation and what belongs to a turn, each where it comes up and byte for byte as it was, at each
//! of the three APIs.

use cairn::cursor::proto::agent::agent_client_message::Message as ClientMessage;
use cairn::cursor::proto::agent::invocation_context::ide_state::File;
use cairn::cursor::proto::agent::invocation_context::{Data, IdeState};
use cairn::cursor::proto::agent::{
    AgentMode, AgentSkill, BackgroundTaskCompletion, BackgroundTaskCompletionReason, BackgroundTaskKind,
    BackgroundTaskStatus, CursorRule, ExecClientMessage, ExecServerMessage, GitRepoInfo, InvocationContext,
    RequestContext, RequestContextEnv, RequestContextResult, RequestContextSuccess, SelectedContext,
    SimulatedMsgReason, UserMessage, exec_client_message, exec_server_message, request_context_result,
};
use cairn::cursor::request::compile_request_context;
use cairn::store::PrefixVerdict;

use super::rig::{NOW, Rig, rule, user_texts, verdicts};
use super::support::fake_cursor::ExecAnswer;
use super::support::wire_bench::Database;

/// Sets the clock of the test's servers.
fn at(time: &str) {
    let time: jiff::Timestamp = time.parse().unwrap();
    NOW.set(u64::try_from(time.as_millisecond()).unwrap());
}

fn skill(name: &str) -> AgentSkill {
    AgentSkill {
        full_path: format!("/w/.skills/{name}/SKILL.md"),
        description: format!("What is known of {name}."),
        ..AgentSkill::default()
    }
}

/// What a client in Berlin tells of its conversation: the branch, a rule, the skills.
fn context(branch: &str, rules: &str, skills: &[&str]) -> RequestContext {
    RequestContext {
        env: Some(RequestContextEnv {
            os_version: "linux 6.1".to_owned(),
            time_zone: "Europe/Berlin".to_owned(),
            ..RequestContextEnv::default()
        }),
        git_repos: vec![GitRepoInfo {
            path: "/w".to_owned(),
            branch_name: branch.to_owned(),
            ..GitRepoInfo::default()
        }],
        agent_skills: skills.iter().map(|name| skill(name)).collect(),
        ..rule(rules)
    }
}

/// A message with these files open in the editor.
fn message(text: &str, files: &[&str]) -> UserMessage {
    let file = |path: &&str| File {
        path: format!("/w/{path}"),
        total_lines: 3,
        ..File::default()
    };
    let state = IdeState {
        visible_files: files.iter().map(file).collect(),
        ..IdeState::default()
    };
    UserMessage {
        text: text.to_owned(),
        mode: AgentMode::Agent.into(),
        selected_context: Some(SelectedContext {
            invocation_context: (!files.is_empty()).then(|| InvocationContext {
                data: Some(Data::IdeState(state)),
            }),
            ..SelectedContext::default()
        }),
        ..UserMessage::default()
    }
}

#[tokio::test]
async fn each_turn_says_its_own_time_and_files_and_the_context_only_what_changed() {
    let calm = context("main", "RULE-A", &[]);
    let branched = context("feature", "RULE-A", &[]);
    let ruled = context("feature", "RULE-B", &[]);
    let skilled = context("feature", "RULE-B", &["tides"]);
    let turns = [
        ("2026-03-02T22:59:00Z", &calm, vec![]),
        // Two minutes later it is another day: that is the turn's, and no news for the conversation.
        ("2026-03-02T23:01:59Z", &calm, vec![]),
        ("2026-03-02T23:02:00Z", &branched, vec![]),
        ("2026-03-02T23:02:59Z", &branched, vec!["a.rs", "b.rs"]),
        ("2026-03-02T23:03:00Z", &ruled, vec!["b.rs"]),
        ("2026-03-02T23:04:00Z", &skilled, vec![]),
        // Everything as it was in the beginning.
        ("2026-03-02T23:05:00Z", &calm, vec![]),
    ];
    let compiled = |context: &RequestContext| compile_request_context(context).unwrap();
    let said = |time: &str, editor: &str, query: &str| {
        format!(
            "<turn_info>\nmode: agent\ntime: {time} +01:00 Europe/Berlin\n</turn_info>\n{editor}<user_query>\n{query}\n\
             </user_query>\n"
        )
    };
    let two_files =
        "<editor>\n<visible_files>\n- /w/a.rs, 3 lines\n- /w/b.rs, 3 lines\n</visible_files>\n</editor>\n";
    let one_file = "<editor>\n<visible_files>\n- /w/b.rs, 3 lines\n</visible_files>\n</editor>\n";
    let expected = [
        compiled(&calm),
        said("Monday, 2026-03-02 23:59", "", "Turn 0?"),
        said("Tuesday, 2026-03-03 00:01", "", "Turn 1?"),
        compiled(&branched),
        said("Tuesday, 2026-03-03 00:02", "", "Turn 2?"),
        said("Tuesday, 2026-03-03 00:02", two_files, "Turn 3?"),
        compiled(&ruled),
        said("Tuesday, 2026-03-03 00:03", one_file, "Turn 4?"),
        compiled(&skilled),
        said("Tuesday, 2026-03-03 00:04", "", "Turn 5?"),
        compiled(&calm),
        said("Tuesday, 2026-03-03 00:05", "", "Turn 6?"),
    ];
    // User messages in the request of each turn.
    let lengths = [2, 3, 5, 6, 8, 10, 12];
    for mut rig in Rig::all().await {
        for (turn, (time, context, files)) in turns.iter().enumerate() {
            match turn {
                2 => rig = rig.restart(Database::Kept).await,
                4 => rig = rig.restart(Database::Lost).await,
                _ => {}
            }
            at(time);
            rig.endpoint.reply_text(&format!("Answer {turn}."));
            let message = message(&format!("Turn {turn}?"), files);
            rig.send_message(message, (*context).clone()).await;
        }
        rig.assert_clean();
        let bodies = rig.endpoint.bodies();
        assert_eq!(bodies.len(), lengths.len());
        for (body, length) in bodies.iter().zip(lengths) {
            assert_eq!(user_texts(body), expected[..length]);
        }
    }
}

/// Rules in another order and the status of the working tree are no news.
#[tokio::test]
async fn what_changes_with_every_edit_is_no_news_for_the_conversation() {
    let told = |status: &str, turned: bool| {
        let mut context = context("main", "RULE-A", &["tides", "winds"]);
        context.git_repos[0].status = status.to_owned();
        context.rules.push(CursorRule {
            full_path: "/w/sub/AGENTS.md".to_owned(),
            ..context.rules[0].clone()
        });
        if turned {
            context.rules.reverse();
            context.agent_skills.reverse();
        }
        context
    };
    let expected = compile_request_context(&told("", false)).unwrap();
    for mut rig in Rig::all().await {
        for (turn, context) in [told("", false), told(" M a.txt", true), told(" M b.txt", false)]
            .into_iter()
            .enumerate()
        {
            if turn == 1 {
                rig = rig.restart(Database::Kept).await;
            }
            rig.turn(&format!("turn {turn}"), AgentMode::Agent, context).await;
        }
        rig.assert_clean();
        let texts = user_texts(rig.endpoint.bodies().last().unwrap());
        let contexts: Vec<usize> = (0..texts.len()).filter(|at| texts[*at] == expected).collect();
        assert_eq!((contexts, texts.len()), (vec![0], 4));
        assert!(texts.iter().all(|text| !text.contains(" M ")));
        assert_eq!(verdicts(&rig).await, [PrefixVerdict::Extends; 6]);
    }
}

/// The client's answer to the question for its context.
fn answer(exec: &ExecServerMessage, context: &RequestContext) -> ExecAnswer {
    match &exec.message {
        Some(exec_server_message::Message::RequestContextArgs(_)) => {
            let success = RequestContextSuccess {
                request_context: Some(context.clone()),
                ..RequestContextSuccess::default()
            };
            let result = RequestContextResult {
                result: Some(request_context_result::Result::Success(success)),
            };
            ExecAnswer::Reply(vec![ClientMessage::ExecClientMessage(ExecClientMessage {
                id: exec.id,
                message: Some(exec_client_message::Message::RequestContextResult(result)),
                ..ExecClientMessage::default()
            })])
        }
        _ => ExecAnswer::Run,
    }
}

#[tokio::test]
async fn work_that_ends_in_the_background_brings_no_context_but_the_next_words_do() {
    let completion = BackgroundTaskCompletion {
        task_id: "task-1".to_owned(),
        kind: BackgroundTaskKind::Subagent.into(),
        status: BackgroundTaskStatus::Success.into(),
        title: "look".to_owned(),
        detail: Some("It is in a.rs.".to_owned()),
        reason: BackgroundTaskCompletionReason::TaskFinished.into(),
        subagent_id: Some("child-1".to_owned()),
        tool_call_id: Some("call-1".to_owned()),
        ..BackgroundTaskCompletion::default()
    };
    let told = "<background_task kind=\"subagent\" id=\"child-1\" status=\"success\">\nlook\nIt is in a.rs.\n\
                </background_task>";
    let (before, after) = (context("main", "RULE-A", &[]), context("main", "RULE-B", &[]));
    let compiled = |context: &RequestContext| compile_request_context(context).unwrap();
    for mut rig in Rig::all().await {
        rig.endpoint.reply_text("It works.");
        rig.send("Look for it.", AgentMode::Agent, before.clone()).await;
        // The rules are others by now, and the client says so when it is asked.
        let context = after.clone();
        rig.cursor.hooks.request = Box::new(|_| {});
        rig.cursor.hooks.exec = Box::new(move |exec| answer(exec, &context));
        rig.endpoint.reply_text("Found.");
        let message = UserMessage {
            text: told.to_owned(),
            mode: AgentMode::Agent.into(),
            is_simulated_msg: Some(true),
            simulated_msg_reason: Some(SimulatedMsgReason::BackgroundTaskCompletion.into()),
            ..UserMessage::default()
        };
        let turn = rig
            .cursor
            .start_wake(vec![completion.clone()], Some(message))
            .await;
        turn.finish().await.success();
        let woken = user_texts(rig.endpoint.bodies().last().unwrap());
        assert_eq!(woken.len(), 3);
        assert_eq!(
            (woken[0].as_str(), woken[2].as_str()),
            (compiled(&before).as_str(), told)
        );

        rig.endpoint.reply_text("Thanks.");
        rig.send("Thank you.", AgentMode::Agent, after.clone()).await;
        let texts = user_texts(rig.endpoint.bodies().last().unwrap());
        assert_eq!(texts[..3], woken);
        assert_eq!(texts.len(), 5);
        assert_eq!(texts[3], compiled(&after));
        rig.assert_clean();
        assert_eq!(verdicts(&rig).await, [PrefixVerdict::Extends; 3]);
    }
}

#[tokio::test]
async fn a_retry_of_the_same_event_sends_the_same_bytes_whatever_has_changed_since() {
    for database in [Database::Kept, Database::Lost] {
        for mut rig in Rig::all().await {
            at("2026-03-02T22:59:00Z");
            rig.endpoint.reply_text("Yes.");
            rig.send("Are you there?", AgentMode::Agent, context("main", "RULE-A", &[]))
                .await;
            let message = UserMessage {
                message_id: "event-2".to_owned(),
                ..message("And now?", &[])
            };
            rig.endpoint.refuse();
            let refused = rig
                .try_message(message.clone(), context("main", "RULE-B", &[]))
                .await;
            assert_eq!(refused.error().0, "unavailable");
            rig = rig.restart(database).await;
            // Later, on another branch, under another rule.
            at("2026-03-02T23:01:00Z");
            rig.endpoint.reply_text("Now, too.");
            rig.send_message(message, context("feature", "RULE-C", &[])).await;
            rig.assert_clean();
            let requests = rig.endpoint.requests();
            assert_eq!(requests.len(), 3);
            assert_eq!(requests[2].body, requests[1].body, "{database:?}");
        }
    }
}
