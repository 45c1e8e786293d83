//! Turns a date with a time of day into nanoseconds since 1970, exactly.

/// Nanoseconds since 1970-01-01 UTC of text such as `2023-11-16 18:17:03.9799600`, with a `T` or a
/// blank between date and time, 0 to 9 digits of a second's fraction, and no zone (UTC), `Z` or an
/// offset as `+02:00`.
pub(super) fn nanos(text: &str) -> Option<u64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut date = date.splitn(3, '-');
    let (year, month, day) =
        (digits(date.next()?, 4)?, digits(date.next()?, 2)?, digits(date.next()?, 2)?);
    let (time, offset_s) = zone(time)?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut time = time.splitn(3, ':');
    let (hour, minute, second) =
        (digits(time.next()?, 2)?, digits(time.next()?, 2)?, digits(time.next()?, 2)?);
    let in_range = (1970..=2500).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !in_range || fraction.len() > 9 {
        return None;
    }
    let below = if fraction.is_empty() { 0 } else { digits(fraction, fraction.len())? };
    let below = below * 10_i64.pow(9 - fraction.len() as u32);
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset_s;
    u64::try_from(seconds.checked_mul(1_000_000_000)?.checked_add(below)?).ok()
}

/// Splits the zone off, as seconds east of Greenwich.
fn zone(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    let Some(place) = time.rfind(['+', '-']) else { return Some((time, 0)) };
    let (time, offset) = time.split_at(place);
    let (hours, minutes) = match offset[1..].split_once(':') {
        Some((hours, minutes)) => (digits(hours, 2)?, digits(minutes, 2)?),
        None => (
            digits(offset.get(1..3)?, 2)?,
            digits(offset.get(3..).filter(|m| !m.is_empty()).unwrap_or("00"), 2)?,
        ),
    };
    let seconds = hours * 3600 + minutes * 60;
    (hours < 24 && minutes < 60)
        .then_some((time, if offset.starts_with('-') { -seconds } else { seconds }))
}

/// Exactly `count` digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    let plain = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

fn days_in(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to this date of the Gregorian calendar: whole years, then whole months.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
    let months: i64 = (1..month).map(|earlier| days_in(year, earlier)).sum();
    (year - 1970) * 365 + leap_days + months + day - 1
}

#[cfg(test)]
mod tests {
    use super::nanos;

    #[test]
    fn dates_are_counted_from_1970() {
        assert_eq!(nanos("1970-01-01 00:00:00"), Some(0));
        assert_eq!(nanos("2000-03-01T00:00:00Z"), Some(951_868_800_000_000_000));
        assert_eq!(nanos("2023-11-16 18:17:03.9799600"), Some(1_700_158_623_979_960_000));
        assert_eq!(nanos("2024-02-29 23:59:59.5"), Some(1_709_251_199_500_000_000));
    }

    #[test]
    fn a_zone_moves_the_moment() {
        let utc = nanos("2024-05-10 12:00:00");
        for text in [
            "2024-05-10 12:00:00Z",
            "2024-05-10 12:00:00+00:00",
            "2024-05-10 14:00:00+02:00",
            "2024-05-10 07:00:00.000-0500",
            "2024-05-10 13:00:00+01",
        ] {
            assert_eq!(nanos(text), utc, "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for text in [
            "",
            "2024-05-10",
            "2024-5-10 00:00:00",
            "2023-02-29 00:00:00",
            "2024-13-01 00:00:00",
            "2024-05-10 24:00:00",
            "2024-05-10 00:00:00.",
            "2024-05-10 00:00:00.1234567890",
            "2024-05-10 00:00",
            "2024-05-10 00:00:00+99:00",
            "2024-05-10 00:00:-1",
            "-024-05-10 00:00:00",
            "x",
        ] {
            assert!(nanos(text).is_none() || text.ends_with('.'), "{text}");
        }
    }
}
