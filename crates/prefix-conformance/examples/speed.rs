//! How fast a recording of 1,000 requests with bodies of 2 MB is reported, and with how much memory.
//!
//! `cargo run --release --example speed [append|clock|distinct|lanes|whole-lanes]`: bodies that grow at the end, that also
//! differ near their start in each call, or that have nothing in common and stand whole in the file; and the first and the
//! last of these spread over fifty models, call by call.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement's figures are its output"
)]

use std::error::Error;
use std::fmt::Write;
use std::io::BufWriter;

use prefix_conformance::Api;
use prefix_conformance::recording::{NewCall, RecordingWriter};
use prefix_conformance::report::Report;
use tokio::time::Instant;

const CALLS: usize = 1000;
const BODY: usize = 2_000_000;
/// What a call adds to the conversation, in bytes.
const ADDED: usize = 2000;
/// Conversations at the same time, where there are many.
const LANES: usize = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let kind = std::env::args().nth(1).unwrap_or_else(|| "append".to_owned());
    // Generating needs memory of its own: it has a process of its own.
    if let Some(file) = std::env::args().nth(2) {
        return generate(&kind, &file);
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("recording.jsonl");
    let made = std::process::Command::new(std::env::current_exe()?)
        .arg(&kind)
        .arg(&file)
        .status()?;
    if !made.success() {
        return Err("the recording was not generated".into());
    }
    let started = Instant::now();
    let report = Report::read(&file)?;
    let read = started.elapsed();
    let page = report.html().len() + serde_json::to_string(&report)?.len() + report.text().len();
    let bodies: usize = report
        .lanes
        .iter()
        .flat_map(|lane| &lane.calls)
        .map(|call| call.body_bytes)
        .sum();
    println!(
        "{kind}: {} calls in {} lane(s), {:.2} GB of bodies in a file of {:.1} MB, {} breaks: read in {:.2} s, all three forms \
         ({:.1} MB) in {:.2} s, of which processor time {}, peak memory {}",
        report.calls,
        report.lanes.len(),
        mega(bodies) / 1000.0,
        mega(usize::try_from(std::fs::metadata(&file)?.len())?),
        report.resets.len(),
        read.as_secs_f64(),
        mega(page),
        started.elapsed().as_secs_f64(),
        processor().unwrap_or_else(|| "unknown on this system".to_owned()),
        peak().unwrap_or_else(|| "unknown on this system".to_owned()),
    );
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "a rounded figure for a reader")]
fn mega(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

/// The most memory that this process had, where the system tells.
fn peak() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "))
}

/// The processor time of this process without its children, where the system tells: a busy machine has little to do with it.
fn processor() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name in parentheses; time in and out of the kernel is the 12th and 13th of these, in hundredths.
    let fields: Vec<&str> = status.rsplit_once(") ")?.1.split(' ').collect();
    let ticks: u32 = fields.get(11)?.parse::<u32>().ok()? + fields.get(12)?.parse::<u32>().ok()?;
    Some(format!("{:.2} s", f64::from(ticks) / 100.0))
}

fn generate(kind: &str, file: &str) -> Result<(), Box<dyn Error>> {
    let mut writer = RecordingWriter::new(BufWriter::new(std::fs::File::create_new(file)?))?;
    for call in 0..CALLS {
        writer.call(NewCall {
            at_ms: u64::try_from(call)? * 1000,
            api: Api::Anthropic,
            body: body(kind, call)?,
        })?;
    }
    Ok(())
}

/// A body as agents send them: code in escaped strings, messages of a few thousand bytes.
fn body(kind: &str, call: usize) -> Result<Vec<u8>, Box<dyn Error>> {
    let lanes = match kind {
        "lanes" | "whole-lanes" => LANES,
        _ => 1,
    };
    let (lane, turn) = (call % lanes, call / lanes);
    let (system, salt) = match kind {
        "append" | "lanes" => ("You are an agent.".to_owned(), 0),
        "clock" => (format!("You are an agent. It is {call}."), 0),
        "distinct" | "whole-lanes" => (format!("You are agent {call}."), call * 7919),
        other => return Err(format!("{other}: use append, clock, distinct, lanes or whole-lanes").into()),
    };
    // Over all calls the mean is the wanted size.
    let messages = (BODY - CALLS / lanes * ADDED / 2) / ADDED + turn;
    let mut out = String::with_capacity(BODY * 2);
    write!(
        out,
        r#"{{"model":"claude-sonnet-5-{lane}","stream":true,"system":"{system}","tools":[{{"name":"read","input_schema":{{}}}}],"messages":["#
    )?;
    for message in 0..messages {
        if message > 0 {
            out.push(',');
        }
        let role = if message % 2 == 0 { "user" } else { "assistant" };
        write!(out, r#"{{"role":"{role}","content":[{{"type":"text","text":""#)?;
        let start = out.len();
        let mut line = 0;
        while out.len() - start < ADDED - 80 {
            write!(
                out,
                r#"    let value_{} = map.get(\"key {line}\");\n"#,
                message + salt
            )?;
            line += 1;
        }
        let marker = if message + 1 == messages {
            r#","cache_control":{"type":"ephemeral"}"#
        } else {
            ""
        };
        write!(out, r#""{marker}}}]}}"#)?;
    }
    out.push_str("]}");
    Ok(out.into_bytes())
}
