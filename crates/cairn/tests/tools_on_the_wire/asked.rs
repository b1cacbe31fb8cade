//! The tools that ask the person first, where the person agrees.

use super::*;
use cairn::cursor::proto::agent::{
    ask_question_result, create_plan_result, fetch_result, generate_image_result, interaction_query::Query,
    interaction_response::Result as Response, switch_mode_result, web_fetch_result, web_search_result,
};

/// What the person was asked.
fn queries(report: &TurnReport) -> Vec<Query> {
    let asked = report.frames.iter().filter_map(|frame| match frame {
        RunFrame::Message(message) => match &message.message {
            Some(ServerMessage::InteractionQuery(query)) => query.query.clone(),
            _ => None,
        },
        RunFrame::End(_) => None,
    });
    asked.collect()
}

#[tokio::test]
async fn ask_question() {
    let mut bench = Bench::new().await;
    let answers = pb::AskQuestionResult {
        result: Some(ask_question_result::Result::Success(pb::AskQuestionSuccess {
            answers: vec![pb::ask_question_success::Answer {
                question_id: "q".to_owned(),
                selected_option_ids: vec!["b".to_owned()],
                ..Default::default()
            }],
        })),
    };
    let given = answers.clone();
    bench.cursor.hooks.query = Box::new(move |query| {
        Some(pb::InteractionResponse {
            id: query.id,
            result: Some(Response::AskQuestionInteractionResponse(
                pb::AskQuestionInteractionResponse {
                    result: Some(given.clone()),
                },
            )),
        })
    });
    let options = json!([{"id": "a", "label": "Red"}, {"id": "b", "label": "Blue"}]);
    let arguments = json!({"questions": [{"id": "q", "prompt": "Which?", "options": options}]});
    let (report, text) = round(&mut bench, "AskQuestion", arguments).await;
    assert_eq!(text, "The person answered:\n\nWhich?\n- Blue");
    assert!(matches!(
        queries(&report)[..],
        [Query::AskQuestionInteractionQuery(_)]
    ));
    let Tool::AskQuestionToolCall(card) = card(&report) else {
        panic!()
    };
    assert_eq!(card.result, Some(answers));
}

#[tokio::test]
async fn switch_mode() {
    let mut bench = Bench::new().await;
    let arguments = json!({"target_mode_id": "plan"});
    let (report, text) = round(&mut bench, "SwitchMode", arguments).await;
    assert_eq!(
        text,
        "The person agreed to plan mode. It holds from their next message on; until then your instructions and tools \
         stay as they are."
    );
    let Tool::SwitchModeToolCall(card) = card(&report) else {
        panic!()
    };
    assert_eq!(
        card.result.unwrap().result,
        Some(switch_mode_result::Result::Success(pb::SwitchModeSuccess {
            from_mode_id: "agent".to_owned(),
            to_mode_id: "plan".to_owned(),
        }))
    );
}

#[tokio::test]
async fn create_plan() {
    let mut bench = Bench::new().await;
    let arguments =
        json!({"name": "N", "overview": "O", "plan": "# Steps", "todos": [{"id": "1", "content": "Look"}]});
    let (report, text) = round_in(&mut bench, pb::AgentMode::Plan, "CreatePlan", arguments).await;
    assert_eq!(
        text,
        "The plan is in front of the person. Do not begin the work: it is theirs to change or start."
    );
    let [Query::CreatePlanRequestQuery(asked)] = &queries(&report)[..] else {
        panic!("{report:?}")
    };
    assert_eq!(asked.tool_call_id, "call_1");
    let Tool::CreatePlanToolCall(card) = card(&report) else {
        panic!()
    };
    assert_eq!(card.args, asked.args);
    assert_eq!(
        card.result.unwrap().result,
        Some(create_plan_result::Result::Success(pb::CreatePlanSuccess {}))
    );
    assert!(bench.cursor.state().plan.is_some());
}

/// What comes of a fetch that the client answers so.
async fn fetch(result: fetch_result::Result) -> (TurnReport, String, web_fetch_result::Result) {
    let mut bench = Bench::new().await;
    bench.cursor.hooks.exec = Box::new(move |exec| match &exec.message {
        Some(Exec::FetchArgs(_)) => {
            let result = Some(result.clone());
            answer(exec.id, Answer::FetchResult(pb::FetchResult { result }))
        }
        _ => ExecAnswer::Run,
    });
    let (report, text) = round(&mut bench, "WebFetch", json!({"url": "http://h/p"})).await;
    assert!(matches!(queries(&report)[..], [Query::WebFetchRequestQuery(_)]));
    let Tool::WebFetchToolCall(card) = card(&report) else {
        panic!()
    };
    (report, text, card.result.unwrap().result.unwrap())
}

#[tokio::test]
async fn web_fetch() {
    let page = fetch_result::Result::Success(pb::FetchSuccess {
        url: "http://h/p".to_owned(),
        content: "<h1>Title</h1>".to_owned(),
        status_code: 200,
        content_type: "text/html".to_owned(),
    });
    let (report, text, card) = fetch(page).await;
    assert_eq!(text, "http://h/p\n\n# Title");
    assert_eq!(
        execs(&report),
        [Exec::FetchArgs(pb::FetchArgs {
            url: "http://h/p".to_owned(),
            tool_call_id: "call_1".to_owned(),
        })]
    );
    assert_eq!(
        card,
        web_fetch_result::Result::Success(pb::WebFetchSuccess {
            url: "http://h/p".to_owned(),
            markdown: "# Title".to_owned(),
        })
    );
}

#[tokio::test]
async fn web_search_and_generate_image_without_a_service_are_honest_errors() {
    let mut bench = Bench::new().await;
    let (report, text) = round(&mut bench, "WebSearch", json!({"search_term": "cairns"})).await;
    assert_eq!(
        text,
        "The web could not be searched: this server has no such service: its configuration has no [web_search] table."
    );
    assert!(matches!(queries(&report)[..], [Query::WebSearchRequestQuery(_)]));
    assert_eq!(execs(&report), []);
    let Tool::WebSearchToolCall(search) = card(&report) else {
        panic!()
    };
    assert_eq!(
        search.result.unwrap().result,
        Some(web_search_result::Result::Error(pb::WebSearchError {
            error: text
        }))
    );

    let mut bench = Bench::new().await;
    let arguments = json!({"description": "a pile", "file_path": "/w/p.png"});
    let (report, text) = round(&mut bench, "GenerateImage", arguments).await;
    let why = "this server has no such service: its configuration has no [image_generation] table";
    assert_eq!(text, format!("No picture was made: {why}"));
    assert!(matches!(
        queries(&report)[..],
        [Query::GenerateImageRequestQuery(_)]
    ));
    assert_eq!(execs(&report), []);
    let Tool::GenerateImageToolCall(image) = card(&report) else {
        panic!()
    };
    assert_eq!(
        image.result.unwrap().result,
        Some(generate_image_result::Result::Error(pb::GenerateImageError {
            error: why.to_owned()
        }))
    );
}
