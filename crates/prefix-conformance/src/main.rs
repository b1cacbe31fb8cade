//! The command `prefix-conformance`: run, record, report.
//!
//! Owns options, exit codes and what is printed. Must never know: how anything is measured.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command's results are its output, its errors go to standard error"
)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use prefix_conformance::record::{Recorder, upstream};
use prefix_conformance::report::Report;
use prefix_conformance::{
    Api, AssertOn, CommandHost, CommandMode, ConformanceError, ConformanceOptions, Limits, MIN_CONTINUITY,
    Outcome, Skill, default_skills, percent, run_prefix_conformance, table,
};
use serde_json::json;
use tokio::net::TcpListener;

/// Measures whether an agent host keeps the prefix of its model requests stable.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run a host command through two turns against a fixture endpoint and judge its requests.
    Run(Run),
    /// Stand between a host and its endpoint and write down the requests.
    Record(Record),
    /// Explain a recording.
    Report(ReportOptions),
}

#[derive(Args)]
struct Run {
    /// The API that the host speaks: openai-chat, openai-responses or anthropic.
    #[arg(long, value_name = "API")]
    api: Api,
    /// Least share of the previous request that each request has to keep, 0 to 1.
    #[arg(long, value_name = "FRACTION", default_value_t = MIN_CONTINUITY)]
    min_continuity: f64,
    /// Which measurement decides.
    #[arg(
        long,
        value_name = "MEASUREMENT",
        value_enum,
        default_value = "provider-prefix"
    )]
    assert_on: AssertOnOption,
    /// How many request pairs have to break; more fail, and fewer fail too.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    allowed_resets: usize,
    /// The input of a turn; give it twice.
    #[arg(long, value_name = "TEXT")]
    input: Vec<String>,
    /// A skill as NAME=FILE with its body; give it twice.
    #[arg(long, value_name = "NAME=FILE")]
    skill: Vec<String>,
    /// The host's tool that loads a skill.
    #[arg(long, value_name = "NAME", default_value = "load_skill")]
    skill_tool: String,
    /// The arguments that it is called with, as JSON; {name} and {path} stand for the skill's name and file.
    #[arg(long, value_name = "JSON", default_value = r#"{"name":"{name}"}"#)]
    skill_arguments: String,
    /// Start the command once and let it run both turns.
    #[arg(long)]
    once: bool,
    /// Seconds that a turn may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    turn_timeout: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// The host and its arguments; {input} and {turn} are filled in.
    #[arg(last = true, required = true)]
    host: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum AssertOnOption {
    ProviderPrefix,
    CacheablePrefix,
}

#[derive(Args)]
struct Record {
    /// The endpoint, up to where the host's paths begin.
    #[arg(long, value_name = "URL")]
    upstream: String,
    /// The recording; it must not exist yet.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: String,
}

#[derive(Args)]
struct ReportOptions {
    /// The recording.
    file: PathBuf,
    /// A self-contained page.
    #[arg(long, conflicts_with = "json")]
    html: bool,
    /// All figures as JSON.
    #[arg(long)]
    json: bool,
    /// Write it to a file instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The share below which a call counts as a break, 0 to 1.
    #[arg(long, value_name = "FRACTION", default_value_t = MIN_CONTINUITY)]
    min_continuity: f64,
    /// End with 1 unless exactly this many calls broke.
    #[arg(long, value_name = "COUNT")]
    expect_resets: Option<usize>,
}

/// The host, or what was recorded, does not conform.
const NOT_CONFORMING: u8 = 1;
/// It could not be judged.
const NOT_JUDGED: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Task::Run(options) => run(options).await,
        Task::Record(options) => record(options).await,
        Task::Report(options) => report(&options),
    };
    done.unwrap_or_else(|fault| {
        eprintln!("prefix-conformance: {fault}");
        ExitCode::from(NOT_JUDGED)
    })
}

