//! What a turn costs early and late in one conversation: time, CPU, bytes.
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
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use support::client::{Client, Conversation};
use support::http::Connection;
use support::process::Server;
use support::statistics::{mean, median};
use support::{mover, number, wanted};
use tokio::net::TcpListener;
use tokio::time::{Duration, Instant};

/// Turns in each measured window.
const WINDOW: usize = 10;
/// First turn of the early window; its middle is turn 10.
const EARLY: usize = 6;
/// Bytes of the file that is read in each turn.
const FILE_BYTES: usize = 2048;

/// Argument of the process that only moves bytes.
const MOVER: &str = "--move-bytes";

fn main() {
    if std::env::args().any(|argument| argument == MOVER) {
        mover::serve();
    } else if wanted() {
        measure();
    } else {
        println!("turn_cost: nothing to do; run it with `cargo bench -p cairn --bench turn_cost`");
    }
}

#[tokio::main]
async fn measure() {
    let last = number("--turns", 500);
    assert!(last >= EARLY + 2 * WINDOW, "--turns must be larger");
    let endpoint = Endpoint::start().await;
    let server = Server::cairn(endpoint.address);
    let client = Client::connect(server.address()).await;
    let mover = Server::helper(&[MOVER]);
    let mut bench = Bench {
        server: &server,
        endpoint: &endpoint,
        mover: &mover,
        moves: mover::Client::connect(mover.address()).await,
    };

    let mut long = Conversation::new(&client, "long", file()).await;
    let mut early = Vec::new();
    for turn in 1..=last - 2 * WINDOW {
        let cost = bench.turn(&mut long, turn, true).await;
        if (EARLY..EARLY + WINDOW).contains(&turn) {
            early.push(cost);
        }
    }
    // Between the late turns, the early ones of a young conversation: the machine's noise is the same for both.
    let mut young = Conversation::new(&client, "young", file()).await;
    for turn in 1..EARLY {
        bench.turn(&mut young, turn, true).await;
    }
    let (mut beside, mut late, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..WINDOW {
        let long_turn = last - 2 * (WINDOW - turn) + 1;
        beside.push(bench.turn(&mut young, EARLY + turn, true).await);
        late.push(bench.turn(&mut long, long_turn, true).await);
        bare.push(bench.turn(&mut long, long_turn + 1, false).await);
    }
    assert_eq!(
        endpoint.conversations(),
        2,
        "a provider body did not extend the one before it"
    );
    println!(
        "data folder after {} turns: {:.1} MB",
        last + EARLY + WINDOW - 1,
        server.stored_bytes() as f64 / 1e6
    );
    report(last, [&early, &beside, &late, &bare]);
}

/// What one turn cost.
struct Cost {
    cpu_ms: f64,
    /// CPU time of a process that only moves the same bytes.
    moving_ms: f64,
    wall_ms: f64,
    disk: f64,
    uploaded: f64,
    checkpoints: f64,
    provider: f64,
}

struct Bench<'a> {
    server: &'a Server,
    endpoint: &'a Endpoint,
    mover: &'a Server,
    moves: mover::Client,
}

impl Bench<'_> {
    async fn turn(&mut self, conversation: &mut Conversation, number: usize, blobs_along: bool) -> Cost {
        let turn = conversation.prepare(
            &format!("Question {number}: what does the file say about it?"),
            blobs_along,
        );
        self.endpoint.take_totals();
        let before = self.server.usage();
        let start = Instant::now();
        let moved = conversation.play(turn).await;
        let wall = start.elapsed();
        let after = self.server.usage();
        let totals = self.endpoint.take_totals();
        assert_eq!(totals.requests, 2, "a turn is one tool round and one answer");
        let before_move = self.mover.usage();
        self.moves
            .play(moved.uploaded, moved.checkpoints + totals.bytes)
            .await;
        let server = wall.saturating_sub(moved.client_time + totals.busy);
        Cost {
            cpu_ms: after.cpu_ms_since(&before),
            moving_ms: self.mover.usage().cpu_ms_since(&before_move),
            wall_ms: server.as_secs_f64() * 1e3,
            disk: after.disk_bytes_since(&before),
            uploaded: moved.uploaded as f64,
            checkpoints: moved.checkpoints as f64,
            provider: totals.bytes as f64,
        }
    }
}

