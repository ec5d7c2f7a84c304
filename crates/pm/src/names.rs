//! Names of files that other files go by.

/// The file in a directory that says whose files are there. They are removed before it.
pub const IDENTITY: &str = "identity";
/// The end of the name of a file that is not finished.
pub(crate) const UNFINISHED: &str = ".perdura-new";
/// The end of the name of a file that has all its contents and not yet its name.
pub(crate) const WHOLE: &str = ".perdura-whole";
