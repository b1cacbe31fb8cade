//! Tools that ask the person first: queries, answers, and what follows from consent.

use std::collections::BTreeMap;

use cairn::cursor::proto::agent::{
    self as pb, agent_server_message::Message, exec_client_message as answer, exec_server_message as exec,
    fetch_result, interaction_query as query, interaction_response as response, read_result, read_success,
    tool_call::Tool, write_result,
};
use cairn::cursor::request::Mode;
use cairn::cursor::tools::{
    DerivedFact, Effect, ServiceAnswer, ServiceRequest, ToolProtocolError, ToolRuntime, ToolRuntimeConfig,
    derived_facts, read_page,
};
use cairn::model::{CallId, ToolCall, ToolResult};
use cairn::web::{Found, ImageRequest, ImageSize, WebServiceError};

const TOOLS: [&str; 6] = [
    "AskQuestion",
    "SwitchMode",
    "CreatePlan",
    "WebSearch",
    "WebFetch",
    "GenerateImage",
];

fn runtime() -> ToolRuntime {
    ToolRuntime::new(ToolRuntimeConfig {
        conversation_id: "conversation".into(),
        offered: TOOLS.iter().map(|name| (*name).into()).collect(),
        mcp: BTreeMap::new(),
        todos: Vec::new(),
        mode: Mode::Agent,
        result_limit: 100_000,
        working_directory: None,
        terminals_folder: None,
        subagents: crate::tool_calls::subagents(),
    })
}

fn begin(tools: &mut ToolRuntime, name: &str, arguments: &str) -> Vec<Effect> {
    let call = ToolCall {
        id: CallId::new("c"),
        name: name.into(),
        arguments: arguments.into(),
    };
    tools.execute(&call, 1_000).unwrap()
}

/// The one query among the effects.
fn asked(effects: &[Effect]) -> (u32, query::Query) {
    let queries: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send(Message::InteractionQuery(query)) => Some((query.id, query.query.clone().unwrap())),
            _ => None,
        })
        .collect();
    assert_eq!(queries.len(), 1, "{effects:?}");
    queries[0].clone()
}

fn respond(
    tools: &mut ToolRuntime,
    id: u32,
    result: response::Result,
) -> Result<Vec<Effect>, ToolProtocolError> {
    let response = pb::InteractionResponse {
        id,
        result: Some(result),
    };
    tools.responded(response, 2_000)
}

fn result(effects: &[Effect]) -> ToolResult {
    match effects {
        [Effect::Complete(result)] => result.clone(),
        other => panic!("no single result: {other:?}"),
    }
}

fn finished(text: &str, is_error: bool) -> ToolResult {
    ToolResult {
        call: CallId::new("c"),
        content: text.into(),
        is_error,
    }
}

/// The card with its result, and the fact, once the result is stored.
fn committed(tools: &mut ToolRuntime) -> (Tool, Option<DerivedFact>) {
    let committed = tools.committed(&CallId::new("c")).unwrap();
    let card = committed.shown.unwrap().1.tool.unwrap();
    let fact = derived_facts(&card).pop();
    (card, fact)
}

fn one_exec(effects: &[Effect]) -> (u32, exec::Message) {
    match effects {
        [Effect::Send(Message::ExecServerMessage(message))] => (message.id, message.message.clone().unwrap()),
        other => panic!("no single exec: {other:?}"),
    }
}

fn served(effects: &[Effect]) -> ServiceRequest {
    match effects {
        [Effect::Serve { call, request }] => {
            assert_eq!(call, &CallId::new("c"));
            request.clone()
        }
        other => panic!("no service is asked: {other:?}"),
    }
}

fn exec_answer(id: u32, message: answer::Message) -> pb::ExecClientMessage {
    pb::ExecClientMessage {
        id,
        message: Some(message),
        ..Default::default()
    }
}

const QUESTION: &str = r#"{"title":"Choice","questions":[
    {"id":"q1","prompt":"Which one?","options":[{"id":"a","label":"The first"},{"id":"b","label":"The second"}]},
    {"id":"q2","prompt":"Anything else?","options":[{"id":"y","label":"Yes"},{"id":"n","label":"No"}],"allow_multiple":true}]}"#;

