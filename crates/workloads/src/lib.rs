//! The workloads: YCSB, TPC-C and others, written against the public interface.
//!
//! YCSB is written once, against [`Store`] and [`Session`]; Perdura and every peer implement these
//! two, so that all of them do the same work in the same loop. TPC-B, TPC-C and TATP are written once
//! against the public API of Perdura, so that all engines do. P3's inserts run on slotted pages alone, below
//! the engines. What keeps figures comparable:
//!
//! - The whole workload is generated before the clock starts and is a function of its
//!   specification alone: same specification, same operations, on every machine.
//! - Every store copies a row that is read out into a buffer of the caller.
//! - A transaction counts, and its latency ends, when it is durable.
//! - The measured loop allocates nothing and dispatches nothing dynamically.
//! - What a run leaves can be recomputed, so that a verifier can tell a lost transaction from a torn
//!   one and from damage; and [`contents`] of two databases that did the same are alike.

#![forbid(unsafe_code)]

mod checks;
mod connection;
mod contents;
mod crew;
mod form;
mod lanes;
mod loading;
mod measure;
mod perdura_store;
mod random;
mod reads;
mod room;
pub mod slotted;
mod store;
pub mod tatp;
mod terminals;
pub mod tpcb;
pub mod tpcc;
mod tuple;
pub mod ycsb;

pub use checks::Check;
pub use contents::{Contents, TableContents, contents};
pub use form::{Form, ParseFormError};
pub use lanes::{Lane, Lanes};
pub use measure::{Measurement, Observer, Progress, RunError, RunOptions};
pub use perdura_store::{PerduraStore, create_modelled};
pub use random::Random;
pub use room::Room;
pub use store::{Commit, RowBuffer, Session, Store, StoreError, allocated_bytes};
pub use terminals::{Measured, Outcome};
