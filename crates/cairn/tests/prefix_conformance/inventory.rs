//! The invalidation inventory of `docs/prefix-conformance.md`, on requests that cairn makes: histories come from its engine,
//! bodies from its encoders. Each row pins where the next request leaves the one before, for each API.

use std::sync::Arc;

use cairn::model::{
    CallId, HistoryItem, MessageId, ModelRequest, Part, PromptSpec, ToolDefinition, ToolResult, UserOrigin,
};
use cairn::provider::{anthropic, openai_chat, openai_responses};
use prefix_conformance::{
    Api, Change, ConformanceOptions, Measure, Position, Request, measure, run_prefix_conformance,
};

use super::Engine;

/// What the engine asked in a run of two turns, and the adapter that would send it.
struct Cairn {
    api: Api,
    model: cairn::config::ModelConfig,
    asked: Vec<ModelRequest>,
}

/// The requests of a run: load, answer, load, answer. With compaction the third is the one for a summary.
async fn asked(api: Api, compacts: bool, second_context: Option<&'static str>) -> Cairn {
    let mut engine = Engine::new(["", ""]).await;
    engine.compacts = compacts;
    engine.second_context = second_context;
    let mut options = ConformanceOptions::new(api);
    options.limits.allowed_resets = usize::from(compacts);
    run_prefix_conformance(&mut engine, &options).await.unwrap();
    let asked = engine.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), if compacts { 5 } else { 4 });
    Cairn {
        api,
        model: engine.model.unwrap(),
        asked,
    }
}

impl Cairn {
    /// The body that cairn's encoder makes of a request.
    fn encoded(&self, request: &ModelRequest) -> Request {
        let body = match self.api {
            Api::OpenAiChat => {
                let adapter = openai_chat::OpenAiChat::new(&self.model).unwrap();
                openai_chat::encode(request, adapter.profile()).unwrap().body
            }
            Api::OpenAiResponses => {
                let adapter = openai_responses::OpenAiResponses::new(&self.model).unwrap();
                openai_responses::encode(request, adapter.profile()).unwrap().body
            }
            Api::Anthropic => {
                let adapter = anthropic::Anthropic::new(&self.model).unwrap();
                anthropic::encode(request, adapter.profile()).unwrap().body
            }
        };
        Request::parse(self.api, body.to_vec()).unwrap()
    }

    fn measured(&self, before: &ModelRequest, after: &ModelRequest) -> Measure {
        measure(&self.encoded(before), &self.encoded(after))
    }

    /// The first turn with its answer, before the second one's words.
    fn first_turn(&self) -> ModelRequest {
        let mut request = self.asked[2].clone();
        request.history.truncate(FIRST_TURN);
        request
    }
}

/// Messages of the first turn: context, the person's words, an assistant message with a call, its result, the answer.
const FIRST_TURN: usize = 5;
const CONTEXT: usize = 0;
const RUNTIME: usize = 1;
const CALL: usize = 2;
const RESULT: usize = 3;
const ANSWER: usize = 4;

/// Where a request leaves the one before: the first item, then the first differing index of tools, of the system prompt
/// and of the messages.
type Place = (Position, Option<usize>, Option<usize>, Option<usize>);

const NOWHERE: [Option<Place>; 3] = [None; 3];

/// A place in the messages, where all else is kept.
fn message(message: usize, block: usize) -> Option<Place> {
    Some((Position::Message { message, block }, None, None, Some(message)))
}

/// A place in the tool list, where all else is kept.
fn tool(index: usize) -> [Option<Place>; 3] {
    [Some((Position::Tool(index), Some(index), None, None)); 3]
}

fn place(measured: &Measure) -> Option<Place> {
    let boundary = measured.boundary.as_ref()?;
    Some((boundary.first, boundary.tool, boundary.system, boundary.message))
}

/// Changes the second of two equal requests and holds the place against those of Chat, Responses and Anthropic.
async fn row(name: &str, expected: [Option<Place>; 3], change: impl Fn(&mut ModelRequest)) {
    row_of(name, expected, |_| {}, change).await;
}

async fn row_of(
    name: &str,
    expected: [Option<Place>; 3],
    prepare: impl Fn(&mut ModelRequest),
    change: impl Fn(&mut ModelRequest),
) {
    for (api, expected) in Api::ALL.into_iter().zip(expected) {
        let cairn = asked(api, false, None).await;
        let mut before = cairn.first_turn();
        prepare(&mut before);
        let mut after = before.clone();
        change(&mut after);
        let measured = cairn.measured(&before, &after);
        assert_eq!(place(&measured), expected, "{name}, {api}: {measured:#?}");
        assert_eq!(measured.continuity() < 1.0, expected.is_some(), "{name}, {api}");
    }
}

