//! The recording proxy: everything passes through untouched, the requests are written down, no key is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test says what it saw by failing"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use prefix_conformance::record::{RecordError, Recorder, upstream};
use prefix_conformance::recording::{Answer, Recording};
use prefix_conformance::reference::{Layout, ReferenceHost};
use prefix_conformance::report::Report;
use prefix_conformance::{Api, Host, HostError, Session, default_skills, run_prefix_conformance};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// A reference host that is sent through a recorder.
struct Recorded {
    inner: ReferenceHost,
    file: std::path::PathBuf,
    through: Option<String>,
}

async fn listen<W: Write + Send + 'static>(recorder: Recorder<W>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(recorder.serve(listener));
    origin
}

impl Host for Recorded {
    async fn turn(&mut self, session: &Session, turn: usize) -> Result<(), HostError> {
        if self.through.is_none() {
            let out = std::fs::File::create(&self.file).unwrap();
            let recorder = Recorder::new(upstream(&session.base_url).unwrap(), out).unwrap();
            let origin = listen(recorder).await;
            self.through = Some(session.base_url.replace(&session.origin, &origin));
        }
        let session = Session {
            base_url: self.through.clone().unwrap(),
            ..session.clone()
        };
        self.inner.turn(&session, turn).await
    }
}

#[tokio::test]
async fn a_recorded_run_is_the_run() {
    for api in Api::ALL {
        let folder = tempfile::tempdir().unwrap();
        let mut host = Recorded {
            inner: ReferenceHost::new(Layout::AppendOnly),
            file: folder.path().join("recording.jsonl"),
            through: None,
        };
        let options = prefix_conformance::ConformanceOptions::new(api);
        let outcome = run_prefix_conformance(&mut host, &options).await.unwrap();
        let report = Report::read(&host.file).unwrap();
        assert_eq!((report.calls, report.resets.clone()), (4, vec![]), "{api}");
        let lane = &report.lanes[0];
        assert_eq!((lane.lane.api, lane.lane.model.as_str()), (api, "fixture-model"));
        let shared: Vec<usize> = lane
            .calls
            .iter()
            .filter_map(|call| Some(call.kept.as_ref()?.shared_bytes))
            .collect();
        let expected: Vec<usize> = outcome
            .pairs
            .iter()
            .map(|pair| pair.provider.shared_bytes)
            .collect();
        assert_eq!(shared, expected, "{api}");
        // The last answer may be written just after the host has it.
        for call in &lane.calls[..3] {
            assert_eq!(call.status, Some(200), "{api}");
            let input = u64::try_from(call.body_bytes.div_ceil(4)).unwrap();
            assert_eq!(call.usage.unwrap().input, Some(input), "{api}");
        }
    }
    assert_eq!(default_skills().len(), 2);
}

type Seen = mpsc::Sender<(String, Vec<(String, String)>, Bytes)>;

async fn echoes(State(seen): State<Seen>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let headers = head
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    seen.send((head.uri.to_string(), headers, body)).await.unwrap();
    let mut response = Response::new(Body::from(&b"\x1f\x8b not quite gzip \xff\xfe"[..]));
    *response.status_mut() = StatusCode::IM_A_TEAPOT;
    response
        .headers_mut()
        .insert("content-encoding", "gzip".parse().unwrap());
    response
        .headers_mut()
        .insert("x-request-id", "r1".parse().unwrap());
    response
}

#[tokio::test]
async fn bodies_headers_and_status_pass_untouched_and_no_key_is_written() {
    let (sender, mut seen) = mpsc::channel(4);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("http://{}/base", listener.local_addr().unwrap());
    let router = Router::new().fallback(echoes).with_state(sender);
    tokio::spawn(async move { axum::serve(listener, router).await });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.jsonl");
    let origin = listen(recorder(&target, &path)).await;

    let body = b"{ \"model\":\"m\", \"messages\":[ ], \"n\": 1.0, \"said\":\"CANARY-header, CANARY-other, CANARY-query\" }";
    let request = format!(
        "POST /v1/chat/completions?key=CANARY-query HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer CANARY-header\r\n\
         x-api-key: CANARY-other\r\naccept-encoding: gzip\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        origin.trim_start_matches("http://"),
        body.len()
    );
    let address = origin.trim_start_matches("http://").to_owned();
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    })
    .await
    .unwrap();

    let (uri, headers, sent) = seen.recv().await.unwrap();
    assert_eq!(uri, "/base/v1/chat/completions?key=CANARY-query");
    assert_eq!(&sent[..], body);
    for expected in [
        ("authorization", "Bearer CANARY-header"),
        ("x-api-key", "CANARY-other"),
        ("accept-encoding", "gzip"),
    ] {
        assert!(
            headers
                .iter()
                .any(|(name, value)| (name.as_str(), value.as_str()) == expected),
            "{headers:?}"
        );
    }
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 418"), "{text}");
    assert!(
        text.contains("x-request-id: r1") && text.contains("content-encoding: gzip"),
        "{text}"
    );
    let expected = b"\x1f\x8b not quite gzip \xff\xfe";
    assert!(answer.windows(expected.len()).any(|window| window == expected));

    let file = std::fs::read_to_string(&path).unwrap();
    assert!(!file.contains("CANARY"), "{file}");
    let blotted = "*************, ************, ************";
    assert!(file.contains(blotted), "{file}");
    let report = Report::read(&path).unwrap();
    assert_eq!(report.lanes[0].calls[0].body_bytes, body.len());
}

