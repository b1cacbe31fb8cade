//! The `cairn` command: reads the command line, sets up logging, runs the server until it is told to stop.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use cairn::app::{Agents, App};
use cairn::config::{self, Flags};
use cairn::cursor::sessions::SessionLimits;
use cairn::model::ConversationId;
use cairn::prefix_report;
use clap::{Args, Parser, Subcommand};
use secrecy::ExposeSecret as _;
use tokio_util::sync::CancellationToken;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, filter};

/// An append-only agent server for your own model keys.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve clients until Ctrl-C.
    ///
    /// Without a configuration file, the environment describes one model: CAIRN_API, CAIRN_BASE_URL, CAIRN_MODEL and
    /// CAIRN_API_KEY. `CAIRN_API=scripted CAIRN_MODEL=scripted cairn serve` needs no endpoint.
    Serve(ServeFlags),
    /// Print the key that clients present as their API key, making it if there is none.
    Key(DataFlags),
    /// Show how much of each request of a conversation repeats the one before, also while the server runs.
    Prefix(PrefixArgs),
    /// Play two agent turns against the offline model: no key, no network.
    Demo,
}

/// What says where the data are.
#[derive(Args)]
struct DataFlags {
    /// The configuration file [env: CAIRN_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the database and the client key live [env: CAIRN_DATA_DIR] [default: the user's data folder]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Args)]
struct ServeFlags {
    #[command(flatten)]
    data: DataFlags,
    /// Address and port to listen on; port 0 picks a free one [env: CAIRN_LISTEN] [default: 127.0.0.1:7437]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
}

#[derive(Args)]
struct PrefixArgs {
    /// The conversation's id; the client calls it agentId
    conversation: String,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: DataFlags,
}

impl From<DataFlags> for Flags {
    fn from(DataFlags { config, data_dir }: DataFlags) -> Self {
        Self {
            config,
            data_dir,
            listen: None,
        }
    }
}

impl From<ServeFlags> for Flags {
    fn from(ServeFlags { data, listen }: ServeFlags) -> Self {
        Self {
            listen,
            ..data.into()
        }
    }
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(flags) => serve(&flags.into()),
        Command::Key(flags) => print_key(&flags.into()),
        Command::Prefix(arguments) => prefix(arguments),
        Command::Demo => demo(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[allow(
                clippy::print_stderr,
                reason = "the one line that says why the command failed"
            )]
            {
                eprintln!("cairn: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[allow(
    clippy::disallowed_methods,
    reason = "the one place that reads it, handed to config"
)]
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn print_key(flags: &Flags) -> Outcome {
    let key = config::load_client_key(flags, &environment)?;
    writeln!(io::stdout(), "{}", key.expose_secret())?;
    Ok(())
}

#[tokio::main]
async fn prefix(arguments: PrefixArgs) -> Outcome {
    let conversation = ConversationId::new(arguments.conversation);
    let data_dir = config::data_dir(&arguments.data.into(), &environment)?;
    let calls = prefix_report::read(&data_dir, &conversation).await?;
    let mut out = io::stdout();
    match arguments.json {
        true => prefix_report::write_json(&mut out, &conversation, &calls)?,
        false => prefix_report::write_table(&mut out, &calls)?,
    }
    Ok(())
}

#[tokio::main]
async fn demo() -> Outcome {
    Ok(cairn::demo::run(io::stdout()).await?)
}

/// Serves until a signal. Work that nobody can stop, such as the look-up of a name or the reading of a picture, is left
/// behind at the end: whatever was to be kept is in the database, which is closed by then.
fn serve(flags: &Flags) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(serve_until_told(flags));
    runtime.shutdown_background();
    outcome
}

async fn serve_until_told(flags: &Flags) -> Outcome {
    log_to_stderr()?;
    let loaded = config::load(flags, &environment)?;
    let shutdown = CancellationToken::new();
    let agents = Agents::open(&loaded.config).await?;
    let app = App::bind(
        &loaded.config,
        SessionLimits::default(),
        agents.starter(),
        shutdown.clone(),
    )
    .await?;
    let address = app.address();
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "this address is open to other machines; the client key is all that protects it");
    }
    if let Some(path) = loaded.new_client_key {
        // Said once, to the person at the terminal, whatever the log level.
        writeln!(
            io::stderr(),
            "a client key was made and saved in {}; `cairn key` prints it. Clients present it as their API key, with \
             CURSOR_BACKEND_URL=http://{address}",
            path.display()
        )?;
    }
    stop_on_signal(shutdown)?;
    let mut stdout = io::stdout();
    writeln!(stdout, "listening on http://{address}")?;
    stdout.flush()?;
    app.serve().await;
    agents.close().await?;
    Ok(())
}

/// cairn's own events by `CAIRN_LOG`. Those of libraries never below "info": what they print further down is not
/// known to be free of keys and prompts.
fn log_to_stderr() -> Outcome {
    let chosen = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .with_env_var("CAIRN_LOG")
        .from_env()
        .map_err(|_| "CAIRN_LOG: must be a level or filter such as info or cairn=debug")?;
    let safe = filter::filter_fn(|event| {
        let target = event.target();
        target == "cairn" || target.starts_with("cairn::") || *event.level() <= tracing::Level::INFO
    });
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_filter(chosen)
        .with_filter(safe);
    tracing_subscriber::registry().with(lines).try_init()?;
    Ok(())
}

/// The first signal lets open streams end; a second one does not wait for them.
#[cfg(unix)]
fn stop_on_signal(shutdown: CancellationToken) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        let mut wait = async || {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        wait().await;
        tracing::info!("stopping; open runs are ended");
        shutdown.cancel();
        wait().await;
        #[allow(
            clippy::disallowed_methods,
            reason = "the person asked twice: not to wait is what they want"
        )]
        std::process::exit(1);
    });
    Ok(())
}

/// Ctrl-C lets open streams end.
#[cfg(not(unix))]
fn stop_on_signal(shutdown: CancellationToken) -> io::Result<()> {
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            shutdown.cancel();
        }
    });
    Ok(())
}