async fn run(options: Run) -> Result<ExitCode, String> {
    let mode = if options.once {
        CommandMode::Once
    } else {
        CommandMode::PerTurn
    };
    let mut host = options.host.iter().cloned();
    let program = host.next().ok_or("no command was given")?;
    let mut command = CommandHost::new(program, host.collect(), mode)
        .map_err(|fault| format!("no temporary folder: {fault}"))?;
    let conformance = conformance_options(&options, &command)?;
    let result = tokio::select! {
        // In this order, so that the signal is listened for before anything is started.
        biased;
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.map_err(|fault| fault.to_string())?;
            return Err("interrupted".to_owned());
        }
        result = run_prefix_conformance(&mut command, &conformance) => result,
    };
    let outcome = match &result {
        Ok(outcome) => Some(outcome),
        Err(ConformanceError::Broken { outcome, .. } | ConformanceError::BodyNeverSent { outcome, .. }) => {
            Some(outcome.as_ref())
        }
        Err(_) => None,
    };
    if options.json {
        let error = result.as_ref().err().map(ToString::to_string);
        let value = json!({"conforms": result.is_ok(), "error": error, "outcome": outcome});
        println!("{value:#}");
    } else if let Some(outcome) = outcome {
        print!("{}", outcome_table(outcome, &conformance.limits));
    }
    Ok(match result {
        Ok(_) => {
            if !options.json {
                println!("conforms");
            }
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("prefix-conformance: {fault}");
            ExitCode::from(match fault {
                ConformanceError::Broken { .. } | ConformanceError::BodyNeverSent { .. } => NOT_CONFORMING,
                _ => NOT_JUDGED,
            })
        }
    })
}

fn conformance_options(options: &Run, host: &CommandHost) -> Result<ConformanceOptions, String> {
    let mut conformance = ConformanceOptions::new(options.api);
    conformance.limits = Limits {
        min_continuity: options.min_continuity,
        assert_on: match options.assert_on {
            AssertOnOption::ProviderPrefix => AssertOn::ProviderPrefix,
            AssertOnOption::CacheablePrefix => AssertOn::CacheablePrefix,
        },
        allowed_resets: options.allowed_resets,
    };
    conformance.turn_timeout = Duration::from_secs(options.turn_timeout);
    match options.input.as_slice() {
        [] => {}
        [one, two] => conformance.inputs = [one.clone(), two.clone()],
        _ => return Err("--input: give none or two, one for each turn".to_owned()),
    }
    conformance.skills = match options.skill.as_slice() {
        [] => default_skills(),
        [one, two] => [skill(one)?, skill(two)?],
        _ => return Err("--skill: give none or two, in the order of the turns".to_owned()),
    };
    for skill in &mut conformance.skills {
        let path = host.skill_file(&skill.name);
        // As they stand inside of a JSON string.
        let quoted = |text: &str| {
            let json = serde_json::Value::from(text).to_string();
            json[1..json.len() - 1].to_owned()
        };
        skill.load.name.clone_from(&options.skill_tool);
        skill.load.arguments = options
            .skill_arguments
            .replace("{name}", &quoted(&skill.name))
            .replace("{path}", &quoted(&path.to_string_lossy()));
        serde_json::from_str::<serde_json::Value>(&skill.load.arguments)
            .map_err(|fault| format!("--skill-arguments: no JSON once filled in: {fault}"))?;
    }
    Ok(conformance)
}

fn skill(option: &str) -> Result<Skill, String> {
    let (name, file) = option
        .split_once('=')
        .ok_or_else(|| format!("--skill {option}: give it as NAME=FILE"))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(plain) {
        return Err(format!(
            "--skill {option}: the name is also a folder; use letters, digits, - and _"
        ));
    }
    let body = std::fs::read_to_string(file).map_err(|fault| format!("--skill {option}: {fault}"))?;
    Ok(Skill::new(name, body))
}

