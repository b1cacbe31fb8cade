//! The conformance run itself, on the reference host, for all three APIs: what passes, and that it can fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test says what it saw by failing"
)]

use prefix_conformance::reference::{Layout, ReferenceHost};
use prefix_conformance::{
    Api, AssertOn, ConformanceError, ConformanceOptions, Host, HostError, Outcome, Position, Session, Skill,
    TailSegment, ToolCall, Violation, percent, run_prefix_conformance,
};

async fn run(
    api: Api,
    layout: Layout,
    change: impl FnOnce(&mut ConformanceOptions),
) -> Result<Outcome, ConformanceError> {
    let mut options = ConformanceOptions::new(api);
    change(&mut options);
    run_prefix_conformance(&mut ReferenceHost::new(layout), &options).await
}

fn broken(result: Result<Outcome, ConformanceError>) -> (Violation, Outcome) {
    match result {
        Err(ConformanceError::Broken { violation, outcome }) => (violation, *outcome),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_append_only_host_keeps_every_byte() {
    for api in Api::ALL {
        let outcome = run(api, Layout::AppendOnly, |_| {}).await.unwrap();
        assert_eq!(
            (
                outcome.requests,
                outcome.min_continuity,
                outcome.cacheable_continuity,
                outcome.resets.clone()
            ),
            (4, 1.0, 1.0, vec![]),
            "{api}"
        );
        assert!(
            outcome.pairs.iter().all(|pair| pair.provider.boundary.is_none()),
            "{api}"
        );
    }
}

#[tokio::test]
async fn a_volatile_context_fails_on_both_measurements() {
    for api in Api::ALL {
        for assert_on in [AssertOn::ProviderPrefix, AssertOn::CacheablePrefix] {
            let result = run(api, Layout::VolatileContext, |options| {
                options.limits.assert_on = assert_on
            });
            let result = result.await;
            let text = result.as_ref().unwrap_err().to_string();
            let (violation, outcome) = broken(result);
            let Violation::TooManyResets {
                later,
                continuity,
                resets,
                pairs,
                ..
            } = violation
            else {
                panic!("{violation:?}")
            };
            assert_eq!((later, pairs), (resets[0], 3), "{api}");
            assert!(continuity < 0.95 && outcome.min_continuity <= continuity);
            assert_eq!(outcome.cacheable_continuity, outcome.min_continuity);
            let place = if api == Api::OpenAiChat {
                "message 1"
            } else {
                "message 0"
            };
            let expected = format!(
                "request {} → {later} kept {} of the previous {} prefix (minimum 95.0%), and {} pair(s) broke \
                 below it (resets {resets:?} of 3 request pairs, allowedResets 0); the first differing item is {place} (",
                later - 1,
                percent(continuity),
                assert_on.word(),
                resets.len(),
            );
            assert!(text.starts_with(&expected), "{text}\n{expected}");
        }
    }
}

#[tokio::test]
async fn bodies_sent_anew_at_the_tail_are_no_break_of_the_cacheable_prefix() {
    for api in Api::ALL {
        for layout in [Layout::TailBodies, Layout::CopiedTailBodies] {
            let big = |options: &mut ConformanceOptions| {
                options.skills =
                    ["alpha", "beta"].map(|name| Skill::new(name, format!("{name} says much. ").repeat(60)));
            };
            let (_, outcome) = broken(run(api, layout, big).await);
            assert!(outcome.min_continuity < 0.95, "{api} {layout:?}");
            assert_eq!(outcome.cacheable_continuity, 1.0, "{api} {layout:?}");
            let outcome = run(api, layout, |options| {
                big(options);
                options.limits.assert_on = AssertOn::CacheablePrefix;
            })
            .await
            .unwrap();
            assert_eq!(outcome.resets, Vec::<usize>::new(), "{api} {layout:?}");
            assert!(outcome.min_continuity < 0.95, "{api} {layout:?}");
        }
    }
}

#[tokio::test]
async fn a_body_that_never_reaches_a_request_fails() {
    for api in Api::ALL {
        let error = run(api, Layout::DropBodies, |_| {}).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the body of skill `alpha` was loaded in request 1 and never reached a later request",
            "{api}"
        );
    }
}

#[tokio::test]
async fn a_declared_reset_passes_once_and_fails_when_it_is_not_there() {
    for api in Api::ALL {
        let big = |options: &mut ConformanceOptions| {
            options.skills =
                ["alpha", "beta"].map(|name| Skill::new(name, format!("{name} says much. ").repeat(60)));
        };
        let (_, outcome) = broken(run(api, Layout::FoldResults, big).await);
        assert_eq!(outcome.resets, [3], "{api}");
        let outcome = run(api, Layout::FoldResults, |options| {
            big(options);
            options.limits.allowed_resets = 1;
        })
        .await
        .unwrap();
        assert_eq!(outcome.resets, [3], "{api}");
        let error = run(api, Layout::AppendOnly, |options| {
            options.limits.allowed_resets = 1
        })
        .await
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "only 0 pair(s) broke below 95.0% of the previous provider prefix (resets [] of 3 request pairs, \
             allowedResets 1): a declared reset did not happen",
            "{api}"
        );
    }
}

