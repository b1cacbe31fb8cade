//! What may stand between cairn and an endpoint: compression, connections that died unseen, a slow model beside a fast one.

use std::io::Write as _;

use cairn::model::{ConversationId, ProviderFault};
use cairn::provider::Provider;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::model_events::{Answer, answer, collect};
use crate::provider_input::{chat_model, invocation};
use crate::strict_chat::{Reply, StrictChat};
use crate::{KEY, OpenAiChat, fails, hello, provider, provider_with};

const STREAM: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"Grüße\"},\"finish_reason\":\"stop\"}]}\n\n";

fn packed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_packed_answer_is_read_whatever_its_header_says() {
    let chat = StrictChat::start().await;
    let provider = provider(&chat);
    for (encoding, body) in [
        (None, packed(STREAM)),
        (Some("gzip"), packed(STREAM)),
        (Some("identity"), packed(STREAM)),
        (Some("gzip"), STREAM.as_bytes().to_vec()),
    ] {
        for frame in [1, usize::MAX] {
            let mut reply = Reply::raw(body.clone()).split_every(frame);
            if let Some(encoding) = encoding {
                reply = reply.header("content-encoding", encoding);
            }
            chat.reply(reply);
            let answer = answer(provider.call(&hello(), invocation())).await;
            assert_eq!(answer.text, "Grüße", "{encoding:?} {frame}");
        }
    }
    chat.assert_clean();
}

