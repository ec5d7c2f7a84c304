//! The moment at which indexes are built that a kill took.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The moment at which indexes are built that a crash took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Rebuild {
    /// All of them before the first transaction.
    First,
    /// By a thread, beside transactions.
    Background,
}

impl Rebuild {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Background => "background",
        }
    }
}