fn user(origin: UserOrigin, said: &str) -> Arc<HistoryItem> {
    Arc::new(HistoryItem::User {
        id: MessageId::new("another"),
        origin,
        parts: vec![Part::Text(said.into())],
    })
}

fn turn(said: &str) -> Arc<HistoryItem> {
    let event_id = "another".into();
    user(UserOrigin::Turn { event_id }, said)
}

fn context(said: &str) -> Arc<HistoryItem> {
    let event_id = "another".into();
    user(UserOrigin::RequestContext { event_id }, said)
}

fn result(call: CallId, content: &str) -> Arc<HistoryItem> {
    Arc::new(HistoryItem::ToolResult(ToolResult {
        call,
        content: content.into(),
        is_error: false,
    }))
}

/// The call of the first turn.
fn call_of(request: &ModelRequest) -> CallId {
    match &*request.history[CALL] {
        HistoryItem::Assistant { calls, .. } => calls[0].id.clone(),
        other => panic!("{other:?}"),
    }
}

fn change_assistant(
    request: &mut ModelRequest,
    index: usize,
    change: impl FnOnce(&mut cairn::model::Assistant, &mut Vec<cairn::model::ToolCall>),
) {
    let mut item = (*request.history[index]).clone();
    match &mut item {
        HistoryItem::Assistant { said, calls, .. } => change(said, calls),
        other => panic!("{other:?}"),
    }
    request.history[index] = Arc::new(item);
}

fn change_tools(request: &mut ModelRequest, change: impl FnOnce(&mut Vec<ToolDefinition>)) {
    let mut prompt = (*request.prompt).clone();
    change(&mut prompt.tools);
    request.prompt = Arc::new(prompt);
}

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        description: "Does more.".into(),
        parameters: r#"{"type":"object","properties":{}}"#.into(),
    }
}

#[tokio::test]
async fn what_the_engine_adds_is_the_suffix_in_every_api() {
    for api in Api::ALL {
        let cairn = asked(api, false, Some("Skills that can be loaded: beta.")).await;
        let mut sent: Vec<ModelRequest> = cairn.asked.clone();
        // A round, the next turn behind a changed context, its round; then the context as it was, and a request for a summary.
        let mut back = sent[3].clone();
        back.history
            .extend([sent[0].history[CONTEXT].clone(), turn("And now?")]);
        let mut summary = back.clone();
        summary
            .history
            .push(user(UserOrigin::SummaryRequest, "Summarise."));
        sent.extend([back, summary]);
        for pair in sent.windows(2) {
            assert_eq!(place(&cairn.measured(&pair[0], &pair[1])), None, "{api}");
        }
    }
}

#[tokio::test]
async fn messages_that_change_in_place_are_boundaries_at_themselves() {
    row(
        "context rewritten",
        [message(1, 0), message(0, 0), message(0, 0)],
        |it| it.history[CONTEXT] = context("Skills: none."),
    )
    .await;
    row(
        "runtime message rendered anew",
        [message(2, 0), message(1, 0), message(1, 0)],
        |it| it.history[RUNTIME] = turn("It is noon. Load the first skill."),
    )
    .await;
    // Reasoning that goes back is an input item of its own in Responses, a block in Anthropic.
    row(
        "reasoning left out",
        [message(3, 0), message(2, 0), message(2, 0)],
        |it| {
            change_assistant(it, CALL, |said, _| {
                said.replay = None;
                said.reasoning = None;
            });
        },
    )
    .await;
    row(
        "call changed",
        [message(3, 0), message(3, 0), message(2, 1)],
        |it| {
            change_assistant(it, CALL, |_, calls| {
                calls[0].arguments = r#"{"name":"gamma"}"#.into()
            })
        },
    )
    .await;
    row(
        "result cut",
        [message(4, 0), message(4, 0), message(3, 0)],
        |it| it.history[RESULT] = result(call_of(it), "(cut)"),
    )
    .await;
    row(
        "answer changed",
        [message(5, 0), message(5, 0), message(4, 0)],
        |it| {
            change_assistant(it, ANSWER, |said, _| {
                said.text = "Something else was said.".into()
            })
        },
    )
    .await;
}

