//! A call that is cancelled, or dropped, in each of its phases: it ends at once, without a failure, and lets go of the endpoint.

use std::sync::Arc;

use cairn::config::{Api, ModelConfig};
use cairn::model::{ModelRequest, ProviderFailure};
use cairn::provider::{ModelInvocation, Provider, ProviderRouter};
use futures_util::StreamExt;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api;
use crate::provider_input::{anthropic_spec, chat_model, invocation, request_of, user};
use crate::support::fake_provider::text;
use crate::support::over_http::{Endpoint, Over, Writer};
use crate::support::strict_chat::Reply;

/// How a call is given up.
const GIVEN_UP: [GiveUp; 2] = [GiveUp::Cancel, GiveUp::Drop];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GiveUp {
    Cancel,
    Drop,
}

/// A call that somebody reads.
struct Reading {
    cancel: CancellationToken,
    reader: JoinHandle<Result<(), ProviderFailure>>,
}

impl Reading {
    fn begin(provider: &Arc<dyn Provider>) -> Self {
        let cancel = CancellationToken::new();
        let invocation = ModelInvocation {
            cancel: cancel.clone(),
            ..invocation()
        };
        let mut stream = provider.call(&asked(), invocation);
        let reader = tokio::spawn(async move {
            while let Some(item) = stream.next().await {
                item?;
            }
            Ok(())
        });
        Self { cancel, reader }
    }

    async fn give_up(self, how: GiveUp) {
        match how {
            GiveUp::Cancel => {
                self.cancel.cancel();
                assert_eq!(
                    self.reader.await.unwrap(),
                    Ok(()),
                    "a cancelled call ends without a failure"
                );
            }
            GiveUp::Drop => {
                self.reader.abort();
                assert!(self.reader.await.unwrap_err().is_cancelled());
            }
        }
    }
}

fn asked() -> ModelRequest {
    request_of(anthropic_spec(), vec![user("hello")])
}

/// Whoever connects is accepted and never answered. Gives what was heard at first, once the call waits for an answer.
async fn unanswered(api: Api, scheme: &str, how: GiveUp) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("{scheme}://{}/v1", listener.local_addr().unwrap());
    let config = ModelConfig {
        api,
        max_output_tokens: Some(8192),
        ..chat_model(&base_url, "")
    };
    let provider = ProviderRouter::from_config(&[config])
        .unwrap()
        .route("fast")
        .unwrap();
    let call = Reading::begin(&provider);
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut heard = vec![0; 1 << 16];
    let bytes = socket.read(&mut heard).await.unwrap();
    heard.truncate(bytes);
    call.give_up(how).await;
    // Nothing but the rest of what was begun comes, and then the end, or its abrupt form.
    let mut rest = Vec::new();
    let _ = socket.read_to_end(&mut rest).await;
    heard
}

pub async fn while_connecting_and_while_waiting_for_headers(over: Over) {
    let api = api(over);
    for how in GIVEN_UP {
        // The beginning of TLS is a part of connecting: 0x16 is the type of its first record.
        assert_eq!(unanswered(api, "https", how).await[0], 0x16);
        assert!(unanswered(api, "http", how).await.starts_with(b"POST /v1/"));
    }
}

pub async fn before_the_first_byte_within_the_answer_and_between_tries(over: Over) {
    let api = api(over);
    let endpoint = Endpoint::start(api).await;
    let provider = endpoint.provider("up/model", "sk-canary-123");
    let answer = || endpoint.answer(&text("a long answer").into_iter().map(Ok).collect::<Vec<_>>());
    let mut writer = Writer::new(api);
    let begun: usize = text("a long answer")[..3]
        .iter()
        .map(|event| writer.step(&Ok(event.clone())).len())
        .sum();
    for how in GIVEN_UP {
        for (reply, gate) in [
            answer().hold_headers(),
            answer().hold_at(0),
            answer().hold_at(1),
            answer().hold_at(begun),
        ] {
            endpoint.reply(reply);
            let call = Reading::begin(&provider);
            gate.arrived().await;
            call.give_up(how).await;
            gate.gone().await;
        }
        let before = endpoint.requests().len();
        endpoint.reply(Reply::status(503, &[("retry-after", "59")], ""));
        let call = Reading::begin(&provider);
        while endpoint.requests().len() == before {
            tokio::task::yield_now().await;
        }
        call.give_up(how).await;
        assert_eq!(endpoint.requests().len(), before + 1, "no other try followed");
    }
    endpoint.assert_clean();
}
