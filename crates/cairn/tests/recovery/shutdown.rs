//! The program is told to stop while everything is stuck: it ends in time and leaves a whole database.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use cairn::cursor::proto::agent::selected_image::DataOrBlobId;
use cairn::cursor::proto::agent::{SelectedContext, SelectedImage, UserMessage};
use cairn::model::ConversationId;
use cairn::store::{RecordedOutcome, Store};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::support::cairn_server::{KEY, MODEL};
use super::support::fake_cursor::{ExecAnswer, FakeCursor};
use super::support::strict_chat::{Reply, StrictChat};

/// How long the program may take to end. [contract]
const LIMIT: Duration = Duration::from_secs(10);

/// Starts the program, and gives its address.
async fn start(folder: &Path, chat: &str, upstream: &str) -> (Child, String) {
    let file = folder.join("cairn.toml");
    let config = format!(
        "client_key = \"{KEY}\"\nupstream = \"{upstream}\"\n[[models]]\nid = \"{MODEL}\"\napi = \"openai-chat\"\n\
         base_url = \"{chat}\"\ncontext_window = 128000\nvision = true\n"
    );
    std::fs::write(&file, config).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_cairn"))
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(&file)
        .arg("--data-dir")
        .arg(folder.join("data"))
        .env_clear()
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).await.unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
    (child, address)
}

/// Tells the program to stop.
async fn signal(child: &Child, which: &str) {
    let id = child.id().unwrap().to_string();
    let told = Command::new("kill").args([which, &id]).status().await.unwrap();
    assert!(told.success());
}

/// An upstream that begins an answer and never ends it.
async fn endless_upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        // An answer before its request would be refused.
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(socket.read_u8().await.unwrap());
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(b"6\r\nhello\n\r\n").await.unwrap();
        // Until the other side is gone.
        let _ = socket.read_to_end(&mut Vec::new()).await;
    });
    address
}

/// An answer that no buffer on its way to a client can hold.
fn flood() -> Reply {
    let text = "x".repeat(64 << 10);
    let chunk = json!({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": null}]});
    Reply::raw(format!("data: {chunk}\n\n").repeat(400))
}

async fn stop_with_everything_stuck(which: &str) {
    let chat = StrictChat::start().await;
    let folder = TempDir::new().unwrap();
    let (mut child, address) = start(folder.path(), &chat.base_url(), &endless_upstream().await).await;
    let client = async |name: &str| FakeCursor::new(&address, KEY, name, folder.path()).await;

    // An endpoint that does not answer.
    let (held, gate) = Reply::text("never read").hold_headers();
    chat.reply(held);
    let mut waiting = client("waiting").await;
    let mut waiting_turn = waiting.start_turn("Hello?").await;
    waiting_turn.until_checkpoint(0).await;
    gate.arrived().await;

    // A client that reads no more while the endpoint pours.
    let (pouring, tap) = flood().hold_headers();
    chat.reply(pouring);
    let mut deaf = client("deaf").await;
    let mut deaf_turn = deaf.start_turn("Tell me everything.").await;
    deaf_turn.until_checkpoint(0).await;
    tap.arrived().await;
    tap.open();

    // A client that answers nothing at all.
    let mut dumb = client("dumb").await;
    let _dumb_turn = dumb.start_turn("Hello?").await;

    // A forwarded stream that does not end.
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut forwarded = http.get(format!("{address}/some/stream")).send().await.unwrap();
    assert_eq!(forwarded.chunk().await.unwrap().unwrap(), "hello\n");

    let told = Instant::now();
    signal(&child, which).await;
    let (status, report) = tokio::join!(tokio::time::timeout(LIMIT, child.wait()), waiting_turn.finish());
    let status = status.expect("the program did not end in time").unwrap();
    assert!(status.success(), "{which}: {status}");
    assert!(told.elapsed() < LIMIT);
    assert_eq!(report.error().0, "canceled");

    let data = folder.path().join("data");
    let log = std::fs::metadata(data.join("cairn.db-wal")).map_or(0, |log| log.len());
    assert_eq!(log, 0, "a part of the database is still in its log");
    let store = Store::open(&data.join("cairn.db")).await.unwrap();
    store.check_integrity().await.unwrap();
    for conversation in ["waiting", "deaf"] {
        let runs = store.runs_of(&ConversationId::new(conversation)).await.unwrap();
        let outcomes: Vec<_> = runs.iter().map(|run| run.outcome.clone()).collect();
        assert_eq!(outcomes, [Some(RecordedOutcome::Cancelled)], "{conversation}");
    }
}

/// A picture of a few kilobytes that takes long to read: 64 million white or black points.
fn slow_picture() -> Vec<u8> {
    const EDGE: u32 = 8000;
    let mut picture = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        let checked = [&kind[..], data].concat();
        let mut sum = flate2::Crc::new();
        sum.update(&checked);
        picture.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        picture.extend(checked);
        picture.extend(sum.sum().to_be_bytes());
    };
    let edge = EDGE.to_be_bytes();
    // One bit a point, in grey, neither filtered nor interlaced.
    chunk(b"IHDR", &[&edge[..], &edge, &[1, 0, 0, 0, 0]].concat());
    let mut points = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    let row = vec![0; usize::try_from(1 + EDGE / 8).unwrap()];
    for _ in 0..EDGE {
        points.write_all(&row).unwrap();
    }
    chunk(b"IDAT", &points.finish().unwrap());
    chunk(b"IEND", b"");
    picture
}

/// A thread that reads a picture, or looks up a name, cannot be told to stop.
#[tokio::test]
async fn a_signal_ends_the_program_in_time_while_a_thread_is_at_work() {
    let chat = StrictChat::start().await;
    let folder = TempDir::new().unwrap();
    let (mut child, address) = start(folder.path(), &chat.base_url(), "http://127.0.0.1:9").await;
    let mut cursor = FakeCursor::new(&address, KEY, "agent-1", folder.path()).await;
    let message = UserMessage {
        text: "What is this?".to_owned(),
        selected_context: Some(SelectedContext {
            selected_images: vec![SelectedImage {
                mime_type: "image/png".to_owned(),
                data_or_blob_id: Some(DataOrBlobId::Data(slow_picture().into())),
                ..Default::default()
            }],
            ..Default::default()
        }),
        ..Default::default()
    };
    cursor.hooks.exec = Box::new(|_| ExecAnswer::Hold);
    let mut turn = cursor.start_message(message).await;
    let context = turn.until_held(1).await[0].id;
    turn.release(context).await;
    // The picture is at work; nothing comes but signs of life.
    turn.next().await;
    signal(&child, "-TERM").await;
    let (status, report) = tokio::join!(tokio::time::timeout(LIMIT, child.wait()), turn.finish());
    let status = status.expect("the program did not end in time").unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(report.error().0, "canceled");
}

#[tokio::test]
async fn a_signal_ends_the_program_in_time_whatever_is_stuck() {
    tokio::join!(
        stop_with_everything_stuck("-INT"),
        stop_with_everything_stuck("-TERM")
    );
}