/// An earlier message that is edited takes what came after it with it.
#[tokio::test]
async fn an_edited_message_is_a_boundary_at_itself() {
    let expected = [message(6, 0), message(6, 0), message(5, 0)];
    for (api, expected) in Api::ALL.into_iter().zip(expected) {
        let cairn = asked(api, false, None).await;
        let mut edited = cairn.first_turn();
        edited.history.push(turn("Load nothing."));
        assert_eq!(
            place(&cairn.measured(&cairn.asked[3], &edited)),
            expected,
            "{api}"
        );
    }
}

/// In Anthropic the results of a round are blocks of one message; the second one changes behind the first.
#[tokio::test]
async fn the_second_result_of_a_round_is_a_boundary_behind_the_first() {
    let two_calls = |request: &mut ModelRequest| {
        change_assistant(request, CALL, |_, calls| {
            let mut second = calls[0].clone();
            second.id = CallId::new("call-b");
            calls.push(second);
        });
        // The order of the calls belongs to the answer that the replay state describes.
        change_assistant(request, CALL, |said, _| said.replay = None);
        request.history.insert(
            RESULT + 1,
            result(CallId::new("call-b"), "what the second call found"),
        );
    };
    row_of(
        "second result cut",
        [message(5, 0), message(5, 0), message(3, 1)],
        two_calls,
        |it| it.history[RESULT + 1] = result(CallId::new("call-b"), "(cut)"),
    )
    .await;
}

#[tokio::test]
async fn the_system_prompt_is_a_boundary_before_every_message() {
    let beside = Some((Position::System(0), None, Some(0), None));
    row("system prompt changed", [message(0, 0), beside, beside], |it| {
        let instructions = format!("{} Be brief.", it.prompt.instructions).into();
        it.prompt = Arc::new(PromptSpec {
            instructions,
            ..(*it.prompt).clone()
        });
    })
    .await;
}

#[tokio::test]
async fn a_tool_is_a_boundary_at_its_index_and_keeps_every_message() {
    let three = |it: &mut ModelRequest| {
        change_tools(it, |tools| {
            tools.extend([definition("Read"), definition("Shell")])
        })
    };
    row_of("tool gained", tool(3), three, |it| {
        change_tools(it, |tools| tools.push(definition("Write")));
    })
    .await;
    row_of("tool lost at the end", tool(2), three, |it| {
        change_tools(it, |tools| drop(tools.pop()));
    })
    .await;
    row_of("tool lost before others", tool(1), three, |it| {
        change_tools(it, |tools| drop(tools.remove(1)));
    })
    .await;
    row_of("tool described anew", tool(1), three, |it| {
        change_tools(it, |tools| tools[1].description = "Does less.".into());
    })
    .await;
    row_of("tools in another order", tool(0), three, |it| {
        change_tools(it, |tools| tools.swap(0, 2));
    })
    .await;
}

#[tokio::test]
async fn a_compaction_is_a_boundary_right_behind_a_context_that_never_changed() {
    let expected = [message(2, 0), message(1, 0), message(1, 0)];
    for (api, expected) in Api::ALL.into_iter().zip(expected) {
        let cairn = asked(api, true, None).await;
        let [_, before, summary, after, next] = &cairn.asked[..] else {
            panic!("{}", cairn.asked.len())
        };
        assert!(summary.asks_for_summary());
        assert_eq!(place(&cairn.measured(before, summary)), None, "{api}");
        assert_eq!(place(&cairn.measured(before, after)), expected, "{api}");
        assert_eq!(place(&cairn.measured(after, next)), None, "{api}");
        let measured = cairn.measured(before, after);
        assert_eq!(measured.boundary.unwrap().change, Change::Changed, "{api}");
    }
}

#[tokio::test]
async fn a_compaction_is_a_boundary_at_the_context_where_a_later_one_took_over() {
    let expected = [message(1, 0), message(0, 0), message(0, 0)];
    for (api, expected) in Api::ALL.into_iter().zip(expected) {
        let cairn = asked(api, true, Some("Skills that can be loaded: beta.")).await;
        let [_, before, _, after, next] = &cairn.asked[..] else {
            panic!("{}", cairn.asked.len())
        };
        assert_eq!(place(&cairn.measured(before, after)), expected, "{api}");
        assert_eq!(place(&cairn.measured(after, next)), None, "{api}");
    }
}
