//! The tools that ask the person first: their arguments, and the cards before a result.
//!
//! Owns what such a call says. Must never know: execs, queries, results.

use super::arguments::{Arguments, Reader};
use super::registry::{Known, ToolEntry};
use crate::cursor::proto::agent::{
    AskQuestionArgs, AskQuestionToolCall, CreatePlanArgs, CreatePlanToolCall, GenerateImageArgs,
    GenerateImageToolCall, SwitchModeArgs, SwitchModeToolCall, TodoItem, TodoStatus, WebFetchArgs,
    WebFetchToolCall, WebSearchArgs, WebSearchToolCall, ask_question_args, tool_call::Tool,
};
use crate::cursor::request::Mode;
use crate::model::CallId;

/// The shapes that GenerateImage takes.
pub(super) const ASPECT_RATIOS: [&str; 3] = ["1:1", "3:2", "2:3"];

/// A call that the person is asked about.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Asked {
    /// The person's answers are the result.
    Question(AskQuestionArgs),
    /// The person's consent is the result.
    Mode(SwitchModeArgs),
    /// The person gets the plan.
    Plan(CreatePlanArgs),
    /// The person allows a search, which the server makes.
    Search(WebSearchArgs),
    /// The person allows a fetch, which the client makes.
    Fetch(WebFetchArgs),
    /// The person allows a picture, which the server has made and the client saves.
    Image(GenerateImageArgs),
}

impl Asked {
    /// The same with the call's id wherever the wire wants it.
    pub(super) fn with_call_id(mut self, call: &CallId) -> Self {
        match &mut self {
            Self::Mode(args) => args.tool_call_id = call.to_string(),
            Self::Search(args) => args.tool_call_id = call.to_string(),
            Self::Fetch(args) => args.tool_call_id = call.to_string(),
            Self::Question(_) | Self::Plan(_) | Self::Image(_) => {}
        }
        self
    }

    /// The card without a result.
    pub(super) fn card(&self) -> Tool {
        match self.clone() {
            Self::Question(args) => Tool::AskQuestionToolCall(AskQuestionToolCall {
                args: Some(args),
                result: None,
            }),
            Self::Mode(args) => Tool::SwitchModeToolCall(SwitchModeToolCall {
                args: Some(args),
                result: None,
            }),
            Self::Plan(args) => Tool::CreatePlanToolCall(CreatePlanToolCall {
                args: Some(args),
                result: None,
            }),
            Self::Search(args) => Tool::WebSearchToolCall(WebSearchToolCall {
                args: Some(args),
                result: None,
            }),
            Self::Fetch(args) => Tool::WebFetchToolCall(WebFetchToolCall {
                args: Some(args),
                result: None,
            }),
            Self::Image(args) => Tool::GenerateImageToolCall(GenerateImageToolCall {
                args: Some(args),
                result: None,
            }),
        }
    }
}

