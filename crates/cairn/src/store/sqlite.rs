//! The database file: its folder, its lock, its connections, its schema and its end.
//!
//! Must never know: what the tables mean.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::pool::{PoolConnection, PoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqliteSynchronous};
use sqlx::{ConnectOptions, Sqlite, SqliteConnection, Transaction};

use super::history_cache::HistoryCache;
use super::{StoreError, revisions};

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// Marks a database file as ours ("carn"), so that no other program's database is ever migrated.
const APPLICATION_ID: i64 = 0x6361_726e;

/// Readers are rare (a cold history, a record, a blob); two keep a long cold read from blocking a short one.
const READERS: u32 = 2;

/// Only a backup tool or a person with a shell ever holds the file; wait for them.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// After how many pages the write-ahead log is written back into the file: 16 MB. Pages that many turns touch
/// are then written back once for all of them.
const LOG_PAGES: &str = "4000";

/// How large the write-ahead log may stay on disk after a burst, in bytes.
const LOG_SIZE_LIMIT: &str = "67108864";

/// The durable facts of all conversations, in one SQLite file that this process alone has open.
///
/// All writes go through one connection, one transaction a fact, synchronised to disk at its commit. Reads
/// have connections of their own and see only committed facts.
pub struct Store {
    writer: SqlitePool,
    readers: SqlitePool,
    pub(super) histories: HistoryCache,
    // Held until the store is closed or goes: the system gives the lock back even when the process is killed.
    lock: File,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the database at `path`, making the folder and the file (readable by the owner only) if absent,
    /// and brings its schema up to date.
    ///
    /// A process that died left runs without an end: they become
    /// [`RecordedOutcome::Interrupted`](super::RecordedOutcome::Interrupted) without an end time, their
    /// conversations are free again and their open tool rounds are abandoned. What they committed stays.
    ///
    /// # Errors
    /// [`StoreError::InUse`] where another process has it open, [`StoreError::Schema`] where the file is not
    /// ours or of another schema, [`StoreError::Open`] and [`StoreError::Database`] for the rest.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        let lock = prepare_files(path.to_owned()).await?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .foreign_keys(true)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            // Its own log lines would repeat every statement; errors carry what is needed.
            .disable_statement_logging();
        let writer = pool(1)
            .connect_with(
                options
                    .clone()
                    .journal_mode(SqliteJournalMode::Wal)
                    .pragma("wal_autocheckpoint", LOG_PAGES)
                    .pragma("journal_size_limit", LOG_SIZE_LIMIT),
            )
            .await
            .map_err(|source| unreadable(path, source))?;
        migrate(path, &writer).await?;
        let store = Self {
            readers: pool(READERS).connect_lazy_with(options.read_only(true)),
            writer,
            histories: HistoryCache::default(),
            lock,
        };
        store.interrupt_unfinished_runs().await?;
        Ok(store)
    }

    /// Writes the log back into the database file, closes all connections and lets others open the file, whoever
    /// still holds this store. Every later call fails.
    ///
    /// Without it nothing is lost: the next [`open`](Self::open) reads the log.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.readers.close().await;
        let checkpoint = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
            .execute(&self.writer)
            .await
            .map_err(StoreError::database("write the log back"));
        self.writer.close().await;
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "the database's lock is kept until the process ends");
        }
        checkpoint.map(drop)
    }

    /// Reads the whole database and checks its structure and every reference. Takes time in proportion to
    /// the size of the file.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] with SQLite's own first finding.
    pub async fn check_integrity(&self) -> Result<(), StoreError> {
        let mut connection = self.read().await?;
        let finding: String = sqlx::query_scalar("PRAGMA integrity_check(1)")
            .fetch_one(&mut *connection)
            .await
            .map_err(StoreError::database("check the database"))?;
        if finding != "ok" {
            return Err(StoreError::damaged("database", "structure", finding));
        }
        let orphan: Option<(String, Option<i64>, String)> =
            sqlx::query_as("SELECT \"table\", rowid, parent FROM pragma_foreign_key_check LIMIT 1")
                .fetch_optional(&mut *connection)
                .await
                .map_err(StoreError::database("check the references"))?;
        if let Some((table, row, parent)) = orphan {
            let reason = format!("row {row:?} refers to a row of {parent} that does not exist");
            return Err(StoreError::damaged("database", table, reason));
        }
        match revisions::find_broken(&mut connection).await? {
            None => Ok(()),
            Some(revision) => Err(StoreError::damaged(
                "revisions",
                revision.as_str(),
                "a message of it does not exist",
            )),
        }
    }

    /// Begins the one write transaction of a fact. Dropping it undoes it.
    pub(super) async fn write(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        // The lock is taken at once: a transaction that reads first could not be retried halfway.
        const BEGIN: &str = "BEGIN IMMEDIATE";
        let begun = match self.writer.begin_with(BEGIN).await {
            // Where the disk was full, SQLite undid the transaction by itself and sqlx still counts it as open:
            // that connection never begins another one.
            Err(sqlx::Error::InvalidSavePointStatement) => {
                self.replace_writer().await;
                self.writer.begin_with(BEGIN).await
            }
            begun => begun,
        };
        begun.map_err(StoreError::database("begin a transaction"))
    }

    async fn replace_writer(&self) {
        let closed = match self.writer.acquire().await {
            Ok(connection) => connection.close().await,
            Err(error) => Err(error),
        };
        // The next use of the pool opens a new connection, and says so if it cannot.
        if let Err(error) = closed {
            tracing::warn!(%error, "a connection to the database could not be closed");
        }
    }

    pub(super) async fn read(&self) -> Result<PoolConnection<Sqlite>, StoreError> {
        self.readers
            .acquire()
            .await
            .map_err(StoreError::database("open a reading connection"))
    }
}

