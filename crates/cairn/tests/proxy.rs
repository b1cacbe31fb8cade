//! What cairn does not serve goes to the configured upstream and comes back untouched, as a stream both ways.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a failed expectation is a failed test"
)]

#[path = "support/wire.rs"]
mod wire;

use std::net::SocketAddr;

use bytes::Bytes;
use cairn::cursor::proxy::Upstream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use wire::{CLIENT_KEY, Server};

/// An upstream that is read and written byte by byte.
struct Raw {
    listener: TcpListener,
    address: SocketAddr,
}

impl Raw {
    async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    async fn server(&self) -> Server {
        Server::with_upstream(Some(&format!("http://{}", self.address))).await
    }

    async fn accept(&self) -> TcpStream {
        self.listener.accept().await.unwrap().0
    }
}

/// Reads until the text has arrived and returns all that came.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    while !text.contains(end) {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.unwrap();
        assert_ne!(count, 0, "closed after {text:?}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    text
}

/// The header lines of a message in lower-case names, sorted.
fn headers(head: &str) -> Vec<String> {
    let mut lines: Vec<String> = head
        .split("\r\n")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            format!("{}: {value}", name.to_lowercase())
        })
        .collect();
    lines.sort();
    lines
}

async fn connect(server: &Server, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn everything_end_to_end_is_untouched() {
    let upstream = Raw::listen().await;
    let server = upstream.server().await;
    let request = format!(
        "PATCH /a%2Fb/../c//d?x=1&y=%20&z HTTP/1.1\r\nHost: localhost:{}\r\nAuthorization: Bearer theirs\r\nX-One: \
         1\r\nX-One: 2\r\nCookie: a=b\r\nAccept-Encoding: gzip,br\r\nContent-Type: application/proto\r\n\
         Content-Length: 4\r\nConnection: keep-alive, X-Hop\r\nX-Hop: h\r\nKeep-Alive: timeout=5\r\n\
         Proxy-Connection: keep-alive\r\nProxy-Authorization: p\r\nTE: trailers\r\nUpgrade: h2c\r\n\r\nbody",
        server.port
    );
    let mut client = connect(&server, &request).await;
    let mut connection = upstream.accept().await;
    let received = read_until(&mut connection, "\r\n\r\nbody").await;
    assert!(
        received.starts_with("PATCH /a%2Fb/../c//d?x=1&y=%20&z HTTP/1.1\r\n"),
        "{received}"
    );
    assert_eq!(
        headers(&received),
        [
            "accept-encoding: gzip,br",
            "authorization: Bearer theirs",
            "content-length: 4",
            "content-type: application/proto",
            "cookie: a=b",
            &format!("host: {}", upstream.address),
            "x-one: 1",
            "x-one: 2",
        ]
    );

    let answer = "HTTP/1.1 418 I'm a teapot\r\nContent-Type: application/x\r\nContent-Encoding: gzip\r\nSet-Cookie: \
                  a=1\r\nSet-Cookie: b=2\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 3\r\nConnection: \
                  x-hop\r\nX-Hop: h\r\nKeep-Alive: timeout=5\r\n\r\n\u{1}\u{2}\u{3}";
    connection.write_all(answer.as_bytes()).await.unwrap();
    let received = read_until(&mut client, "\u{1}\u{2}\u{3}").await;
    assert!(received.starts_with("HTTP/1.1 418 "), "{received}");
    assert_eq!(
        headers(&received),
        [
            "content-encoding: gzip",
            "content-length: 3",
            "content-type: application/x",
            "date: Thu, 01 Jan 1970 00:00:00 GMT",
            "set-cookie: a=1",
            "set-cookie: b=2",
        ]
    );
}

#[tokio::test]
async fn bodies_stream_in_both_directions_at_once() {
    let upstream = Raw::listen().await;
    let server = upstream.server().await;
    let head = format!(
        "POST /stream HTTP/1.1\r\nHost: localhost:{}\r\nTransfer-Encoding: chunked\r\n\r\n",
        server.port
    );
    let mut client = connect(&server, &head).await;
    let mut connection = upstream.accept().await;
    let received = read_until(&mut connection, "\r\n\r\n").await;
    assert_eq!(
        headers(&received),
        [
            format!("host: {}", upstream.address),
            "transfer-encoding: chunked".to_owned()
        ]
    );
    client.write_all(b"3\r\none\r\n").await.unwrap();
    read_until(&mut connection, "one").await;
    // The response begins and flows before the request has ended.
    connection
        .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nuno\r\n")
        .await
        .unwrap();
    read_until(&mut client, "uno").await;
    client.write_all(b"3\r\ntwo\r\n").await.unwrap();
    read_until(&mut connection, "two").await;
    connection.write_all(b"3\r\ndos\r\n").await.unwrap();
    read_until(&mut client, "dos").await;
    client.write_all(b"0\r\n\r\n").await.unwrap();
    read_until(&mut connection, "0\r\n\r\n").await;
    connection.write_all(b"0\r\n\r\n").await.unwrap();
    read_until(&mut client, "0\r\n\r\n").await;
}

#[tokio::test]
async fn a_request_without_a_body_stays_without_one() {
    let upstream = Raw::listen().await;
    let server = upstream.server().await;
    let _client = connect(
        &server,
        &format!("GET /x HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", server.port),
    )
    .await;
    let mut connection = upstream.accept().await;
    let received = read_until(&mut connection, "\r\n\r\n").await;
    assert_eq!(headers(&received), [format!("host: {}", upstream.address)]);
}

#[tokio::test]
async fn redirects_are_handed_back() {
    let upstream = Raw::listen().await;
    let server = upstream.server().await;
    let answer = tokio::spawn(server.http.get(format!("{}/x", server.base)).send());
    let mut connection = upstream.accept().await;
    read_until(&mut connection, "\r\n\r\n").await;
    let redirect =
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://elsewhere.test/\r\nContent-Length: 0\r\n\r\n";
    connection.write_all(redirect.as_bytes()).await.unwrap();
    let answer = answer.await.unwrap().unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["location"]),
        (307, &"http://elsewhere.test/".parse().unwrap())
    );
}