/// The registry's rows for them.
pub(super) static TOOLS: &[ToolEntry] = &[
    ToolEntry {
        name: "AskQuestion",
        arguments: &["title", "questions"],
        streamed: &["title"],
        content: None,
        placeholder: |known| {
            Asked::Question(AskQuestionArgs {
                title: known.text("title"),
                ..AskQuestionArgs::default()
            })
            .card()
        },
        read: |reader| Arguments::Asked(Asked::Question(question(reader))),
    },
    ToolEntry {
        name: "SwitchMode",
        arguments: &["target_mode_id", "explanation"],
        streamed: &["target_mode_id", "explanation"],
        content: None,
        placeholder: |known| {
            Asked::Mode(SwitchModeArgs {
                target_mode_id: known.text("target_mode_id"),
                explanation: known.get("explanation"),
                ..SwitchModeArgs::default()
            })
            .card()
        },
        read: |reader| {
            let modes = Mode::ALL.map(Mode::id);
            let target = reader.optional_word("target_mode_id", &modes);
            if target.is_none() {
                reader.problem(format!(
                    "`target_mode_id` is missing (one of {})",
                    modes.join(", ")
                ));
            }
            Arguments::Asked(Asked::Mode(SwitchModeArgs {
                target_mode_id: target.unwrap_or_default(),
                explanation: reader.optional_text("explanation"),
                ..SwitchModeArgs::default()
            }))
        },
    },
    ToolEntry {
        name: "CreatePlan",
        arguments: &["name", "overview", "plan", "todos"],
        streamed: &["name", "overview", "plan"],
        content: None,
        placeholder: |known| {
            Asked::Plan(CreatePlanArgs {
                name: known.text("name"),
                overview: known.text("overview"),
                plan: known.text("plan"),
                ..CreatePlanArgs::default()
            })
            .card()
        },
        read: |reader| {
            Arguments::Asked(Asked::Plan(CreatePlanArgs {
                name: reader.filled_text("name"),
                overview: reader.text("overview"),
                plan: reader.filled_text("plan"),
                todos: reader.objects("todos", |item| TodoItem {
                    id: item.filled_text("id"),
                    content: item.filled_text("content"),
                    status: TodoStatus::Pending.into(),
                    ..TodoItem::default()
                }),
                ..CreatePlanArgs::default()
            }))
        },
    },
    ToolEntry {
        name: "WebSearch",
        arguments: &["search_term"],
        streamed: &["search_term"],
        content: None,
        placeholder: |known| {
            Asked::Search(WebSearchArgs {
                search_term: known.text("search_term"),
                ..WebSearchArgs::default()
            })
            .card()
        },
        read: |reader| {
            Arguments::Asked(Asked::Search(WebSearchArgs {
                search_term: reader.filled_text("search_term"),
                ..WebSearchArgs::default()
            }))
        },
    },
    ToolEntry {
        name: "WebFetch",
        arguments: &["url"],
        streamed: &["url"],
        content: None,
        placeholder: |known| {
            Asked::Fetch(WebFetchArgs {
                url: known.text("url"),
                ..WebFetchArgs::default()
            })
            .card()
        },
        read: |reader| {
            let url = reader.filled_text("url");
            let fits = url::Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
            if !url.is_empty() && !fits {
                reader
                    .problem("`url` must be a whole address that starts with http:// or https://".to_owned());
            }
            Arguments::Asked(Asked::Fetch(WebFetchArgs {
                url,
                ..WebFetchArgs::default()
            }))
        },
    },
    ToolEntry {
        name: "GenerateImage",
        arguments: &[
            "description",
            "file_path",
            "reference_image_paths",
            "aspect_ratio",
        ],
        streamed: &["description", "file_path"],
        content: None,
        placeholder: |known: &Known<'_>| {
            Asked::Image(GenerateImageArgs {
                description: known.text("description"),
                file_path: known.get("file_path"),
                ..GenerateImageArgs::default()
            })
            .card()
        },
        read: |reader| {
            Arguments::Asked(Asked::Image(GenerateImageArgs {
                description: reader.filled_text("description"),
                file_path: Some(reader.filled_text("file_path")),
                reference_image_paths: reader.optional_texts("reference_image_paths"),
                aspect_ratio: reader.optional_word("aspect_ratio", &ASPECT_RATIOS),
            }))
        },
    },
];

/// Reads AskQuestion's arguments: at least one question, each with ids of its own and at least two options.
fn question(reader: &mut Reader) -> AskQuestionArgs {
    let questions = reader.objects("questions", |item| {
        let options = item.objects("options", |option| ask_question_args::Option {
            id: option.filled_text("id"),
            label: option.filled_text("label"),
        });
        if options.len() < 2 {
            item.problem("`options` needs at least two".to_owned());
        }
        let ids: Vec<&str> = options.iter().map(|option| option.id.as_str()).collect();
        if let Some(id) = repeated(&ids) {
            item.problem(format!("`options` repeats the id `{id}`"));
        }
        ask_question_args::Question {
            id: item.filled_text("id"),
            prompt: item.filled_text("prompt"),
            options,
            allow_multiple: item.optional_bool("allow_multiple").unwrap_or(false),
        }
    });
    if questions.is_empty() {
        reader.problem("`questions` needs at least one".to_owned());
    }
    let ids: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
    if let Some(id) = repeated(&ids) {
        reader.problem(format!("`questions` repeats the id `{id}`"));
    }
    AskQuestionArgs {
        title: reader.optional_text("title").unwrap_or_default(),
        questions,
        ..AskQuestionArgs::default()
    }
}

/// The first id that is there twice.
fn repeated<'a>(ids: &[&'a str]) -> Option<&'a str> {
    ids.iter()
        .enumerate()
        .find(|(index, id)| ids[..*index].contains(id))
        .map(|(_, id)| *id)
}
