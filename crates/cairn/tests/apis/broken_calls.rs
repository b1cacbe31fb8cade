//! A call that cannot be run: its run fails, says what to do, keeps nothing of the answer, and can be resumed.

use cairn::model::{ConversationId, RunAction, RunOutcome};
use cairn::provider::ModelEvent;

use crate::support::fake_client::{Bench, prepared};
use crate::support::fake_provider::{FakeProvider, calls, text};
use crate::support::over_http::Over;

/// What a broken call is, and what the person reads of it.
const BROKEN: [(&str, &str, &str); 8] = [
    (
        "alpha",
        "{\"path\": \"SECRET",
        "no valid JSON: EOF while parsing a string at line 1 column 16",
    ),
    (
        "alpha",
        "{\"path\": ",
        "no valid JSON: EOF while parsing a value at line 1 column 9",
    ),
    (
        "alpha",
        "{\"n\":1}}",
        "no valid JSON: trailing characters at line 1 column 8",
    ),
    (
        "alpha",
        "{n:1}",
        "no valid JSON: key must be a string at line 1 column 2",
    ),
    (
        "alpha",
        "SECRET",
        "no valid JSON: expected value at line 1 column 1",
    ),
    // Half a character is no text; a strict endpoint would refuse every later request that holds it.
    (
        "alpha",
        "{\"path\": \"SECRET \\ud83d\"}",
        "no valid JSON: half of a surrogate pair came without its other half",
    ),
    ("", "{\"n\":1}", "tool call 1 has no name"),
    ("", "", "tool call 1 has no name"),
];

/// The second of two calls is broken: the first, which is whole, does not run either.
pub async fn a_broken_call_fails_the_run_and_resuming_asks_the_same_again(over: Over) {
    for (name, arguments, words) in BROKEN {
        let bench = Bench::new().await;
        let provider = FakeProvider::over(over).await;
        provider.answer(calls("", &[("a", "beta", "{}"), ("b", name, arguments)]));
        let mut client = bench.start(&provider, bench.user_turn("run", None, "go").await);
        let outcome = client
            .finish(|_| panic!("a call of a broken answer was run"))
            .await;
        let RunOutcome::Failed(failure) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(failure.kind().as_str(), "provider");
        let failure = failure.to_string();
        assert!(failure.contains(words), "{failure}");
        assert!(
            failure.ends_with("Nothing of it was kept. Resume, or send the message again."),
            "{failure}"
        );
        assert!(!failure.contains("SECRET"), "{failure}");
        let settled = client.settled.unwrap();
        let kept = bench.services.store.history(&settled).await.unwrap();
        assert_eq!(kept.len(), 1, "the message, and nothing of the answer");
        let head = bench
            .services
            .store
            .head(&ConversationId::new("conversation"))
            .await;
        assert_eq!(head.unwrap(), Some(settled.clone()));

        provider.answer(calls("", &[("a", "beta", "{\"n\":2}")]));
        provider.answer(text("done"));
        let resumed = prepared("resumed", settled, RunAction::Resume { pending: None });
        let mut client = bench.start(&provider, resumed);
        assert_eq!(client.finish(|_| "ok".to_owned()).await, RunOutcome::Completed);
        let bodies: Vec<_> = provider
            .endpoint()
            .requests()
            .into_iter()
            .map(|request| request.body)
            .collect();
        assert_eq!(bodies.len(), 3, "a broken answer is not asked for again unasked");
        assert_eq!(bodies[0], bodies[1], "resuming sends the very same request");
        provider.assert_clean();
    }
}

/// In every form in which an endpoint may leave the arguments out.
pub async fn a_call_without_arguments_has_an_empty_object(over: Over) {
    for arguments in [None, Some(""), Some(" "), Some("\n\t"), Some("null"), Some("{}")] {
        let mut bench = Bench::new().await;
        let provider = FakeProvider::over(over).await;
        let mut events = calls("", &[("a", "beta", arguments.unwrap_or_default())]);
        if arguments.is_none() {
            events.retain(|event| !matches!(event, ModelEvent::ToolCallArguments { .. }));
        }
        provider.answer(events);
        provider.answer(text("done"));
        let mut client = bench.start(&provider, bench.user_turn("run", None, "go").await);
        assert_eq!(client.finish(|_| "ok".to_owned()).await, RunOutcome::Completed);
        assert_eq!(&*client.rounds[0].calls[0].arguments, "{}");
        assert!(
            client.log.contains(&"arguments a {}".to_owned()),
            "it is shown as what runs: {:?}",
            client.log
        );
        let base = client.settled.unwrap();
        bench = bench.restart().await;
        provider.answer(text("again"));
        let mut client = bench.start(&provider, bench.user_turn("next", Some(&base), "more").await);
        assert_eq!(client.finish(|_| unreachable!()).await, RunOutcome::Completed);
        // The same bytes again after a restart: the endpoint's own rules see to it that the second extends the first.
        for request in &provider.endpoint().requests()[1..] {
            let body = String::from_utf8(request.body.to_vec()).unwrap();
            let written = [r#""arguments":"{}""#, r#""input":{}"#];
            assert_eq!(
                written
                    .iter()
                    .map(|form| body.matches(form).count())
                    .sum::<usize>(),
                1,
                "{body}"
            );
        }
        provider.assert_clean();
    }
}
