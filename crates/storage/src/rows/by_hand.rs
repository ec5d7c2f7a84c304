//! Text that people write by hand: byte order marks that editors put before it, and names that are
//! misspelt.

use crate::rows::value::Value;

/// The mark that some editors put before a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text without the byte order mark before it.
///
/// # Errors
/// The mark is that of another encoding than UTF-8; the text says which.
pub fn without_mark(text: &[u8]) -> Result<&[u8], &'static str> {
    match text {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err("the text is in UTF-16; save it as UTF-8"),
        _ => Ok(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)),
    }
}

/// The one of `known` that `wrong` was probably meant to be: the same in capital letters, its
/// beginning, or a few letters away. `None` if none is near.
fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong: Vec<char> = wrong.chars().take(MAX_NAME).flat_map(char::to_lowercase).collect();
    let far = |name: &str| {
        let name: Vec<char> = name.chars().take(MAX_NAME).flat_map(char::to_lowercase).collect();
        // Two letters that have changed places are two edits.
        let most = name.len().div_ceil(2).clamp(1, 3);
        let distance = edits(&wrong, &name);
        let begins = wrong.len().min(name.len()) >= 3
            && (name.starts_with(&wrong) || wrong.starts_with(&name));
        (distance <= most && distance < name.len() || begins).then_some(distance)
    };
    let near = known.into_iter().filter_map(|name| Some((far(name)?, name)));
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// `; did you mean ...?`, or nothing.
pub fn did_you_mean<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wrong, known).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Letters of a name that are compared: it bounds the work for any input.
const MAX_NAME: usize = 64;

/// Letters that have to be put in, taken out or replaced to make one word of the other.
fn edits(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (place, wanted) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != wanted);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

/// A text as an error shows it: `max` characters of it at most, and control characters escaped.
pub fn shortened(text: &str, max: usize) -> String {
    let mut shown: String = text.chars().take(max).flat_map(visible).collect();
    if text.chars().nth(max).is_some() {
        shown.push_str("...");
    }
    shown
}

/// A key as an error shows it: columns with their values, long ones in part.
pub fn shown_key<'n, 'v>(key: impl Iterator<Item = (&'n str, Value<'v>)>) -> String {
    let mut shown = String::new();
    for (number, (column, value)) in key.enumerate() {
        if number == KEY_COLUMNS {
            return shown + ", ...";
        }
        let comma = if number > 0 { ", " } else { "" };
        shown += &format!("{comma}{} = {}", shortened(column, NAME_SHOWN), shown_value(value));
    }
    shown
}

/// Columns of a key that an error shows, characters of their names and of their values.
const KEY_COLUMNS: usize = 8;
const NAME_SHOWN: usize = 32;
const VALUE_SHOWN: usize = 40;

fn shown_value(value: Value<'_>) -> String {
    match value {
        Value::U64(number) => number.to_string(),
        Value::I64(number) => number.to_string(),
        Value::F64(number) => number.to_string(),
        Value::Null => "NULL".into(),
        Value::Bool(truth) => truth.to_string(),
        Value::Text(text) => format!("\"{}\"", shortened(text, VALUE_SHOWN)),
        Value::Bytes(bytes) => {
            let shown = bytes.iter().take(VALUE_SHOWN / 2);
            let digits: String = shown.map(|byte| format!("{byte:02x}")).collect();
            let rest = if bytes.len() > VALUE_SHOWN / 2 { "..." } else { "" };
            format!("0x{digits}{rest}")
        }
    }
}

fn visible(letter: char) -> impl Iterator<Item = char> {
    let escaped = letter.is_control().then(|| letter.escape_default());
    let plain = (!letter.is_control()).then_some(letter);
    escaped.into_iter().flatten().chain(plain)
}

/// An error of `serde_json` as people read it: with the field or type that was probably meant, and
/// without its place, which is given apart.
pub fn json_error(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    if let Some(place) = text.rfind(" at line ") {
        text.truncate(place);
    }
    if text.contains("invalid type: unit variant, expected struct variant") {
        return "this type needs its longest value, as in {\"text\": {\"max\": 80}}".into();
    }
    if text == "key must be a string" {
        return "here is no name in quotes; is the comma before it one too many?".into();
    }
    let meant = ["unknown field `", "unknown variant `"].iter().find_map(|begin| {
        let (wrong, known) = text.strip_prefix(begin)?.rsplit_once("`, expected ")?;
        Some(did_you_mean(wrong, known.split('`').skip(1).step_by(2)))
    });
    text + &meant.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_a_text_in_part() {
        assert_eq!(shortened("Ada", 3), "Ada");
        assert_eq!(shortened("Gra\nce", 4), "Gra\\n...");
        assert_eq!(shortened("\u{1b}[2J", 80), "\\u{1b}[2J");
    }

    #[test]
    fn a_slip_of_the_finger_is_near_and_another_word_is_not() {
        let fields = ["name", "columns", "key", "indexes", "inline"];
        for (wrong, meant) in [
            ("index", Some("indexes")),
            ("indices", Some("indexes")),
            ("Columns", Some("columns")),
            ("coloumns", Some("columns")),
            ("col", Some("columns")),
            ("keys", Some("key")),
            ("nmae", Some("name")),
            ("primary", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, fields), meant, "{wrong}");
        }
        assert_eq!(nearest("i63", ["u8", "i64", "i32"]), Some("i64"));
        assert_eq!(nearest(&"x".repeat(1 << 20), ["x"]), None);
    }

    #[test]
    fn an_error_shows_a_key_in_part() {
        let key = |values: &[Value<'_>]| shown_key((0..).map(|_| "k").zip(values.iter().copied()));
        assert_eq!(key(&[Value::U64(u64::MAX)]), "k = 18446744073709551615");
        let several =
            [Value::I64(-1), Value::Text("Ada\n"), Value::F64(0.5), Value::Bytes(&[1, 255])];
        assert_eq!(key(&several), "k = -1, k = \"Ada\\n\", k = 0.5, k = 0x01ff");
        let long = ["\u{1f600}".repeat(300), "k".repeat(70_000)];
        let shown = shown_key(
            long.iter().map(|text| (text.as_str(), Value::Text(text))).cycle().take(1000),
        );
        assert!(shown.chars().count() < 1000, "{shown}");
        assert!(key(&[Value::Bytes(&[7; 21])]).ends_with("0707..."));
    }

    #[test]
    fn what_serde_says_can_be_read() {
        #[derive(serde::Deserialize, Debug)]
        #[serde(deny_unknown_fields)]
        struct Own {
            #[expect(dead_code, reason = "only read")]
            indexes: u8,
        }
        let said = |text| json_error(&serde_json::from_str::<Own>(text).expect_err("wrong"));
        let near = said("{\"index\": 1}");
        assert_eq!(near, "unknown field `index`, expected `indexes`; did you mean `indexes`?");
        assert_eq!(
            said("{\"a`, expected `b\": 1}"),
            "unknown field `a`, expected `b`, expected `indexes`"
        );
        assert_eq!(said("{\"indexes\": 1, \"indexes\": 2}"), "duplicate field `indexes`");
    }
}
