//! Timestamps and UUIDs as people write them: RFC 3339 and RFC 9562.

/// Microseconds of a second, and seconds of a day.
const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400;

/// A timestamp, in microseconds since 1970-01-01T00:00:00Z, in the form of RFC 3339 and in UTC;
/// `None` if its year does not have four digits, which that form needs.
pub fn format_timestamp(micros: i64) -> Option<String> {
    let (seconds, micros) = (micros.div_euclid(SECOND), micros.rem_euclid(SECOND));
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = date_of(days);
    if !(0..=9999).contains(&year) {
        return None;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = if micros == 0 { String::new() } else { format!(".{micros:06}") };
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z"))
}

/// Reads what [`format_timestamp`] writes, and any other timestamp of RFC 3339 that is not finer
/// than a microsecond. A leap second is none that it takes: the number has no place for it.
pub fn parse_timestamp(text: &str) -> Option<i64> {
    let mut rest = text.as_bytes();
    let year = digits(&mut rest, 4)?;
    let month = sign(&mut rest, b"-").and_then(|_| digits(&mut rest, 2))?;
    let day = sign(&mut rest, b"-").and_then(|_| digits(&mut rest, 2))?;
    let hour = sign(&mut rest, b"Tt").and_then(|_| digits(&mut rest, 2))?;
    let minute = sign(&mut rest, b":").and_then(|_| digits(&mut rest, 2))?;
    let second = sign(&mut rest, b":").and_then(|_| digits(&mut rest, 2))?;
    let mut micros = 0;
    if sign(&mut rest, b".").is_some() {
        let places = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (fraction, after) = rest.split_at(places);
        rest = after;
        let finer = fraction.get(6..).unwrap_or_default();
        if fraction.is_empty() || finer.iter().any(|digit| *digit != b'0') {
            return None;
        }
        for place in 0..6 {
            let digit = fraction.get(place).map_or(0, |digit| i64::from(digit - b'0'));
            micros = micros * 10 + digit;
        }
    }
    let offset = match sign(&mut rest, b"Zz+-")? {
        b'Z' | b'z' => 0,
        direction => {
            let hours = digits(&mut rest, 2)?;
            let minutes = sign(&mut rest, b":").and_then(|_| digits(&mut rest, 2))?;
            if hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = hours * 3600 + minutes * 60;
            if direction == b'+' { seconds } else { -seconds }
        }
    };
    let days = days_of(year, month, day);
    let real = date_of(days) == (year, month, day) && (1..=12).contains(&month);
    if !rest.is_empty() || !real || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = days * DAY + hour * 3600 + minute * 60 + second - offset;
    Some(seconds * SECOND + micros)
}

fn digits(rest: &mut &[u8], count: usize) -> Option<i64> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    taken.iter().try_fold(0, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
    })
}

fn sign(rest: &mut &[u8], allowed: &[u8]) -> Option<u8> {
    let (first, after) = rest.split_first()?;
    if !allowed.contains(first) {
        return None;
    }
    *rest = after;
    Some(*first)
}

/// Days of four hundred years of the Gregorian calendar, which repeats after them.
const ERA: i64 = 146_097;
/// Days from the first of March of the year 0 to 1970-01-01.
const EPOCH: i64 = 719_468;

/// Year, month and day of a day, counted from 1970-01-01, in the Gregorian calendar. Years begin
/// in March here, so that the leap day is the last one.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH;
    let (era, day) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// The inverse of [`date_of`], for dates that there are.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let month = if month > 2 { month - 3 } else { month + 9 };
    let day = (153 * month + 2) / 5 + day - 1;
    era * ERA + year * 365 + year / 4 - year / 100 + day - EPOCH
}

/// The places where the hyphens of a UUID stand.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// A UUID in the form `01234567-89ab-cdef-0123-456789abcdef`.
pub fn format_uuid(uuid: &[u8; 16]) -> String {
    let number = format!("{:032x}", u128::from_be_bytes(*uuid));
    let parts = [&number[..8], &number[8..12], &number[12..16], &number[16..20], &number[20..]];
    parts.join("-")
}

