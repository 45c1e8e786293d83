//! Turns decimal text into nanoseconds and back, without the detour over a float.
//!
//! A float of seconds holds about 100 ns beside a date of this century, and 10 ms are gone as soon
//! as someone rounds: bursts appear that were none.

/// The nanoseconds in `text`, a plain decimal of a unit of `10^unit_digits` ns. Digits below a
/// nanosecond are cut. `None` where it is no such number, or does not fit.
pub(super) fn nanos(text: &str, unit_digits: u32) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return exponent(text, unit_digits);
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(10_u64.pow(unit_digits))?;
    let mut below = 0;
    let mut unit = 10_u64.pow(unit_digits);
    for byte in fraction.bytes() {
        unit /= 10;
        below += u64::from(byte - b'0') * unit;
    }
    whole.checked_add(below)
}

/// The same for text with an exponent, which some writers put on large numbers. Exact to a float's
/// precision.
fn exponent(text: &str, unit_digits: u32) -> Option<u64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte)) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    let nanos = (value * 10_f64.powi(unit_digits.cast_signed())).round();
    (value.is_sign_positive() && nanos < u64::MAX as f64).then_some(nanos as u64)
}

/// The shortest plain decimal for these nanoseconds in milliseconds, as [`nanos`] with 6 digits
/// reads it.
pub(super) fn millis(nanos: u64) -> String {
    let (whole, below) = (nanos / 1_000_000, nanos % 1_000_000);
    if below == 0 {
        return whole.to_string();
    }
    let fraction = format!("{below:06}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{millis, nanos};

    #[test]
    fn decimals_are_read_to_the_nanosecond() {
        assert_eq!(nanos("0", 6), Some(0));
        assert_eq!(nanos("3050", 6), Some(3_050_000_000));
        assert_eq!(nanos("0.000001", 6), Some(1));
        assert_eq!(nanos("61.114", 9), Some(61_114_000_000));
        assert_eq!(nanos("1.5e3", 6), Some(1_500_000_000));
        assert_eq!(nanos("1699999999.1234567", 9), Some(1_699_999_999_123_456_700));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in
            ["", ".", "-1", "-0.5", "1,5", "nan", "inf", "1e30", "99999999999999999999", "ten"]
        {
            assert_eq!(nanos(text, 6), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn milliseconds_survive_writing_and_reading(time: u64) {
            prop_assert_eq!(nanos(&millis(time), 6), Some(time));
        }
    }
}
