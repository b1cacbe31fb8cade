//! Ready presets: for each, two requests of a conversation byte for byte as recorded, and the answer between them.

use std::collections::BTreeSet;

use cairn::config::{Flags, ModelConfig, load};
use cairn::model::{Latency, ModelSpec, ReasoningEffort, ReasoningSpec, Usage};
use cairn::provider::StopReason;
use cairn::provider::openai_chat::{ChatDecoder, OpenAiChat, encode};

use crate::model_events::{Answer, call};
use crate::provider_input::spec;
use crate::recorded::{assert_all_of_the_folder, assert_recorded, conversation};
use crate::streams::{self, Outcome, assert_cuts, assert_same_in_all_pieces};
use crate::{has_finish_reason, usage};

/// The models that a configuration with this `[[models]]` text describes, or its error.
fn models(text: &str) -> Result<Vec<ModelConfig>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.toml");
    std::fs::write(&path, format!("client_key = 'k'\n[[models]]\nid = 'm'\n{text}")).unwrap();
    let flags = Flags {
        config: Some(path),
        data_dir: Some(folder.path().to_owned()),
        ..Flags::default()
    };
    match load(&flags, &|_| None) {
        Ok(loaded) => Ok(loaded.config.models),
        Err(error) => Err(error.to_string()),
    }
}

/// The provider that a preset makes, for an endpoint of the test.
fn provider(preset: &str, options: &str) -> OpenAiChat {
    let text = format!(
        "preset = '{preset}'\nmodel = 'up/{preset}'\nbase_url = 'http://127.0.0.1:1/v1'\n[models.options]\n{options}"
    );
    OpenAiChat::new(&models(&text).unwrap()[0]).unwrap()
}

struct Preset {
    name: &'static str,
    /// What the run asks of the model, so that the preset's parameters show.
    asked: ModelSpec,
    /// The two recorded requests, and the answer to the first.
    requests: [&'static str; 2],
    stream: &'static str,
    stream_name: &'static str,
    answer: Answer,
}

/// The names of the recorded streams that are tried here.
pub fn streams() -> impl Iterator<Item = &'static str> {
    presets().into_iter().map(|preset| preset.stream_name)
}

