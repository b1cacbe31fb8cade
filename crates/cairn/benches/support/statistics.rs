//! Order statistics of samples.
//!
//! Must never know: what was sampled.

/// The value that the given share of the samples does not exceed; 0.5 is the median.
pub fn quantile(samples: &[f64], share: f64) -> f64 {
    assert!(!samples.is_empty(), "no samples");
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a small length is a small index"
    )]
    let index = (share * (sorted.len() - 1) as f64).round() as usize;
    sorted[index.min(sorted.len() - 1)]
}

/// The median.
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// The arithmetic mean.
pub fn mean(samples: &[f64]) -> f64 {
    assert!(!samples.is_empty(), "no samples");
    samples.iter().sum::<f64>() / samples.len() as f64
}
