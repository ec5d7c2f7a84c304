//! The forms of commits, and of work that is put off.

use clap::ValueEnum;
use perdura::Background;

/// The moment at which a commit returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CommitForm {
    /// Return when the transaction is durable.
    Durable,
    /// Return at once; the transaction is durable with its group.
    Grouped,
}

/// The place where the work is done that engines put off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackgroundForm {
    /// The transactions, a part each.
    Inline,
    /// A thread of each database.
    Thread,
}

impl From<BackgroundForm> for Background {
    fn from(form: BackgroundForm) -> Self {
        match form {
            BackgroundForm::Inline => Self::Inline,
            BackgroundForm::Thread => Self::Thread,
        }
    }
}
