//! Emulation: the time that a run would take on non-volatile memory of a given latency and
//! bandwidth.
//!
//! 1. The run is done once in [`Nvm`], in which the pool, the volatile memory and the files lie in
//!    emulated memory (`pm`): it gives [`LineCounts`], the same on every machine.
//! 2. The same run is done natively, with and without flushes: [`NativeTimes`]. What a miss costs
//!    here is measured once a machine: [`Host`].
//! 3. [`emulate`] computes from these what the run would take with any [`NvmParameters`].
//!
//! `docs/emulation.md` says what is modelled, what is not, and how it was checked.

mod breakdown;
mod files;
mod host;
mod time;

pub use breakdown::Breakdown;
pub use emulated::Nvm;
pub use files::FileCosts;
pub use host::Host;
pub use pm::in_child;
pub use sim::{Emulation, LineCounts, Meter, MeterOptions, Wear};
pub use time::{Emulated, NativeTimes, NvmParameters, emulate};
