//! The stages of a tool that asks the person first, and does what was allowed.
//!
//! A question, a mode and a plan are over with the person's answer. A search goes on at the server's own service, a
//! fetch at the client and then, if it gave a page, at whoever reads pages here, a picture at the server's service
//! between the client's reads of the pictures to start from and its write of the new one. Must never know: query and
//! exec ids.

use bytes::Bytes;

use super::super::asked::{ASPECT_RATIOS, Asked};
use super::super::codec::request::{FileContent, read_whole, write_whole};
use super::super::codec::response::ExecAnswer;
use super::super::result::Outcome;
use super::super::result::asked::{self as outcome, Fetched};
use super::{Awaiting, Scope, Step};
use crate::cursor::proto::agent::{
    AskQuestionInteractionQuery, CreatePlanRequestQuery, FetchArgs, FetchSuccess, GenerateImageArgs,
    GenerateImageRequestQuery, SwitchModeRequestQuery, WebFetchArgs, WebFetchRequestQuery, WebSearchArgs,
    WebSearchRequestQuery, exec_server_message::Message, generate_image_request_response,
    interaction_query::Query, interaction_response::Result as Response, read_result, read_success,
    switch_mode_request_response, web_fetch_request_response, web_search_request_response,
};
use crate::model::CallId;
use crate::web::{Found, ImageRequest, ImageSize, WebServiceError};

/// How long the client may take to fetch a page. It sets no end itself to a host that is silent or never done. [sdk]
const FETCH_LIMIT_MS: u32 = 60_000;

/// What the server itself is asked to do for a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServiceRequest {
    /// Search the web for this.
    Search(String),
    /// Make a picture.
    Image(ImageRequest),
    /// Read this page in HTML with [`super::super::read_page`], which takes up to seconds.
    Page(String),
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServiceAnswer {
    /// The results of a search.
    Search(Result<Vec<Found>, WebServiceError>),
    /// A picture's file.
    Image(Result<Vec<u8>, WebServiceError>),
    /// A page as text; none if it cannot be read.
    Page(Option<String>),
}

/// A call between the question and its end.
#[derive(Debug)]
pub(in super::super) enum AskedRun {
    /// For the person's answer.
    Asking(Asked),
    /// For the results of the search.
    Searching(WebSearchArgs),
    /// For the page.
    Fetching(WebFetchArgs),
    /// For the page as text.
    ReadingPage {
        args: WebFetchArgs,
        response: FetchSuccess,
    },
    /// For the next picture to start from; these are there.
    Reading {
        args: GenerateImageArgs,
        references: Vec<Bytes>,
    },
    /// For the picture.
    Making(GenerateImageArgs),
    /// For the picture to be saved.
    Saving(GenerateImageArgs),
}

impl AskedRun {
    /// How long the client may take for what it was asked, if there is an end to it.
    pub(super) fn time_limit_ms(&self) -> Option<u32> {
        match self {
            Self::Fetching(_) => Some(FETCH_LIMIT_MS),
            _ => None,
        }
    }

    /// The field that the stage waits for.
    pub(super) fn expects(&self) -> &'static str {
        match self {
            Self::Asking(Asked::Question(_)) => "ask_question_interaction_response",
            Self::Asking(Asked::Mode(_)) => "switch_mode_request_response",
            Self::Asking(Asked::Plan(_)) => "create_plan_request_response",
            Self::Asking(Asked::Search(_)) => "web_search_request_response",
            Self::Asking(Asked::Fetch(_)) => "web_fetch_request_response",
            Self::Asking(Asked::Image(_)) => "generate_image_request_response",
            Self::Searching(_) | Self::Making(_) | Self::ReadingPage { .. } => "the server's own service",
            Self::Fetching(_) => "fetch_result",
            Self::Reading { .. } => "read_result",
            Self::Saving(_) => "write_result",
        }
    }
}

