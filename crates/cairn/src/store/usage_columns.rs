//! The columns that hold token counts, the same in every table that has them.
//!
//! Must never know: what was counted.

use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{FromRow, Sqlite};

use super::StoreError;
use super::error::column;
use crate::model::Usage;

/// The counts as a row has them; a count that nobody reported is absent.
#[derive(FromRow, Debug)]
pub(super) struct UsageColumns {
    fresh_input_tokens: Option<i64>,
    cache_read_tokens: Option<i64>,
    cache_write_tokens: Option<i64>,
    output_tokens: Option<i64>,
    reasoning_tokens: Option<i64>,
}

impl UsageColumns {
    /// The counts; `None` if nothing was reported. `damaged` makes the error about a column that holds no count.
    pub(super) fn usage(&self, damaged: impl Fn(&str) -> StoreError) -> Result<Option<Usage>, StoreError> {
        let count = |name: &str, value: Option<i64>| {
            let count = value.map(u64::try_from).transpose();
            count.map_err(|_| damaged(name))
        };
        let usage = Usage {
            fresh_input: count("fresh_input_tokens", self.fresh_input_tokens)?,
            cache_read: count("cache_read_tokens", self.cache_read_tokens)?,
            cache_write: count("cache_write_tokens", self.cache_write_tokens)?,
            output: count("output_tokens", self.output_tokens)?,
            reasoning: count("reasoning_tokens", self.reasoning_tokens)?,
        };
        Ok((usage != Usage::default()).then_some(usage))
    }
}

/// Binds the counts to the next five places of a statement, in the order of [`UsageColumns`].
pub(super) fn bind<'q>(
    statement: Query<'q, Sqlite, SqliteArguments>,
    usage: Option<Usage>,
) -> Result<Query<'q, Sqlite, SqliteArguments>, StoreError> {
    let usage = usage.unwrap_or_default();
    let tokens = |count: Option<u64>| count.map(|count| column("a token count", count)).transpose();
    Ok(statement
        .bind(tokens(usage.fresh_input)?)
        .bind(tokens(usage.cache_read)?)
        .bind(tokens(usage.cache_write)?)
        .bind(tokens(usage.output)?)
        .bind(tokens(usage.reasoning)?))
}
