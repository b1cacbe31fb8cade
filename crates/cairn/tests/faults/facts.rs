//! What a data folder holds, read as another program would: the commits of its log, and the rows that are never taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, SqliteConnection};

/// Tables whose rows are only ever added.
const FACTS: [&str; 7] = [
    "cas",
    "client_states",
    "message_blobs",
    "messages",
    "revisions",
    "tool_calls",
    "tool_completions",
];

/// What only grows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    facts: BTreeMap<&'static str, BTreeSet<String>>,
    /// Results that each run has committed, by the run's id.
    completions: BTreeMap<String, usize>,
    /// Model calls that were written down before they were made.
    pub model_calls: i64,
}

impl Facts {
    /// Reads a copy of the folder, whose process is gone, and checks its structure and references.
    pub async fn read(data: &Path) -> Self {
        Self::read_until(data, u64::MAX).await
    }

    /// The same of what the folder held when its log had this many bytes.
    pub async fn read_until(data: &Path, log_bytes: u64) -> Self {
        let copy = tempfile::tempdir().unwrap();
        let log = copy.path().join("cairn.db-wal");
        std::fs::copy(data.join("cairn.db"), copy.path().join("cairn.db")).unwrap();
        // A server that was closed in order leaves no log.
        if data.join("cairn.db-wal").exists() {
            std::fs::copy(data.join("cairn.db-wal"), &log).unwrap();
            let log = std::fs::File::options().write(true).open(log).unwrap();
            log.set_len(log.metadata().unwrap().len().min(log_bytes)).unwrap();
        }
        let mut database = SqliteConnectOptions::new()
            .filename(copy.path().join("cairn.db"))
            .connect()
            .await
            .unwrap();
        let findings: Vec<String> = sqlx::query_scalar("PRAGMA integrity_check")
            .fetch_all(&mut database)
            .await
            .unwrap();
        assert_eq!(findings, ["ok"]);
        let orphans: Vec<String> = sqlx::query_scalar("SELECT \"table\" FROM pragma_foreign_key_check")
            .fetch_all(&mut database)
            .await
            .unwrap();
        assert_eq!(orphans, Vec::<String>::new());
        let facts = Self::of(&mut database).await;
        database.close().await.unwrap();
        facts
    }

    /// Reads the folder of a server that lives, as it is at one moment.
    pub async fn read_beside(data: &Path) -> Self {
        let mut database = SqliteConnectOptions::new()
            .filename(data.join("cairn.db"))
            .read_only(true)
            .connect()
            .await
            .unwrap();
        let mut moment = database.begin().await.unwrap();
        let facts = Self::of(&mut moment).await;
        moment.rollback().await.unwrap();
        database.close().await.unwrap();
        facts
    }

    async fn of(database: &mut SqliteConnection) -> Self {
        let mut facts = BTreeMap::new();
        for table in FACTS {
            facts.insert(table, rows(database, table).await);
        }
        let completions: Vec<(String, i64)> = sqlx::query_as(
            "SELECT runs.id, count(*) FROM tool_completions JOIN tool_rounds ON tool_rounds.key = round_key
             JOIN runs ON runs.key = run_key GROUP BY runs.key",
        )
        .fetch_all(&mut *database)
        .await
        .unwrap();
        let model_calls: i64 = sqlx::query_scalar("SELECT coalesce(sum(provider_calls), 0) FROM runs")
            .fetch_one(&mut *database)
            .await
            .unwrap();
        Self {
            facts,
            completions: completions
                .into_iter()
                .map(|(run, count)| (run, usize::try_from(count).unwrap()))
                .collect(),
            model_calls,
        }
    }

    /// How many results the run that served a request has committed.
    pub fn completions_of(&self, request: &str) -> usize {
        let run = cairn::cursor::request::run_id(request);
        self.completions.get(run.as_str()).copied().unwrap_or_default()
    }

    /// How many rows a table has.
    pub fn count(&self, table: &str) -> usize {
        self.facts[table].len()
    }

    /// What was added since, for the name of a fault.
    pub fn added_to(&self, earlier: &Self) -> String {
        let mut added: Vec<_> = self
            .facts
            .iter()
            .map(|(table, rows)| (*table, rows.len() - earlier.count(table)))
            .filter(|(_, count)| *count > 0)
            .map(|(table, count)| format!("{count} {table}"))
            .collect();
        if self.model_calls > earlier.model_calls {
            added.push("a model call".to_owned());
        }
        if added.is_empty() {
            added.push("a run's state".to_owned());
        }
        added.join(", ")
    }

    /// Fails if a row is gone or was changed.
    #[track_caller]
    pub fn assert_kept_in(&self, later: &Self) {
        for (table, rows) in &self.facts {
            let lost: Vec<_> = rows.difference(&later.facts[table]).collect();
            assert!(lost.is_empty(), "rows of {table} are gone: {lost:?}");
        }
    }
}

/// All rows of a table as text.
async fn rows(database: &mut SqliteConnection, table: &str) -> BTreeSet<String> {
    let columns: Vec<String> = sqlx::query_scalar("SELECT 'quote(' || name || ')' FROM pragma_table_info(?)")
        .bind(table)
        .fetch_all(&mut *database)
        .await
        .unwrap();
    assert!(!columns.is_empty(), "there is no table {table}");
    let query = format!("SELECT concat_ws(' ', {}) FROM {table}", columns.join(", "));
    let rows: Vec<String> = sqlx::query_scalar(AssertSqlSafe(query))
        .fetch_all(database)
        .await
        .unwrap();
    rows.into_iter().collect()
}

/// Where each commit in the write-ahead log ends, in bytes; the first entry is where the first one begins.
pub fn commits(data: &Path) -> Vec<u64> {
    const HEADER: usize = 32;
    const FRAME_HEADER: usize = 24;
    let log = std::fs::read(data.join("cairn.db-wal")).unwrap();
    let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    let frame = FRAME_HEADER + usize::try_from(number(8)).unwrap();
    let salts = &log[16..24];
    let mut ends = vec![HEADER as u64];
    let mut at = HEADER;
    while at + frame <= log.len() && &log[at + 8..at + 16] == salts {
        // A frame that ends a commit states the size of the database.
        let is_commit = number(at + 4) != 0;
        at += frame;
        if is_commit {
            ends.push(at as u64);
        }
    }
    ends
}

/// Bytes of one page in the log.
pub const LOG_FRAME: u64 = 24 + 4096;
