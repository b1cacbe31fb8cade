//! What the person or the client refuses: nothing happens, the card says refused, the model reads who refused and why.

use super::*;
use cairn::cursor::proto::agent::{
    ask_question_result, create_plan_result, delete_result, edit_result, generate_image_request_response,
    generate_image_result, interaction_response::Result as Response, read_result, shell_result, shell_stream,
    switch_mode_request_response, switch_mode_result, web_fetch_request_response, web_fetch_result,
    web_search_request_response, web_search_result, write_result,
};

const REASON: &str = "not today";

/// A client whose person answers so.
async fn person(response: Response) -> Bench {
    let mut bench = Bench::new().await;
    bench.cursor.hooks.query = Box::new(move |query| {
        Some(pb::InteractionResponse {
            id: query.id,
            result: Some(response.clone()),
        })
    });
    bench
}

#[tokio::test]
async fn web_fetch() {
    let response = Response::WebFetchRequestResponse(pb::WebFetchRequestResponse {
        result: Some(web_fetch_request_response::Result::Rejected(
            web_fetch_request_response::Rejected {
                reason: REASON.to_owned(),
            },
        )),
    });
    let mut bench = person(response).await;
    let (report, text) = round(&mut bench, "WebFetch", json!({"url": "http://h/p"})).await;
    assert_eq!(text, "The person refused to have http://h/p fetched: not today");
    assert_eq!(execs(&report), []);
    let Tool::WebFetchToolCall(card) = card(&report) else {
        panic!()
    };
    assert_eq!(
        card.result.unwrap().result,
        Some(web_fetch_result::Result::Rejected(pb::WebFetchRejected {
            reason: REASON.to_owned()
        }))
    );
}

#[tokio::test]
async fn web_search() {
    let response = Response::WebSearchRequestResponse(pb::WebSearchRequestResponse {
        result: Some(web_search_request_response::Result::Rejected(
            web_search_request_response::Rejected {
                reason: REASON.to_owned(),
            },
        )),
    });
    let mut bench = person(response).await;
    let (report, text) = round(&mut bench, "WebSearch", json!({"search_term": "x"})).await;
    assert_eq!(text, "The person refused the search: not today");
    let Tool::WebSearchToolCall(card) = card(&report) else {
        panic!()
    };
    assert_eq!(
        card.result.unwrap().result,
        Some(web_search_result::Result::Rejected(pb::WebSearchRejected {
            reason: REASON.to_owned()
        }))
    );
}

#[tokio::test]
async fn generate_image() {
    let response = Response::GenerateImageRequestResponse(pb::GenerateImageRequestResponse {
        result: Some(generate_image_request_response::Result::Rejected(
            generate_image_request_response::Rejected {
                reason: REASON.to_owned(),
            },
        )),
    });
    let mut bench = person(response).await;
    let arguments =
        json!({"description": "a pile", "file_path": "/w/p.png", "reference_image_paths": ["/w/a.png"]});
    let (report, text) = round(&mut bench, "GenerateImage", arguments).await;
    assert_eq!(text, "The person refused the picture: not today");
    assert_eq!(execs(&report), [], "nothing is read or written for it");
    let Tool::GenerateImageToolCall(card) = card(&report) else {
        panic!()
    };
    assert_eq!(
        card.result.unwrap().result,
        Some(generate_image_result::Result::Error(pb::GenerateImageError {
            error: text
        }))
    );
}

/// A plan has no refusal on the wire: the client shows it or says why not.
#[tokio::test]
async fn create_plan() {
    let failed = pb::CreatePlanResult {
        result: Some(create_plan_result::Result::Error(pb::CreatePlanError {
            error: REASON.to_owned(),
        })),
        ..Default::default()
    };
    let response = Response::CreatePlanRequestResponse(pb::CreatePlanRequestResponse {
        result: Some(failed.clone()),
    });
    let mut bench = person(response).await;
    let arguments = json!({"name": "N", "overview": "O", "plan": "# Steps", "todos": []});
    let (report, text) = round_in(&mut bench, pb::AgentMode::Plan, "CreatePlan", arguments).await;
    assert_eq!(text, "The plan could not be shown: not today");
    let Tool::CreatePlanToolCall(card) = card(&report) else {
        panic!()
    };
    assert_eq!(card.result, Some(failed));
    assert_eq!(bench.cursor.state().plan, None);
}

#[tokio::test]
async fn switch_mode() {
    let response = Response::SwitchModeRequestResponse(pb::SwitchModeRequestResponse {
        result: Some(switch_mode_request_response::Result::Rejected(
            switch_mode_request_response::Rejected {
                reason: REASON.to_owned(),
            },
        )),
    });
    let mut bench = person(response).await;
    let arguments = json!({"target_mode_id": "plan"});
    let (report, text) = round(&mut bench, "SwitchMode", arguments).await;
    assert_eq!(text, "The person does not want plan mode: not today");
    let Tool::SwitchModeToolCall(card) = card(&report) else {
        panic!()
    };
    assert_eq!(
        card.result.unwrap().result,
        Some(switch_mode_result::Result::Rejected(pb::SwitchModeRejected {
            reason: REASON.to_owned()
        }))
    );
}

