//! YCSB as in P1 5.1.
//!
//! One table: a 64-bit primary key and ten columns of 100 bytes of random printable data. Two kinds
//! of transaction, each on one tuple by its key: a read of the whole tuple, and an update. A fixed
//! workload is generated beforehand and divided evenly among the partitions.
//!
//! Decisions where the paper leaves room:
//! - *Partitions.* Tuple `k` belongs to partition `k % partitions`.
//! - *Hot spot.* "A localized hotspot within each partition" is read as it is written: the hot
//!   tuples of a partition are neighbours in key order, a run (with wrap-around) that starts at a
//!   place drawn from the seed, so that it is not always what was loaded first. Neighbours favour
//!   engines that work in pages: hot tuples share leaves.
//! - *Skew.* Low: 50% of the transactions go to the hot 20% of the tuples and the other 50% to the
//!   other 80%; high: 90% to 10%. Both uniform inside. `uniform` has no hot spot.
//! - *Mix.* Each transaction is an update with the mix's probability, independently.
//! - *Update.* `update_columns` neighbouring columns (one by default), the first drawn uniformly
//!   among those that leave room.
//! - *Loading.* In key order in each partition, not timed.
//! - *Values.* See [`Values`]: random to a compressor, unique for every write, recomputable.

mod drive;
mod spec;
mod values;
mod verify;
mod workload;

pub use drive::{load, run};
pub use spec::{Mix, ParseNameError, Skew, Spec, SpecError};
pub use values::Values;
pub use verify::{Verification, verify};
pub use workload::{Operation, Pieces, Workload};

pub use crate::tuple::{COLUMN_BYTES, COLUMNS, Column, ROW_BYTES, TUPLE_USER_BYTES};
