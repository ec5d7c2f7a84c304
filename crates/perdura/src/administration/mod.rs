//! The care of a whole database: copies, JSON lines, looking at one without opening it, and saving
//! what is left of a damaged one.
//!
//! | question | module |
//! |---|---|
//! | a copy as of one point in time, and back | `backup` |
//! | tables as JSON lines, and back | `lines` |
//! | what a database is, without opening it | `inspect` |
//! | whether all of it is sound | `examine` |
//! | what can be saved | `salvage` |
//!
//! The others serve these: making a database that counts only once it is whole (`whole`), putting
//! tuples into it (`loader`), walking over all that there are (`walk`), tuples as bytes of a copy
//! (`tuple_code`), reporting progress (`progress`).
//!
//! Transactions know nothing of it. It is a folder and no crate above: see decision 28.

mod backup;
mod examine;
mod inspect;
mod lines;
mod loader;
mod progress;
mod salvage;
mod tuple_code;
mod walk;
mod whole;

pub use backup::{Backup, Until};
pub use examine::{Examination, Finding, Findings, examine_parts};
pub use inspect::{InspectedFiles, Inspection, inspect};
pub use lines::{Existing, LoadOptions};
pub use progress::{CopyProgress, CopyStep, CopySummary, Watch};
pub use salvage::{Salvage, Salvaged, salvage};
