//! Strict endpoints of the other APIs take the request for a summary, and what follows it, over real HTTP.

use std::collections::HashMap;
use std::sync::Arc;

use cairn::config::Api;
use cairn::model::{ModelSpec, RunOutcome};
use cairn::provider::Provider;
use cairn::provider::anthropic::Anthropic;
use cairn::provider::openai_responses::OpenAiResponses;
use cairn::run::{RunServices, start};

use crate::engine::config;
use crate::support::fake_client::FakeClient;
use crate::support::strict_anthropic::{Said, StrictAnthropic};
use crate::support::strict_responses::{Items, StrictResponses};
use crate::talk::Talk;

/// Plays three runs with a summary before the last two; `reset` is called when the prefix is declared to begin anew.
async fn talk_to(provider: Arc<dyn Provider>, reset: impl Fn()) {
    let mut talk = Talk::new().await;
    for (step, said) in ["Do it.", "", "And now?", "Sure?"].into_iter().enumerate() {
        let mut run = match said {
            "" => talk.prepared_summary().await,
            said => talk.prepared_turn(said).await,
        };
        run.model = Arc::new(ModelSpec {
            max_output_tokens: Some(1024),
            ..(*run.model).clone()
        });
        if step == 2 {
            reset();
        }
        let services = RunServices {
            providers: Arc::new(HashMap::from([("fake".to_owned(), provider.clone())])),
            ..talk.bench.services.clone()
        };
        let (handle, _task) = start(services, run);
        let mut client = FakeClient::new(handle);
        assert_eq!(
            talk.finish(&mut client).await,
            RunOutcome::Completed,
            "run {step}"
        );
    }
    assert_eq!(talk.compactions().await.len(), 1);
}

#[tokio::test]
async fn responses() {
    let endpoint = StrictResponses::start().await;
    endpoint.reply(
        Items::answer()
            .reasoning("gAAA1", &["Hm."])
            .call("call_1", "alpha", "{}"),
    );
    for text in ["Done.", "The gist.", "Still done.", "Yes."] {
        endpoint.reply(Items::answer().reasoning(text, &[]).message(None, text));
    }
    let mut config = config(Api::OpenAiResponses, "");
    config.base_url = Some(endpoint.base_url().parse().unwrap());
    let provider = Arc::new(OpenAiResponses::new(&config).unwrap());
    talk_to(provider, || endpoint.allow_reset()).await;
    let inputs: Vec<usize> = endpoint
        .requests()
        .iter()
        .map(|request| request.input().len())
        .collect();
    assert_eq!(inputs, [2, 5, 8, 3, 6]);
    endpoint.assert_clean();
}

#[tokio::test]
async fn anthropic() {
    let endpoint = StrictAnthropic::start().await;
    endpoint.say(&[
        Said::Thinking("Hm.", "signature-1"),
        Said::Call("call_1", "alpha", "{}"),
    ]);
    for text in ["Done.", "The gist.", "Still done.", "Yes."] {
        endpoint.say(&[Said::Thinking("Well.", text), Said::Text(text)]);
    }
    let mut config = config(Api::Anthropic, "");
    config.base_url = Some(endpoint.base_url().parse().unwrap());
    let provider = Arc::new(Anthropic::new(&config).unwrap());
    talk_to(provider, || endpoint.allow_reset()).await;
    assert_eq!(endpoint.requests().len(), 5);
    endpoint.assert_clean();
}
