//! What is run?
//!
//! A workload is written once, against [`Store`] and [`Session`]; Perdura and every peer implement
//! these two, so that all of them do the same work in the same loop. What keeps figures comparable:
//!
//! - The whole workload is generated before the clock starts and is a function of its
//!   specification alone: same specification, same operations, on every machine.
//! - Every store copies a row that is read out into a buffer of the caller.
//! - A transaction counts, and its latency ends, when it is durable.
//! - The measured loop allocates nothing and dispatches nothing dynamically.
//! - Every value written is unique and can be recomputed, so that a verifier can tell a lost
//!   transaction from a torn one and from damage.

#![forbid(unsafe_code)]

mod measure;
mod perdura_store;
mod random;
mod store;
pub mod ycsb;

pub use measure::{Measurement, Observer, Progress, RunError, RunOptions};
pub use perdura_store::PerduraStore;
pub use random::Random;
pub use store::{Commit, RowBuffer, Session, Store, StoreError, allocated_bytes};
