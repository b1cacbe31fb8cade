//! Results of the tools that ask the person first. Must never know: query and exec ids.

use super::exec::{because, counted};
use super::page::{Content, content_of};
use super::{BoundedText, ModelText, Outcome};
use crate::cursor::proto::agent::{
    AskQuestionArgs, AskQuestionError, AskQuestionResult, AskQuestionSuccess, AskQuestionToolCall,
    CreatePlanArgs, CreatePlanError, CreatePlanResult, CreatePlanToolCall, FetchSuccess, GenerateImageArgs,
    GenerateImageError, GenerateImageResult, GenerateImageSuccess, GenerateImageToolCall, SwitchModeArgs,
    SwitchModeError, SwitchModeRejected, SwitchModeResult, SwitchModeSuccess, SwitchModeToolCall,
    WebFetchArgs, WebFetchError, WebFetchRejected, WebFetchResult, WebFetchSuccess, WebFetchToolCall,
    WebSearchArgs, WebSearchError, WebSearchReference, WebSearchRejected, WebSearchResult, WebSearchSuccess,
    WebSearchToolCall, ask_question_args, ask_question_result, create_plan_result, fetch_result,
    generate_image_result, switch_mode_result, tool_call::Tool, web_fetch_result, web_search_result,
    write_result,
};
use crate::cursor::request::Mode;
use crate::web::{Found, WebServiceError};

/// What the person answered.
pub(in super::super) fn question(args: AskQuestionArgs, result: ask_question_result::Result) -> Outcome {
    use ask_question_result::Result;
    let (is_error, text) = match &result {
        Result::Success(success) => (false, answers(&args, success)),
        Result::Error(error) => (
            true,
            format!("The question could not be asked{}", because(&error.error_message)),
        ),
        Result::Rejected(rejected) => (
            true,
            format!(
                "The person was not asked or did not answer{} Go on with your best judgement and say what you assumed.",
                because_sentence(&rejected.reason)
            ),
        ),
        Result::Async(_) => (
            true,
            "The person will answer later, in a message of theirs. Go on with what does not depend on it."
                .to_owned(),
        ),
    };
    let tool = Tool::AskQuestionToolCall(AskQuestionToolCall {
        args: Some(args),
        result: Some(AskQuestionResult { result: Some(result) }),
    });
    outcome(tool, &text, is_error)
}

/// Each question with the labels that were chosen and the words that were written.
fn answers(args: &AskQuestionArgs, success: &AskQuestionSuccess) -> String {
    let mut text = String::from("The person answered:");
    for answer in &success.answers {
        let question = args
            .questions
            .iter()
            .find(|question| question.id == answer.question_id);
        let prompt = question.map_or(answer.question_id.as_str(), |question| question.prompt.as_str());
        text.push_str(&format!("\n\n{prompt}"));
        for id in &answer.selected_option_ids {
            text.push_str(&format!("\n- {}", label(question, id)));
        }
        match (
            answer.freeform_text.is_empty(),
            answer.selected_option_ids.is_empty(),
        ) {
            (false, _) => text.push_str(&format!("\n- in their own words: {}", answer.freeform_text)),
            (true, true) => text.push_str("\n- no answer"),
            (true, false) => {}
        }
    }
    if success.answers.is_empty() {
        text.push_str(" nothing.");
    }
    text
}

fn label<'a>(question: Option<&'a ask_question_args::Question>, id: &'a str) -> &'a str {
    question
        .and_then(|question| question.options.iter().find(|option| option.id == id))
        .map_or(id, |option| option.label.as_str())
}

/// What became of the plan. None if the client's answer has no value.
pub(in super::super) fn plan(args: CreatePlanArgs, result: CreatePlanResult) -> Option<Outcome> {
    let (is_error, text) = match result.result.as_ref()? {
        create_plan_result::Result::Success(_) => {
            let place = match result.plan_uri.as_str() {
                "" => String::new(),
                uri => format!(" as {uri}"),
            };
            (
                false,
                format!(
                    "The plan is in front of the person{place}. Do not begin the work: it is theirs to change or start."
                ),
            )
        }
        create_plan_result::Result::Error(error) => (
            true,
            format!("The plan could not be shown{}", because(&error.error)),
        ),
    };
    let tool = Tool::CreatePlanToolCall(CreatePlanToolCall {
        args: Some(args),
        result: Some(result),
    });
    Some(outcome(tool, &text, is_error))
}