fn report(last: usize, columns: [&[Cost]; 4]) {
    println!(
        "\nmedians over {WINDOW} turns; the three columns on the right were measured turn by turn in alternation"
    );
    println!(
        "{:<34}{:>10}{:>14}{:>12}{:>16}{:>16}",
        "",
        "turn 10",
        "turn 10 again",
        format!("turn {last}"),
        "without blobs",
        format!("{last} : 10 again"),
    );
    let row = |name: &str, digits: usize, middle: fn(&[f64]) -> f64, of: &dyn Fn(&Cost) -> f64| {
        let [early, again, late, bare] =
            columns.map(|costs| middle(&costs.iter().map(of).collect::<Vec<_>>()));
        println!(
            "{name:<34}{early:>10.digits$}{again:>14.digits$}{late:>12.digits$}{bare:>16.digits$}{:>16.2}",
            late / again
        );
    };
    row("CPU of the server, ms", 2, median, &|cost| cost.cpu_ms);
    row("CPU of moving the same bytes, ms", 2, median, &|cost| {
        cost.moving_ms
    });
    row("CPU beyond that, ms", 2, median, &|cost| {
        cost.cpu_ms - cost.moving_ms
    });
    row("wall time of the server, ms", 2, median, &|cost| cost.wall_ms);
    row("written to disk, kB", 1, median, &|cost| cost.disk / 1e3);
    row("written to disk, kB, mean", 1, mean, &|cost| cost.disk / 1e3);
    row("uploaded by the client, kB", 1, median, &|cost| {
        cost.uploaded / 1e3
    });
    row("checkpoints sent, kB", 1, median, &|cost| cost.checkpoints / 1e3);
    row("provider bodies sent, kB", 1, median, &|cost| cost.provider / 1e3);
}

fn file() -> String {
    let mut text = String::new();
    while text.len() < FILE_BYTES {
        text.push_str("    let answer = \"The file says what the question asks.\";\n");
    }
    text
}

/// A model endpoint: asks to read a file, and answers when it has the result.
struct Endpoint {
    address: SocketAddr,
    state: Arc<Mutex<EndpointState>>,
}

#[derive(Default)]
struct EndpointState {
    totals: Totals,
    calls: usize,
    /// The latest body of each conversation.
    latest: Vec<Bytes>,
}

#[derive(Default)]
struct Totals {
    requests: usize,
    bytes: usize,
    busy: Duration,
}

impl Endpoint {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<Mutex<EndpointState>>::default();
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(Connection::new(stream), Arc::clone(&shared)));
            }
        });
        Self { address, state }
    }

    fn take_totals(&self) -> Totals {
        std::mem::take(&mut self.state.lock().unwrap().totals)
    }

    /// Bodies that extended none before them.
    fn conversations(&self) -> usize {
        self.state.lock().unwrap().latest.len()
    }
}

async fn serve(mut connection: Connection, state: Arc<Mutex<EndpointState>>) {
    while let Some(body) = connection.request().await {
        let start = Instant::now();
        let answer = state.lock().unwrap().answer(body);
        state.lock().unwrap().totals.busy += start.elapsed();
        connection.write(answer.as_bytes()).await;
    }
}

impl EndpointState {
    fn answer(&mut self, body: Bytes) -> String {
        self.totals.requests += 1;
        self.totals.bytes += body.len();
        let role = memchr::memmem::rfind(&body, b"{\"role\":\"").unwrap() + 9;
        let has_result = body[role..].starts_with(b"tool\"");
        // All but the two closing brackets of a body is in the next one.
        let before = self
            .latest
            .iter_mut()
            .find(|latest| body.starts_with(&latest[..latest.len() - 2]));
        match before {
            Some(latest) => *latest = body,
            None => self.latest.push(body),
        }
        let events = if has_result {
            let text = "The file says what the question asks, as the line that was quoted shows. ";
            let mut events: String = (0..5)
                .map(|_| chunk(&format!("{{\"content\":\"{text}\"}}"), "null"))
                .collect();
            events.push_str(&chunk("{}", "\"stop\""));
            events
        } else {
            self.calls += 1;
            let call = format!(
                "{{\"tool_calls\":[{{\"index\":0,\"id\":\"call_{}\",\"type\":\"function\",\"function\":{{\"name\":\"Read\",\
                 \"arguments\":\"{{\\\"path\\\":\\\"/workspace/src/answer.rs\\\"}}\"}}}}]}}",
                self.calls
            );
            chunk(&call, "null") + &chunk("{}", "\"tool_calls\"")
        };
        let events = format!(
            "{events}data: {{\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{{\"prompt_tokens\":1000,\
             \"completion_tokens\":20}}}}\n\ndata: [DONE]\n\n"
        );
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{events}",
            events.len()
        )
    }
}

fn chunk(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    )
}
