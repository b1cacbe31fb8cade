//! Which turn of a conversation a call belongs to.
//!
//! Owns the definition: a call begins a turn when what it holds behind the model's last item is no tool's result, and when
//! it is not the call before it sent again. Must never know: caches, or how a report is shown.

use super::Kept;
use crate::request::{Maker, Request};

/// Counts a lane's turns, call by call.
#[derive(Debug, Default)]
pub(super) struct Turns {
    turn: usize,
}

impl Turns {
    /// The turn of the next call, from 1.
    pub(super) fn number(&mut self, request: &Request, kept: Option<&Kept>) -> usize {
        let again =
            kept.is_some_and(|kept| kept.boundary.is_none() && kept.shared_items == request.items().len());
        if self.turn == 0 || (begins_turn(request) && !again) {
            self.turn += 1;
        }
        self.turn
    }
}

fn begins_turn(request: &Request) -> bool {
    let mut asked = false;
    for item in request.items().iter().rev() {
        match item.maker {
            Maker::Input => asked = true,
            Maker::Tool => return false,
            Maker::Model | Maker::Setup => break,
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Api;

    fn turn_of(api: Api, messages: &[&str]) -> Vec<usize> {
        let key = if api == Api::OpenAiResponses {
            "input"
        } else {
            "messages"
        };
        let mut turns = Turns::default();
        (1..=messages.len())
            .map(|count| {
                let body = format!("{{\"{key}\":[{}]}}", messages[..count].join(","));
                turns.number(&Request::parse(api, body.into_bytes()).unwrap(), None)
            })
            .collect()
    }

    #[test]
    fn a_turn_begins_with_a_persons_words_and_not_with_a_result() {
        let (user, answer) = (
            r#"{"role":"user","content":"a"}"#,
            r#"{"role":"assistant","content":"b"}"#,
        );
        let cases = [
            (Api::OpenAiChat, r#"{"role":"tool","content":"r"}"#),
            (
                Api::OpenAiResponses,
                r#"{"type":"function_call_output","output":"r"}"#,
            ),
            (
                Api::Anthropic,
                r#"{"role":"user","content":[{"type":"tool_result","content":"r"},{"type":"text","text":"a reminder"}]}"#,
            ),
        ];
        for (api, result) in cases {
            let turns = turn_of(api, &[user, answer, result, answer, user]);
            // Calls are sent after words or results; the ones between only show that nothing else counts.
            assert_eq!((turns[0], turns[2], turns[4]), (1, 1, 2), "{api}");
        }
    }

    #[test]
    fn a_call_that_is_sent_again_belongs_to_its_turn() {
        let body = br#"{"messages":[{"role":"user","content":"a"}]}"#;
        let request = Request::parse(Api::OpenAiChat, body.to_vec()).unwrap();
        let mut turns = Turns::default();
        assert_eq!(turns.number(&request, None), 1);
        let kept = super::super::keep(1, &request, &request, 0.95);
        assert_eq!(turns.number(&request, Some(&kept)), 1);
        assert_eq!(turns.number(&request, None), 2);
    }
}
