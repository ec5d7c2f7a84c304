//! Text that a user may have chosen, for one line of a message.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Shows a text without anything that a terminal acts upon, or that ends a line: control characters,
/// line separators, marks of the direction of writing and other invisible characters are written as
/// `\n` or `\u{202e}`. What has been shown so once stays as it is.
///
/// ```
/// use pm::Escaped;
/// let name = "a\nDAMAGE \u{1b}[31m\u{202e}";
/// assert_eq!(Escaped(name).to_string(), "a\\nDAMAGE \\u{1b}[31m\\u{202e}");
/// assert_eq!(Escaped(Escaped(name)).to_string(), Escaped(name).to_string());
/// assert_eq!(Escaped("O'Brien \"Ä\" C:\\x שלום").to_string(), "O'Brien \"Ä\" C:\\x שלום");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Escaped<T>(pub T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

/// What is written to it is shown as [`Escaped`] does.
struct Escaping<'f, 'b>(&'f mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(is_invisible) {
            let (plain, escaped) = rest.split_at(at);
            self.0.write_str(plain)?;
            let mut characters = escaped.chars();
            if let Some(character) = characters.next() {
                write!(self.0, "{}", character.escape_default())?;
            }
            rest = characters.as_str();
        }
        self.0.write_str(rest)
    }
}

/// Shows JSON without such characters, which stand in its strings alone: as `\u202e` there. Line feeds
/// stay, since they may stand between its parts.
///
/// ```
/// assert_eq!(pm::visible_json("{\"a\u{9b}\":\"\u{e0041}\"}\n"), "{\"a\\u009b\":\"\\udb40\\udc41\"}\n");
/// ```
pub fn visible_json(json: &str) -> Cow<'_, str> {
    let is_shown_else = |character| character != '\n' && is_invisible(character);
    if !json.contains(is_shown_else) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_shown_else(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                shown += &format!("\\u{unit:04x}");
            }
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Returns whether a character shows nothing of its own, or changes how others are shown.
pub fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_invisible_character_is_shown() {
        let all: String = ('\0'..=char::MAX).filter(|one| is_invisible(*one)).collect();
        assert!(all.chars().count() > 65 + 2 + 12 + 128);
        let shown = Escaped(&all).to_string();
        assert!(!shown.contains(is_invisible) && shown.contains("\\u{85}"), "{shown}");
        assert_eq!(Escaped(&shown).to_string(), shown);
    }

    #[test]
    fn visible_characters_stay() {
        for text in ["", "account", "a`b", "naïve e\u{301}", "日本 עברית", "\\n \\u{7}"] {
            assert_eq!(Escaped(text).to_string(), text);
        }
    }
}
