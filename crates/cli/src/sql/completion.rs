//! Completion of words: keywords, names of the schema, dot-commands and their files.

use std::collections::BTreeSet;

use peers::extension::keywords;
use rusqlite::Connection;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::commands::COMMANDS;

/// Pragmas of the extension.
const PRAGMAS: [&str; 4] = ["perdura_mode", "perdura_domain", "perdura_share", "perdura_stats"];
/// Commands that take a file.
const WITH_FILES: [&str; 2] = [".read", ".import"];

/// The names in a schema.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// Returns the names of tables, views, indexes and columns; none while the database is locked.
    pub(super) fn of(connection: &Connection) -> Self {
        let query = "SELECT name FROM sqlite_schema UNION \
             SELECT p.name FROM sqlite_schema AS s, pragma_table_info(s.name) AS p \
             WHERE s.type IN ('table', 'view')";
        let found = connection.prepare(query).and_then(|mut statement| {
            statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()
        });
        Self(found.unwrap_or_default())
    }
}

/// The words that can be completed.
#[derive(Default)]
pub(super) struct Words {
    names: Names,
    files: FilenameCompleter,
}

impl Words {
    /// Takes the names of a schema.
    pub(super) fn learn(&mut self, names: Names) {
        self.names = names;
    }

    /// The words that begin as the one before `at` does, and where that begins.
    fn candidates(&self, line: &str, at: usize) -> (usize, Vec<String>) {
        let before = &line[..at];
        let start = before
            .rfind(|one: char| !(one.is_alphanumeric() || one == '_' || one == '.'))
            .map_or(0, |place| place + before[place..].chars().next().map_or(1, char::len_utf8));
        // A table's name and a dot are followed by one of its columns.
        let dot = before[start..].rfind('.').filter(|dot| start + dot > 0);
        let start = dot.map_or(start, |dot| start + dot + 1);
        let begun = &before[start..];
        if begun.is_empty() {
            return (start, Vec::new());
        }
        if begun.starts_with('.') {
            let names = COMMANDS.iter().map(|(name, ..)| (*name).to_owned());
            return (start, names.filter(|name| name.starts_with(begun)).collect());
        }
        let lower = begun.to_lowercase();
        let matches = |word: &str| word.to_lowercase().starts_with(&lower);
        let upper = begun.chars().next().is_some_and(char::is_uppercase);
        let keyword = |word: String| if upper { word } else { word.to_lowercase() };
        let named = self.names.0.iter().map(String::as_str).chain(PRAGMAS);
        let named = named.filter(|name| matches(name)).map(str::to_owned);
        let keywords = keywords().filter(|word| dot.is_none() && matches(word)).map(keyword);
        (start, named.chain(keywords).collect())
    }
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let command = line.split_whitespace().next().unwrap_or_default();
        if WITH_FILES.contains(&command) && at > command.len() {
            return self.files.complete(line, at, context);
        }
        let (start, words) = self.candidates(line, at);
        let pair = |word: String| Pair { display: word.clone(), replacement: word };
        Ok((start, words.into_iter().map(pair).collect()))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}
impl Validator for Words {}
impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_sql_of_the_schema_and_of_the_shell_are_completed() {
        let connection = Connection::open_in_memory().expect("opens");
        connection.execute_batch("CREATE TABLE selection(chosen, \"two words\")").expect("made");
        let mut words = Words::default();
        words.learn(Names::of(&connection));
        let found = |line: &str| words.candidates(line, line.len());
        let (start, names) = found("sel");
        assert_eq!((start, &names[..]), (0, &["selection".to_owned(), "select".to_owned()][..]));
        assert_eq!(found("SELECT * FROM SELEC").1, ["selection", "SELECT"]);
        assert_eq!(found("SELECT selection.ch"), (17, vec!["chosen".to_owned()]));
        assert_eq!(found(".da"), (0, vec![".databases".to_owned()]));
        assert_eq!(found("PRAGMA perdura_s").1, ["perdura_share", "perdura_stats"]);
        assert_eq!(found("SELECT ").1, Vec::<String>::new());
        assert_eq!(found("SELECT 'ü', ch").0, 13);
    }
}
