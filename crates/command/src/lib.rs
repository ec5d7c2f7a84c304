//! The parts that the programs `perdura` and `perdura-lab` share.
//!
//! Invariants:
//! - Exit code 0: done. 1: it failed, or a check found something. 2: wrong usage.
//! - Results go to standard output, all else to standard error. No input leads to a panic.
//! - Whatever a command creates for itself is gone when it ends, however it ends.
//!
//! | module | its question |
//! |---|---|
//! | [`args`] | what can be asked of the laboratory, and how are lists written? |
//! | [`output`], [`progress`], [`units`], [`figures`], [`failure`] | what is printed, to whom, in which form? |
//! | [`host`], [`scratch`] | on which machine, and where on it? |
//! | [`system`], [`settings`], [`footprint`] | which database is opened, how, and what does it take? |
//! | [`process`], [`cleanup_process`] | which processes does a command start? |
//! | [`job`], [`kill`], [`child`] | what runs, who is killed, and who looks at what is left? |
//! | [`outage`] | TATP across a kill: what users count, and what recovery costs |

#![forbid(unsafe_code)]

pub mod args;
pub mod child;
pub mod cleanup_process;
pub mod failure;
pub mod figures;
pub mod footprint;
pub mod host;
pub mod job;
pub mod kill;
pub mod outage;
pub mod output;
pub mod process;
pub mod progress;
pub mod scratch;
pub mod settings;
pub mod system;
pub mod units;

use process::Main;

/// The child processes that commands of both programs start.
pub const CHILDREN: [(&str, Main); 4] = [
    (scratch::JANITOR, scratch::janitor),
    (child::VICTIM, child::victim),
    (child::WITNESS, child::witness),
    (outage::process::USERS, outage::process::run),
];
