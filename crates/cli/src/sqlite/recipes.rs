//! Recipes by which languages load the extension. Each is a file that runs as it is, once the two names in it are
//! replaced.

use std::path::Path;

use pm::Escaped;

use crate::args::Language;

/// The database in recipes.
pub(super) const DATABASE: &str = "/dev/shm/my.db";

impl Language {
    /// The language's name as a heading.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Shell => "The sqlite3 shell",
            Self::Python => "Python",
            Self::Sqlalchemy => "Python: SQLAlchemy",
            Self::Django => "Python: Django",
            Self::Node => "Node: better-sqlite3",
            Self::Rust => "Rust: rusqlite",
            Self::C => "C",
            Self::Preload => "An unchanged program",
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
            Self::Preload => include_str!("recipes/preload.txt"),
        }
    }

    /// Returns the recipe with the extension at `library`, and the library to preload at `preload`.
    pub(super) fn recipe(self, library: &Path, preload: &Path) -> String {
        let [library, preload] = [library, preload].map(|path| Escaped(path.display()).to_string());
        let text = self.text().replace("@LIBRARY@", &library).replace("@PRELOAD@", &preload);
        text.replace("@DATABASE@", DATABASE)
    }
}
