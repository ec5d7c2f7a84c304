//! The errors of loading, and how much was loaded.

use engines::below::Escaped;
use std::fmt;

use crate::error::Error;

/// The part of the input that is in the database when loading has failed.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, _) = accounts(&Options::new());
/// let lines = br#"{"table":"account","tuple":{"id":"one","owner":"Ada","balance":70}}"#;
/// let options = LoadOptions::new("the mail");
/// let refused = db.load(&mut &lines[..], &options, &mut |_| {}).unwrap_err();
/// let Error::Lines(LinesError::Line { kept, .. }) = refused else { panic!("{refused}") };
/// assert_eq!(kept, Kept::Nothing);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// Nothing; a database that was to be created is not there.
    Nothing,
    /// The tuples of the lines before this one.
    Before(u64),
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing was loaded"),
            Self::Before(line) => {
                write!(f, "the tuples before line {line} are loaded, none from there on")
            }
        }
    }
}

/// Lines could not be loaded.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, _) = accounts(&Options::new());
/// let lines = br#"{"table":"account","tuple":{"id":1,"owner":"Ada","balance":70}}"#;
/// let options = LoadOptions::new("the mail");
/// let refused = db.load(&mut &lines[..], &options, &mut |_| {}).unwrap_err();
/// let Error::Lines(LinesError::Refused { line, source, .. }) = refused else { panic!("{refused}") };
/// assert_eq!(line, 1);
/// assert!(matches!(*source, Error::DuplicateKey { .. }));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinesError {
    /// A line is not what it must be.
    #[error("{input}: line {line}: {why}; {kept}", input = Escaped(.input), why = Escaped(.why))]
    Line {
        /// The input's name.
        input: String,
        /// The line; the first one is 1.
        line: u64,
        /// The error, in words.
        why: String,
        /// The part that was loaded.
        kept: Kept,
    },
    /// The database did not take a line.
    #[error("{input}: line {line}: {source}; {kept}", input = Escaped(.input))]
    Refused {
        /// The input's name.
        input: String,
        /// The line; the first one is 1.
        line: u64,
        /// The reason.
        source: Box<Error>,
        /// The part that was loaded.
        kept: Kept,
    },
    /// The lines do not begin with a description, and no schema was given for a new database.
    #[error(
        "{input}: has no description in its first line, as a dump has; give a schema, or load it into a database that exists", input = Escaped(.input))]
    NoSchema {
        /// The input's name.
        input: String,
    },
}
