//! One conversation that goes from model to model: each gets its own thinking back and no other's, also after a restart.

use cairn::config::{Api, ModelConfig};
use cairn::cursor::sessions::SessionLimits;
use tempfile::TempDir;

use super::support::cairn_server::{CairnServer, KEY, chat_model};
use super::support::fake_cursor::FakeCursor;
use super::support::strict_anthropic::{Said, StrictAnthropic};

fn model(id: &str, endpoint: &StrictAnthropic) -> ModelConfig {
    ModelConfig {
        id: id.to_owned(),
        api: Api::Anthropic,
        upstream_model: format!("up/{id}"),
        max_output_tokens: Some(1024),
        ..chat_model(&endpoint.base_url())
    }
}

/// A round that thinks between its calls, and the answer after it.
fn replies(endpoint: &StrictAnthropic, name: &str, signs: bool) {
    let named = |what: &str| format!("{name} {what}");
    let (first, last) = (named("first"), named("last"));
    let (a, b) = (format!("toolu_{name}_a"), format!("toolu_{name}_b"));
    let (one, two, hidden) = (named("signature 1"), named("signature 2"), named("hidden"));
    let read = |id| Said::Call(id, "Read", r#"{"path":"a.txt"}"#);
    match signs {
        true => {
            endpoint.say(&[
                Said::Thinking(&first, &one),
                Said::Text("Look."),
                Said::Redacted(&hidden),
                read(&a),
                Said::Thinking("", &two),
                read(&b),
            ]);
            endpoint.say(&[Said::Thinking(&last, &one), Said::Text(name)]);
        }
        false => {
            endpoint.say(&[Said::Unsigned(&first), read(&a), Said::Unsigned(&last), read(&b)]);
            endpoint.say(&[Said::Text(name)]);
        }
    }
}

/// The names of the turns whose thinking is in a body.
fn thinking_of<'a>(body: &str, names: &[&'a str]) -> Vec<&'a str> {
    let is_there = |name: &&&str| body.contains(&format!("\"thinking\":\"{name} first\""));
    names.iter().filter(is_there).copied().collect()
}

#[tokio::test]
async fn each_model_of_a_conversation_gets_its_own_thinking_back_and_no_other() {
    let official = StrictAnthropic::start().await;
    // Speaks the same API and signs nothing.
    let unsigned = StrictAnthropic::start().await;
    let models = || {
        vec![
            model("a", &official),
            model("b", &official),
            model("c", &unsigned),
        ]
    };
    let workspace = TempDir::new().unwrap();
    std::fs::write(workspace.path().join("a.txt"), "one\n").unwrap();
    let mut data = TempDir::new().unwrap();
    let mut server = CairnServer::with_models(data.path(), models(), SessionLimits::default()).await;
    let mut cursor = FakeCursor::new(&server.base_url, KEY, "agent-1", workspace.path()).await;

    let turns = [
        ("a", "one", &[][..]),
        ("b", "two", &[]),
        ("c", "three", &[]),
        ("a", "four", &["one"]),
        ("c", "five", &["three"]),
        ("b", "six", &["two"]),
        ("a", "seven", &["one", "four"]),
    ];
    let names = turns.map(|(_, name, _)| name);
    for (number, (id, name, own)) in turns.into_iter().enumerate() {
        let endpoint = if id == "c" { &unsigned } else { &official };
        replies(endpoint, name, id != "c");
        cursor.model = id.to_owned();
        cursor.send(name).await.success();
        let requests = endpoint.requests();
        let [.., first, second] = &requests[..] else {
            panic!("{} requests", requests.len())
        };
        for (request, with_itself) in [(first, false), (second, true)] {
            assert_eq!(request.json["model"], format!("up/{id}"));
            let body = std::str::from_utf8(&request.body).unwrap();
            let expected: Vec<&str> = own.iter().copied().chain(with_itself.then_some(name)).collect();
            assert_eq!(thinking_of(body, &names), expected, "turn {number}");
            // Nobody makes up a signature where there was none.
            let is_signed = id != "c" && !expected.is_empty();
            assert_eq!(body.contains("\"signature\":"), is_signed, "turn {number}");
        }
        if number % 2 == 1 {
            server.stop().await;
            if number == 3 {
                data = TempDir::new().unwrap();
            }
            server = CairnServer::with_models(data.path(), models(), SessionLimits::default()).await;
            cursor.reconnect(&server.base_url, KEY).await;
        }
    }
    cursor.assert_clean();
    official.assert_clean();
    unsigned.assert_clean();
    server.stop().await;
}
