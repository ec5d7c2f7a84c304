//! How each language loads the extension. Each recipe is a file that runs as it is, once the two names in it are
//! replaced.

use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

/// A language, or a library of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Language {
    /// The sqlite3 shell.
    Shell,
    /// Python's sqlite3.
    Python,
    /// Python: SQLAlchemy.
    Sqlalchemy,
    /// Python: Django.
    Django,
    /// Node: better-sqlite3.
    Node,
    /// Rust: rusqlite.
    Rust,
    /// C.
    C,
}

/// The database in recipes.
pub(super) const DATABASE: &str = "/dev/shm/my.db";

impl Language {
    /// All.
    pub(super) const ALL: [Self; 7] = [
        Self::Shell,
        Self::Python,
        Self::Sqlalchemy,
        Self::Django,
        Self::Node,
        Self::Rust,
        Self::C,
    ];

    /// Its name, for people.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Shell => "The sqlite3 shell",
            Self::Python => "Python",
            Self::Sqlalchemy => "Python: SQLAlchemy",
            Self::Django => "Python: Django",
            Self::Node => "Node: better-sqlite3",
            Self::Rust => "Rust: rusqlite",
            Self::C => "C",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Shell => include_str!("recipes/shell.txt"),
            Self::Python => include_str!("recipes/python.py"),
            Self::Sqlalchemy => include_str!("recipes/sqlalchemy.py"),
            Self::Django => include_str!("recipes/django.py"),
            Self::Node => include_str!("recipes/node.js"),
            Self::Rust => include_str!("recipes/rust.txt"),
            Self::C => include_str!("recipes/c.c"),
        }
    }

    /// The recipe with the extension at `library`.
    pub(super) fn recipe(self, library: &Path) -> String {
        let library = library.display().to_string();
        self.text().replace("@LIBRARY@", &library).replace("@DATABASE@", DATABASE)
    }
}