#[tokio::test]
async fn a_changed_schema_breaks_at_the_schema_and_keeps_every_message() {
    for api in Api::ALL {
        let (_, outcome) = broken(run(api, Layout::ToolDescription, |_| {}).await);
        assert_eq!(outcome.resets, [3], "{api}");
        let boundary = outcome.pairs[1].provider.boundary.as_ref().unwrap();
        assert_eq!(
            (
                boundary.first,
                boundary.label.as_str(),
                boundary.tool,
                boundary.message
            ),
            (Position::Tool(0), "load_skill", Some(0), None),
            "{api}"
        );
    }
}

/// Sends what a test gives it.
struct Sender(Vec<(&'static str, String)>);

impl Host for Sender {
    async fn turn(&mut self, session: &Session, _turn: usize) -> Result<(), HostError> {
        for (path, body) in self.0.drain(..) {
            reqwest::Client::builder()
                .no_proxy()
                .build()
                .unwrap()
                .post(format!("{}{path}", session.origin))
                .body(body)
                .send()
                .await
                .unwrap();
        }
        Ok(())
    }
}

#[tokio::test]
async fn what_cannot_be_judged_is_an_error_that_says_why() {
    let request = |tool: &str, stream: bool| {
        format!(
            r#"{{"stream":{stream},"tools":[{{"type":"function","function":{{"name":"{tool}"}}}}],"messages":[]}}"#
        )
    };
    let chat = "/v1/chat/completions";
    for (sent, expected) in [
        (
            vec![],
            "turn 1 ended after 0 request(s) in all; 2 were due, two for each turn; does the host take its base URL from \
             OPENAI_BASE_URL?",
        ),
        (
            vec![(chat, request("read", true))],
            "turn 1: the fixture refused a request: request 1 has no tool `load_skill` to load a skill with; it has: read",
        ),
        (
            vec![(chat, request("load_skill", false))],
            "turn 1: the fixture refused a request: the host asked for an answer without streaming; the fixture \
             streams only",
        ),
        (
            vec![("/v1/messages", request("load_skill", true))],
            "turn 1: the fixture refused a request: the host spoke anthropic; this run is for openai-chat",
        ),
        (
            vec![(chat, request("load_skill", true)); 5],
            "turn 1: the fixture refused a request: request 5 came; a run has 4, two for each turn: does the host \
             retry, or make requests of its own?",
        ),
        (
            vec![(chat, request("load_skill", true)); 3],
            "turn 1 ended after 3 request(s) in all; 2 were due, two for each turn",
        ),
    ] {
        let options = ConformanceOptions::new(Api::OpenAiChat);
        let error = run_prefix_conformance(&mut Sender(sent), &options)
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn options_that_could_prove_nothing_are_refused() {
    let cases: [fn(&mut ConformanceOptions); 4] = [
        |options| options.skills[1] = options.skills[0].clone(),
        |options| options.skills[0].body = " \n".to_owned(),
        |options| options.limits.min_continuity = 95.0,
        |options| options.limits.allowed_resets = 4,
    ];
    for change in cases {
        let error = run(Api::OpenAiChat, Layout::AppendOnly, change)
            .await
            .unwrap_err();
        assert!(matches!(error, ConformanceError::Options(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_host_that_never_ends_its_turn_is_stopped() {
    struct Waits;
    impl Host for Waits {
        async fn turn(&mut self, _: &Session, _: usize) -> Result<(), HostError> {
            std::future::pending().await
        }
        async fn tail_segments(&mut self) -> Result<Vec<TailSegment>, HostError> {
            panic!("no turn ended")
        }
    }
    let mut options = ConformanceOptions::new(Api::OpenAiChat);
    options.turn_timeout = std::time::Duration::from_millis(1);
    let error = run_prefix_conformance(&mut Waits, &options).await.unwrap_err();
    assert!(
        matches!(error, ConformanceError::TimedOut { turn: 1, .. }),
        "{error:?}"
    );
}

#[test]
fn the_default_call_loads_by_name() {
    assert_eq!(
        Skill::new("alpha", "x").load,
        ToolCall {
            name: "load_skill".into(),
            arguments: r#"{"name":"alpha"}"#.into()
        }
    );
}
