//! Dot-commands.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use peers::extension::{answer, stats};

use super::show::{Format, State, Trouble};
use super::{dump, import};

/// A command, what it takes, and what it does.
pub(super) const COMMANDS: [(&str, &str, &str); 17] = [
    (".bail", "on|off", "end at the first error"),
    (".databases", "", "the databases that are open, and by what"),
    (".dump", "[TABLE]", "the SQL that makes all of it, or a table"),
    (".exit", "", "the same as .quit"),
    (".headers", "on|off", "the names of columns, in list and csv"),
    (".help", "", "this"),
    (
        ".import",
        "FILE TABLE",
        "rows of a CSV file; its first line names the columns of a new table",
    ),
    (".indexes", "[TABLE]", "the names of indexes"),
    (".mode", "[FORM]", "the form of results: table, list, csv, json, line"),
    (".nullvalue", "TEXT", "NULL, as it is shown"),
    (".quit", "", "the end; so is Ctrl-D"),
    (".read", "FILE", "statements and commands of a file"),
    (".schema", "[NAME]", "the SQL of tables, indexes, views and triggers"),
    (".stats", "", "commits, lines and fences that the extension counts"),
    (".tables", "[NAME]", "the names of tables and views"),
    (".timer", "on|off", "the time of each statement"),
    (".version", "", "the versions of Perdura and SQLite"),
];

/// Whether the shell goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It does.
    On,
    /// A file is to be run first.
    Read(PathBuf),
    /// It ends.
    Quit,
}

fn said<T>(why: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Said(why.into()))
}

/// Runs a command.
///
/// # Errors
/// There is none of that name, it takes other words, or it fails.
pub(super) fn run(shell: &mut State<'_>, line: &str) -> Result<Next, Trouble> {
    let words = words(line)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match &words[..] {
        [".quit" | ".exit"] => return Ok(Next::Quit),
        [".help"] => help(shell)?,
        [".version"] => {
            let (ours, sqlite) = (env!("CARGO_PKG_VERSION"), rusqlite::version());
            shell.out.line(&format!("Perdura {ours}, SQLite {sqlite}"))?;
        }
        [".bail", word] => shell.settings.bail = switch(word)?,
        [".headers" | ".header", word] => shell.settings.headers = switch(word)?,
        [".timer", word] => shell.settings.timer = switch(word)?,
        [".nullvalue", text] => shell.settings.null = (*text).to_owned(),
        [".mode"] => {
            let form = shell.settings.format.to_possible_value();
            shell.out.line(form.as_ref().map_or("", |form| form.get_name()))?;
        }
        [".mode", word] => match Format::from_str(word, true) {
            Ok(format) => shell.settings.format = format,
            Err(_) => {
                return said(format!(
                    "`{word}` is no form; there are table, list, csv, json, line"
                ));
            }
        },
        [".tables"] => names(shell, TABLES, "%")?,
        [".tables", like] => names(shell, TABLES, like)?,
        [".indexes" | ".indices"] => names(shell, INDEXES, "%")?,
        [".indexes" | ".indices", table] => names(shell, INDEXES, table)?,
        [".schema"] => names(shell, SCHEMA, "%")?,
        [".schema", like] => names(shell, SCHEMA, like)?,
        [".databases"] => databases(shell)?,
        [".stats"] => counts(shell)?,
        [".dump"] => dump::all(shell.connection, &mut shell.out)?,
        [".dump", table] => dump::table(shell.connection, table, &mut shell.out)?,
        [".read", file] => return Ok(Next::Read(file.into())),
        [".import", file, table] => import::csv(shell.connection, Path::new(file), table)?,
        [command, ..] => return unknown(command),
        [] => {}
    }
    Ok(Next::On)
}

fn unknown(command: &str) -> Result<Next, Trouble> {
    match COMMANDS.iter().find(|(name, ..)| *name == command) {
        Some((name, takes, _)) => said(format!("it is written as: {name} {takes}")),
        None => said(format!("`{command}` is no command; .help has all")),
    }
}

/// The words of a line; those with blanks are quoted.
fn words(line: &str) -> Result<Vec<String>, Trouble> {
    let (mut words, mut rest) = (Vec::new(), line.trim());
    while !rest.is_empty() {
        let quote = rest.chars().next().filter(|first| ['"', '\''].contains(first));
        let (word, behind) = match quote {
            Some(quote) => match rest[1..].split_once(quote) {
                Some(parts) => parts,
                None => return said(format!("a {quote} is missing")),
            },
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = behind.trim_start();
    }
    Ok(words)
}

fn switch(word: &str) -> Result<bool, Trouble> {
    match word {
        "on" | "yes" | "1" => Ok(true),
        "off" | "no" | "0" => Ok(false),
        _ => said(format!("`{word}`: on and off are possible")),
    }
}

fn help(shell: &mut State<'_>) -> Result<(), Trouble> {
    for (name, takes, what) in COMMANDS {
        shell.out.line(&format!("{:<22} {what}", format!("{name} {takes}")))?;
    }
    shell.out.line("All else is SQL; a statement ends with a semicolon. Ctrl-C ends one that runs.")
}

const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') \
    AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name LIKE ?1 ORDER BY name";
const INDEXES: &str = "SELECT name FROM sqlite_schema WHERE type = 'index' \
    AND tbl_name LIKE ?1 ORDER BY name";
const SCHEMA: &str = "SELECT sql || ';' FROM sqlite_schema WHERE sql IS NOT NULL \
    AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND (name LIKE ?1 OR tbl_name LIKE ?1) \
    ORDER BY tbl_name, type = 'table' DESC, rowid";

/// Shows the texts that a query has for a pattern.
fn names(shell: &mut State<'_>, query: &str, like: &str) -> Result<(), Trouble> {
    let mut statement = shell.connection.prepare(query)?;
    let mut rows = statement.query([like])?;
    while let Some(row) = rows.next()? {
        shell.out.line(&row.get::<_, String>(0)?)?;
    }
    Ok(())
}

fn databases(shell: &mut State<'_>) -> Result<(), Trouble> {
    let mut statement = shell.connection.prepare("PRAGMA database_list")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (name, file): (String, String) = (row.get(1)?, row.get(2)?);
        let pragma = format!("\"{}\".perdura_domain", name.replace('"', "\"\""));
        let domain = answer(shell.connection, &pragma)?;
        let by =
            domain.map_or("SQLite's own".to_owned(), |domain| format!("Perdura, domain {domain}"));
        shell.out.line(&format!("{name}: {file} ({by})"))?;
    }
    Ok(())
}

fn counts(shell: &mut State<'_>) -> Result<(), Trouble> {
    let Some(found) = stats(shell.connection)? else {
        return said("the extension does not have this database, and counts nothing");
    };
    let each = |count: u64| count as f64 / found.commits.max(1) as f64;
    shell.out.line(&format!(
        "{} commits of this connection: {:.2} lines, {:.2} fences, {:.0} logged bytes each; {} recoveries",
        found.commits,
        each(found.lines),
        each(found.fences),
        each(found.bytes),
        found.recoveries
    ))
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_with_blanks_are_quoted() {
        let found = words(" .import 'a b.csv'  \"t 1\" x ").expect("whole");
        assert_eq!(found, [".import", "a b.csv", "t 1", "x"]);
        assert!(words(".read 'a").is_err());
    }
}