/// Reads what [`format_uuid`] writes, with capitals too.
pub fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let hyphens = text.bytes().enumerate().filter(|(_, byte)| *byte == b'-').map(|(at, _)| at);
    if text.len() != 36 || !hyphens.eq(HYPHENS) {
        return None;
    }
    let digits: String = text.chars().filter(|digit| *digit != '-').collect();
    // Reading a number takes a sign.
    let hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = hexadecimal.then(|| u128::from_str_radix(&digits, 16).ok()).flatten()?;
    Some(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn timestamps_as_rfc_3339_has_them() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00Z"),
            (1_234_567_890_123_400, "2009-02-13T23:31:30.123400Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00Z"),
            (-62_167_219_200_000_000, "0000-01-01T00:00:00Z"),
            (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(format_timestamp(micros).as_deref(), Some(text));
            assert_eq!(parse_timestamp(text), Some(micros));
        }
        for beyond in [-62_167_219_200_000_001, 253_402_300_800_000_000, i64::MIN, i64::MAX] {
            assert_eq!(format_timestamp(beyond), None);
        }
        for (text, same) in [
            ("2009-02-14T00:31:30.1234+01:00", "2009-02-13T23:31:30.123400Z"),
            ("2009-02-13t16:01:30.123400000-07:30", "2009-02-13T23:31:30.123400Z"),
            ("0000-01-01T00:30:00+00:30", "0000-01-01T00:00:00z"),
        ] {
            assert_eq!(parse_timestamp(text), parse_timestamp(same), "{text}");
            assert!(parse_timestamp(text).is_some(), "{text}");
        }
    }

    #[test]
    fn what_is_no_timestamp_is_refused() {
        for text in [
            "",
            "2009-02-13",
            "2009-02-13T23:31:30",
            "2009-02-13 23:31:30Z",
            "2009-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2009-13-01T00:00:00Z",
            "2009-00-01T00:00:00Z",
            "2009-01-00T00:00:00Z",
            "2009-04-31T00:00:00Z",
            "2009-01-01T24:00:00Z",
            "2009-01-01T00:60:00Z",
            "2009-01-01T00:00:60Z",
            "2009-01-01T00:00:00.Z",
            "2009-01-01T00:00:00.1234567Z",
            "2009-01-01T00:00:00+24:00",
            "2009-01-01T00:00:00+00:60",
            "2009-01-01T00:00:00+0000",
            "2009-01-01T00:00:00Zz",
            "+009-01-01T00:00:00Z",
            "2009-01-01T00:00:0٣Z",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_follows_upon_the_one_before() {
        let mut last = date_of(days_of(0, 1, 1) - 1);
        assert_eq!(last, (-1, 12, 31));
        for days in days_of(0, 1, 1)..=days_of(2400, 12, 31) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_of(year, month, day), days);
            let next = [(last.0, last.1, last.2 + 1), (last.0, last.1 + 1, 1), (last.0 + 1, 1, 1)];
            assert!(next.contains(&(year, month, day)), "{last:?} {year} {month} {day}");
            last = (year, month, day);
        }
        assert_eq!(last, (2400, 12, 31));
    }

    #[test]
    fn uuids_as_rfc_9562_has_them() {
        let text = "01234567-89ab-cdef-0123-456789abcdef";
        let uuid = parse_uuid(text).unwrap();
        assert_eq!(uuid[..5], [0x01, 0x23, 0x45, 0x67, 0x89]);
        assert_eq!(format_uuid(&uuid), text);
        assert_eq!(parse_uuid(&text.to_uppercase()), Some(uuid));
        for wrong in [
            "",
            "0123456789abcdef0123456789abcdef",
            "01234567-89ab-cdef-0123-456789abcde",
            "01234567-89ab-cdef-0123-456789abcdeg",
            "0123456-789ab-cdef-0123-456789abcdef",
            "+1234567-89ab-cdef-0123-456789abcdef",
            "{1234567-89ab-cdef-0123-456789abcde}",
            "01234567-89ab-cdef-0123-456789abcd\u{e9}",
        ] {
            assert_eq!(parse_uuid(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(micros in any::<i64>(), uuid in any::<[u8; 16]>()) {
            let micros = micros % 253_402_300_800_000_000;
            if let Some(text) = format_timestamp(micros) {
                prop_assert_eq!(parse_timestamp(&text), Some(micros));
            }
            prop_assert_eq!(parse_uuid(&format_uuid(&uuid)), Some(uuid));
        }
    }
}
