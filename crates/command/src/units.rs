//! Numbers as people write them: `200k`, `2M`, `1GiB` when read, `412,345` when printed.

use pm::Escaped;

/// Reads a number with an optional suffix: `k`, `M`, `G`, `T` are powers of 1000, `Ki`, `Mi`,
/// `Gi`, `Ti` powers of 1024, and a `B` may follow either.
///
/// # Errors
/// What is wrong with the text, and what is possible.
pub fn parse_number(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let number: u64 = number
        .parse()
        .map_err(|_| format!("`{}` is no number; write 5000, 200k, 2M or 1GiB", Escaped(text)))?;
    let bare = suffix.strip_suffix('B').filter(|bare| !bare.is_empty()).unwrap_or(suffix);
    let factor: u64 = match bare {
        "" => 1,
        "k" | "K" => 1000,
        "M" => 1000_u64.pow(2),
        "G" => 1000_u64.pow(3),
        "T" => 1000_u64.pow(4),
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => {
            return Err(format!(
                "`{}` is no unit; use k, M, G, T, KiB, MiB, GiB or TiB",
                Escaped(suffix)
            ));
        }
    };
    number.checked_mul(factor).ok_or_else(|| format!("`{text}` is too large"))
}

/// Works as [`parse_number`], but zero makes no sense here.
///
/// # Errors
/// As [`parse_number`], and for zero.
pub fn parse_positive(text: &str) -> Result<u64, String> {
    match parse_number(text)? {
        0 => Err("it must be at least 1".into()),
        number => Ok(number),
    }
}

/// Works as [`parse_positive`], for numbers below 2^32.
///
/// # Errors
/// As [`parse_positive`], and for larger numbers.
pub fn parse_u32(text: &str) -> Result<u32, String> {
    u32::try_from(parse_positive(text)?).map_err(|_| format!("`{text}` is too large"))
}

/// Digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the largest binary unit that leaves at least one.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = number as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "bytes" { format!("{number} bytes") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::{bytes, grouped, parse_number, parse_positive};

    #[test]
    fn sizes_read_as_they_are_written() {
        for (text, number) in [
            ("0", 0),
            ("5000", 5000),
            ("200k", 200_000),
            ("2M", 2_000_000),
            ("1GiB", 1 << 30),
            ("64KiB", 64 << 10),
            ("3GB", 3_000_000_000),
        ] {
            assert_eq!(parse_number(text), Ok(number), "{text}");
        }
        for text in ["", "k", "-1", "1.5M", "2 M", "7B", "9x", "99999999999T"] {
            assert!(parse_number(text).is_err(), "{text}");
        }
        assert!(parse_positive("0").is_err());
    }

    #[test]
    fn numbers_print_as_people_read_them() {
        assert_eq!([grouped(7), grouped(1000), grouped(1_234_567)], ["7", "1,000", "1,234,567"]);
        assert_eq!([bytes(512), bytes(1536), bytes(1 << 30)], ["512 bytes", "1.5 KiB", "1.0 GiB"]);
    }
}
