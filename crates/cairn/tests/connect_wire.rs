//! RunSSE and BidiAppend as one bidirectional stream: order, repeats, bounds, heartbeats and the one end.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a failed expectation is a failed test"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "under a paused clock, sleeping is how time passes"
)]

#[path = "support/wire.rs"]
mod wire;

use std::time::Duration;

use bytes::Bytes;
use cairn::cursor::connect::{
    ConnectCode, ConnectError, Envelope, EnvelopeDecoder, EnvelopeError, encode_end, encode_message,
};
use cairn::cursor::inbox::{Inbound, InboxError, InboxLimits, ParentReference};
use cairn::cursor::proto::aiserver::{CustomErrorDetails, ErrorDetails, error_details};
use cairn::cursor::run_sse::{RunBody, SendError, StreamLimits};
use cairn::cursor::sessions::{SessionIo, SessionLimits, SessionRegistry};
use http_body_util::BodyExt as _;
use prost::Message as _;
use serde_json::json;
use tokio::time::{Instant, advance, timeout};
use tokio_util::sync::CancellationToken;
use wire::{Seen, Server, all_seen, append_request, client_message, seen, server_message};

fn registry() -> SessionRegistry {
    SessionRegistry::new(SessionLimits::default(), CancellationToken::new())
}

fn inbound(seqno: u64) -> Inbound {
    Inbound {
        seqno,
        message: client_message(&format!("message {seqno}")),
        parent: None,
    }
}

fn push(registry: &SessionRegistry, request_id: &str, seqnos: impl IntoIterator<Item = u64>) {
    for seqno in seqnos {
        registry.append(request_id, inbound(seqno), 10).unwrap();
    }
}

/// Reads what is there without letting time pass.
async fn read_now(io: &mut SessionIo) -> Vec<u64> {
    let mut seqnos = Vec::new();
    while let Ok(Some(next)) = timeout(Duration::ZERO, io.inbound.recv()).await {
        let next = next.unwrap();
        assert_eq!(next, inbound(next.seqno));
        seqnos.push(next.seqno);
    }
    seqnos
}

async fn rest(body: RunBody) -> Vec<Seen> {
    all_seen(&body.collect().await.unwrap().to_bytes())
}

async fn next_seen(body: &mut RunBody) -> Seen {
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    all_seen(&frame).remove(0)
}

// === order ===

#[tokio::test(start_paused = true)]
async fn messages_come_in_their_order_exactly_once() {
    let registry = registry();
    let (mut io, _body) = registry.open("r").unwrap();
    push(&registry, "r", [2, 1, 3, 1, 3]);
    assert_eq!(read_now(&mut io).await, Vec::<u64>::new());
    push(&registry, "r", [0, 0, 2, 5]);
    assert_eq!(read_now(&mut io).await, [0, 1, 2, 3]);
    push(&registry, "r", [3, 4, 5]);
    assert_eq!(read_now(&mut io).await, [4, 5]);
}

