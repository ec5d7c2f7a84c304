//! Results, in the form that is asked for.

use pm::Escaped;
use std::io::{self, BufWriter, Write};

use clap::ValueEnum;
use command::failure::Failure;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Statement};

/// Rows that are looked at for the widths of a table; later ones may be wider.
const MEASURED: usize = 1000;

/// A form of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Columns below their names.
    Table,
    /// Columns with a bar between.
    #[default]
    List,
    /// Columns by comma, quoted where they have to be.
    Csv,
    /// A list of objects for each statement.
    Json,
    /// A line for each column.
    Line,
}

/// The settings that dot-commands change.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    /// The form of results.
    pub(super) format: Format,
    /// The names of columns are shown in list and csv.
    pub(super) headers: bool,
    /// NULL, as it is shown.
    pub(super) null: String,
    /// The first error is the end.
    pub(super) bail: bool,
    /// The time of each statement is shown.
    pub(super) timer: bool,
}

/// The state of a shell, for its commands.
pub(super) struct State<'a> {
    /// The connection.
    pub(super) connection: &'a Connection,
    /// The settings.
    pub(super) settings: Settings,
    /// Where results go.
    pub(super) out: Output,
}

/// The reason why a statement or command has ended early.
#[derive(Debug)]
pub(super) enum Trouble {
    /// An error of SQLite's.
    Sql(rusqlite::Error),
    /// In words.
    Said(String),
    /// The results cannot be written any more.
    Output(Failure),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// Standard output.
pub(super) struct Output(BufWriter<io::Stdout>);

impl Output {
    /// Standard output.
    pub(super) fn standard() -> Self {
        Self(BufWriter::new(io::stdout()))
    }

    /// Writes a text.
    ///
    /// # Errors
    /// The text cannot be written.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Trouble> {
        self.0.write_all(text.as_bytes()).map_err(taken)
    }

    /// Writes a line.
    ///
    /// # Errors
    /// The line cannot be written.
    pub(super) fn line(&mut self, text: &str) -> Result<(), Trouble> {
        self.text(text)?;
        self.text("\n")
    }

    /// Flushes the buffer.
    ///
    /// # Errors
    /// The buffer cannot be written.
    pub(super) fn flush(&mut self) -> Result<(), Trouble> {
        self.0.flush().map_err(taken)
    }
}

fn taken(error: io::Error) -> Trouble {
    Trouble::Output(match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::PipeClosed,
        _ => Failure::about("standard output", error),
    })
}

/// Runs a statement and shows its rows.
///
/// # Errors
/// SQLite's errors, or the rows cannot be written.
pub(super) fn rows(
    statement: &mut Statement<'_>,
    settings: &Settings,
    out: &mut Output,
) -> Result<(), Trouble> {
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.raw_query();
    match settings.format {
        Format::Table => return table(&names, &mut rows, settings, out),
        Format::Json => return json(&names, &mut rows, out),
        Format::Line => {}
        Format::List if settings.headers => out.line(&names.join("|"))?,
        Format::Csv if settings.headers => {
            out.line(&names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(","))?;
        }
        Format::List | Format::Csv => {}
    }
    let mut number = 0;
    while let Some(row) = rows.next()? {
        let cells: rusqlite::Result<Vec<String>> =
            (0..names.len()).map(|at| Ok(cell(row.get_ref(at)?, &settings.null))).collect();
        let cells = cells?;
        match settings.format {
            Format::Csv => {
                out.line(&cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(","))?;
            }
            Format::Line => {
                if number > 0 {
                    out.line("")?;
                }
                let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
                for (name, cell) in names.iter().zip(&cells) {
                    out.line(&format!("{name:>width$} = {cell}"))?;
                }
            }
            _ => out.line(&cells.join("|"))?,
        }
        number += 1;
    }
    Ok(())
}

/// A value as people read it.
fn cell(value: ValueRef<'_>, null: &str) -> String {
    match value {
        ValueRef::Null => null.to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        // As short as it can be, and never taken for an integer.
        ValueRef::Real(number) => format!("{number:?}"),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => format!("X'{}'", hex(bytes)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// A cell of a CSV file.
fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

fn json(names: &[String], rows: &mut rusqlite::Rows<'_>, out: &mut Output) -> Result<(), Trouble> {
    let names: Vec<String> = names.iter().map(|name| string(name)).collect();
    out.text("[")?;
    let mut number = 0;
    while let Some(row) = rows.next()? {
        out.text(if number == 0 { "{" } else { ",\n{" })?;
        for (at, name) in names.iter().enumerate() {
            let value = match row.get_ref(at)? {
                ValueRef::Null => "null".to_owned(),
                ValueRef::Integer(number) => number.to_string(),
                // JSON has no infinity.
                ValueRef::Real(number) if !number.is_finite() => "null".into(),
                ValueRef::Real(number) => format!("{number:?}"),
                ValueRef::Text(text) => string(&String::from_utf8_lossy(text)),
                ValueRef::Blob(bytes) => string(&hex(bytes)),
            };
            let comma = if at == 0 { "" } else { "," };
            out.text(&format!("{comma}{name}:{value}"))?;
        }
        out.text("}")?;
        number += 1;
    }
    out.line("]")
}

/// A text as JSON has it.
fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn table(
    names: &[String],
    rows: &mut rusqlite::Rows<'_>,
    settings: &Settings,
    out: &mut Output,
) -> Result<(), Trouble> {
    let mut shown = Vec::new();
    let mut widths: Vec<usize> = names.iter().map(|name| name.chars().count()).collect();
    let mut head = Some(names);
    loop {
        let row = match rows.next()? {
            Some(row) => {
                let cells = (0..names.len()).map(|at| {
                    let value = row.get_ref(at)?;
                    let number = matches!(value, ValueRef::Integer(_) | ValueRef::Real(_));
                    Ok((number, printable(&cell(value, &settings.null))))
                });
                Some(cells.collect::<rusqlite::Result<Vec<(bool, String)>>>()?)
            }
            None => None,
        };
        let ended = row.is_none();
        shown.extend(row);
        if head.is_some() {
            if !ended && shown.len() < MEASURED {
                continue;
            }
            for row in &shown {
                for (width, (_, cell)) in widths.iter_mut().zip(row) {
                    *width = (*width).max(cell.chars().count());
                }
            }
        }
        // Of a statement without rows there is nothing to say.
        if let (Some(names), false) = (head.take(), shown.is_empty()) {
            let names: Vec<(bool, String)> =
                names.iter().map(|name| (false, name.clone())).collect();
            out.line(&aligned(&names, &widths))?;
            let rules = widths.iter().map(|width| (false, "-".repeat(*width)));
            out.line(&aligned(&rules.collect::<Vec<_>>(), &widths))?;
        }
        for row in shown.drain(..) {
            out.line(&aligned(&row, &widths))?;
        }
        if ended {
            return Ok(());
        }
    }
}

/// A text in which nothing moves the cursor.
fn printable(text: &str) -> String {
    Escaped(text).to_string()
}

/// A line of a table: numbers right, all else left.
fn aligned(cells: &[(bool, String)], widths: &[usize]) -> String {
    let cells = cells.iter().zip(widths).map(|((number, cell), width)| match number {
        true => format!("{cell:>width$}"),
        false => format!("{cell:<width$}"),
    });
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}