/// The person agreed to another mode.
pub(in super::super) fn mode_switched(args: SwitchModeArgs, from: Mode) -> Outcome {
    let target = args.target_mode_id.clone();
    let text = format!(
        "The person agreed to {target} mode. It holds from their next message on; until then your instructions and \
         tools stay as they are."
    );
    let result = switch_mode_result::Result::Success(SwitchModeSuccess {
        from_mode_id: from.id().to_owned(),
        to_mode_id: target,
    });
    outcome(mode_card(args, result), &text, false)
}

/// The person did not agree.
pub(in super::super) fn mode_refused(args: SwitchModeArgs, reason: String) -> Outcome {
    let text = format!(
        "The person does not want {} mode{}",
        args.target_mode_id,
        because(&reason)
    );
    let result = switch_mode_result::Result::Rejected(SwitchModeRejected { reason });
    outcome(mode_card(args, result), &text, true)
}

/// There is nothing to switch.
pub(in super::super) fn mode_already(args: &SwitchModeArgs) -> Outcome {
    let error = format!("The conversation is in {} mode already.", args.target_mode_id);
    let result = switch_mode_result::Result::Error(SwitchModeError { error: error.clone() });
    outcome(mode_card(args.clone(), result), &error, true)
}

fn mode_card(args: SwitchModeArgs, result: switch_mode_result::Result) -> Tool {
    Tool::SwitchModeToolCall(SwitchModeToolCall {
        args: Some(args),
        result: Some(SwitchModeResult { result: Some(result) }),
    })
}

/// What the search found, or why there was none.
pub(in super::super) fn searched(args: WebSearchArgs, found: Result<Vec<Found>, WebServiceError>) -> Outcome {
    match found {
        Ok(found) => {
            let mut text = match found.len() {
                0 => format!("Nothing was found for {:?}.", args.search_term),
                count => format!(
                    "{} for {:?}. They are excerpts: fetch a page before you rely on it.",
                    counted(i64::try_from(count).unwrap_or(i64::MAX), "result"),
                    args.search_term
                ),
            };
            for (index, result) in found.iter().enumerate() {
                text.push_str(&format!("\n\n{}. {}\n{}", index + 1, result.title, result.url));
                if !result.passage.is_empty() {
                    text.push_str(&format!("\n{}", result.passage));
                }
            }
            let references = found
                .into_iter()
                .map(|result| WebSearchReference {
                    title: result.title,
                    url: result.url,
                    chunk: result.passage,
                })
                .collect();
            let result = web_search_result::Result::Success(WebSearchSuccess { references });
            outcome(search_card(args, result), &text, false)
        }
        Err(error) => {
            let error = format!("The web could not be searched: {error}.");
            let result = web_search_result::Result::Error(WebSearchError { error: error.clone() });
            outcome(search_card(args, result), &error, true)
        }
    }
}

/// The person did not allow the search.
pub(in super::super) fn search_refused(args: WebSearchArgs, reason: String) -> Outcome {
    let text = format!("The person refused the search{}", because(&reason));
    let result = web_search_result::Result::Rejected(WebSearchRejected { reason });
    outcome(search_card(args, result), &text, true)
}

fn search_card(args: WebSearchArgs, result: web_search_result::Result) -> Tool {
    Tool::WebSearchToolCall(WebSearchToolCall {
        args: Some(args),
        result: Some(WebSearchResult { result: Some(result) }),
    })
}

/// What a fetch gave.
pub(in super::super) enum Fetched {
    /// The call is over.
    Done(Box<Outcome>),
    /// This page in HTML is to be read first, then [`page_read`] has the outcome.
    Page {
        args: WebFetchArgs,
        /// Without its content.
        response: FetchSuccess,
        html: String,
    },
}