fn outcome_table(outcome: &Outcome, limits: &Limits) -> String {
    let heading = [
        "requests",
        "previous bytes",
        "shared bytes",
        "provider",
        "cacheable",
        "",
        "first difference",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for pair in &outcome.pairs {
        let asserted = pair.asserted(limits.assert_on);
        let cacheable = pair.asserted(AssertOn::CacheablePrefix);
        let broke = asserted.continuity() < limits.min_continuity;
        rows.push(vec![
            format!("{} → {}", pair.request - 1, pair.request),
            pair.provider.previous_bytes.to_string(),
            pair.provider.shared_bytes.to_string(),
            percent(pair.provider.continuity()),
            percent(cacheable.continuity()),
            if broke {
                "BREAK".to_owned()
            } else {
                "ok".to_owned()
            },
            asserted
                .boundary
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
        ]);
    }
    let mut out = table(&rows);
    for pair in &outcome.pairs {
        if let Some(boundary) = &pair.asserted(limits.assert_on).boundary {
            out.push_str(&format!(
                "\n{} → {}: {boundary}\n{}",
                pair.request - 1,
                pair.request,
                boundary.difference
            ));
        }
    }
    out.push_str(&format!(
        "\n{} requests, provider continuity {}, cacheable continuity {}, resets {:?}\n",
        outcome.requests,
        percent(outcome.min_continuity),
        percent(outcome.cacheable_continuity),
        outcome.resets
    ));
    out
}

async fn record(options: Record) -> Result<ExitCode, String> {
    let listener = TcpListener::bind(&options.listen)
        .await
        .map_err(|fault| format!("--listen {}: {fault}", options.listen))?;
    let upstream = upstream(&options.upstream).map_err(|fault| fault.to_string())?;
    // Last, so that a mistake in the other options leaves no file behind.
    let out = std::fs::File::create_new(&options.out)
        .map_err(|fault| format!("--out {}: {fault}", options.out.display()))?;
    let recorder =
        Recorder::new(upstream, std::io::BufWriter::new(out)).map_err(|fault| fault.to_string())?;
    let address = listener.local_addr().map_err(|fault| fault.to_string())?;
    println!("listening on http://{address}");
    std::io::stdout().flush().map_err(|fault| fault.to_string())?;
    tokio::select! {
        // In this order, so that the signal is listened for before anything is served.
        biased;
        stopped = tokio::signal::ctrl_c() => stopped.map_err(|fault| fault.to_string())?,
        served = recorder.serve(listener) => served.map_err(|fault| fault.to_string())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn report(options: &ReportOptions) -> Result<ExitCode, String> {
    if !(0.0..=1.0).contains(&options.min_continuity) {
        return Err("--min-continuity: a fraction from 0 to 1".to_owned());
    }
    let report =
        Report::read_with(&options.file, options.min_continuity).map_err(|fault| fault.to_string())?;
    let text = if options.html {
        report.html()
    } else if options.json {
        serde_json::to_string_pretty(&report).map_err(|fault| fault.to_string())? + "\n"
    } else {
        report.text()
    };
    write_out(options.out.as_deref(), &text)?;
    let Some(expected) = options.expect_resets else {
        return Ok(ExitCode::SUCCESS);
    };
    // What was not looked at has not passed.
    if report.pairs == 0 || !report.unmeasured.is_empty() {
        return Err(format!("--expect-resets cannot be judged: {}", report.verdict()));
    }
    if expected == report.resets.len() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "prefix-conformance: {} call(s) broke {:?}, {expected} were expected",
        report.resets.len(),
        report.resets
    );
    Ok(ExitCode::from(NOT_CONFORMING))
}

fn write_out(file: Option<&Path>, text: &str) -> Result<(), String> {
    match file {
        Some(file) => {
            std::fs::write(file, text).map_err(|fault| format!("--out {}: {fault}", file.display()))
        }
        None => match std::io::stdout().write_all(text.as_bytes()) {
            // Whoever reads has seen enough.
            Err(fault) if fault.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            done => done.map_err(|fault| fault.to_string()),
        },
    }
}
