//! The paged store under crashes: threads, files and non-volatile memory in one record.
//!
//! Threads of a [`Baton`](paged::threads::Baton) run transactions, one at a time, in an order that
//! follows from a seed. Whatever waits does so by the baton's clock: locks, latches, the log, and
//! the persister of flush-on-commit, which is one of the threads. The memory with the log and the
//! files with the pages number their events from one counter, so that a crash cuts both off at the
//! same moment.
//!
//! From each state the store is recovered by the `open` that programs use, and looked at:
//!
//! 1. The oracle for transactions that interleave ([`crate::history`]): what is there is what a
//!    prefix of a serial order of them has left, in which everything is that was acknowledged, and
//!    all that it depends on.
//! 2. All pages agree, and none is lost.
//! 3. Further transactions work; a second and a third recovery change nothing.
//! 4. A crash at any point of the recovery, and in the recovery after that, leads to the same
//!    contents.
//! 5. What a process shows that comes after a kill stays, though the killed one had only stored it.
//!
//! | module | what |
//! |---|---|
//! | [`stage`] | the store, its log and its media |
//! | [`run`] | what threads do before the crash |
//! | [`explore`] | the walk over the states |
//! | [`killed`] | kills, and power cuts during and after the recoveries from them |
//! | [`examine`] | scenarios until there were states enough |
//! | [`lies`] | log managers that do wrong |
//! | [`catalogue`] | the faults that have to be noticed |
//! | [`left_out`] | each flush, fence and sync left out in turn |

pub mod catalogue;
pub mod examine;
pub mod explore;
pub mod killed;
pub mod left_out;
pub mod lies;
pub mod run;
pub mod stage;