/// Text is there at once; a page is to be read first.
pub(in super::super) fn fetched(args: WebFetchArgs, result: fetch_result::Result) -> Fetched {
    let mut success = match result {
        fetch_result::Result::Success(success) => success,
        fetch_result::Result::Error(error) => {
            // The client's words name the step that failed and not the cause. [sdk]
            let text = format!(
                "{} could not be fetched{}\nThe host may be unknown or not reachable from this machine, its certificate \
                 may not hold, the answer may have been cut off, or its redirects may go round in a circle. Check the \
                 address; the same fetch fails again.",
                args.url,
                because(&error.error)
            );
            return Fetched::Done(Box::new(fetch_failed(args, &text)));
        }
    };
    let content = std::mem::take(&mut success.content);
    match content_of(&success.content_type, &content) {
        Content::Text => Fetched::Done(Box::new(fetch_done(args, success, &content))),
        Content::Page => Fetched::Page {
            args,
            response: success,
            html: content,
        },
        Content::Other => {
            let text = format!(
                "{} is no text ({}): WebFetch shows text only. Download it with a command if you need it.",
                success.url, success.content_type
            );
            Fetched::Done(Box::new(fetch_failed(args, &text)))
        }
    }
}

/// The page as text, or that its markup cannot be read.
pub(in super::super) fn page_read(
    args: WebFetchArgs,
    response: FetchSuccess,
    markdown: Option<&str>,
) -> Outcome {
    match markdown {
        Some(markdown) => fetch_done(args, response, markdown),
        None => {
            let text = format!(
                "The markup of {} is too broken to be read as a page. Download it with a command if you need it.",
                response.url
            );
            fetch_failed(args, &text)
        }
    }
}

fn fetch_done(args: WebFetchArgs, success: FetchSuccess, markdown: &str) -> Outcome {
    let status = success.status_code;
    if !(200..300).contains(&status) {
        let mut body = BoundedText::default();
        body.push(markdown);
        let text = match body.is_empty() {
            true => ModelText::new(&format!(
                "{} answered with status {status} and without a page.",
                success.url
            )),
            false => ModelText::framed(
                &format!("{} answered with status {status}:\n\n", success.url),
                &body,
                "",
            ),
        };
        let error = format!("the address answered with status {status}");
        let result = web_fetch_result::Result::Error(WebFetchError {
            url: args.url.clone(),
            error,
        });
        return Outcome {
            is_error: true,
            ..Outcome::success(fetch_card(args, result), text)
        };
    }
    let mut body = BoundedText::default();
    body.push(markdown);
    let text = match body.is_empty() {
        true => ModelText::new(&format!("{} is empty.", success.url)),
        false => ModelText::framed(&format!("{}\n\n", success.url), &body, ""),
    };
    let result = web_fetch_result::Result::Success(WebFetchSuccess {
        url: success.url,
        markdown: body.finish(),
    });
    Outcome::success(fetch_card(args, result), text)
}

fn fetch_failed(args: WebFetchArgs, text: &str) -> Outcome {
    let result = web_fetch_result::Result::Error(WebFetchError {
        url: args.url.clone(),
        error: text.to_owned(),
    });
    outcome(fetch_card(args, result), text, true)
}

/// The page did not come in time.
pub(in super::super) fn fetch_overdue(args: WebFetchArgs, seconds: u32) -> Outcome {
    let text = format!(
        "{} was not there after {seconds} seconds, and the fetch was given up. The host may be slow, or its answer may have \
         no end. Try once more, or fetch it with a command that has a time limit.",
        args.url
    );
    fetch_failed(args, &text)
}

/// The person did not allow the fetch.
pub(in super::super) fn fetch_refused(args: WebFetchArgs, reason: String) -> Outcome {
    let text = format!(
        "The person refused to have {} fetched{}",
        args.url,
        because(&reason)
    );
    let result = web_fetch_result::Result::Rejected(WebFetchRejected { reason });
    outcome(fetch_card(args, result), &text, true)
}