fn recorder(target: &str, path: &Path) -> Recorder<std::fs::File> {
    Recorder::new(upstream(target).unwrap(), std::fs::File::create(path).unwrap()).unwrap()
}

/// An upstream whose answer a test gives piece by piece.
async fn held() -> (String, mpsc::Sender<Result<Bytes, std::io::Error>>) {
    let (sender, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let receiver = Arc::new(Mutex::new(Some(receiver)));
    let serve = move || {
        let receiver = receiver.lock().unwrap().take().unwrap();
        let stream = futures_util::stream::unfold(receiver, |mut receiver| async move {
            Some((receiver.recv().await?, receiver))
        });
        async { Response::new(Body::from_stream(stream)) }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(serve)).await });
    (target, sender)
}

async fn post(origin: &str) -> reqwest::Response {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client
        .post(format!("{origin}/v1/chat/completions"))
        .body(r#"{"model":"m","messages":[]}"#)
        .send()
        .await
        .unwrap()
}

/// The one answer of a recording, once it is written.
async fn answer(path: &Path) -> Answer {
    loop {
        let recording = Recording::open(path).unwrap();
        if let Some(answer) = recording.answer(1) {
            return answer.clone();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stream_reaches_the_client_piece_by_piece_while_the_upstream_holds_it() {
    let (target, pieces) = held().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.jsonl");
    let origin = listen(recorder(&target, &path)).await;
    let mut response = post(&origin).await;
    // The call is on disk before any of its answer is.
    let recorded = Recording::open(&path).unwrap();
    assert_eq!((recorded.lanes().len(), recorded.answer(1)), (1, None));
    let sent = [
        "data: {\"choices\":[]}\n\n",
        "data: {\"usage\":{\"prompt_",
        "tokens\":7}}\n\n",
    ];
    for piece in sent {
        pieces.send(Ok(Bytes::from(piece))).await.unwrap();
        // The next one is not sent before this one has come.
        assert_eq!(response.chunk().await.unwrap().unwrap(), piece);
        assert_eq!(Recording::open(&path).unwrap().answer(1), None);
    }
    drop(pieces);
    assert_eq!(response.chunk().await.unwrap(), None);
    let expected = Answer {
        call: 1,
        status: 200,
        bytes: sent.concat().len(),
        whole: true,
        usage: Some(serde_json::json!({"prompt_tokens": 7})),
    };
    assert_eq!(answer(&path).await, expected);
}

#[tokio::test]
async fn an_answer_that_is_cut_or_given_up_is_passed_on_as_it_is_and_noted_as_cut() {
    for given_up in [false, true] {
        let (target, pieces) = held().await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording.jsonl");
        let origin = listen(recorder(&target, &path)).await;
        let mut response = post(&origin).await;
        pieces.send(Ok(Bytes::from("data: {}\n\n"))).await.unwrap();
        assert_eq!(response.chunk().await.unwrap().unwrap(), "data: {}\n\n");
        if given_up {
            drop(response);
            // The recorder lets go of the upstream too.
            pieces.closed().await;
        } else {
            pieces.send(Err(std::io::Error::other("cut"))).await.unwrap();
            assert!(response.chunk().await.is_err());
        }
        let answer = answer(&path).await;
        assert_eq!(
            (answer.bytes, answer.whole, answer.usage),
            (10, false, None),
            "{given_up}"
        );
    }
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_an_error_that_names_no_key_and_the_call_is_kept() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.jsonl");
    let origin = listen(recorder(&target, &path)).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let response = client
        .post(format!("{origin}/v1/messages?key=CANARY-query"))
        .body(r#"{"model":"m","messages":[]}"#)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    let text = response.text().await.unwrap();
    assert!(text.contains("the upstream cannot be reached"), "{text}");
    assert!(!text.contains("CANARY"), "{text}");
    let report = Report::read(&path).unwrap();
    assert_eq!((report.calls, report.lanes[0].calls[0].status), (1, None));
}

#[tokio::test]
async fn side_calls_pass_and_are_no_part_of_the_recording() {
    let (sender, mut seen) = mpsc::channel(4);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(echoes).with_state(sender);
    tokio::spawn(async move { axum::serve(listener, router).await });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.jsonl");
    let origin = listen(recorder(&target, &path)).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for path in ["/v1/models", "/v1/messages/count_tokens"] {
        let response = client
            .post(format!("{origin}{path}"))
            .body("{}")
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
        assert_eq!(seen.recv().await.unwrap().0, path);
    }
    assert_eq!(Report::read(&path).unwrap().calls, 0);
}

#[test]
fn an_upstream_that_is_none_is_refused() {
    for address in ["localhost:1", "file:///x", "http://h/?a=b", ""] {
        assert!(
            matches!(upstream(address), Err(RecordError::Upstream(_))),
            "{address}"
        );
    }
}