#[tokio::test(start_paused = true)]
async fn an_append_before_the_stream_waits_for_it() {
    let registry = registry();
    push(&registry, "r", [1, 0]);
    advance(Duration::from_secs(29)).await;
    let (mut io, _body) = registry.open("r").unwrap();
    // Once open, the bound on early appends is over.
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(read_now(&mut io).await, [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn early_appends_are_given_up_when_no_stream_opens() {
    let registry = registry();
    push(&registry, "r", [0]);
    assert_eq!(registry.live(), 1);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(registry.live(), 0);
    assert_eq!(
        registry.append("r", inbound(1), 10).unwrap_err().code(),
        ConnectCode::NotFound
    );
    assert_eq!(registry.open("r").unwrap_err().code(), ConnectCode::Aborted);
}

#[tokio::test(start_paused = true)]
async fn a_gap_ends_in_a_named_error_after_its_bound() {
    let registry = registry();
    let (mut io, _body) = registry.open("r").unwrap();
    push(&registry, "r", [0, 1, 2, 4, 5, 6, 7, 8, 9]);
    let began = Instant::now();
    assert_eq!(read_now(&mut io).await, [0, 1, 2]);
    let error = io.inbound.recv().await.unwrap().unwrap_err();
    let waited = Duration::from_secs(30);
    assert_eq!(
        error,
        InboxError::Gap {
            missing: 3,
            latest: 9,
            waited
        }
    );
    let measured = began.elapsed();
    assert!(
        measured >= waited && measured < waited + Duration::from_millis(10),
        "{measured:?}"
    );
    assert_eq!(
        error.to_string(),
        "append 3 of the request did not arrive within 30 s although append 9 did; send the message again"
    );
    let refused = registry.append("r", inbound(3), 10).unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (ConnectCode::Aborted, error.to_string().as_str())
    );
    assert_eq!(io.inbound.recv().await, None);
}

#[tokio::test(start_paused = true)]
async fn each_gap_has_its_own_time() {
    let registry = registry();
    let (mut io, _body) = registry.open("r").unwrap();
    push(&registry, "r", [1, 3]);
    advance(Duration::from_secs(29)).await;
    push(&registry, "r", [0]);
    assert_eq!(read_now(&mut io).await, [0, 1]);
    advance(Duration::from_secs(29)).await;
    push(&registry, "r", [2]);
    assert_eq!(read_now(&mut io).await, [2, 3]);
    assert!(
        timeout(Duration::from_secs(600), io.inbound.recv())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_append_is_a_gap_until_it_is_sent_again() {
    let registry = registry();
    let (mut io, _body) = registry.open("r").unwrap();
    push(&registry, "r", [0]);
    registry.refused("r", 1);
    assert_eq!(read_now(&mut io).await, [0]);
    advance(Duration::from_secs(29)).await;
    push(&registry, "r", [1]);
    assert_eq!(read_now(&mut io).await, [1]);
    registry.refused("r", 1);
    registry.refused("r", 2);
    let error = io.inbound.recv().await.unwrap().unwrap_err();
    assert!(
        matches!(
            error,
            InboxError::Gap {
                missing: 2,
                latest: 2,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        "append 2 of the request was refused and not sent again within 30 s; send the message again"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_request_holds_is_bounded() {
    let limits = SessionLimits {
        inbox: InboxLimits {
            messages: 3,
            bytes: 100,
            ..InboxLimits::default()
        },
        ..SessionLimits::default()
    };
    let registry = SessionRegistry::new(limits, CancellationToken::new());
    let (mut io, _body) = registry.open("count").unwrap();
    push(&registry, "count", [0, 1, 5]);
    let full = registry.append("count", inbound(2), 10).unwrap_err();
    assert_eq!(full.code(), ConnectCode::ResourceExhausted);
    assert_eq!(read_now(&mut io).await, [0, 1]);
    push(&registry, "count", [2]);
    assert_eq!(read_now(&mut io).await, [2]);

    let (mut io, _body) = registry.open("bytes").unwrap();
    registry.append("bytes", inbound(0), 60).unwrap();
    let full = registry.append("bytes", inbound(1), 41).unwrap_err();
    assert_eq!(full.code(), ConnectCode::ResourceExhausted);
    assert_eq!(read_now(&mut io).await, [0]);
    registry.append("bytes", inbound(1), 100).unwrap();
    assert_eq!(read_now(&mut io).await, [1]);
}

// === requests ===

#[tokio::test]
async fn a_request_is_opened_once() {
    let registry = registry();
    let (io, body) = registry.open("r").unwrap();
    assert_eq!(registry.open("r").unwrap_err().code(), ConnectCode::AlreadyExists);
    drop((io, body));
    assert_eq!(registry.open("r").unwrap_err().code(), ConnectCode::AlreadyExists);
}

#[tokio::test]
async fn a_request_takes_no_append_after_its_end() {
    let registry = registry();
    let (io, body) = registry.open("finished").unwrap();
    push(&registry, "finished", [0]);
    let SessionIo {
        inbound: mut messages,
        output,
        ..
    } = io;
    output.finish(Ok(()));
    let error = registry.append("finished", inbound(1), 10).unwrap_err();
    assert_eq!(error.code(), ConnectCode::FailedPrecondition);
    assert_eq!(messages.recv().await, None);
    assert_eq!(rest(body).await, [Seen::End(json!({}))]);

    let (io, _body) = registry.open("dropped").unwrap();
    drop(io);
    let error = registry.append("dropped", inbound(0), 10).unwrap_err();
    assert_eq!(error.code(), ConnectCode::FailedPrecondition);
    assert_eq!(registry.live(), 0);
}

#[tokio::test]
async fn the_number_of_requests_is_bounded() {
    let limits = SessionLimits {
        sessions: 2,
        ..SessionLimits::default()
    };
    let registry = SessionRegistry::new(limits, CancellationToken::new());
    let first = registry.open("a").unwrap();
    push(&registry, "b", [0]);
    assert_eq!(
        registry.open("c").unwrap_err().code(),
        ConnectCode::ResourceExhausted
    );
    assert_eq!(
        registry.append("c", inbound(0), 10).unwrap_err().code(),
        ConnectCode::ResourceExhausted
    );
    drop(first);
    registry.open("c").unwrap();
}

#[tokio::test]
async fn bad_request_ids_are_refused() {
    let registry = registry();
    for id in ["", "a\nb", &"x".repeat(257)] {
        assert_eq!(
            registry.open(id).unwrap_err().code(),
            ConnectCode::InvalidArgument
        );
        assert_eq!(
            registry.append(id, inbound(0), 1).unwrap_err().code(),
            ConnectCode::InvalidArgument
        );
    }
}

#[tokio::test]
async fn a_shutdown_reaches_open_requests_and_refuses_new_ones() {
    let shutdown = CancellationToken::new();
    let registry = SessionRegistry::new(SessionLimits::default(), shutdown.clone());
    let (io, _body) = registry.open("r").unwrap();
    assert!(!io.shutdown.is_cancelled());
    shutdown.cancel();
    assert!(io.shutdown.is_cancelled());
    assert_eq!(registry.open("s").unwrap_err().code(), ConnectCode::Unavailable);
    assert_eq!(
        registry.append("r", inbound(0), 1).unwrap_err().code(),
        ConnectCode::Unavailable
    );
}

/// Else the run could not record its end before the database closes.
#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_client_that_reads_nothing() {
    let shutdown = CancellationToken::new();
    let registry = SessionRegistry::new(SessionLimits::default(), shutdown.clone());
    let (io, _body) = registry.open("r").unwrap();
    for i in 0..StreamLimits::default().frames {
        io.output.send(&server_message(&i.to_string())).await.unwrap();
    }
    let began = Instant::now();
    let message = server_message("too many");
    let (sent, ()) = tokio::join!(io.output.send(&message), async { shutdown.cancel() });
    assert_eq!(sent, Err(SendError::Closed));
    io.output.closed().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
}

// === the end ===

#[tokio::test]
async fn a_stream_ends_with_exactly_one_frame() {
    let registry = registry();
    let (io, body) = registry.open("ok").unwrap();
    io.output.send(&server_message("one")).await.unwrap();
    let writer = io.output.writer();
    writer.send(&server_message("two")).await.unwrap();
    io.output.finish(Ok(()));
    assert_eq!(writer.send(&server_message("late")).await, Err(SendError::Closed));
    assert_eq!(
        rest(body).await,
        [
            Seen::Text("one".to_owned()),
            Seen::Text("two".to_owned()),
            Seen::End(json!({}))
        ]
    );

    let (io, body) = registry.open("error").unwrap();
    io.output
        .finish(Err(ConnectError::new(ConnectCode::Unavailable, "no\u{7}\nway")));
    let expected = json!({"error": {"code": "unavailable", "message": "no \nway"}});
    assert_eq!(rest(body).await, [Seen::End(expected)]);
}

#[tokio::test]
async fn an_owner_that_vanishes_ends_the_stream_with_internal() {
    let registry = registry();
    let (io, body) = registry.open("r").unwrap();
    let writer = io.output.writer();
    let task = tokio::spawn(async move {
        io.output.send(&server_message("one")).await.unwrap();
        panic!("a fault in the session");
    });
    assert!(task.await.unwrap_err().is_panic());
    let frames = rest(body).await;
    assert_eq!(frames.len(), 2, "{frames:?}");
    assert_eq!(frames[0], Seen::Text("one".to_owned()));
    let Seen::End(end) = &frames[1] else {
        panic!("no end in {frames:?}");
    };
    assert_eq!(end["error"]["code"], "internal");
    assert_eq!(writer.send(&server_message("late")).await, Err(SendError::Closed));
}

#[test]
fn an_error_of_any_text_has_a_short_valid_frame() {
    let text: String = (0..2_000_000_u32)
        .map(|i| char::from_u32(i % 0x300).unwrap_or('x'))
        .collect();
    let details = ErrorDetails {
        error: error_details::Error::ProviderError.into(),
        details: Some(CustomErrorDetails {
            title: text.clone(),
            detail: text.clone(),
            is_retryable: Some(true),
            additional_info: (0..20)
                .map(|i| (format!("{i}{text:.10}"), text.clone()))
                .collect(),
            ..CustomErrorDetails::default()
        }),
        is_expected: Some(true),
    };
    let error = ConnectError::new(ConnectCode::Unavailable, &text).with_details(details);
    let frame = encode_end(Err(&error));
    assert!(frame.len() < 200_000, "{}", frame.len());
    let Seen::End(end) = all_seen(&frame).remove(0) else {
        panic!("no end frame");
    };
    let message = end["error"]["message"].as_str().unwrap();
    assert!(message.len() <= 4096 && message.ends_with('…'));
    assert!(!message.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
    assert_eq!(end["error"]["details"][0]["type"], "aiserver.v1.ErrorDetails");
    let value = end["error"]["details"][0]["value"].as_str().unwrap();
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD_NO_PAD
        .decode(value)
        .unwrap();
    let decoded = ErrorDetails::decode(bytes.as_slice()).unwrap();
    assert_eq!(Some(&decoded), error.details());
    let custom = decoded.details.unwrap();
    assert_eq!(custom.is_retryable, Some(true));
    assert_eq!(
        (custom.title.as_str(), custom.additional_info.len()),
        (message, 16)
    );
}

#[tokio::test]
async fn a_client_that_closes_is_noticed() {
    let registry = registry();
    let (io, body) = registry.open("r").unwrap();
    let writer = io.output.writer();
    assert!(!writer.is_closed());
    drop(body);
    io.output.closed().await;
    assert_eq!(io.output.send(&server_message("x")).await, Err(SendError::Closed));
    io.output.finish(Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_counts_as_closed() {
    let registry = registry();
    let (io, body) = registry.open("r").unwrap();
    let frames = StreamLimits::default().frames;
    for i in 0..frames {
        io.output.send(&server_message(&i.to_string())).await.unwrap();
    }
    let began = Instant::now();
    let stalled = io.output.send(&server_message("too many")).await;
    assert_eq!(stalled, Err(SendError::Stalled(Duration::from_secs(60))));
    assert!(began.elapsed() >= Duration::from_secs(60));
    io.output.closed().await;
    io.output
        .finish(Err(ConnectError::new(ConnectCode::Aborted, "stalled")));
    let seen = rest(body).await;
    assert_eq!(seen.len(), frames + 1);
    assert!(matches!(seen.last(), Some(Seen::End(_))));
}

#[tokio::test]
async fn a_writer_waits_for_a_slow_reader_and_loses_nothing() {
    let registry = registry();
    let (io, body) = registry.open("r").unwrap();
    let task = tokio::spawn(async move {
        for i in 0..1000 {
            io.output.send(&server_message(&i.to_string())).await.unwrap();
        }
        io.output.finish(Ok(()));
    });
    let mut expected: Vec<Seen> = (0..1000).map(|i: u32| Seen::Text(i.to_string())).collect();
    expected.push(Seen::End(json!({})));
    assert_eq!(rest(body).await, expected);
    task.await.unwrap();
}

// === signs of life ===

#[tokio::test(start_paused = true)]
async fn a_silent_stream_gives_a_sign_of_life_every_five_seconds() {
    let registry = registry();
    let (io, mut body) = registry.open("r").unwrap();
    let began = Instant::now();
    let at = || began.elapsed().as_millis() / 100;
    assert_eq!((next_seen(&mut body).await, at()), (Seen::Heartbeat, 50));
    assert_eq!((next_seen(&mut body).await, at()), (Seen::Heartbeat, 100));
    advance(Duration::from_secs(2)).await;
    io.output.send(&server_message("alive")).await.unwrap();
    assert_eq!(
        (next_seen(&mut body).await, at()),
        (Seen::Text("alive".to_owned()), 120)
    );
    assert_eq!((next_seen(&mut body).await, at()), (Seen::Heartbeat, 170));
    // Quarter of an hour of a silent tool.
    for _ in 0..180 {
        assert_eq!(next_seen(&mut body).await, Seen::Heartbeat);
    }
    assert_eq!(at(), 170 + 180 * 50);
    io.output.finish(Ok(()));
    assert_eq!(rest(body).await, [Seen::End(json!({}))]);
}

// === envelopes ===

#[test]
fn envelopes_survive_every_split() {
    let mut stream = Vec::new();
    stream.extend_from_slice(&encode_message(&server_message("a")).unwrap());
    stream.extend_from_slice(&encode_message(&server_message(&"b".repeat(300))).unwrap());
    stream.extend_from_slice(&encode_end(Ok(())));
    let whole = all_seen(&stream);
    for cut in 0..=stream.len() {
        let mut decoder = EnvelopeDecoder::new(1024);
        let mut frames = Vec::new();
        for part in [&stream[..cut], &stream[cut..]] {
            decoder.push(part);
            while let Some(envelope) = decoder.next_envelope().unwrap() {
                frames.push(seen(envelope));
            }
        }
        decoder.finish().unwrap();
        assert_eq!(frames, whole, "cut at {cut}");
    }
}

#[test]
fn what_is_no_envelope_is_a_typed_error() {
    let next = |bytes: &[u8]| {
        let mut decoder = EnvelopeDecoder::new(4);
        decoder.push(bytes);
        decoder.next_envelope()
    };
    assert_eq!(
        next(&[0, 0, 0, 0, 1, 9]),
        Ok(Some(Envelope::Message(Bytes::from_static(&[9]))))
    );
    assert_eq!(
        next(&[0, 0, 0, 0, 5]),
        Err(EnvelopeError::TooLong { length: 5, limit: 4 })
    );
    assert_eq!(next(&[1, 0, 0, 0, 1, 9]), Err(EnvelopeError::Compressed));
    assert_eq!(next(&[0x82, 0, 0, 0, 0]), Err(EnvelopeError::UnknownFlags(0x82)));
    let mut cut = EnvelopeDecoder::new(4);
    cut.push(&[0, 0, 0, 0, 3, 9]);
    assert_eq!(cut.next_envelope(), Ok(None));
    assert_eq!(cut.finish(), Err(EnvelopeError::Cut { missing: 2 }));
}

// === over HTTP ===

#[tokio::test]
async fn a_whole_request_over_http() {
    let mut server = Server::start().await;
    let answer = server
        .append(&append_request("r", 0, &client_message("message 0")))
        .await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "application/proto");
    assert_eq!(answer.bytes().await.unwrap(), Bytes::new());

    let (response, mut io) = server.open("r").await;
    assert_eq!(response.headers()["content-type"], "application/connect+proto");
    assert_eq!(io.inbound.recv().await, Some(Ok(inbound(0))));
    for seqno in [2, 1, 1, 3] {
        let request = append_request("r", seqno, &client_message(&format!("message {seqno}")));
        assert_eq!(server.append(&request).await.status(), 200);
    }
    assert_eq!(read_now(&mut io).await, [1, 2, 3]);

    let again = server.run_sse("r").await;
    assert_eq!(
        (again.status().as_u16(), &again.headers()["content-type"]),
        (200, &"application/connect+proto".parse().unwrap())
    );
    let frames = all_seen(&again.bytes().await.unwrap());
    assert!(
        matches!(&frames[..], [Seen::End(end)] if end["error"]["code"] == "already_exists"),
        "{frames:?}"
    );

    io.output.send(&server_message("hello")).await.unwrap();
    io.output.finish(Ok(()));
    let frames = all_seen(&response.bytes().await.unwrap());
    assert_eq!(frames, [Seen::Text("hello".to_owned()), Seen::End(json!({}))]);

    let late = server
        .append(&append_request("r", 4, &client_message("late")))
        .await;
    assert_eq!(late.status(), 400);
    assert_eq!(wire::json(late).await["code"], "failed_precondition");
}

#[tokio::test]
async fn two_hundred_appends_at_once() {
    let mut server = Server::start().await;
    let (_response, mut io) = server.open("r").await;
    let mut appends = tokio::task::JoinSet::new();
    for seqno in (0..200).rev() {
        let request = append_request("r", seqno, &client_message(&format!("message {seqno}")));
        let append = server
            .post("/aiserver.v1.BidiService/BidiAppend", "application/proto")
            .bearer_auth(&server.token)
            .body(request.encode_to_vec());
        appends.spawn(async move { append.send().await.unwrap().status().as_u16() });
    }
    assert_eq!(appends.join_all().await, [200; 200]);
    assert_eq!(read_now(&mut io).await, (0..200).collect::<Vec<u64>>());
}

#[tokio::test]
async fn eight_megabytes_of_hex_in_one_append() {
    let mut server = Server::start().await;
    let (_response, mut io) = server.open("r").await;
    let message = client_message(&"é".repeat(2 * 1024 * 1024));
    let request = append_request("r", 0, &message);
    assert!(request.data.len() > 8 * 1024 * 1024);
    assert_eq!(server.append(&request).await.status(), 200);
    assert_eq!(io.inbound.recv().await.unwrap().unwrap().message, message);
}

#[tokio::test]
async fn a_bad_append_is_refused_and_can_be_sent_again() {
    let mut server = Server::start().await;
    let (_response, mut io) = server.open("r").await;
    let good = append_request("r", 0, &client_message("message 0"));
    let mut bad = Vec::new();
    for data in ["0", "0x", "0x0a", "abc", "zz", "0g", "é", " 00", "0a05", "0a 0"] {
        bad.push((data, {
            let mut request = good.clone();
            request.data = data.to_owned();
            request
        }));
    }
    let with = |change: fn(&mut cairn::cursor::proto::aiserver::BidiAppendRequest)| {
        let mut request = good.clone();
        change(&mut request);
        request
    };
    bad.push(("negative", with(|request| request.append_seqno = -1)));
    bad.push(("no id", with(|request| request.request_id = None)));
    bad.push(("no data", with(|request| request.data.clear())));
    bad.push((
        "both data",
        with(|request| request.data_binary = Bytes::from_static(b"x")),
    ));
    for (name, request) in bad {
        let answer = server.append(&request).await;
        assert_eq!(answer.status(), 400, "{name}");
        assert_eq!(answer.headers()["content-type"], "application/json", "{name}");
        let error = wire::json(answer).await;
        assert_eq!(error["code"], "invalid_argument", "{name}: {error}");
    }
    assert_eq!(read_now(&mut io).await, Vec::<u64>::new());

    let mut upper = good.clone();
    upper.data = upper.data.to_uppercase();
    assert_eq!(server.append(&upper).await.status(), 200);
    let mut binary = append_request("r", 1, &client_message("message 1"));
    binary.data_binary = hex::decode(std::mem::take(&mut binary.data)).unwrap().into();
    assert_eq!(server.append(&binary).await.status(), 200);
    assert_eq!(read_now(&mut io).await, [0, 1]);
}

#[tokio::test]
async fn a_parent_is_named_by_both_headers_or_none() {
    let mut server = Server::start().await;
    let (_response, mut io) = server.open("r").await;
    let append = |headers: &[(&str, &str)]| {
        let request = append_request("r", 0, &client_message("x")).encode_to_vec();
        let mut append = server
            .post("/aiserver.v1.BidiService/BidiAppend", "application/proto")
            .bearer_auth(&server.token)
            .body(request);
        for (name, value) in headers {
            append = append.header(*name, *value);
        }
        async move { append.send().await.unwrap().status().as_u16() }
    };
    let run = ("x-parent-request-id", "parent");
    let call = ("x-parent-agent-tool-call-id", "call|1");
    assert_eq!(append(&[run]).await, 400);
    assert_eq!(append(&[call]).await, 400);
    assert_eq!(append(&[run, call]).await, 200);
    let parent = ParentReference {
        request_id: "parent".to_owned(),
        tool_call_id: "call|1".to_owned(),
    };
    assert_eq!(io.inbound.recv().await.unwrap().unwrap().parent, Some(parent));
}

#[tokio::test]
async fn bodies_are_bounded_and_uncompressed() {
    let server = Server::start().await;
    let append = || {
        server
            .post("/aiserver.v1.BidiService/BidiAppend", "application/proto")
            .bearer_auth(&server.token)
    };
    // Refused by its announced length: nothing of it is read.
    let chunks = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
    let long = append()
        .header("content-length", 256 * 1024 * 1024 + 1)
        .body(reqwest::Body::wrap_stream(chunks))
        .send()
        .await
        .unwrap();
    assert_eq!(long.status(), 429);
    assert_eq!(wire::json(long).await["code"], "resource_exhausted");
    // Refused as it grows.
    let chunk = Bytes::from(vec![b'0'; 1024 * 1024]);
    let chunks = futures_util::stream::iter((0..5).map(move |_| Ok::<_, std::io::Error>(chunk.clone())));
    let grown = server
        .post("/aiserver.v1.AnalyticsService/TrackEvents", "application/proto")
        .bearer_auth(&server.token)
        .body(reqwest::Body::wrap_stream(chunks))
        .send()
        .await
        .unwrap();
    assert_eq!(grown.status(), 429);
    let compressed = append()
        .header("content-encoding", "gzip")
        .body("x")
        .send()
        .await
        .unwrap();
    assert_eq!(compressed.status(), 501);
    assert_eq!(wire::json(compressed).await["code"], "unimplemented");
}

#[tokio::test]
async fn a_bad_opening_is_one_end_frame() {
    let server = Server::start().await;
    let good = wire::run_sse_body("r");
    let mut compressed = good.to_vec();
    compressed[0] = 1;
    let twice = [good.as_ref(), good.as_ref()].concat();
    let no_id = wire::run_sse_body("");
    for body in [
        &b""[..],
        &good[..3],
        &compressed,
        &twice,
        &no_id,
        b"\0\0\0\0\x02\xff\xff",
        &encode_end(Ok(())),
    ] {
        let answer = server
            .post("/agent.v1.AgentService/RunSSE", "application/connect+proto")
            .bearer_auth(&server.token)
            .body(body.to_vec())
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200);
        let frames = all_seen(&answer.bytes().await.unwrap());
        assert!(
            matches!(&frames[..], [Seen::End(end)] if end["error"]["code"] == "invalid_argument"),
            "{body:?}: {frames:?}"
        );
    }
}

#[tokio::test]
async fn a_closed_response_reaches_the_session() {
    let mut server = Server::start().await;
    let (response, io) = server.open("r").await;
    drop(response);
    io.output.closed().await;
}