fn fetch_card(args: WebFetchArgs, result: web_fetch_result::Result) -> Tool {
    Tool::WebFetchToolCall(WebFetchToolCall {
        args: Some(args),
        result: Some(WebFetchResult { result: Some(result) }),
    })
}

/// The picture is on the person's disk, or could not be written.
pub(in super::super) fn image_saved(args: GenerateImageArgs, result: write_result::Result) -> Outcome {
    use write_result::Result;
    let path = args.file_path.clone().unwrap_or_default();
    let why = match result {
        Result::Success(success) => {
            let text = format!("The picture is saved as {}.", success.path);
            let result = generate_image_result::Result::Success(GenerateImageSuccess {
                file_path: success.path,
                // The file holds the picture; a copy in the turn's record would go back and forth with every turn.
                image_data: String::new(),
            });
            return outcome(image_card(args, result), &text, false);
        }
        Result::Error(error) => because(&error.error),
        Result::Rejected(rejected) => because(&rejected.reason),
        Result::PermissionDenied(_) => ": no permission".to_owned(),
        Result::NoSpace(_) => ": no space is left".to_owned(),
    };
    image_failed(args, format!("The picture could not be saved as {path}{why}"))
}

/// There is no picture.
pub(in super::super) fn image_failed(args: GenerateImageArgs, error: String) -> Outcome {
    let text = format!("No picture was made: {error}");
    let result = generate_image_result::Result::Error(GenerateImageError { error });
    outcome(image_card(args, result), &text, true)
}

/// The person did not allow the picture.
pub(in super::super) fn image_refused(args: GenerateImageArgs, reason: &str) -> Outcome {
    let text = format!("The person refused the picture{}", because(reason));
    let result = generate_image_result::Result::Error(GenerateImageError { error: text.clone() });
    outcome(image_card(args, result), &text, true)
}

fn image_card(args: GenerateImageArgs, result: generate_image_result::Result) -> Tool {
    Tool::GenerateImageToolCall(GenerateImageToolCall {
        args: Some(args),
        result: Some(GenerateImageResult { result: Some(result) }),
    })
}

fn outcome(tool: Tool, text: &str, is_error: bool) -> Outcome {
    Outcome {
        is_error,
        ..Outcome::success(tool, ModelText::new(text))
    }
}

/// [`because`] as a sentence that another one follows.
fn because_sentence(reason: &str) -> String {
    let text = because(reason);
    match text.ends_with(['.', '!', '?']) {
        true => text,
        false => format!("{text}."),
    }
}

/// The card of such a call with an error in place of a result. The card itself if it is another tool's.
pub(in super::super) fn failed_card(card: Tool, message: &str) -> Tool {
    let error = message.to_owned();
    match card {
        Tool::AskQuestionToolCall(card) => Tool::AskQuestionToolCall(AskQuestionToolCall {
            result: Some(AskQuestionResult {
                result: Some(ask_question_result::Result::Error(AskQuestionError {
                    error_message: error,
                })),
            }),
            ..card
        }),
        Tool::CreatePlanToolCall(card) => Tool::CreatePlanToolCall(CreatePlanToolCall {
            result: Some(CreatePlanResult {
                result: Some(create_plan_result::Result::Error(CreatePlanError { error })),
                ..CreatePlanResult::default()
            }),
            ..card
        }),
        Tool::SwitchModeToolCall(card) => mode_card(
            card.args.unwrap_or_default(),
            switch_mode_result::Result::Error(SwitchModeError { error }),
        ),
        Tool::WebSearchToolCall(card) => search_card(
            card.args.unwrap_or_default(),
            web_search_result::Result::Error(WebSearchError { error }),
        ),
        Tool::WebFetchToolCall(card) => {
            let args = card.args.unwrap_or_default();
            let url = args.url.clone();
            fetch_card(
                args,
                web_fetch_result::Result::Error(WebFetchError { url, error }),
            )
        }
        Tool::GenerateImageToolCall(card) => image_card(
            card.args.unwrap_or_default(),
            generate_image_result::Result::Error(GenerateImageError { error }),
        ),
        other => other,
    }
}
