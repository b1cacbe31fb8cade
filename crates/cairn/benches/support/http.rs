//! As much of HTTP/1.1 as the benchmarks speak, over plain sockets: a library would cost time on the measured path.
//!
//! Must never know: what a body says.

use std::net::SocketAddr;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection that is read and written by one task.
pub struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
}

/// The head of a request or a response.
struct Head {
    first_line: String,
    length: Length,
}

enum Length {
    Known(usize),
    Chunked,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect(address).await.unwrap())
    }

    pub fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            buffer: BytesMut::with_capacity(64 * 1024),
        }
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Posts a body in one chunk, as the official client does, and reads the whole answer. [sdk]
    pub async fn post(&mut self, head: &str, body: &[u8]) -> Bytes {
        let start = format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n", body.len());
        self.write(start.as_bytes()).await;
        self.write(body).await;
        self.write(b"\r\n0\r\n\r\n").await;
        let head = self.head().await.expect("an answer");
        let body = self.body(&head).await;
        let status = head.first_line.split(' ').nth(1);
        assert_eq!(status, Some("200"), "{}", String::from_utf8_lossy(&body));
        body
    }

    /// Posts a body of which nothing but the beginning of the answer is read.
    pub async fn post_for_stream(mut self, head: &str, body: &[u8]) -> Stream {
        let start = format!("{head}content-length: {}\r\n\r\n", body.len());
        self.write(&[start.as_bytes(), body].concat()).await;
        let head = self.head().await.expect("an answer");
        assert!(
            head.first_line.starts_with("HTTP/1.1 200 "),
            "{}",
            head.first_line
        );
        assert!(matches!(head.length, Length::Chunked), "the answer is no stream");
        Stream { connection: self }
    }

    /// The body of the next request, or `None` when the peer is done.
    pub async fn request(&mut self) -> Option<Bytes> {
        let head = self.head().await?;
        Some(self.body(&head).await)
    }

    async fn head(&mut self) -> Option<Head> {
        loop {
            if let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n\r\n") {
                let head = self.buffer.split_to(end + 4);
                let text = std::str::from_utf8(&head).unwrap();
                let (first_line, headers) = text.split_once("\r\n").unwrap();
                let mut length = Length::Known(0);
                for line in headers.lines() {
                    let (name, value) = line.split_once(':').unwrap_or((line, ""));
                    if name.eq_ignore_ascii_case("content-length") {
                        length = Length::Known(value.trim().parse().unwrap());
                    } else if name.eq_ignore_ascii_case("transfer-encoding") {
                        length = Length::Chunked;
                    }
                }
                return Some(Head {
                    first_line: first_line.to_owned(),
                    length,
                });
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn body(&mut self, head: &Head) -> Bytes {
        match head.length {
            Length::Known(length) => self.take(length).await,
            Length::Chunked => {
                let mut body = BytesMut::new();
                while let Some(chunk) = self.chunk().await {
                    body.extend_from_slice(&chunk);
                }
                body.freeze()
            }
        }
    }

    async fn chunk(&mut self) -> Option<Bytes> {
        let end = loop {
            if let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n") {
                break end;
            }
            if !self.more().await {
                return None;
            }
        };
        let line = self.buffer.split_to(end + 2);
        let length = std::str::from_utf8(&line[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        let chunk = self.take(length).await;
        self.take(2).await;
        (length > 0).then_some(chunk)
    }

    async fn take(&mut self, length: usize) -> Bytes {
        self.buffer.reserve(length.saturating_sub(self.buffer.len()));
        while self.buffer.len() < length {
            assert!(self.more().await, "the connection was cut");
        }
        self.buffer.split_to(length).freeze()
    }

    async fn more(&mut self) -> bool {
        self.stream.read_buf(&mut self.buffer).await.unwrap() > 0
    }
}

/// The body of an answer that goes on.
pub struct Stream {
    connection: Connection,
}

impl Stream {
    /// The next piece, or `None` at the end.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.connection.chunk().await
    }

    /// Reads raw bytes until they hold the mark, and throws them away. Costs the same whoever sends.
    pub async fn read_past(&mut self, mark: &[u8]) {
        let connection = &mut self.connection;
        loop {
            if let Some(at) = memchr::memmem::find(&connection.buffer, mark) {
                connection.buffer.advance(at + mark.len());
                return;
            }
            assert!(connection.more().await, "the stream ended early");
        }
    }
}