#[test]
fn the_persons_answers_are_the_result_of_a_question() {
    let mut tools = runtime();
    let (id, asked) = asked(&begin(&mut tools, "AskQuestion", QUESTION));
    let query::Query::AskQuestionInteractionQuery(asked) = asked else {
        panic!("{asked:?}");
    };
    assert_eq!((id, asked.tool_call_id.as_str()), (1, "c"));
    let args = asked.args.unwrap();
    assert_eq!(args.questions.len(), 2);
    assert_eq!(args.questions[0].options[1].label, "The second");
    assert!(args.questions[1].allow_multiple);

    let answers = pb::AskQuestionResult {
        result: Some(pb::ask_question_result::Result::Success(pb::AskQuestionSuccess {
            answers: vec![
                pb::ask_question_success::Answer {
                    question_id: "q1".into(),
                    selected_option_ids: vec!["b".into()],
                    ..Default::default()
                },
                pb::ask_question_success::Answer {
                    question_id: "q2".into(),
                    freeform_text: "Mind the tests.".into(),
                    ..Default::default()
                },
            ],
        })),
    };
    let effects = respond(
        &mut tools,
        1,
        response::Result::AskQuestionInteractionResponse(pb::AskQuestionInteractionResponse {
            result: Some(answers.clone()),
        }),
    )
    .unwrap();
    let text = "The person answered:\n\nWhich one?\n- The second\n\nAnything else?\n- in their own words: Mind the tests.";
    assert_eq!(result(&effects), finished(text, false));
    let card = Tool::AskQuestionToolCall(pb::AskQuestionToolCall {
        args: Some(args),
        result: Some(answers),
    });
    assert_eq!(committed(&mut tools), (card, None));
}

#[test]
fn a_question_that_nobody_answers_is_an_error_that_says_how_to_go_on() {
    let mut tools = runtime();
    begin(&mut tools, "AskQuestion", QUESTION);
    let rejected = pb::ask_question_result::Result::Rejected(pb::AskQuestionRejected {
        reason: "not supported here".into(),
    });
    let effects = respond(
        &mut tools,
        1,
        response::Result::AskQuestionInteractionResponse(pb::AskQuestionInteractionResponse {
            result: Some(pb::AskQuestionResult {
                result: Some(rejected),
            }),
        }),
    )
    .unwrap();
    let text = "The person was not asked or did not answer: not supported here. Go on with your best judgement and say \
                what you assumed.";
    assert_eq!(result(&effects), finished(text, true));
}

fn switch_response(result: pb::switch_mode_request_response::Result) -> response::Result {
    response::Result::SwitchModeRequestResponse(pb::SwitchModeRequestResponse { result: Some(result) })
}

#[test]
fn a_mode_is_switched_with_consent_only() {
    use pb::switch_mode_request_response::{Approved, Rejected, Result};
    let arguments = r#"{"target_mode_id":"plan","explanation":"It is large."}"#;
    let mut tools = runtime();
    let (id, asked) = asked(&begin(&mut tools, "SwitchMode", arguments));
    let args = pb::SwitchModeArgs {
        target_mode_id: "plan".into(),
        explanation: Some("It is large.".into()),
        tool_call_id: "c".into(),
    };
    let expected = query::Query::SwitchModeRequestQuery(pb::SwitchModeRequestQuery {
        args: Some(args.clone()),
    });
    assert_eq!(asked, expected);
    let effects = respond(&mut tools, id, switch_response(Result::Approved(Approved {}))).unwrap();
    let text = "The person agreed to plan mode. It holds from their next message on; until then your instructions and \
                tools stay as they are.";
    assert_eq!(result(&effects), finished(text, false));
    let card = Tool::SwitchModeToolCall(pb::SwitchModeToolCall {
        args: Some(args),
        result: Some(pb::SwitchModeResult {
            result: Some(pb::switch_mode_result::Result::Success(pb::SwitchModeSuccess {
                from_mode_id: "agent".into(),
                to_mode_id: "plan".into(),
            })),
        }),
    });
    assert_eq!(committed(&mut tools), (card, Some(DerivedFact::Mode(Mode::Plan))));

    let mut tools = runtime();
    begin(&mut tools, "SwitchMode", arguments);
    let rejected = Result::Rejected(Rejected {
        reason: "not now".into(),
    });
    let effects = respond(&mut tools, 1, switch_response(rejected)).unwrap();
    assert_eq!(
        result(&effects),
        finished("The person does not want plan mode: not now", true)
    );
    assert_eq!(committed(&mut tools).1, None);
}

