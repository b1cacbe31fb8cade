//! A subagent that says where it stands: shown and kept, and executed by nobody.

use super::*;
use cairn::cursor::proto::agent::communicate_update_result;

/// A client whose runs are those of a subagent.
async fn subagent() -> Bench {
    let mut bench = Bench::new().await;
    bench.cursor.hooks.request = Box::new(|request| {
        let model = request.requested_model.take().unwrap();
        request.model_details = Some(pb::ModelDetails {
            model_id: model.model_id,
            ..Default::default()
        });
        request.subagent_type_name = Some("generalPurpose".to_owned());
        request.conversation_group_id = Some("agent-0".to_owned());
    });
    bench
}

fn progress_card(report: &TurnReport) -> (pb::CommunicateUpdateArgs, communicate_update_result::Result) {
    match card(report) {
        Tool::CommunicateUpdateToolCall(card) => (card.args.unwrap(), card.result.unwrap().result.unwrap()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn update_current_step() {
    let mut bench = subagent().await;
    let arguments =
        json!({"current_step": "reading", "final_summary": "read it", "completed_subtitle": "one line"});
    let (report, text) = round(&mut bench, "UpdateCurrentStep", arguments).await;
    assert_eq!(text, "The step is shown. Go on.");
    assert_eq!(execs(&report), []);
    let (args, result) = progress_card(&report);
    assert_eq!(
        args,
        pb::CommunicateUpdateArgs {
            current_step: Some("reading".to_owned()),
            final_summary: Some("read it".to_owned()),
            completed_subtitle: Some("one line".to_owned()),
        }
    );
    assert_eq!(
        result,
        communicate_update_result::Result::Success(pb::CommunicateUpdateSuccess {
            current_step: "reading".to_owned(),
            message_index: 1,
        })
    );
    let state = bench.cursor.state();
    assert_eq!(
        state.communicate_update_history,
        [pb::CommunicateUpdateHistoryEntry {
            step: "reading".to_owned(),
            message_index: 1,
        }]
    );
}

#[tokio::test]
async fn update_current_step_without_a_step_is_an_error_and_moves_nothing() {
    let mut bench = subagent().await;
    let (report, text) = round(&mut bench, "UpdateCurrentStep", json!({"step": "reading"})).await;
    assert_eq!(
        text,
        "UpdateCurrentStep was not executed, its arguments do not fit: `current_step` is missing (a string); `step` is \
         unknown. The arguments are: current_step, final_summary, completed_subtitle."
    );
    let (_, result) = progress_card(&report);
    assert_eq!(
        result,
        communicate_update_result::Result::Error(pb::CommunicateUpdateError { error: text })
    );
    assert_eq!(bench.cursor.state().communicate_update_history, []);
}

#[tokio::test]
async fn update_current_step_is_no_tool_of_an_agent() {
    let mut bench = Bench::new().await;
    let arguments = r#"{"current_step":"reading"}"#;
    bench
        .endpoint
        .reply_calls([("call_1", "UpdateCurrentStep", arguments)]);
    bench.endpoint.reply_text("Done.");
    let report = bench.cursor.send("Go.").await.success();
    let added = bench.added();
    let text = added[1]["content"].as_str().unwrap();
    assert!(
        text.starts_with("There is no tool named UpdateCurrentStep here. The tools are: "),
        "{text}"
    );
    assert_eq!(report.calls, []);
    bench.assert_clean();
}
