//! Exact reading of JSON numbers: whether a double or an integer stands for the very value that was written.
//!
//! Owns decimal comparison. Must never know: where a number comes from or goes.

use serde_json::Number;

/// A decimal value in its one normal form: `digits × 10^exponent`, digits without zeros at either end.
#[derive(PartialEq, Eq, Debug)]
struct Decimal {
    negative: bool,
    /// Empty for zero.
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads a JSON number. None if its exponent is beyond any use.
    fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let without_tail = all.trim_end_matches('0');
        let digits = without_tail.trim_start_matches('0').to_owned();
        let dropped = i64::try_from(all.len() - without_tail.len()).ok()?;
        let shift = i64::try_from(fraction.len()).ok()?;
        let exponent = match digits.is_empty() {
            true => 0,
            false => exponent.checked_add(dropped)?.checked_sub(shift)?,
        };
        Some(Self {
            negative,
            digits,
            exponent,
        })
    }
}

/// The double that stands for this number, if writing it out again gives the same decimal value.
pub(super) fn exact_double(number: &Number) -> Option<f64> {
    let text = number.to_string();
    let double: f64 = text.parse().ok()?;
    if !double.is_finite() {
        return None;
    }
    (Decimal::parse(&text)? == Decimal::parse(&format!("{double:e}"))?).then_some(double)
}

/// The integer that this number is, however it is written (`5`, `5.0`, `5e0`); None if it is no integer or too large.
pub(super) fn exact_integer(number: &Number) -> Option<i64> {
    let Decimal {
        negative,
        digits,
        exponent,
    } = Decimal::parse(&number.to_string())?;
    if digits.is_empty() {
        return Some(0);
    }
    let zeros = usize::try_from(exponent).ok().filter(|zeros| *zeros <= 18)?;
    let sign = if negative { "-" } else { "" };
    format!("{sign}{digits}{}", "0".repeat(zeros)).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        serde_json::from_str(text).unwrap_or_else(|_| Number::from(0))
    }

    #[test]
    fn a_double_is_exact_or_absent() {
        for (text, expected) in [
            ("3", Some(3.0)),
            ("-0", Some(-0.0)),
            ("0.1", Some(0.1)),
            ("1.50", Some(1.5)),
            ("1e3", Some(1000.0)),
            ("1000000000000000000000", Some(1e21)),
            ("9007199254740992", Some(9007199254740992.0)),
            ("9007199254740993", None),
            ("0.30000000000000004", Some(0.30000000000000004)),
            ("0.3000000000000000444", None),
            ("1e400", None),
            ("1e-400", None),
            ("1e99999999999999999999", None),
        ] {
            assert_eq!(exact_double(&number(text)), expected, "{text}");
        }
        assert!(exact_double(&number("-0")).is_some_and(f64::is_sign_negative));
    }

    #[test]
    fn an_integer_is_known_by_value() {
        for (text, expected) in [
            ("5", Some(5)),
            ("5.0", Some(5)),
            ("-12e1", Some(-120)),
            ("0.0", Some(0)),
            ("5.5", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("1e400", None),
        ] {
            assert_eq!(exact_integer(&number(text)), expected, "{text}");
        }
    }
}