#[tokio::test]
async fn what_breaks_upstream_breaks_here_and_is_not_taken_for_an_end() {
    let upstream = Raw::listen().await;
    let server = upstream.server().await;
    let answer = tokio::spawn(server.http.get(format!("{}/x", server.base)).send());
    let mut connection = upstream.accept().await;
    read_until(&mut connection, "\r\n\r\n").await;
    connection
        .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        .await
        .unwrap();
    let answer = answer.await.unwrap().unwrap();
    drop(connection);
    assert!(answer.bytes().await.is_err());
}

#[tokio::test]
async fn an_unreachable_upstream_is_a_plain_502() {
    let upstream = Raw::listen().await;
    let server = upstream.server().await;
    drop(upstream);
    let answer = server
        .post("/x", "application/json")
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 502);
    assert_eq!(answer.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(
        answer.bytes().await.unwrap(),
        Bytes::from("the configured upstream could not be reached; check `upstream` and the network\n")
    );
}

#[tokio::test]
async fn local_routes_stay_local_and_strangers_stay_out() {
    let upstream = Raw::listen().await;
    let server = upstream.server().await;
    let list = server
        .http
        .get(format!("{}/v1/models", server.base))
        .bearer_auth(CLIENT_KEY)
        .send()
        .await
        .unwrap();
    assert_eq!(list.status(), 200);
    let refused = server
        .http
        .get(format!("{}/x", server.base))
        .header("origin", "https://evil.test");
    assert_eq!(refused.send().await.unwrap().status(), 403);
    let reached = tokio::time::timeout(std::time::Duration::ZERO, upstream.accept()).await;
    assert!(reached.is_err());
}

#[test]
fn only_an_http_address_is_an_upstream() {
    assert!(Upstream::new(&"ftp://host".parse().unwrap()).is_err());
    assert!(Upstream::new(&"data:x".parse().unwrap()).is_err());
    Upstream::new(&"http://[::1]:1".parse().unwrap()).unwrap();
}