fn presets() -> Vec<Preset> {
    macro_rules! preset {
        ($name:literal, $stream:literal, $asked:expr, $answer:expr) => {
            Preset {
                name: $name,
                asked: $asked,
                requests: [
                    include_str!(concat!(
                        "../fixtures/openai_chat/requests/",
                        $name,
                        ".first.json"
                    )),
                    include_str!(concat!(
                        "../fixtures/openai_chat/requests/",
                        $name,
                        ".second.json"
                    )),
                ],
                stream: include_str!(concat!("../fixtures/openai_chat/", $stream, ".sse")),
                stream_name: $stream,
                answer: $answer,
            }
        };
    }
    let asks = |enabled: Option<bool>, effort: Option<ReasoningEffort>| ModelSpec {
        reasoning: ReasoningSpec { enabled, effort },
        max_output_tokens: Some(4096),
        ..spec()
    };
    let fast = |asked: ModelSpec| ModelSpec {
        latency: Latency::Fast,
        ..asked
    };
    let high = Some(ReasoningEffort::High);
    let on = Some(true);
    let called = |thinking: &str, text: &str, calls: &[(&str, &str)], usage: Option<Usage>| Answer {
        thinking: thinking.into(),
        text: text.into(),
        calls: calls
            .iter()
            .map(|(id, arguments)| call(id, "Read", arguments))
            .collect(),
        usage,
        stop: Some(StopReason::ToolUse),
        ..Answer::default()
    };
    vec![
        preset!(
            "openai",
            "openai_parallel_calls",
            fast(asks(None, high)),
            Answer {
                calls: vec![
                    call("call_a", "Read", r#"{"path": "ä.txt"}"#),
                    call("call_b", "Shell", r#"{"command":"ls"}"#),
                ],
                usage: usage(10, None, None, 4, None),
                stop: Some(StopReason::ToolUse),
                ..Answer::default()
            }
        ),
        preset!(
            "deepseek",
            "deepseek_thinking_call",
            asks(on, high),
            called(
                "I need the \"file\".",
                "Reading.",
                &[("call_00_x", r#"{"path":"a"}"#)],
                usage(19, Some(320), None, 83, Some(37))
            )
        ),
        preset!(
            "kimi",
            "kimi_thinking_call",
            asks(on, Some(ReasoningEffort::Max)),
            called(
                "先看 the file.",
                "Reading.",
                &[("functions.Read:0", r#"{"path": "a"}"#)],
                usage(72, Some(128), None, 30, None)
            )
        ),
        preset!(
            "glm",
            "glm_calls_without_index",
            asks(on, Some(ReasoningEffort::Low)),
            called(
                "Two files.",
                "",
                &[("call_-1", r#"{"path": "a"}"#), ("call_-2", r#"{"path": "b"}"#)],
                usage(56, Some(64), None, 40, None)
            )
        ),
        preset!(
            "qwen",
            "qwen_empty_ids",
            asks(Some(false), None),
            called(
                "",
                "",
                &[("call_q", r#"{"path": "a"}"#)],
                usage(44, Some(256), None, 20, None)
            )
        ),
        preset!(
            "openrouter",
            "openrouter_thinking_call",
            fast(asks(on, high)),
            called(
                "Let me look.",
                "",
                &[("toolu_1", r#"{"path": "a"}"#)],
                usage(5, Some(60), Some(10), 19, None)
            )
        ),
        preset!(
            "xai",
            "xai_whole_call",
            fast(asks(None, high)),
            // Thinking comes on top of the answer's count.
            called(
                "First look.",
                "",
                &[("call_77", r#"{"path":"a"}"#)],
                usage(1, Some(290), None, 222, Some(196))
            )
        ),
        preset!(
            "groq",
            "groq_whole_call",
            asks(None, high),
            called(
                "Hm.",
                "",
                &[("fc_1", r#"{"path":"a"}"#)],
                usage(7, None, None, 3, None)
            )
        ),
        preset!(
            "ollama",
            "ollama_shared_index",
            asks(None, high),
            called(
                "two files",
                "",
                &[("call_1", r#"{"path":"a"}"#), ("call_2", r#"{"path":"b"}"#)],
                None
            )
        ),
        preset!(
            "vllm",
            "vllm_shared_index",
            asks(on, None),
            called(
                "Two files.",
                "",
                &[
                    ("chatcmpl-tool-1", r#"{"path": "a"}"#),
                    ("chatcmpl-tool-2", r#"{"path": "b"}"#)
                ],
                usage(16, Some(48), None, 21, None)
            )
        ),
        preset!(
            "llama.cpp",
            "llamacpp_thinking_call",
            asks(on, None),
            called(
                "One file.",
                "",
                &[("9Xk", r#"{"path":"a"}"#)],
                usage(8, Some(32), None, 12, None)
            )
        ),
    ]
}

fn decode(provider: &OpenAiChat, pieces: &[&[u8]]) -> Outcome {
    let mut decoder = ChatDecoder::new(provider.profile());
    streams::decode_pieces(pieces.iter().copied(), |event, events| match event {
        Some(event) => decoder.push(event, events),
        None => decoder.finish(events),
    })
}

#[test]
fn each_preset_sends_the_recorded_requests_and_the_second_extends_the_first() {
    for preset in presets() {
        let provider = provider(preset.name, "");
        let answer = Answer::join(&decode(&provider, &[preset.stream.as_bytes()]).0, true);
        let requests = conversation(&preset.asked, &answer);
        let [first, second] = requests.map(|request| encode(&request, provider.profile()).unwrap().body);
        assert_recorded(preset.name, [&first, &second], preset.requests);
    }
    let names = presets()
        .into_iter()
        .flat_map(|preset| ["first", "second"].map(|which| format!("{}.{which}", preset.name)));
    assert_all_of_the_folder(
        "openai_chat/requests",
        ".json",
        names.chain(["rounds".to_owned()]),
    );
}

#[test]
fn each_preset_reads_its_stream_however_it_is_cut() {
    for preset in presets() {
        let provider = provider(preset.name, "");
        let decode = |pieces: &[&[u8]]| decode(&provider, pieces);
        let (events, failure) = decode(&[preset.stream.as_bytes()]);
        assert_eq!(failure, None, "{}", preset.name);
        let answer = Answer {
            replay: None,
            ..Answer::join(&events, true)
        };
        assert_eq!(answer, preset.answer, "{}", preset.name);
        assert_same_in_all_pieces(preset.name, preset.stream, decode);
        assert_cuts(preset.name, preset.stream, has_finish_reason, decode, |_| false);
    }
}

#[test]
fn a_wrong_name_lists_the_known_ones_and_every_known_one_is_tried_here() {
    let error = models("preset = 'deepsek'").unwrap_err();
    let tried: Vec<&str> = presets().iter().map(|preset| preset.name).collect();
    assert_eq!(
        error,
        format!(
            "models[0].preset: is no preset; take one of {}, or leave it out",
            tried.join(", ")
        )
    );
    // No answer of any of them needs [DONE] as its only end.
    for preset in tried {
        let model = &models(&format!("preset = '{preset}'\nbase_url = 'http://127.0.0.1:1'")).unwrap()[0];
        assert!(!model.options.contains_key("done_is_terminal"), "{preset}");
    }
}

#[test]
fn a_models_own_settings_win_over_its_preset() {
    let model = &models(
        "preset = 'glm'\nbase_url = 'http://127.0.0.1:1'\n[models.options]\ninclude_usage = true\n\
         extra_body = { seed = 1 }",
    )
    .unwrap()[0];
    assert_eq!(model.options["include_usage"].as_bool(), Some(true));
    assert_eq!(model.options["max_tokens_parameter"].as_str(), Some("max_tokens"));
    let members: BTreeSet<_> = model.options["extra_body"]
        .as_table()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(
        members,
        BTreeSet::from(["seed".to_owned(), "tool_stream".to_owned()])
    );
    // The address is the preset's where it has one, and asked for where it has none.
    let address = |text: &str| models(text).map(|models| models[0].base_url.as_ref().unwrap().to_string());
    assert_eq!(
        address("preset = 'groq'").unwrap(),
        "https://api.groq.com/openai/v1"
    );
    assert_eq!(
        address("preset = 'groq'\nbase_url = 'http://127.0.0.1:2/v1'").unwrap(),
        "http://127.0.0.1:2/v1"
    );
    let missing = models("preset = 'kimi'").unwrap_err();
    assert!(missing.starts_with("models[0].base_url: missing"), "{missing}");
    let other = models("preset = 'groq'\napi = 'anthropic'").unwrap_err();
    assert_eq!(
        other,
        "models[0].api: must be openai-chat with this preset; correct it, or leave it out"
    );
}
