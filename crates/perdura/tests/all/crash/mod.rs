//! Crash tests of whole databases over recording media, for every engine.
//!
//! Fault model (`docs/format/crash-model.md`). In a pool: of every line a prefix of its stores has
//! persisted, lines are independent until flushed and fenced, bulk copies tear; or the process is
//! killed between any two stores. In files, in the `disk` mode: of what was written since the last
//! sync each sector may or may not have persisted, lengths are lost unless synced, and of the
//! operations on the directory the first few have persisted; or the process is killed between any
//! two calls to the kernel.
//!
//! For each state: recover from it alone, at another address, through `Database::open_on`; every
//! acknowledged transaction must be there, at most those in flight beside them, in order, each
//! whole; indexes and allocator agree; more transactions work; a second recovery changes nothing.
//! From a sample of the states: crash again, at every point of the recovery and of the first
//! transactions after it, and from some of those again.
//!
//! | what | file |
//! |---|---|
//! | the walk over states, for both kinds of media | `harness.rs` |
//! | engines whose data lie in the pool | `pool.rs` |
//! | engines that keep files | `files.rs` |

mod files;
mod harness;
mod pool;

pub(crate) use files::{Plot, survives};
