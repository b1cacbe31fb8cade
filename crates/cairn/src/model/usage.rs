//! Token counts as a provider reported them. Nothing here is ever estimated; see `size` for what is.
//!
//! Must never know: which provider uses which dialect.

/// Tokens of one model call in disjoint counters; a count that was not reported is absent, never zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to a cache.
    pub fresh_input: Option<u64>,
    /// Input tokens read from the provider's cache.
    pub cache_read: Option<u64>,
    /// Input tokens written to the provider's cache.
    pub cache_write: Option<u64>,
    /// Output tokens, reasoning included.
    pub output: Option<u64>,
    /// Output tokens that were reasoning; part of `output`.
    pub reasoning: Option<u64>,
}

impl Usage {
    /// All input tokens, if the provider reported its input at all.
    pub fn input(&self) -> Option<u64> {
        self.fresh_input
            .map(|fresh| fresh + self.cache_read.unwrap_or(0) + self.cache_write.unwrap_or(0))
    }

    /// What the call held and said together, if the provider reported both: the size of the history that it leaves.
    /// Nothing where it reported nothing but zeros.
    pub fn size(&self) -> Option<u64> {
        let size = self.input()?.saturating_add(self.output?);
        (size > 0).then_some(size)
    }

    /// The sum over the calls of a run. A field that any call left out is absent in the sum.
    pub fn sum(calls: impl IntoIterator<Item = Option<Usage>>) -> Option<Usage> {
        let add = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        let mut total: Option<Usage> = None;
        for usage in calls {
            let usage = usage.unwrap_or_default();
            total = Some(match total {
                None => usage,
                Some(sum) => Usage {
                    fresh_input: add(sum.fresh_input, usage.fresh_input),
                    cache_read: add(sum.cache_read, usage.cache_read),
                    cache_write: add(sum.cache_write, usage.cache_write),
                    output: add(sum.output, usage.output),
                    reasoning: add(sum.reasoning, usage.reasoning),
                },
            });
        }
        total
    }
}
