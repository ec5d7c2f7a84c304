//! Statements: where they end, and what becomes of them.

use pm::Escaped;
use std::path::Path;
use std::time::Instant;

use command::failure::{Failure, say};
use peers::extension::ends_a_statement;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch, Connection, Error};

use super::commands::{self, Next};
use super::input::{Line, Lines, Source};
use super::interrupts::Interrupts;
use super::show::{Output, Settings, State, Trouble, rows};

/// Files that may be read by each other's order.
const DEEPEST: usize = 20;

/// A shell on one connection.
pub(super) struct Shell<'a> {
    state: State<'a>,
    /// Files that are being read, one by the other's order.
    depth: usize,
    interrupts: &'a Interrupts,
    failed: bool,
    /// Nothing more is read.
    over: bool,
}

impl<'a> Shell<'a> {
    /// A shell.
    pub(super) fn new(
        connection: &'a Connection,
        settings: Settings,
        interrupts: &'a Interrupts,
    ) -> Self {
        let state = State { connection, settings, out: Output::standard() };
        Self { state, depth: 0, interrupts, failed: false, over: false }
    }

    /// Returns whether a failure was reported.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Runs all lines of a source.
    ///
    /// # Errors
    /// The results cannot be written, or the source cannot be read.
    pub(super) fn run(&mut self, source: &mut dyn Source) -> Result<(), Failure> {
        let (mut statement, mut first, mut number) = (String::new(), 1, 0);
        while !self.over {
            let line = match source.next(!statement.is_empty())? {
                Line::Of(line) => line,
                Line::Dropped => {
                    statement.clear();
                    continue;
                }
                Line::End => {
                    if !statement.is_empty() {
                        self.execute(source, &statement, first)?;
                    }
                    break;
                }
            };
            number += 1;
            if statement.is_empty() {
                let begins = line.trim_start();
                if begins.is_empty() || begins.starts_with("--") {
                    continue;
                }
                if begins.starts_with('.') {
                    source.remember(&line);
                    self.command(source, &line, number)?;
                    continue;
                }
                first = number;
            }
            statement += &line;
            statement.push('\n');
            // Only then is it worth to look at all of it.
            if line.contains(';') && ends_a_statement(&statement) {
                source.remember(&statement);
                self.execute(source, &statement, first)?;
                statement.clear();
            }
        }
        Ok(())
    }

    /// Runs a text that begins at line `first`, and reports failures.
    fn execute(&mut self, source: &dyn Source, text: &str, first: u64) -> Result<(), Failure> {
        let begun = Instant::now();
        let interrupts = self.interrupts;
        let done = interrupts.during(|| self.statements(text));
        let done = done.and_then(|()| self.state.out.flush());
        if self.state.settings.timer {
            say(format_args!("{:.3} ms", begun.elapsed().as_secs_f64() * 1e3));
        }
        match done {
            Ok(()) => {}
            Err(Trouble::Output(failure)) => return Err(failure),
            Err(Trouble::Said(why)) => self.tell(source, first, &why),
            Err(Trouble::Sql(error)) => {
                let (line, why) = place_of(&error, text, first);
                self.tell(source, line, &why);
            }
        }
        self.over |= interrupts.all_is_over();
        Ok(())
    }

    fn statements(&mut self, text: &str) -> Result<(), Trouble> {
        let State { connection, settings, out } = &mut self.state;
        let mut batch = Batch::new(connection, text);
        while let Some(mut statement) = batch.next()? {
            if statement.column_count() == 0 {
                statement.raw_execute()?;
            } else {
                rows(&mut statement, settings, out)?;
            }
        }
        Ok(())
    }

    fn command(&mut self, source: &dyn Source, line: &str, number: u64) -> Result<(), Failure> {
        let interrupts = self.interrupts;
        let done = interrupts.during(|| commands::run(&mut self.state, line));
        match done.and_then(|next| self.state.out.flush().map(|()| next)) {
            Ok(Next::On) => {}
            Ok(Next::Quit) => self.over = true,
            Ok(Next::Read(file)) => {
                if let Err(why) = self.read(&file)? {
                    self.tell(source, number, &why);
                }
            }
            Err(Trouble::Output(failure)) => return Err(failure),
            Err(Trouble::Said(why)) => self.tell(source, number, &why),
            Err(Trouble::Sql(error)) => self.tell(source, number, &error.to_string()),
        }
        self.over |= interrupts.all_is_over();
        Ok(())
    }

    /// Runs a file; says why if it cannot be read.
    fn read(&mut self, file: &Path) -> Result<Result<(), String>, Failure> {
        if self.depth == DEEPEST {
            let name = file.display();
            return Ok(Err(format!("{name}: {DEEPEST} files read each other: is there an end?")));
        }
        let mut lines = match Lines::of_file(file) {
            Ok(lines) => lines,
            Err(why) => return Ok(Err(why)),
        };
        self.depth += 1;
        let done = self.run(&mut lines);
        self.depth -= 1;
        match done {
            Err(Failure::Failed(why)) => Ok(Err(why)),
            done => done.map(Ok),
        }
    }

    fn tell(&mut self, source: &dyn Source, line: u64, why: &str) {
        say(format_args!("perdura: {}{}", Escaped(source.place(line)), Escaped(why)));
        self.failed = true;
        self.over |= self.state.settings.bail;
    }
}

/// The line that an error is about, and what it says; `first` is that of the text.
fn place_of(error: &Error, text: &str, first: u64) -> (u64, String) {
    match error {
        // The text that is left, and how far into it.
        Error::SqlInputError { msg, sql, offset, .. } => {
            let at = text.len() - sql.len().min(text.len()) + usize::try_from(*offset).unwrap_or(0);
            let before = text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
            (first + before as u64, msg.clone())
        }
        other => (first, other.to_string()),
    }
}