#[tokio::test]
async fn ask_question() {
    let mut bench = Bench::new().await;
    let options = json!([{"id": "a", "label": "Red"}, {"id": "b", "label": "Blue"}]);
    let arguments = json!({"questions": [{"id": "q", "prompt": "Which?", "options": options}]});
    let (report, text) = round(&mut bench, "AskQuestion", arguments).await;
    assert_eq!(
        text,
        "The person was not asked or did not answer: Interactive questions are not supported in local SDK runs. Go on \
         with your best judgement and say what you assumed."
    );
    let Tool::AskQuestionToolCall(card) = card(&report) else {
        panic!()
    };
    assert!(matches!(
        card.result.unwrap().result,
        Some(ask_question_result::Result::Rejected(_))
    ));
}

/// A client that answers every exec but the request context so.
async fn client(given: Answer) -> Bench {
    let mut bench = Bench::new().await;
    bench.cursor.hooks.exec = Box::new(move |exec| match &exec.message {
        Some(Exec::RequestContextArgs(_)) => ExecAnswer::Run,
        _ => answer(exec.id, given.clone()),
    });
    bench
}

/// What the model reads of a command that the client ends so, and its card.
async fn shell(event: shell_stream::Event) -> (String, shell_result::Result) {
    let mut bench = client(Answer::ShellStream(pb::ShellStream { event: Some(event) })).await;
    let (report, text) = round(&mut bench, "Shell", json!({"command": "rm -r /w"})).await;
    assert!(matches!(execs(&report)[..], [Exec::ShellStreamArgs(_)]));
    let Tool::ShellToolCall(card) = card(&report) else {
        panic!()
    };
    (text, card.result.unwrap().result.unwrap())
}

#[tokio::test]
async fn shell_rejected() {
    let rejected = pb::ShellRejected {
        command: "rm -r /w".to_owned(),
        reason: REASON.to_owned(),
        ..Default::default()
    };
    let (text, card) = shell(shell_stream::Event::Rejected(rejected.clone())).await;
    assert_eq!(text, "The command was refused and not run: not today.");
    assert_eq!(card, shell_result::Result::Rejected(rejected));
}

#[tokio::test]
async fn shell_denied() {
    let denied = pb::ShellPermissionDenied {
        command: "rm -r /w".to_owned(),
        error: REASON.to_owned(),
        is_readonly: true,
        ..Default::default()
    };
    let (text, card) = shell(shell_stream::Event::PermissionDenied(denied.clone())).await;
    assert_eq!(text, "The command was not run, permission was denied: not today.");
    assert_eq!(card, shell_result::Result::PermissionDenied(denied));
}

#[tokio::test]
async fn read() {
    let rejected = pb::ReadRejected {
        path: "a.txt".to_owned(),
        reason: REASON.to_owned(),
    };
    let result = Some(read_result::Result::Rejected(rejected));
    let mut bench = client(Answer::ReadResult(pb::ReadResult { result })).await;
    let (report, text) = round(&mut bench, "Read", json!({"path": "a.txt"})).await;
    assert_eq!(text, "Reading a.txt was refused: not today");
    let Tool::ReadToolCall(card) = card(&report) else {
        panic!()
    };
    assert_eq!(
        card.result.unwrap().result,
        Some(pb::read_tool_result::Result::Error(pb::ReadToolError {
            error_message: text
        }))
    );
    assert!(bench.cursor.state().read_paths.is_empty());
}

#[tokio::test]
async fn delete() {
    let rejected = delete_result::Result::Rejected(pb::DeleteRejected {
        path: "a.txt".to_owned(),
        reason: REASON.to_owned(),
    });
    let result = Some(rejected.clone());
    let mut bench = client(Answer::DeleteResult(pb::DeleteResult { result })).await;
    let (report, text) = round(&mut bench, "Delete", json!({"path": "a.txt"})).await;
    assert_eq!(text, "Deleting a.txt was refused: not today");
    let Tool::DeleteToolCall(card) = card(&report) else {
        panic!()
    };
    assert_eq!(card.result.unwrap().result, Some(rejected));
}

#[tokio::test]
async fn an_edit() {
    let mut bench = Bench::new().await;
    bench.file("a.txt", "one\n");
    bench.cursor.hooks.exec = Box::new(|exec| match &exec.message {
        Some(Exec::WriteArgs(args)) => {
            let rejected = pb::WriteRejected {
                path: args.path.clone(),
                reason: REASON.to_owned(),
            };
            let result = Some(write_result::Result::Rejected(rejected));
            answer(exec.id, Answer::WriteResult(pb::WriteResult { result }))
        }
        _ => ExecAnswer::Run,
    });
    let arguments = json!({"path": "a.txt", "old_string": "one", "new_string": "two"});
    let (report, text) = round(&mut bench, "StrReplace", arguments).await;
    assert_eq!(text, "The edit of a.txt was refused: not today");
    assert_eq!(bench.read("a.txt"), "one\n");
    assert_eq!(
        edited(&report),
        edit_result::Result::Rejected(pb::EditRejected {
            path: "a.txt".to_owned(),
            reason: REASON.to_owned(),
        })
    );
}
