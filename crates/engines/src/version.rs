//! A version of a partition that was given out for a read.

use storage::shadow::Directory;

/// A version that a [`SnapshotSource`](crate::SnapshotSource) has given out, and keeps until it is
/// given back.
#[derive(Debug)]
pub struct Version(pub(crate) Directory);