fn pool(connections: u32) -> PoolOptions<Sqlite> {
    PoolOptions::new()
        .max_connections(connections)
        // Local connections neither age nor break; checking them costs a round trip per use.
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
}

/// Makes the folder and the file, and takes the lock that keeps a second process out: that one would take
/// this one's live runs for dead.
async fn prepare_files(path: PathBuf) -> Result<File, StoreError> {
    let at = path.clone();
    tokio::task::spawn_blocking(move || {
        let open_error = |source| StoreError::Open {
            path: path.clone(),
            source,
        };
        if let Some(folder) = path.parent() {
            create_private_folder(folder).map_err(open_error)?;
        }
        open_private_file(&path).map_err(open_error)?;
        let mut lock_path = path.clone().into_os_string();
        lock_path.push(".lock");
        let lock = open_private_file(Path::new(&lock_path)).map_err(open_error)?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: path.clone() }),
            Err(TryLockError::Error(source)) => Err(open_error(source)),
        }
    })
    .await
    .unwrap_or_else(|join| {
        Err(StoreError::Open {
            path: at,
            source: io::Error::other(join),
        })
    })
}

fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn open_private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    // SQLite gives its log the mode of the database file.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

async fn migrate(path: &Path, writer: &SqlitePool) -> Result<(), StoreError> {
    let schema = |reason: String| StoreError::Schema {
        path: path.to_owned(),
        reason,
    };
    let (id, tables): (i64, i64) = sqlx::query_as(
        "SELECT (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)",
    )
    .fetch_one(writer)
    .await
    .map_err(|source| unreadable(path, source))?;
    if id != APPLICATION_ID && (id != 0 || tables != 0) {
        return Err(schema("it is another program's database".to_owned()));
    }
    if id == 0 {
        sqlx::query("PRAGMA application_id = 0x6361726e")
            .execute(writer)
            .await
            .map_err(|source| unreadable(path, source))?;
    }
    MIGRATIONS.run(writer).await.map_err(|error| match error {
        MigrateError::VersionMissing(_) => schema("a newer cairn made it".to_owned()),
        MigrateError::Execute(source) => unreadable(path, source),
        other => schema(other.to_string()),
    })
}

/// Checks that a file is a database of this cairn's schema, without changing it.
pub(super) async fn check_schema(path: &Path, connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let schema = |reason: &str| StoreError::Schema {
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    let id: i64 = sqlx::query_scalar("SELECT application_id FROM pragma_application_id")
        .fetch_one(&mut *connection)
        .await
        .map_err(|source| unreadable(path, source))?;
    if id != APPLICATION_ID {
        return Err(schema("it is another program's database"));
    }
    let applied: Vec<i64> = sqlx::query_scalar("SELECT version FROM _sqlx_migrations WHERE success")
        .fetch_all(connection)
        .await
        .map_err(|source| unreadable(path, source))?;
    let known = || MIGRATIONS.iter().map(|migration| migration.version);
    if applied
        .iter()
        .any(|version| !known().any(|known| known == *version))
    {
        return Err(schema("a newer cairn made it"));
    }
    if known().any(|version| !applied.contains(&version)) {
        return Err(schema(
            "an older cairn made it, and this one has not served it yet",
        ));
    }
    Ok(())
}

/// A failure to open or prepare the file, told apart from a file that is no database at all.
pub(super) fn unreadable(path: &Path, source: sqlx::Error) -> StoreError {
    const NOT_A_DATABASE: &str = "26";
    let code = source.as_database_error().and_then(|error| error.code());
    if code.as_deref() == Some(NOT_A_DATABASE) {
        return StoreError::Schema {
            path: path.to_owned(),
            reason: "it is not a database".to_owned(),
        };
    }
    StoreError::Database {
        action: "open its file",
        source,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it saw by failing")]

    use super::*;
    use crate::model::ConversationId;

    /// A full disk fails the fact that meets it, and nothing after there is room again.
    #[tokio::test]
    async fn a_full_disk_fails_only_what_meets_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("cairn.db")).await.unwrap();
        sqlx::query("PRAGMA max_page_count = 1")
            .execute(&store.writer)
            .await
            .unwrap();
        let long = ConversationId::new("c".repeat(100_000));
        let failed = store.empty_revision(&long).await.unwrap_err();
        assert!(failed.to_string().contains("full"), "{failed}");
        let short = ConversationId::new("c");
        let empty = store.empty_revision(&short).await.unwrap();
        assert_eq!(store.history(&empty).await.unwrap().len(), 0);
        store.empty_revision(&long).await.unwrap();
        store.check_integrity().await.unwrap();
        store.close().await.unwrap();
    }
}
