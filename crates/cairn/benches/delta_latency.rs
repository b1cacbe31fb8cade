//! How much later a streamed text delta arrives because cairn is in between, next to a proxy that only forwards bytes.
//!
//! `docs/benchmarks.md` says what each figure means and how to read them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark stops where something is wrong, and prints its figures"
)]

mod support;

use std::net::SocketAddr;

use support::client::{Client, Conversation};
use support::http::{Connection, Stream};
use support::process::Server;
use support::statistics::{median, quantile};
use support::{number, option, wanted};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Duration, Instant};

/// Argument of the process that is the proxy.
const PROXY: &str = "--forward-to";
/// Samples before those that count.
const WARM_UP: usize = 200;

const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn main() {
    if let Some(address) = option(PROXY) {
        forward(address.parse().unwrap());
    } else if wanted() {
        measure();
    } else {
        println!("delta_latency: nothing to do; run it with `cargo bench -p cairn --bench delta_latency`");
    }
}

/// Accepts connections and copies bytes both ways, with the same runtime as cairn.
#[tokio::main]
async fn forward(to: SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listening on http://{}", listener.local_addr().unwrap());
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut server = TcpStream::connect(to).await.unwrap();
            client.set_nodelay(true).unwrap();
            server.set_nodelay(true).unwrap();
            // Whoever closes first ends both.
            let _ = copy_bidirectional(&mut client, &mut server).await;
        });
    }
}

/// A way from the endpoint to the client.
struct Path {
    name: &'static str,
    endpoint: Connection,
    client: Stream,
    microseconds: Vec<f64>,
}

/// One thread for the endpoint and the client: no wake-up between threads of the harness is measured.
#[tokio::main(flavor = "current_thread")]
async fn measure() {
    let samples = number("--samples", 4000);
    let pause = Duration::from_micros(u64::try_from(number("--pause-us", 1000)).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap();
    let proxy = Server::helper(&[PROXY, &endpoint.to_string()]);
    let cairn = Server::cairn(endpoint);

    let client = Client::connect(cairn.address()).await;
    let mut conversation = Conversation::new(&client, "stream", String::new()).await;
    let mut paths = [
        plain("direct", endpoint, &listener).await,
        plain("byte-forwarding proxy", proxy.address(), &listener).await,
        through_cairn(&mut conversation, &listener).await,
    ];

    for sample in 0..WARM_UP + samples {
        // The order turns, so that no path always follows the same other one.
        for turn in 0..paths.len() {
            let path = &mut paths[(sample + turn) % 3];
            let mark = format!("<{sample}>");
            let chunk = delta(&mark);
            #[allow(clippy::disallowed_methods, reason = "a model's stream has pauses")]
            tokio::time::sleep(pause).await;
            let start = Instant::now();
            path.endpoint.write(&chunk).await;
            path.client.read_past(mark.as_bytes()).await;
            if sample >= WARM_UP {
                path.microseconds.push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
    }

    println!(
        "one delta from the endpoint's write to the client's read, microseconds, {samples} samples each"
    );
    println!("{:<24}{:>9}{:>9}{:>9}", "", "p50", "p90", "p99");
    for path in &paths {
        let at = |share| quantile(&path.microseconds, share);
        println!(
            "{:<24}{:>9.0}{:>9.0}{:>9.0}",
            path.name,
            at(0.5),
            at(0.9),
            at(0.99)
        );
    }
    let [direct, proxy, cairn] = paths.map(|path| median(&path.microseconds));
    println!(
        "added to direct, p50:   proxy {:.0}, cairn {:.0}",
        proxy - direct,
        cairn - direct
    );
    println!("cairn above the proxy, p50: {:.0}", cairn - proxy);
}

/// A client that reads the endpoint's own stream, straight or through something that forwards it.
async fn plain(name: &'static str, address: SocketAddr, listener: &TcpListener) -> Path {
    let client = async {
        let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\n");
        Connection::open(address)
            .await
            .post_for_stream(&head, b"{}")
            .await
    };
    let (client, endpoint) = tokio::join!(client, accept(listener));
    Path {
        name,
        endpoint,
        client,
        microseconds: Vec::new(),
    }
}

async fn through_cairn(conversation: &mut Conversation, listener: &TcpListener) -> Path {
    const FIRST: &str = "first";
    let turn = conversation.prepare("Tell me something long.", true);
    let client = async {
        let mut run = conversation.begin(turn).await;
        while run.step(Some(FIRST)).await {}
        run.into_stream()
    };
    let endpoint = async {
        let mut endpoint = accept(listener).await;
        endpoint.write(&delta(FIRST)).await;
        endpoint
    };
    let (client, endpoint) = tokio::join!(client, endpoint);
    Path {
        name: "cairn",
        endpoint,
        client,
        microseconds: Vec::new(),
    }
}

/// The endpoint's side: takes a request and begins its answer.
async fn accept(listener: &TcpListener) -> Connection {
    let (stream, _) = listener.accept().await.unwrap();
    let mut connection = Connection::new(stream);
    connection.request().await.expect("a request");
    connection.write(STREAM_HEAD).await;
    connection
}

/// A chunk of the HTTP body that holds one whole event with one text delta.
fn delta(text: &str) -> Vec<u8> {
    let event = format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[\
         {{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
    );
    format!("{:x}\r\n{event}\r\n", event.len()).into_bytes()
}
