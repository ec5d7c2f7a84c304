//! The workloads and their verifiers, in one program.

mod driver_and_verifier;
mod paged;
mod shared;
mod tatp;
mod tpcb;
mod tpcc;
mod tpcc_crash;
mod whole;

/// Returns one in so many of the ways, from another one on with each turn: all of them in as many turns.
fn ways_of<T>(ways: &[T], one_in: usize, turn: usize) -> impl Iterator<Item = &T> {
    ways.iter().skip(turn % one_in).step_by(one_in)
}

/// A directory that is not on a disk, if that can be: workloads commit often, and what they leave does
/// not depend on what the files lie on.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}
