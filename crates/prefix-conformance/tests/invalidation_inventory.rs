//! The invalidation inventory: for each segment of cairn's layout, where a change of it resets the prefix, and what does not.
//!
//! The layout, in the order of the prefix: tools; system prompt; request context; runtime messages, assistant messages and
//! tool results as they happened. `docs/prefix-conformance.md` has the table that these tests pin, for each API. A layout
//! that moves a boundary fails here instead of moving it silently.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test says what it saw by failing"
)]

use prefix_conformance::{Api, AssertOn, Limits, Outcome, Request, TailSegment, assess, measure};
use serde_json::{Value, json};

/// One entry of a conversation, before any API's form.
#[derive(Clone)]
enum Entry {
    User(&'static str),
    /// An assistant message with a call, and the call's result.
    Round {
        call: &'static str,
        result: &'static str,
    },
    Answer(&'static str),
}

use Entry::{Answer, Round, User};

#[derive(Clone)]
struct Conversation {
    system: &'static str,
    tools: Vec<(&'static str, &'static str)>,
    entries: Vec<Entry>,
}

impl Conversation {
    fn request(&self, api: Api) -> Request {
        let mut messages = Vec::new();
        if api == Api::OpenAiChat {
            messages.push(json!({"role": "system", "content": self.system}));
        }
        for entry in &self.entries {
            push(api, entry, &mut messages);
        }
        let schema = json!({"type": "object", "properties": {}});
        let tools: Vec<Value> = self
            .tools
            .iter()
            .map(|(name, description)| match api {
                Api::OpenAiChat => json!({"type": "function", "function": {
                    "name": name, "description": description, "parameters": schema,
                }}),
                Api::OpenAiResponses => json!({
                    "type": "function", "name": name, "description": description, "parameters": schema,
                }),
                Api::Anthropic => json!({"name": name, "description": description, "input_schema": schema}),
            })
            .collect();
        let body = match api {
            Api::OpenAiChat => json!({"model": "m", "tools": tools, "messages": messages}),
            Api::OpenAiResponses => {
                json!({"model": "m", "instructions": self.system, "tools": tools, "input": messages})
            }
            Api::Anthropic => {
                json!({"model": "m", "system": self.system, "tools": tools, "messages": messages})
            }
        };
        Request::parse(api, body.to_string().into_bytes()).unwrap()
    }

    fn with(mut self, entries: impl IntoIterator<Item = Entry>) -> Self {
        self.entries.extend(entries);
        self
    }

    fn change(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

fn push(api: Api, entry: &Entry, messages: &mut Vec<Value>) {
    match (api, entry) {
        (Api::OpenAiChat | Api::OpenAiResponses, User(text)) => {
            messages.push(json!({"role": "user", "content": text}))
        }
        (Api::OpenAiChat | Api::OpenAiResponses, Answer(text)) => {
            messages.push(json!({"role": "assistant", "content": text}));
        }
        (Api::Anthropic, User(text)) => {
            messages.push(json!({"role": "user", "content": [{"type": "text", "text": text}]}));
        }
        (Api::Anthropic, Answer(text)) => {
            messages.push(json!({"role": "assistant", "content": [{"type": "text", "text": text}]}));
        }
        (Api::OpenAiChat, Round { call, result }) => {
            let function = json!({"name": "Read", "arguments": "{}"});
            let calls = json!([{"id": call, "type": "function", "function": function}]);
            messages.push(json!({"role": "assistant", "content": null, "tool_calls": calls}));
            messages.push(json!({"role": "tool", "tool_call_id": call, "content": result}));
        }
        (Api::OpenAiResponses, Round { call, result }) => {
            messages
                .push(json!({"type": "function_call", "call_id": call, "name": "Read", "arguments": "{}"}));
            messages.push(json!({"type": "function_call_output", "call_id": call, "output": result}));
        }
        (Api::Anthropic, Round { call, result }) => {
            let call_block = json!({"type": "tool_use", "id": call, "name": "Read", "input": {}});
            messages.push(json!({"role": "assistant", "content": [call_block]}));
            let result_block = json!({"type": "tool_result", "tool_use_id": call, "content": result});
            messages.push(json!({"role": "user", "content": [result_block]}));
        }
    }
}

/// After its first turn: context, runtime message, a tool round, an answer.
fn first_turn() -> Conversation {
    Conversation {
        system: "You are an agent.",
        tools: vec![("Read", "Reads."), ("Grep", "Searches."), ("Shell", "Runs.")],
        entries: vec![
            User("context A"),
            User("runtime 1"),
            Round {
                call: "call-1",
                result: "result 1",
            },
            Answer("answer 1"),
        ],
    }
}

/// Where a pair breaks: tool, system, and message counted without the system message that Chat has in front.
type Boundary = Option<(Option<usize>, Option<usize>, Option<usize>)>;

const NONE: Boundary = None;

#[track_caller]
fn check(before: &Conversation, after: &Conversation, expected: Boundary) {
    for api in Api::ALL {
        let measured = measure(&before.request(api), &after.request(api));
        let found = measured.boundary.as_ref().map(|boundary| {
            if api != Api::OpenAiChat {
                return (boundary.tool, boundary.system, boundary.message);
            }
            // Chat's system prompt is its message 0.
            match boundary.message {
                Some(0) => (boundary.tool, Some(0), None),
                message => (boundary.tool, None, message.map(|index| index - 1)),
            }
        });
        assert_eq!(found, expected, "{api}: {measured:#?}");
        assert_eq!(measured.continuity() == 1.0, expected.is_none(), "{api}");
    }
}

fn at_message(index: usize) -> Boundary {
    Some((None, None, Some(index)))
}

fn at_tool(index: usize) -> Boundary {
    Some((Some(index), None, None))
}

#[test]
fn a_new_turn_with_the_same_context_resets_nothing() {
    check(&first_turn(), &first_turn().with([User("runtime 2")]), NONE);
}

#[test]
fn a_changed_context_is_appended_and_resets_nothing() {
    let second = first_turn().with([User("context B"), User("runtime 2")]);
    check(&first_turn(), &second, NONE);
    let third = second
        .clone()
        .with([Answer("answer 2"), User("context A"), User("runtime 3")]);
    check(&second, &third, NONE);
}

#[test]
fn a_context_rewritten_in_place_is_a_boundary_at_the_context() {
    let rewritten = first_turn().change(|it| it.entries[0] = User("context B"));
    check(&first_turn(), &rewritten.with([User("runtime 2")]), at_message(0));
}

#[test]
fn a_runtime_message_rendered_anew_is_a_boundary_at_itself() {
    let rendered = first_turn().change(|it| it.entries[1] = User("runtime 1, a minute later"));
    check(&first_turn(), &rendered, at_message(1));
}

#[test]
fn results_and_rounds_are_the_suffix_and_reset_nothing() {
    let asked = Conversation {
        entries: first_turn().entries[..2].to_vec(),
        ..first_turn()
    };
    let one_round = asked.clone().with([Round {
        call: "call-1",
        result: "result 1",
    }]);
    let two_rounds = one_round.clone().with([Round {
        call: "call-2",
        result: "result 2",
    }]);
    check(&asked, &one_round, NONE);
    check(&one_round, &two_rounds, NONE);
    check(
        &two_rounds,
        &two_rounds.clone().with([User("a background task ended")]),
        NONE,
    );
}

#[test]
fn a_folded_result_is_a_boundary_at_the_result() {
    let folded = first_turn().change(|it| {
        it.entries[2] = Round {
            call: "call-1",
            result: "(cut)",
        }
    });
    check(&first_turn(), &folded.with([User("runtime 2")]), at_message(3));
}

#[test]
fn a_changed_call_is_a_boundary_at_its_assistant_message() {
    let renamed = first_turn().change(|it| {
        it.entries[2] = Round {
            call: "call-x",
            result: "result 1",
        }
    });
    check(&first_turn(), &renamed, at_message(2));
}

#[test]
fn the_system_prompt_is_a_boundary_before_all_messages() {
    let changed = first_turn().change(|it| it.system = "You are an agent. It is noon.");
    check(&first_turn(), &changed, Some((None, Some(0), None)));
}

#[test]
fn tools_are_boundaries_of_their_own_and_keep_every_message() {
    let gained = first_turn().change(|it| it.tools.push(("Glob", "Lists.")));
    check(&first_turn(), &gained, at_tool(3));
    check(&gained, &first_turn(), at_tool(3));
    let lost = first_turn().change(|it| {
        it.tools.remove(1);
    });
    check(&first_turn(), &lost, at_tool(1));
    let described = first_turn().change(|it| it.tools[1].1 = "Searches quickly.");
    check(&first_turn(), &described, at_tool(1));
    let reordered = first_turn().change(|it| it.tools.swap(0, 2));
    check(&first_turn(), &reordered, at_tool(0));
}

/// Compaction leaves the system prompt, exactly the latest context, the summary, and the current turn.
fn compacted(context: &'static str) -> Conversation {
    Conversation {
        entries: vec![User(context), User("summary"), User("runtime 2")],
        ..first_turn()
    }
}

#[test]
fn compaction_is_a_boundary_right_after_a_context_that_never_changed() {
    check(&first_turn(), &compacted("context A"), at_message(1));
}

#[test]
fn compaction_is_a_boundary_at_the_context_where_a_later_one_replaced_it() {
    let changed = first_turn().with([User("context B"), User("runtime 2")]);
    check(&changed, &compacted("context B"), at_message(0));
}

#[test]
fn the_summary_request_itself_resets_nothing() {
    check(&first_turn(), &first_turn().with([User("summarise")]), NONE);
}

fn assessed(api: Api, sequence: &[&Conversation], tail: &[TailSegment], limits: &Limits) -> Outcome {
    let requests: Vec<Request> = sequence
        .iter()
        .map(|conversation| conversation.request(api))
        .collect();
    assess(&requests, tail, limits).unwrap()
}

#[test]
fn a_compaction_is_exactly_one_reset_and_stable_again_at_once() {
    let summary = first_turn().with([User("summarise")]);
    let after = compacted("context A");
    let next = after.clone().with([Round {
        call: "call-2",
        result: "result 2",
    }]);
    for api in Api::ALL {
        let outcome = assessed(
            api,
            &[&first_turn(), &summary, &after, &next],
            &[],
            &Limits::default(),
        );
        assert_eq!(outcome.resets, [3], "{api}");
    }
}

#[test]
fn a_loaded_skill_body_is_a_result_and_never_resets_the_prefix() {
    let body = "A skill's body. ";
    let loaded = first_turn().with([
        User("runtime 2"),
        Round {
            call: "call-2",
            result: body,
        },
    ]);
    check(&first_turn().with([User("runtime 2")]), &loaded, NONE);
}

#[test]
fn a_body_sent_anew_at_the_tail_lowers_only_the_provider_figure() {
    let text = "A body that is long enough to matter, sent again and again after the transcript.";
    let one = first_turn().with([User(text)]);
    let two = first_turn().with([User("runtime 2"), User(text)]);
    for api in Api::ALL {
        let value = match api {
            Api::OpenAiChat | Api::OpenAiResponses => json!({"role": "user", "content": text}),
            Api::Anthropic => json!({"role": "user", "content": [{"type": "text", "text": text}]}),
        };
        let tail = [TailSegment {
            identity: None,
            value: Some(value.to_string()),
        }];
        let limits = Limits {
            assert_on: AssertOn::CacheablePrefix,
            ..Limits::default()
        };
        let outcome = assessed(api, &[&one, &two], &tail, &limits);
        assert!(outcome.min_continuity < 0.95, "{api}");
        assert_eq!(
            (outcome.cacheable_continuity, outcome.resets),
            (1.0, vec![]),
            "{api}"
        );
    }
}
