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

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use prefix_conformance::record::{RecordError, Recorder};
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
            let recorder = Recorder::new(&session.base_url, out).unwrap();
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

async fn upstream(State(seen): State<Seen>, request: Request) -> Response {
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
    let router = Router::new().fallback(upstream).with_state(sender);
    tokio::spawn(async move { axum::serve(listener, router).await });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.jsonl");
    let origin = listen(Recorder::new(&target, std::fs::File::create(&path).unwrap()).unwrap()).await;

    let body = b"{ \"model\":\"m\", \"messages\":[ ], \"n\": 1.0 }";
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
    assert!(file.contains("chat") && Report::read(&path).unwrap().calls == 1);
}

#[test]
fn an_upstream_that_is_none_is_refused() {
    for upstream in ["localhost:1", "file:///x", "http://h/?a=b", ""] {
        assert!(
            matches!(Recorder::new(upstream, Vec::new()), Err(RecordError::Upstream(_))),
            "{upstream}"
        );
    }
}
