//! The lines that a shell runs: typed, piped, from a file, or from the command line.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use command::failure::{Failure, say};
use rusqlite::Connection;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};

use super::completion::{Names, Words};

/// Lines that are kept for the next time.
const HISTORY: usize = 10_000;

/// The outcome of asking for a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// One, without its end.
    Of(String),
    /// The line that was typed is not wanted any more.
    Dropped,
    /// There are no more.
    End,
}

/// A place that lines come from.
pub(super) trait Source {
    /// The next line; `begun` says that it goes on with a statement.
    ///
    /// # Errors
    /// It cannot be read.
    fn next(&mut self, begun: bool) -> Result<Line, Failure>;

    /// The place of a line, for errors; empty if lines are typed.
    fn place(&self, line: u64) -> String;

    /// Keeps a statement for the next time.
    fn remember(&mut self, _statement: &str) {}
}

/// Lines of a file, or of what is piped in.
pub(super) struct Lines {
    from: Box<dyn BufRead>,
    name: String,
    /// Each line is an argument rather.
    arguments: bool,
}

impl Lines {
    /// Those of standard input.
    pub(super) fn of_standard_input() -> Self {
        let from = Box::new(BufReader::new(io::stdin()));
        Self { from, name: "standard input".into(), arguments: false }
    }

    /// Those of a file.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn of_file(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| format!("{name}: {error}"))?;
        Ok(Self { from: Box::new(BufReader::new(file)), name, arguments: false })
    }

    /// Arguments of the command line, each of which ends a statement.
    pub(super) fn of_arguments(arguments: &[String]) -> Self {
        let ended = |argument: &String| match argument.trim_start().starts_with('.') {
            true => argument.clone(),
            false => format!("{argument}\n;"),
        };
        let all: Vec<String> = arguments.iter().map(ended).collect();
        let from = Box::new(io::Cursor::new(all.join("\n").into_bytes()));
        Self { from, name: "the command line".into(), arguments: true }
    }
}

impl Source for Lines {
    fn next(&mut self, _begun: bool) -> Result<Line, Failure> {
        let mut bytes = Vec::new();
        let failed = |error: io::Error| Failure::about(&self.name, error);
        if self.from.read_until(b'\n', &mut bytes).map_err(failed)? == 0 {
            return Ok(Line::End);
        }
        let ends = [&b"\n"[..], b"\r"];
        let line =
            ends.iter().fold(&bytes[..], |line, end| line.strip_suffix(*end).unwrap_or(line));
        match std::str::from_utf8(line) {
            Ok(line) => Ok(Line::Of(line.trim_start_matches('\u{feff}').to_owned())),
            Err(_) => Err(Failure::about(&self.name, "this is not UTF-8")),
        }
    }

    fn place(&self, line: u64) -> String {
        match self.arguments {
            true => format!("{}: ", self.name),
            false => format!("{}, line {line}: ", self.name),
        }
    }
}

/// Lines typed at a terminal.
pub(super) struct Typed<'c> {
    editor: Editor<Words, DefaultHistory>,
    history: Option<PathBuf>,
    connection: &'c Connection,
}

impl<'c> Typed<'c> {
    /// An editor with the history of the last times.
    ///
    /// # Errors
    /// The terminal is none that can be edited on.
    pub(super) fn new(connection: &'c Connection) -> Result<Self, Failure> {
        let failed = |error: ReadlineError| Failure::about("the terminal", error);
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .max_history_size(HISTORY)
            .map_err(failed)?
            .build();
        let mut editor = Editor::with_config(config).map_err(failed)?;
        editor.set_helper(Some(Words::default()));
        let history = history();
        if let Some(path) = &history {
            // The first time there is none.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history, connection })
    }
}

impl Source for Typed<'_> {
    fn next(&mut self, begun: bool) -> Result<Line, Failure> {
        if let (false, Some(words)) = (begun, self.editor.helper_mut()) {
            words.learn(Names::of(self.connection));
        }
        let prompt = if begun { "    ...> " } else { "perdura> " };
        match self.editor.readline(prompt) {
            Ok(line) => Ok(Line::Of(line)),
            Err(ReadlineError::Interrupted) => Ok(Line::Dropped),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(Failure::about("the terminal", error)),
        }
    }

    fn place(&self, _line: u64) -> String {
        String::new()
    }

    fn remember(&mut self, statement: &str) {
        // A history that cannot be kept is no reason to stop.
        let _ = self.editor.add_history_entry(statement.trim());
    }
}

impl Drop for Typed<'_> {
    fn drop(&mut self) {
        let Some(path) = &self.history else { return };
        let kept = path.parent().map_or(Ok(()), fs::create_dir_all).map_err(ReadlineError::from);
        if let Err(error) = kept.and_then(|()| self.editor.append_history(path)) {
            say(format_args!("the history is not kept: {}: {error}", path.display()));
        }
    }
}

/// Where statements are kept for the next time.
fn history() -> Option<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = from("PERDURA_HISTORY") {
        return Some(path.into());
    }
    let state = from("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(PathBuf::from(from("HOME")?).join(".local/state")))?;
    Some(state.join("perdura/sql-history"))
}