/// Asks the person, unless there is nothing to ask.
pub(super) fn begin(call: &CallId, asked: Asked, scope: &Scope) -> Step {
    let asked = asked.with_call_id(call);
    let query = match &asked {
        Asked::Mode(args) if args.target_mode_id == scope.mode.id() => {
            return Step::Done(outcome::mode_already(args));
        }
        Asked::Question(args) => Query::AskQuestionInteractionQuery(AskQuestionInteractionQuery {
            args: Some(args.clone()),
            tool_call_id: call.to_string(),
        }),
        Asked::Mode(args) => Query::SwitchModeRequestQuery(SwitchModeRequestQuery {
            args: Some(args.clone()),
        }),
        Asked::Plan(args) => Query::CreatePlanRequestQuery(CreatePlanRequestQuery {
            args: Some(args.clone()),
            tool_call_id: call.to_string(),
        }),
        Asked::Search(args) => Query::WebSearchRequestQuery(WebSearchRequestQuery {
            args: Some(args.clone()),
        }),
        Asked::Fetch(args) => Query::WebFetchRequestQuery(WebFetchRequestQuery {
            args: Some(args.clone()),
            skip_approval: false,
        }),
        Asked::Image(args) => Query::GenerateImageRequestQuery(GenerateImageRequestQuery {
            args: Some(args.clone()),
            tool_call_id: call.to_string(),
        }),
    };
    Step::Query {
        query,
        awaiting: awaiting(AskedRun::Asking(asked)),
    }
}

/// Takes the person's answer. The error gives the stage back: it does not wait for such an answer. None is an answer
/// without a value.
pub(super) fn responded(
    call: &CallId,
    run: AskedRun,
    response: Response,
    scope: &Scope,
) -> Result<Option<Step>, Box<Awaiting>> {
    use generate_image_request_response::Result as Image;
    use switch_mode_request_response::Result as Mode;
    use web_fetch_request_response::Result as Fetch;
    use web_search_request_response::Result as Search;
    let AskedRun::Asking(asked) = run else {
        return Err(awaiting_box(run));
    };
    Ok(match (asked, response) {
        (Asked::Question(args), Response::AskQuestionInteractionResponse(response)) => response
            .result
            .and_then(|result| result.result)
            .map(|result| Step::Done(outcome::question(args, result))),
        (Asked::Plan(args), Response::CreatePlanRequestResponse(response)) => response
            .result
            .and_then(|result| outcome::plan(args, result))
            .map(Step::Done),
        (Asked::Mode(args), Response::SwitchModeRequestResponse(response)) => {
            response.result.map(|result| match result {
                Mode::Approved(_) => Step::Done(outcome::mode_switched(args, scope.mode)),
                Mode::Rejected(rejected) => Step::Done(outcome::mode_refused(args, rejected.reason)),
            })
        }
        (Asked::Search(args), Response::WebSearchRequestResponse(response)) => {
            response.result.map(|result| match result {
                Search::Approved(_) => Step::Serve {
                    request: ServiceRequest::Search(args.search_term.clone()),
                    awaiting: awaiting(AskedRun::Searching(args)),
                },
                Search::Rejected(rejected) => Step::Done(outcome::search_refused(args, rejected.reason)),
            })
        }
        (Asked::Fetch(args), Response::WebFetchRequestResponse(response)) => {
            response.result.map(|result| match result {
                Fetch::Approved(_) => Step::Exec {
                    message: Message::FetchArgs(FetchArgs {
                        url: args.url.clone(),
                        tool_call_id: call.to_string(),
                    }),
                    awaiting: awaiting(AskedRun::Fetching(args)),
                },
                Fetch::Rejected(rejected) => Step::Done(outcome::fetch_refused(args, rejected.reason)),
            })
        }
        (Asked::Image(args), Response::GenerateImageRequestResponse(response)) => {
            response.result.map(|result| match result {
                // The person may have changed the words.
                Image::Approved(approved) => {
                    let mut args = args;
                    if !approved.description.is_empty() {
                        args.description = approved.description;
                    }
                    make(call, args, Vec::new())
                }
                Image::Rejected(rejected) => Step::Done(outcome::image_refused(args, &rejected.reason)),
            })
        }
        (asked, _) => return Err(awaiting_box(AskedRun::Asking(asked))),
    })
}

