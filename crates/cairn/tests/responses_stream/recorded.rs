//! Recorded Responses requests in each way in which an endpoint of this API can be configured.

use cairn::model::{Latency, ModelSpec, ReasoningEffort, ReasoningSpec};
use cairn::provider::openai_responses::{OpenAiResponses, ResponsesDecoder, encode};

use crate::model_events::Answer;
use crate::provider_input::{responses_model, spec};
use crate::recorded;
use crate::recorded::{Recorded, assert_all_of_the_folder, assert_recorded, conversation};
use crate::streams;

fn recordings() -> Vec<Recorded> {
    let asks = |effort| ModelSpec {
        reasoning: ReasoningSpec {
            enabled: None,
            effort,
        },
        max_output_tokens: Some(4096),
        ..spec()
    };
    vec![
        recorded!(
            "openai_responses",
            "plain",
            "reasoning_parallel_calls",
            "",
            asks(None)
        ),
        recorded!(
            "openai_responses",
            "phases",
            "phases",
            "reasoning_summary = 'detailed'",
            asks(Some(ReasoningEffort::High))
        ),
        recorded!(
            "openai_responses",
            "item_ids",
            "reasoning_parallel_calls",
            "replay_item_ids = true\nprompt_cache_key = false",
            asks(None)
        ),
        recorded!(
            "openai_responses",
            "no_reasoning",
            "refusal",
            "include_encrypted_reasoning = false\neffort_parameter = 'none'\nextra_body = { truncation = 'disabled' }",
            asks(None)
        ),
        recorded!(
            "openai_responses",
            "fast",
            "done_only",
            "fast_body = { service_tier = 'priority' }",
            ModelSpec {
                latency: Latency::Fast,
                ..asks(Some(ReasoningEffort::Minimal))
            }
        ),
    ]
}

#[test]
fn each_recorded_request_is_sent_so_and_the_second_extends_the_first() {
    for recording in recordings() {
        let name = recording.name;
        let model = responses_model("http://127.0.0.1:1/v1", recording.options);
        let provider = OpenAiResponses::new(&model).unwrap();
        let mut decoder = ResponsesDecoder::new(provider.profile());
        let (events, failure) =
            streams::decode_pieces([recording.stream.as_bytes()], |event, events| match event {
                Some(event) => decoder.push(event, events),
                None => decoder.finish(events),
            });
        assert_eq!(failure, None, "{name}");
        let requests = conversation(&recording.asked, &Answer::join(&events, true));
        let [first, second] = requests.map(|request| encode(&request, provider.profile()).unwrap().body);
        assert_recorded(name, [&first, &second], recording.requests);
    }
    let names = recordings()
        .into_iter()
        .flat_map(|recording| ["first", "second"].map(|which| format!("{}.{which}", recording.name)));
    assert_all_of_the_folder(
        "openai_responses/requests",
        ".json",
        names.chain(["rounds".to_owned()]),
    );
}