#[tokio::test]
async fn a_packed_error_says_its_words_and_no_key() {
    let chat = StrictChat::start().await;
    let provider = provider(&chat);
    let error = format!(r#"{{"error":{{"message":"no {KEY} here","code":"invalid_api_key"}}}}"#);
    for status in [401, 200] {
        chat.reply(Reply::status_bytes(status, packed(&error)));
        let (_, failure) = fails(&provider).await;
        assert_eq!(failure.fault, ProviderFault::Authentication);
        assert!(failure.message.contains("no [redacted] here"), "{failure}");
    }
    // Words that cannot be read are no words.
    chat.reply(Reply::status_bytes(400, b"\x8b\x02\x80garbage".to_vec()).header("content-encoding", "br"));
    let (_, failure) = fails(&provider).await;
    assert_eq!(failure.fault, ProviderFault::InvalidRequest);
    assert!(!failure.message.contains("garbage"), "{failure}");
    chat.assert_clean();
}

#[tokio::test]
async fn a_packed_answer_that_is_cut_or_damaged_is_no_answer() {
    let chat = StrictChat::start().await;
    let once = provider_with(&chat, "max_attempts = 1");
    let body = packed(&STREAM.replace("stop", ""));
    chat.reply(Reply::raw(body.clone()));
    assert_eq!(fails(&once).await.1.fault, ProviderFault::Cut);
    chat.reply(Reply::raw(body[..12].to_vec()));
    assert_eq!(fails(&once).await.1.fault, ProviderFault::Cut);
    let mut damaged = packed(STREAM);
    // The first byte after the header names a kind of block that there is not.
    damaged[10] = 0xFF;
    chat.reply(Reply::raw(damaged));
    let (_, failure) = fails(&once).await;
    assert_eq!(failure.fault, ProviderFault::Malformed);
    assert!(failure.message.contains("gzip packing is damaged"), "{failure}");
    chat.assert_clean();
}

/// Answers one request on an open connection.
async fn serve_one(socket: &mut TcpStream) {
    let mut request = Vec::new();
    while !request.ends_with(b"]}") {
        let mut piece = [0; 4096];
        let read = socket.read(&mut piece).await.unwrap();
        assert_ne!(read, 0, "the request ended early");
        request.extend_from_slice(&piece[..read]);
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    let length = STREAM.len();
    let response = format!("{head}content-length: {length}\r\n\r\n{STREAM}");
    socket.write_all(response.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn a_pooled_connection_that_died_is_not_noticed() {
    for reads_first in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let provider = OpenAiChat::new(&chat_model(&base_url, "")).unwrap();
        let (mut socket, first) = tokio::join!(
            async {
                let (mut socket, _) = listener.accept().await.unwrap();
                serve_one(&mut socket).await;
                socket
            },
            answer(provider.call(&hello(), invocation()))
        );
        assert_eq!(first.text, "Grüße");
        // The endpoint closes the connection that is kept for the next request: before it, or as it comes.
        if !reads_first {
            drop(socket);
        } else {
            tokio::spawn(async move {
                let _ = socket.read(&mut [0; 1]).await;
            });
        }
        let ((), second) = tokio::join!(
            async {
                let (mut socket, _) = listener.accept().await.unwrap();
                serve_one(&mut socket).await;
            },
            answer(provider.call(&hello(), invocation()))
        );
        assert_eq!(second.text, "Grüße");
    }
}

#[tokio::test]
async fn a_conversation_is_named_in_a_header_where_the_endpoint_looks_for_it() {
    let chat = StrictChat::start().await;
    let named = provider_with(&chat, "conversation_header = 'x-grok-conv-id'");
    let mut other = hello();
    other.conversation = ConversationId::new("another");
    for (provider, request) in [
        (&named, hello()),
        (&named, hello()),
        (&named, other),
        (&provider(&chat), hello()),
    ] {
        chat.reply_text("hi");
        answer(provider.call(&request, invocation())).await;
    }
    let requests = chat.requests();
    let names: Vec<_> = requests
        .iter()
        .map(|request| request.headers.get("x-grok-conv-id"))
        .collect();
    assert!(names[0].is_some_and(|name| name.len() == 32));
    assert_eq!(names[0], names[1]);
    assert!(names[2].is_some() && names[2] != names[0]);
    assert_eq!(names[3], None);
    chat.assert_clean();
}

#[tokio::test]
async fn a_date_until_which_to_wait_is_measured_by_the_endpoints_own_clock() {
    let chat = StrictChat::start().await;
    let provider = provider(&chat);
    let until = |date: &str| chat.reply_status(429, &[("retry-after", date)], "{}");
    until("Sun, 06 Nov 1994 08:49:37 GMT");
    chat.reply_text("at once");
    assert_eq!(
        answer(provider.call(&hello(), invocation())).await.text,
        "at once"
    );
    let bodies: Vec<_> = chat.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies[0], bodies[1]);
    // Longer than anybody waits without being told.
    until("Tue, 31 Dec 2999 23:59:59 GMT");
    let (_, failure) = fails(&provider).await;
    assert!(failure.retry_after.unwrap() > std::time::Duration::from_secs(60 * 60));
    assert_eq!(chat.requests().len(), 3);
    chat.assert_clean();
}

#[tokio::test]
async fn each_model_has_its_own_limit_for_the_first_byte() {
    let chat = StrictChat::start().await;
    // Its limit on silence holds after the first byte only.
    let patient = provider_with(&chat, "idle_timeout_seconds = 0.05");
    let (held, gate) = Reply::text("late").hold_headers();
    chat.reply(held);
    let waiting = tokio::spawn(async move { answer(patient.call(&hello(), invocation())).await });
    gate.arrived().await;
    let (lost, lost_gate) = Reply::text("lost").hold_headers();
    chat.reply(lost);
    let (_, failure) = fails(&provider_with(&chat, "first_byte_timeout_seconds = 0.1")).await;
    assert_eq!(failure.fault, ProviderFault::Timeout);
    lost_gate.gone().await;
    gate.open();
    assert_eq!(waiting.await.unwrap().text, "late");
    chat.assert_clean();
}

#[tokio::test]
async fn signs_of_life_keep_a_silent_model_and_only_so_long() {
    let chat = StrictChat::start().await;
    let comments = |options: &str| {
        let (sender, pieces) = tokio::sync::mpsc::channel(1);
        chat.reply(Reply::fed(pieces));
        let provider = provider_with(&chat, options);
        let call = tokio::spawn(async move { collect(provider.call(&hello(), invocation())).await });
        (sender, call)
    };
    // In all longer than the limit on silence, each pause much shorter.
    let (sender, call) = comments("idle_timeout_seconds = 2");
    let mut clock = tokio::time::interval(std::time::Duration::from_millis(125));
    for _ in 0..20 {
        clock.tick().await;
        sender.send(": keep-alive\n\n".into()).await.unwrap();
    }
    sender.send(STREAM.into()).await.unwrap();
    drop(sender);
    let (events, failure) = call.await.unwrap();
    assert_eq!(failure, None);
    assert_eq!(Answer::join(&events, true).text, "Grüße");
    // The limit on progress ends what would go on for ever; the endpoint sees that nobody reads on.
    let (sender, call) = comments("idle_timeout_seconds = 2\nprogress_timeout_seconds = 0.3");
    while sender.send(": keep-alive\n\n".into()).await.is_ok() {
        clock.tick().await;
    }
    let (_, failure) = call.await.unwrap();
    let failure = failure.unwrap();
    assert_eq!(failure.fault, ProviderFault::Timeout);
    assert!(failure.message.contains("progress_timeout_seconds"), "{failure}");
    chat.assert_clean();
}