/// Takes what the server's service gave.
pub(super) fn served(call: &CallId, run: AskedRun, answer: ServiceAnswer) -> Result<Step, Box<Awaiting>> {
    Ok(match (run, answer) {
        (AskedRun::Searching(args), ServiceAnswer::Search(found)) => {
            Step::Done(outcome::searched(args, found))
        }
        (AskedRun::Making(args), ServiceAnswer::Image(Ok(picture))) => {
            let path = args.file_path.clone().unwrap_or_default();
            Step::Exec {
                message: write_whole(call, &path, FileContent::Bytes(picture)),
                awaiting: awaiting(AskedRun::Saving(args)),
            }
        }
        (AskedRun::ReadingPage { args, response }, ServiceAnswer::Page(text)) => {
            Step::Done(outcome::page_read(args, response, text.as_deref()))
        }
        (AskedRun::Making(args), ServiceAnswer::Image(Err(error))) => {
            Step::Done(outcome::image_failed(args, error.to_string()))
        }
        (run, _) => return Err(awaiting_box(run)),
    })
}

/// Takes an answer of the client's executor.
pub(super) fn advance(call: &CallId, run: AskedRun, answer: ExecAnswer) -> Result<Step, Box<Awaiting>> {
    Ok(match (run, answer) {
        (AskedRun::Fetching(args), ExecAnswer::Fetch(result)) => match outcome::fetched(args, result) {
            Fetched::Done(outcome) => Step::Done(*outcome),
            Fetched::Page { args, response, html } => Step::Serve {
                request: ServiceRequest::Page(html),
                awaiting: awaiting(AskedRun::ReadingPage { args, response }),
            },
        },
        (AskedRun::Reading { args, references }, ExecAnswer::Read(result)) => {
            picture_read(call, args, references, result)
        }
        (AskedRun::Saving(args), ExecAnswer::Write(result)) => Step::Done(outcome::image_saved(args, result)),
        (run, _) => return Err(awaiting_box(run)),
    })
}

/// Gives up what the client was asked to do and has no end of its own. The error gives the stage back.
pub(super) fn overdue(run: AskedRun) -> Result<Outcome, Box<Awaiting>> {
    match run {
        AskedRun::Fetching(args) => Ok(outcome::fetch_overdue(args, FETCH_LIMIT_MS / 1000)),
        other => Err(awaiting_box(other)),
    }
}

/// Reads the next picture to start from, or has the new one made.
fn make(call: &CallId, args: GenerateImageArgs, references: Vec<Bytes>) -> Step {
    match args.reference_image_paths.get(references.len()) {
        Some(path) => Step::Exec {
            message: read_whole(call, path),
            awaiting: awaiting(AskedRun::Reading { args, references }),
        },
        None => Step::Serve {
            request: ServiceRequest::Image(ImageRequest {
                description: args.description.clone(),
                size: args.aspect_ratio.as_deref().and_then(size),
                references,
            }),
            awaiting: awaiting(AskedRun::Making(args)),
        },
    }
}

fn picture_read(
    call: &CallId,
    args: GenerateImageArgs,
    mut references: Vec<Bytes>,
    result: read_result::Result,
) -> Step {
    let data = match result {
        read_result::Result::Success(success) => match success.output {
            Some(read_success::Output::Data(data)) => Some(data),
            _ => None,
        },
        _ => None,
    };
    match data {
        Some(data) => {
            references.push(data);
            make(call, args, references)
        }
        None => {
            let path = args
                .reference_image_paths
                .get(references.len())
                .cloned()
                .unwrap_or_default();
            Step::Done(outcome::image_failed(
                args,
                format!("{path} could not be read as a picture."),
            ))
        }
    }
}

fn size(aspect_ratio: &str) -> Option<ImageSize> {
    let sizes = [ImageSize::Square, ImageSize::Landscape, ImageSize::Portrait];
    ASPECT_RATIOS
        .into_iter()
        .zip(sizes)
        .find(|(ratio, _)| *ratio == aspect_ratio)
        .map(|(_, size)| size)
}

fn awaiting(run: AskedRun) -> Awaiting {
    Awaiting::Asked(Box::new(run))
}

fn awaiting_box(run: AskedRun) -> Box<Awaiting> {
    Box::new(awaiting(run))
}