#[test]
fn the_mode_that_holds_already_is_not_asked_for() {
    let effects = begin(&mut runtime(), "SwitchMode", r#"{"target_mode_id":"agent"}"#);
    assert_eq!(
        result(&effects[1..]),
        finished("The conversation is in agent mode already.", true)
    );
}

const PLAN: &str = r##"{"name":"N","overview":"O","plan":"# Steps","todos":[{"id":"1","content":"Look"}]}"##;

fn plan_response(result: pb::CreatePlanResult) -> response::Result {
    response::Result::CreatePlanRequestResponse(pb::CreatePlanRequestResponse { result: Some(result) })
}

#[test]
fn a_plan_is_handed_over_and_becomes_the_conversations_plan() {
    let mut tools = runtime();
    let (id, asked) = asked(&begin(&mut tools, "CreatePlan", PLAN));
    let args = pb::CreatePlanArgs {
        plan: "# Steps".into(),
        todos: vec![pb::TodoItem {
            id: "1".into(),
            content: "Look".into(),
            status: pb::TodoStatus::Pending.into(),
            ..Default::default()
        }],
        overview: "O".into(),
        name: "N".into(),
        ..Default::default()
    };
    let expected = query::Query::CreatePlanRequestQuery(pb::CreatePlanRequestQuery {
        args: Some(args.clone()),
        tool_call_id: "c".into(),
    });
    assert_eq!(asked, expected);
    let plan = pb::CreatePlanResult {
        plan_uri: "file:///w/plan.md".into(),
        result: Some(pb::create_plan_result::Result::Success(pb::CreatePlanSuccess {})),
    };
    let effects = respond(&mut tools, id, plan_response(plan.clone())).unwrap();
    let text = "The plan is in front of the person as file:///w/plan.md. Do not begin the work: it is theirs to change \
                or start.";
    assert_eq!(result(&effects), finished(text, false));
    let card = Tool::CreatePlanToolCall(pb::CreatePlanToolCall {
        args: Some(args),
        result: Some(plan),
    });
    assert_eq!(
        committed(&mut tools),
        (card, Some(DerivedFact::Plan("# Steps".into())))
    );

    let mut tools = runtime();
    begin(&mut tools, "CreatePlan", PLAN);
    let failed = pb::CreatePlanResult {
        result: Some(pb::create_plan_result::Result::Error(pb::CreatePlanError {
            error: "disk full".into(),
        })),
        ..Default::default()
    };
    let effects = respond(&mut tools, 1, plan_response(failed)).unwrap();
    assert_eq!(
        result(&effects),
        finished("The plan could not be shown: disk full", true)
    );
    assert_eq!(committed(&mut tools).1, None);
}

fn search_response(result: pb::web_search_request_response::Result) -> response::Result {
    response::Result::WebSearchRequestResponse(pb::WebSearchRequestResponse { result: Some(result) })
}

/// A search that the person allowed.
fn searching() -> ToolRuntime {
    use pb::web_search_request_response::{Approved, Result};
    let mut tools = runtime();
    let (id, asked) = asked(&begin(
        &mut tools,
        "WebSearch",
        r#"{"search_term":"stone piles"}"#,
    ));
    let expected = query::Query::WebSearchRequestQuery(pb::WebSearchRequestQuery {
        args: Some(pb::WebSearchArgs {
            search_term: "stone piles".into(),
            tool_call_id: "c".into(),
        }),
    });
    assert_eq!(asked, expected);
    let effects = respond(&mut tools, id, search_response(Result::Approved(Approved {}))).unwrap();
    assert_eq!(served(&effects), ServiceRequest::Search("stone piles".into()));
    tools
}

#[test]
fn an_allowed_search_gives_what_the_service_found() {
    let mut tools = searching();
    let found = vec![
        Found {
            title: "Cairn".into(),
            url: "https://example.org/cairn".into(),
            passage: "A pile.".into(),
        },
        Found {
            title: "Path".into(),
            url: "https://example.org/path".into(),
            passage: String::new(),
        },
    ];
    let effects = tools
        .served(&CallId::new("c"), ServiceAnswer::Search(Ok(found)), 3_000)
        .unwrap();
    let text = "2 results for \"stone piles\". They are excerpts: fetch a page before you rely on it.\n\n1. Cairn\n\
                https://example.org/cairn\nA pile.\n\n2. Path\nhttps://example.org/path";
    assert_eq!(result(&effects), finished(text, false));
    let Tool::WebSearchToolCall(card) = committed(&mut tools).0 else {
        panic!("another card");
    };
    let Some(pb::web_search_result::Result::Success(success)) = card.result.unwrap().result else {
        panic!("no success");
    };
    assert_eq!(success.references[0].chunk, "A pile.");
    assert_eq!(success.references.len(), 2);
}

#[test]
fn a_search_without_a_service_is_an_honest_error() {
    let mut tools = searching();
    let error = WebServiceError::NotConfigured { table: "web_search" };
    let effects = tools
        .served(&CallId::new("c"), ServiceAnswer::Search(Err(error)), 3_000)
        .unwrap();
    let text = "The web could not be searched: this server has no such service: its configuration has no [web_search] \
                table.";
    assert_eq!(result(&effects), finished(text, true));
}

#[test]
fn a_refused_search_asks_no_service() {
    use pb::web_search_request_response::{Rejected, Result};
    let mut tools = runtime();
    begin(&mut tools, "WebSearch", r#"{"search_term":"x"}"#);
    let rejected = Result::Rejected(Rejected {
        reason: String::new(),
    });
    let effects = respond(&mut tools, 1, search_response(rejected)).unwrap();
    assert_eq!(result(&effects), finished("The person refused the search.", true));
}

/// The calls after the person allowed to fetch `http://h/p`, and the exec that asks the client for it.
fn fetching() -> (ToolRuntime, u32) {
    use pb::web_fetch_request_response::{Approved, Result};
    let mut tools = runtime();
    let (id, _) = asked(&begin(&mut tools, "WebFetch", r#"{"url":"http://h/p"}"#));
    let approved = response::Result::WebFetchRequestResponse(pb::WebFetchRequestResponse {
        result: Some(Result::Approved(Approved {})),
    });
    let mut effects = respond(&mut tools, id, approved).unwrap();
    let limit = Effect::Wake {
        call: CallId::new("c"),
        after_ms: 60_000,
    };
    assert_eq!(effects.pop(), Some(limit));
    let (exec_id, message) = one_exec(&effects);
    let expected = exec::Message::FetchArgs(pb::FetchArgs {
        url: "http://h/p".into(),
        tool_call_id: "c".into(),
    });
    assert_eq!(message, expected);
    (tools, exec_id)
}

/// What a fetch of `http://h/p` gives when the client answers so.
fn fetch(status_code: i32, content_type: &str, content: &str) -> (ToolResult, pb::web_fetch_result::Result) {
    let (mut tools, exec_id) = fetching();
    let success = fetch_result::Result::Success(pb::FetchSuccess {
        url: "http://h/p".into(),
        content: content.into(),
        status_code,
        content_type: content_type.into(),
    });
    let answer = answer::Message::FetchResult(pb::FetchResult {
        result: Some(success),
    });
    let mut effects = tools.exec_message(exec_answer(exec_id, answer), 3_000).unwrap();
    if content_type == "text/html" {
        // Whoever drives the calls reads the page beside them: nothing waits for that.
        assert_eq!(served(&effects), ServiceRequest::Page(content.into()));
        assert!(tools.committed(&CallId::new("c")).is_none());
        // The page is there: the time for fetching it no longer matters.
        assert_eq!(tools.woke(&CallId::new("c"), 3_500), []);
        let page = ServiceAnswer::Page(read_page(content));
        effects = tools.served(&CallId::new("c"), page, 4_000).unwrap();
    }
    let Tool::WebFetchToolCall(card) = committed(&mut tools).0 else {
        panic!("another card");
    };
    (result(&effects), card.result.unwrap().result.unwrap())
}

#[test]
fn a_page_comes_as_markdown() {
    let (result, card) = fetch(
        200,
        "text/html",
        "<script>x</script><h1>Title</h1><p>Some <b>text</b></p>",
    );
    assert_eq!(result, finished("http://h/p\n\n# Title\n\nSome **text**", false));
    let success = pb::web_fetch_result::Result::Success(pb::WebFetchSuccess {
        url: "http://h/p".into(),
        markdown: "# Title\n\nSome **text**".into(),
    });
    assert_eq!(card, success);
}

#[test]
fn a_status_that_is_no_success_is_an_error_with_the_pages_words() {
    let (result, _) = fetch(404, "text/plain", "no such page");
    assert_eq!(
        result,
        finished("http://h/p answered with status 404:\n\nno such page", true)
    );
    let (result, _) = fetch(500, "text/plain", "");
    let text = "http://h/p answered with status 500 and without a page.";
    assert_eq!(result, finished(text, true));
}

/// The client waits for a silent host, and reads a page without an end, for as long as it is let. [sdk]
#[test]
fn a_fetch_that_does_not_end_is_given_up_and_its_late_answer_changes_nothing() {
    let (mut tools, exec_id) = fetching();
    let effects = tools.woke(&CallId::new("c"), 62_000);
    let text = "http://h/p was not there after 60 seconds, and the fetch was given up. The host may be slow, or its \
                answer may have no end. Try once more, or fetch it with a command that has a time limit.";
    assert_eq!(result(&effects), finished(text, true));
    let late = fetch_result::Result::Success(pb::FetchSuccess::default());
    let late = answer::Message::FetchResult(pb::FetchResult { result: Some(late) });
    assert_eq!(
        tools.exec_message(exec_answer(exec_id, late), 63_000).unwrap(),
        []
    );
    assert_eq!(tools.woke(&CallId::new("c"), 64_000), []);
}

/// The client says "fetch failed" of an unknown host, a refused connection and redirects in a circle alike. [sdk]
#[test]
fn a_fetch_that_fails_says_what_it_may_be() {
    let (mut tools, exec_id) = fetching();
    let error = fetch_result::Result::Error(pb::FetchError {
        url: "http://h/p".into(),
        error: "fetch failed".into(),
    });
    let answer = answer::Message::FetchResult(pb::FetchResult { result: Some(error) });
    let effects = tools.exec_message(exec_answer(exec_id, answer), 3_000).unwrap();
    let text = "http://h/p could not be fetched: fetch failed\nThe host may be unknown or not reachable from this \
                machine, its certificate may not hold, the answer may have been cut off, or its redirects may go round \
                in a circle. Check the address; the same fetch fails again.";
    assert_eq!(result(&effects), finished(text, true));
}

#[test]
fn what_is_no_text_is_not_shown() {
    let (result, _) = fetch(200, "image/png", "\u{FFFD}PNG");
    let text = "http://h/p is no text (image/png): WebFetch shows text only. Download it with a command if you need it.";
    assert_eq!(result, finished(text, true));
}

#[test]
fn a_page_whose_markup_grows_without_end_is_not_shown() {
    let page: String = (0..2_000).map(|n| format!("<div><b id={n}></div>")).collect();
    let (result, _) = fetch(200, "text/html", &page);
    let text = "The markup of http://h/p is too broken to be read as a page. Download it with a command if you need it.";
    assert_eq!(result, finished(text, true));
}

fn picture_allowed(tools: &mut ToolRuntime, arguments: &str) -> Vec<Effect> {
    use pb::generate_image_request_response::{Approved, Result};
    let (id, _) = asked(&begin(tools, "GenerateImage", arguments));
    let approved = response::Result::GenerateImageRequestResponse(pb::GenerateImageRequestResponse {
        result: Some(Result::Approved(Approved {
            description: "a tall pile".into(),
        })),
    });
    respond(tools, id, approved).unwrap()
}

#[test]
fn a_picture_is_made_from_those_that_the_client_reads_and_saved_by_the_client() {
    let mut tools = runtime();
    let arguments = r#"{"description":"a pile","file_path":"/w/p.png","reference_image_paths":["/w/a.png"],
        "aspect_ratio":"3:2"}"#;
    let (read_id, message) = one_exec(&picture_allowed(&mut tools, arguments));
    assert_eq!(
        message,
        exec::Message::ReadArgs(pb::ReadArgs {
            path: "/w/a.png".into(),
            tool_call_id: "c".into(),
            ..Default::default()
        })
    );
    let picture = answer::Message::ReadResult(pb::ReadResult {
        result: Some(read_result::Result::Success(pb::ReadSuccess {
            path: "/w/a.png".into(),
            output: Some(read_success::Output::Data(vec![1, 2].into())),
            ..Default::default()
        })),
    });
    let effects = tools.exec_message(exec_answer(read_id, picture), 3_000).unwrap();
    let request = ImageRequest {
        // The person may have changed the words.
        description: "a tall pile".into(),
        size: Some(ImageSize::Landscape),
        references: vec![vec![1, 2].into()],
    };
    assert_eq!(served(&effects), ServiceRequest::Image(request));
    let answer = ServiceAnswer::Image(Ok(vec![9, 8]));
    let (write_id, message) = one_exec(&tools.served(&CallId::new("c"), answer, 4_000).unwrap());
    assert_eq!(
        message,
        exec::Message::WriteArgs(pb::WriteArgs {
            path: "/w/p.png".into(),
            file_bytes: vec![9, 8].into(),
            tool_call_id: "c".into(),
            ..Default::default()
        })
    );
    let written = answer::Message::WriteResult(pb::WriteResult {
        result: Some(write_result::Result::Success(pb::WriteSuccess {
            path: "/w/p.png".into(),
            ..Default::default()
        })),
    });
    let effects = tools.exec_message(exec_answer(write_id, written), 5_000).unwrap();
    assert_eq!(
        result(&effects),
        finished("The picture is saved as /w/p.png.", false)
    );
}

#[test]
fn a_picture_without_a_service_is_an_honest_error() {
    let mut tools = runtime();
    let effects = picture_allowed(&mut tools, r#"{"description":"a pile","file_path":"/w/p.png"}"#);
    served(&effects);
    let error = WebServiceError::NotConfigured {
        table: "image_generation",
    };
    let effects = tools
        .served(&CallId::new("c"), ServiceAnswer::Image(Err(error)), 4_000)
        .unwrap();
    let text = "No picture was made: this server has no such service: its configuration has no [image_generation] table";
    assert_eq!(result(&effects), finished(text, true));
}

#[test]
fn answers_that_do_not_belong_are_protocol_errors_with_their_ids() {
    use pb::web_search_request_response::{Approved, Result as Search};
    let approved = || search_response(Search::Approved(Approved {}));
    let mut tools = runtime();
    begin(&mut tools, "WebSearch", r#"{"search_term":"x"}"#);
    for query_id in [0, 2] {
        assert_eq!(
            respond(&mut tools, query_id, approved()),
            Err(ToolProtocolError::UnknownQuery { query_id })
        );
    }
    let wrong = |got| ToolProtocolError::WrongResponse {
        query_id: 1,
        call: CallId::new("c"),
        expected: "web_search_request_response",
        got,
    };
    let plan = plan_response(pb::CreatePlanResult::default());
    assert_eq!(
        respond(&mut tools, 1, plan),
        Err(wrong("create_plan_request_response"))
    );
    let nothing = pb::InteractionResponse { id: 1, result: None };
    assert_eq!(tools.responded(nothing, 2_000), Err(wrong("no result")));
    // The call still waits, so the right answer counts, once.
    assert_eq!(
        served(&respond(&mut tools, 1, approved()).unwrap()),
        ServiceRequest::Search("x".into())
    );
    assert_eq!(
        respond(&mut tools, 1, approved()),
        Err(ToolProtocolError::AnsweredQuery {
            query_id: 1,
            call: Some(CallId::new("c"))
        })
    );
}

#[test]
fn arguments_that_miss_the_schema_ask_nobody() {
    let check = |name: &str, arguments: &str, problem: &str| {
        let effects = begin(&mut runtime(), name, arguments);
        let text = result(&effects[1..]).content.text().into_owned();
        assert!(
            text.starts_with(&format!(
                "{name} was not executed, its arguments do not fit: {problem}"
            )),
            "{text}"
        );
    };
    check(
        "WebFetch",
        r#"{"url":"file:///etc/passwd"}"#,
        "`url` must be a whole address that starts",
    );
    check(
        "SwitchMode",
        r#"{"target_mode_id":"chat"}"#,
        "`target_mode_id` must be one of agent, ask, plan",
    );
    check("SwitchMode", "{}", "`target_mode_id` is missing (one of agent");
    check(
        "AskQuestion",
        r#"{"questions":[]}"#,
        "`questions` needs at least one",
    );
    check(
        "AskQuestion",
        r#"{"questions":[{"id":"q","prompt":"p","options":[{"id":"a","label":"A"},{"id":"a","label":"B"}]}]}"#,
        "questions[0]: `options` repeats the id `a`",
    );
    check(
        "GenerateImage",
        r#"{"description":"x","file_path":"/p.png","aspect_ratio":"16:9"}"#,
        "`aspect_ratio` must be one of 1:1, 3:2, 2:3",
    );
    check(
        "GenerateImage",
        r#"{"description":"x","file_path":"/p.png","reference_image_paths":[1]}"#,
        "reference_image_paths[0] must be a string, not a number",
    );
}

#[test]
fn what_a_service_gives_after_the_end_of_the_run_changes_nothing() {
    let mut tools = searching();
    assert_eq!(tools.abort_all(), []);
    let late = tools.served(&CallId::new("c"), ServiceAnswer::Search(Ok(Vec::new())), 3_000);
    assert_eq!(late, Ok(Vec::new()));
}
