//! From captured requests to the figures of a conformance run, and the verdict on them.
//!
//! Owns `min_continuity`, `cacheable_continuity` and `resets`. Must never know: how the requests came about.

use serde::{Deserialize, Serialize};

use crate::measure::{Measure, measure, measure_items, percent};
use crate::request::Request;
use crate::tail::{TailError, TailSegment, without_tail};

/// The default of [`Limits::min_continuity`].
pub const MIN_CONTINUITY: f64 = 0.95;

/// Which of the two measurements decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AssertOn {
    /// The prefix as the provider sees it: what a prompt cache can go on paying for.
    #[default]
    ProviderPrefix,
    /// The same with the host's declared tail segments removed from both requests of a pair.
    CacheablePrefix,
}

impl AssertOn {
    /// The word for a sentence: `provider` or `cacheable`.
    pub fn word(self) -> &'static str {
        match self {
            Self::ProviderPrefix => "provider",
            Self::CacheablePrefix => "cacheable",
        }
    }
}

/// What a run has to keep.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Limits {
    /// Least shared-prefix fraction between consecutive requests, 0 to 1.
    pub min_continuity: f64,
    /// Which measurement is held to it.
    pub assert_on: AssertOn,
    /// How many pairs have to break it: more fail the run, and fewer fail it too.
    pub allowed_resets: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min_continuity: MIN_CONTINUITY,
            assert_on: AssertOn::default(),
            allowed_resets: 0,
        }
    }
}

/// The figures of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// Number of captured requests.
    pub requests: usize,
    /// The lowest shared-prefix fraction of any pair, over messages and tool schemas as sent.
    pub min_continuity: f64,
    /// The same with tail segments removed from both requests. Equal to `min_continuity` when no request carried one.
    pub cacheable_continuity: f64,
    /// One-based numbers of the requests that broke: the later of each breaking pair, ascending.
    pub resets: Vec<usize>,
    /// Every pair, in order.
    pub pairs: Vec<Pair>,
}

/// Two consecutive requests.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Pair {
    /// One-based number of the later request.
    pub request: usize,
    /// As the provider sees it.
    pub provider: Measure,
    /// Without tail segments. Absent when no request of the run carried one.
    pub cacheable: Option<Measure>,
}

impl Pair {
    /// The measurement that this assertion looks at.
    pub fn asserted(&self, on: AssertOn) -> &Measure {
        match on {
            AssertOn::ProviderPrefix => &self.provider,
            AssertOn::CacheablePrefix => self.cacheable.as_ref().unwrap_or(&self.provider),
        }
    }
}

/// Why the requests do not conform.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Violation {
    /// More pairs broke than allowed. The pair is the first that broke.
    #[error(
        "request {} → {later} kept {} of the previous {} prefix (minimum {}), and {} pair(s) broke below it \
         (resets {:?} of {pairs} request pairs, allowedResets {})",
        later - 1, percent(*continuity), limits.assert_on.word(), percent(limits.min_continuity), resets.len(), resets,
        limits.allowed_resets
    )]
    TooManyResets {
        /// One-based number of the later request of the first pair that broke.
        later: usize,
        /// What that pair kept, 0 to 1.
        continuity: f64,
        /// All that broke.
        resets: Vec<usize>,
        /// Number of pairs.
        pairs: usize,
        /// What was asked.
        limits: Limits,
    },
    /// Fewer pairs broke than declared: what should have reset the prefix did not happen.
    #[error(
        "only {} pair(s) broke below {} of the previous {} prefix (resets {:?} of {pairs} request pairs, \
         allowedResets {}): a declared reset did not happen",
        resets.len(), percent(limits.min_continuity), limits.assert_on.word(), resets, limits.allowed_resets
    )]
    TooFewResets {
        /// All that broke.
        resets: Vec<usize>,
        /// Number of pairs.
        pairs: usize,
        /// What was asked.
        limits: Limits,
    },
}

/// Measures every consecutive pair. `resets` follow the measurement that the limits select.
///
/// # Errors
/// If a declared tail segment cannot be.
pub fn assess(requests: &[Request], tail: &[TailSegment], limits: &Limits) -> Result<Outcome, TailError> {
    let mut views = Vec::with_capacity(requests.len());
    let mut any_tail = false;
    for (index, request) in requests.iter().enumerate() {
        let (items, any) = without_tail(request, index + 1, tail)?;
        any_tail |= any;
        views.push(items);
    }
    let pairs: Vec<Pair> = (1..requests.len())
        .map(|index| Pair {
            request: index + 1,
            provider: measure(&requests[index - 1], &requests[index]),
            cacheable: any_tail.then(|| {
                measure_items(
                    (&requests[index - 1], &views[index - 1]),
                    (&requests[index], &views[index]),
                )
            }),
        })
        .collect();
    let lowest = |on| {
        pairs
            .iter()
            .map(|pair| pair.asserted(on).continuity())
            .fold(1.0, f64::min)
    };
    Ok(Outcome {
        requests: requests.len(),
        min_continuity: lowest(AssertOn::ProviderPrefix),
        cacheable_continuity: lowest(AssertOn::CacheablePrefix),
        resets: pairs
            .iter()
            .filter(|pair| pair.asserted(limits.assert_on).continuity() < limits.min_continuity)
            .map(|pair| pair.request)
            .collect(),
        pairs,
    })
}

/// Holds an outcome to the limits that it was assessed with.
///
/// # Errors
/// The first violation.
pub fn verify(outcome: &Outcome, limits: &Limits) -> Result<(), Violation> {
    let resets = outcome.resets.clone();
    let pairs = outcome.pairs.len();
    let limits = *limits;
    if resets.len() < limits.allowed_resets {
        return Err(Violation::TooFewResets {
            resets,
            pairs,
            limits,
        });
    }
    let first = outcome
        .pairs
        .iter()
        .find(|pair| Some(&pair.request) == resets.first());
    match first {
        Some(pair) if resets.len() > limits.allowed_resets => Err(Violation::TooManyResets {
            later: pair.request,
            continuity: pair.asserted(limits.assert_on).continuity(),
            resets,
            pairs,
            limits,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "assess_tests.rs"]
mod tests;
