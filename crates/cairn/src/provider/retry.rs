//! When the same request is sent again, and after which wait.
//!
//! Must never know: how a request is sent.

use std::time::Duration;

use http::HeaderMap;

use super::RouteError;
use super::options::Options;
use crate::model::{ProviderFailure, ProviderFault};

/// Longest wait between two tries of our own making.
const MAX_BACKOFF: Duration = Duration::from_secs(8);
/// Longest wait that an endpoint may ask for; if it asks for more, the person decides.
const MAX_ASKED_WAIT: Duration = Duration::from_secs(60);

/// Bounded retries before the first event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    max_attempts: u32,
    first_delay: Duration,
}

impl RetryPolicy {
    /// Reads `max_attempts` (tries in all, default 4) and `retry_delay_seconds` (wait before the second try, doubled for
    /// each further one up to 8 s; default 0.5).
    pub(crate) fn from_options(options: &mut Options) -> Result<Self, RouteError> {
        Ok(Self {
            max_attempts: options.count("max_attempts", 4)?,
            first_delay: options.seconds("retry_delay_seconds", Duration::from_millis(500))?,
        })
    }

    /// How long to wait before the next try after `attempts` failed ones; `None` if there is to be none.
    pub(crate) fn delay(&self, failure: &ProviderFailure, attempts: u32) -> Option<Duration> {
        if !is_retried(failure.fault) || attempts >= self.max_attempts {
            return None;
        }
        match failure.retry_after {
            Some(asked) => (asked <= MAX_ASKED_WAIT).then_some(asked),
            None => {
                let doubled = self.first_delay.saturating_mul(1 << (attempts - 1).min(16));
                Some(doubled.min(MAX_BACKOFF.max(self.first_delay)))
            }
        }
    }
}

/// A time-out has already kept the person waiting for minutes, so it is not repeated behind their back.
fn is_retried(fault: ProviderFault) -> bool {
    fault.is_transient() && fault != ProviderFault::Timeout
}

/// How long a response asks to wait: `retry-after-ms`, then `retry-after` in seconds, then as a date. A date is measured
/// against the response's own `date`, so that no clock of this machine enters.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let seconds = |text: &str| {
        text.parse()
            .ok()
            .and_then(|s: f64| Duration::try_from_secs_f64(s).ok())
    };
    if let Some(wait) = text("retry-after-ms").and_then(seconds) {
        return Some(wait / 1000);
    }
    let asked = text("retry-after")?;
    if let Some(wait) = seconds(asked) {
        return Some(wait);
    }
    let until = httpdate::parse_http_date(asked).ok()?;
    let now = httpdate::parse_http_date(text("date")?).ok()?;
    Some(until.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, HeaderValue};

    use super::{RetryPolicy, retry_after};
    use crate::model::{ProviderFailure, ProviderFault};

    fn asked(headers: &[(&'static str, &'static str)]) -> Option<Duration> {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| {
                (
                    http::HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect();
        retry_after(&headers)
    }

    #[test]
    fn every_form_of_retry_after_is_read() {
        assert_eq!(
            asked(&[("retry-after-ms", "1500"), ("retry-after", "9")]),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(
            asked(&[("retry-after", "0.25")]),
            Some(Duration::from_millis(250))
        );
        let date = ("date", "Sun, 29 Nov 2026 10:00:00 GMT");
        assert_eq!(
            asked(&[("retry-after", "Sun, 29 Nov 2026 10:00:07 GMT"), date]),
            Some(Duration::from_secs(7))
        );
        assert_eq!(
            asked(&[("retry-after", "Sun, 29 Nov 2026 09:00:00 GMT"), date]),
            Some(Duration::ZERO)
        );
        assert_eq!(asked(&[("retry-after", "-1")]), None);
        assert_eq!(asked(&[("retry-after", "soon")]), None);
    }

    #[test]
    fn retries_are_bounded_and_only_for_transient_faults() {
        let policy = RetryPolicy {
            max_attempts: 4,
            first_delay: Duration::from_secs(3),
        };
        let of = |fault, attempts| policy.delay(&ProviderFailure::new(fault, ""), attempts);
        let waits: Vec<_> = (1..=4)
            .map(|attempts| of(ProviderFault::Unavailable, attempts))
            .collect();
        let seconds = |s| Some(Duration::from_secs(s));
        assert_eq!(waits, [seconds(3), seconds(6), seconds(8), None]);
        assert_eq!(of(ProviderFault::Authentication, 1), None);
        assert_eq!(of(ProviderFault::Timeout, 1), None);
        let mut limited = ProviderFailure::new(ProviderFault::RateLimited, "");
        limited.retry_after = Some(Duration::from_secs(60));
        assert_eq!(policy.delay(&limited, 1), seconds(60));
        limited.retry_after = Some(Duration::from_secs(61));
        assert_eq!(policy.delay(&limited, 1), None);
    }
}
