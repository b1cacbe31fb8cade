//! The session that the demonstration plays, and what must be seen of it.
//!
//! Must never know: how the server is built.

use std::io::Write;
use std::path::Path;

use super::DemoError;
use super::blobs::BlobStore;
use super::executor::Executor;
use super::narrator::Narrator;
use super::recorder::Overlap;
use super::turn::{Conversation, TurnRecord, decode_state, summary};
use super::wire_client::WireClient;

const FILE: &str = "harbour.txt";
const CONTENT: &str =
    "The pilot boat leaves at six.\nThe crane is out of order.\nTea is in the second drawer.\n";
const COPY: &str = "loud.txt";

/// What was played, for the closing account.
#[derive(Debug)]
pub(super) struct Played {
    pub conversation: Conversation,
}

/// Plays both turns and checks what each of them must have done.
pub(super) async fn play(
    client: WireClient,
    model: &str,
    workspace: &Path,
    narrator: &mut Narrator<impl Write>,
) -> Result<Played, DemoError> {
    std::fs::write(workspace.join(FILE), CONTENT)?;
    let mut conversation = Conversation {
        client,
        id: "agent-demo".to_owned(),
        model: model.to_owned(),
        executor: Executor::new(workspace),
        blobs: BlobStore::default(),
        state: bytes::Bytes::new(),
    };

    narrator.heading("First turn")?;
    let text = format!("read {FILE}\nrun tr a-z A-Z < {FILE} > {COPY} && wc -l < {COPY}");
    let turn = conversation.turn("demo-turn-1", &text, narrator).await?;
    must_see(turn.turn_ended, "the end of the first turn")?;
    must_see(
        holds(&turn, CONTENT),
        "the file's content in the result of the first read",
    )?;
    must_see(
        matches!(&turn.outputs[..], [(0, output)] if output.trim() == "3"),
        "the command's output, 3, in its result",
    )?;
    must_see(
        quotes(&turn, CONTENT),
        "the file's content in the model's first answer",
    )?;
    settled(&conversation, 1)?;

    narrator.heading("Second turn")?;
    let text = format!("say Now the copy that the command wrote.\nread {COPY}");
    let turn = conversation.turn("demo-turn-2", &text, narrator).await?;
    let copy = CONTENT.to_uppercase();
    must_see(turn.turn_ended, "the end of the second turn")?;
    must_see(
        holds(&turn, &copy),
        "the copy's content in the result of the second read",
    )?;
    must_see(
        quotes(&turn, &copy),
        "the copy's content in the model's second answer",
    )?;
    settled(&conversation, 2)?;
    Ok(Played { conversation })
}

/// Shows where the client's state stands at the end.
pub(super) fn show_state(played: &Played, narrator: &mut Narrator<impl Write>) -> Result<(), DemoError> {
    let state = decode_state(&played.conversation.state)?;
    narrator.heading("The client's state: one checkpoint, and blobs that it names by their SHA-256")?;
    narrator.say("checkpoint", &summary(&state))?;
    narrator.say("blobs", &played.conversation.blobs.len().to_string())?;
    for (index, id) in state.turns.iter().enumerate() {
        let steps = played.conversation.blobs.turn(id)?.steps.len();
        narrator.say(&format!("turn {}", index + 1), &format!("{steps} steps"))?;
    }
    Ok(())
}

/// Shows how much of each request to the model repeated the one before; fails unless all of it did.
pub(super) fn show_overlaps(
    overlaps: &[Overlap],
    narrator: &mut Narrator<impl Write>,
) -> Result<(), DemoError> {
    narrator.heading("What the model was sent, as Chat Completions bodies")?;
    for (index, overlap) in overlaps.iter().enumerate() {
        let text = format!(
            "repeats {} of {} messages and {} of {} bytes of request {}, tools {}; {} bytes are new",
            overlap.repeated_messages,
            overlap.earlier_messages,
            overlap.repeated_bytes,
            overlap.earlier_bytes,
            index + 1,
            if overlap.same_head { "the same" } else { "changed" },
            overlap.later_bytes - overlap.repeated_bytes,
        );
        narrator.say(&format!("request {}", index + 2), &text)?;
    }
    // Two turns with one round of tools each.
    must_see(overlaps.len() == 3, "four requests to the model")?;
    must_see(
        overlaps.iter().all(Overlap::is_exact_prefix),
        "each request to the model beginning with the whole one before",
    )?;
    narrator.say(
        "",
        "Each request is the one before with something added; the last bytes of a body, \"]}\", only close it.",
    )?;
    Ok(())
}

/// Tells how the official client is connected.
pub(super) fn show_connecting(narrator: &mut Narrator<impl Write>) -> Result<(), DemoError> {
    narrator.heading("To connect the official client (Node 20 or newer):")?;
    narrator.say(
        "",
        r#"# in one terminal; `cargo install --locked --path crates/cairn` puts cairn on your path
CAIRN_API=scripted CAIRN_MODEL=scripted cairn serve
# in another one, in a folder of its own
npm install @cursor/sdk
export CURSOR_BACKEND_URL=http://127.0.0.1:7437
export CURSOR_API_KEY="$(cairn key)"
node ask.mjs
"#,
    )?;
    narrator.heading("with this as ask.mjs:")?;
    narrator.say(
        "",
        r#"import { Agent } from "@cursor/sdk";
const agent = await Agent.create({ apiKey: process.env.CURSOR_API_KEY, model: { id: "scripted" }, local: { cwd: process.cwd() } });
const run = await agent.send("read ask.mjs");
for await (const event of run.stream()) if (event.type === "tool_call") console.log(event.name, event.status);
console.log((await run.wait()).result);
console.log("see also: cairn prefix", agent.agentId);
await agent[Symbol.asyncDispose]();"#,
    )?;
    Ok(())
}

/// Whether the turn's one read gave these lines.
fn holds(turn: &TurnRecord, text: &str) -> bool {
    matches!(&turn.contents[..], [content] if content.lines().eq(text.lines()))
}

/// Whether the answer has every line of the text; the tool may have numbered them.
fn quotes(turn: &TurnRecord, text: &str) -> bool {
    text.lines().all(|line| turn.text.contains(line))
}

fn settled(conversation: &Conversation, turns: usize) -> Result<(), DemoError> {
    let state = decode_state(&conversation.state)?;
    must_see(
        state.pending_tool_calls.is_empty() && state.turns.len() == turns,
        "a settled checkpoint at the end of the turn",
    )
}

pub(super) fn must_see(seen: bool, what: &str) -> Result<(), DemoError> {
    if seen {
        Ok(())
    } else {
        Err(DemoError::Unseen(what.to_owned()))
    }
}
