//! Recorded Messages requests in each way in which an endpoint of this API can be configured.

use cairn::model::{Latency, ModelSpec, ReasoningEffort, ReasoningSpec};
use cairn::provider::anthropic::{Anthropic, AnthropicDecoder, encode};

use crate::model_events::Answer;
use crate::provider_input::{anthropic_model, anthropic_spec};
use crate::recorded;
use crate::recorded::{Recorded, assert_all_of_the_folder, assert_extends, assert_recorded, conversation};
use crate::streams;

fn recordings() -> Vec<Recorded> {
    let asks = |enabled, effort| ModelSpec {
        reasoning: ReasoningSpec { enabled, effort },
        ..anthropic_spec()
    };
    vec![
        recorded!(
            "anthropic",
            "adaptive",
            "thinking_call",
            "",
            asks(Some(true), Some(ReasoningEffort::High))
        ),
        recorded!(
            "anthropic",
            "interleaved",
            "interleaved",
            "thinking_display = 'summarized'\nthink_by_default = true\ncache_ttl = '1h'",
            asks(None, None)
        ),
        recorded!(
            "anthropic",
            "budget",
            "thinking_call",
            "thinking_mode = 'budget'\nthinking_budget_tokens = 2048\ncache_control = 'none'",
            asks(Some(true), None)
        ),
        recorded!(
            "anthropic",
            "unsigned",
            "unsigned_thinking",
            "extra_body = { metadata = { user_id = 'x' } }",
            asks(Some(false), None)
        ),
        recorded!(
            "anthropic",
            "fast",
            "no_delta_input",
            "fast_body = { speed = 'fast' }",
            ModelSpec {
                latency: Latency::Fast,
                ..asks(None, None)
            }
        ),
        recorded!(
            "anthropic",
            "explicit",
            "interleaved",
            "cache_control = 'explicit'",
            asks(None, None)
        ),
    ]
}

#[test]
fn each_recorded_request_is_sent_so_and_the_second_extends_the_first() {
    for recording in recordings() {
        let name = recording.name;
        let provider = Anthropic::new(&anthropic_model("http://127.0.0.1:1/v1", recording.options)).unwrap();
        let mut decoder = AnthropicDecoder::new(provider.profile());
        let (events, failure) =
            streams::decode_pieces([recording.stream.as_bytes()], |event, events| match event {
                Some(event) => decoder.push(event, events),
                None => decoder.finish(),
            });
        assert_eq!(failure, None, "{name}");
        let requests = conversation(&recording.asked, &Answer::join(&events, true));
        let [first, second] = requests.map(|request| encode(&request, provider.profile()).unwrap().body);
        if name != "explicit" {
            assert_recorded(name, [&first, &second], recording.requests);
            continue;
        }
        // Markers at the end of each request are no part of what the endpoint compares, and the only bytes that move.
        for (body, recorded) in [&first, &second].into_iter().zip(recording.requests) {
            assert_eq!(std::str::from_utf8(body).unwrap(), recorded.trim_end());
        }
        let unmarked = |body: &str| {
            body.trim_end()
                .replace(r#","cache_control":{"type":"ephemeral"}"#, "")
        };
        let [first, second] = recording.requests.map(unmarked);
        assert_extends(name, &first, &second);
    }
    let names = recordings()
        .into_iter()
        .flat_map(|recording| ["first", "second"].map(|which| format!("{}.{which}", recording.name)));
    assert_all_of_the_folder("anthropic/requests", ".json", names.chain(["rounds".to_owned()]));
}
