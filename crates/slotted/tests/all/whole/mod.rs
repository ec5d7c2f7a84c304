//! Tests that each build of `.ci/run` adds to the ordinary ones: `cargo test --workspace --tests -- --ignored whole::`.
//! Transactions and recovery survive power cuts, in 20,000 states of each scheme and 2,000 crashes in recovery.

use sim::{Arena, Recording};
use slotted::flaw::Flaw;
use slotted::{Fash, Fash1, Fast, Fast1, Journal, Line, Nvwal, Word};

use crate::crash::{
    SmallNvwal, SmallWal, flaws, left_out, recovery_survives_power_cuts, survives_power_cuts,
};
use crate::given_back::{MANY_ROWS, gives_back};

macro_rules! under_crashes {
    ($($name:ident: $scheme:ty;)*) => {$(
        #[test]
        #[ignore = "a build of .ci/run runs it"]
        fn $name() {
            survives_power_cuts::<$scheme>(1, 20_000);
            recovery_survives_power_cuts::<$scheme>(1, 2_000);
        }
    )*};
}

under_crashes! {
    fash: Fash<Recording>;
    fast: Fast<Recording>;
    nvwal: SmallNvwal;
    journal: Journal<Recording>;
    wal: SmallWal;
    fash1: Fash1<Recording>;
    fast1: Fast1<Recording>;
    word: Word<Recording>;
    line: Line<Recording>;
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn fast_fails_without_one_flush_fence_or_store() {
    left_out::is_noticed::<Fast<Recording>>(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn journal_fails_without_one_flush_fence_or_store() {
    left_out::is_noticed::<Journal<Recording>>(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn wal_fails_without_one_flush_fence_or_store() {
    left_out::is_noticed::<SmallWal>(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn every_flaw_is_noticed() {
    assert_eq!(Flaw::ALL.len(), 27);
    flaws::are_noticed(Flaw::ALL);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn logs_give_back_what_they_had_taken() {
    gives_back::<Nvwal<Arena>>(MANY_ROWS);
    gives_back::<Journal<Arena>>(MANY_ROWS);
    gives_back::<Fash1<Arena>>(MANY_ROWS);
}
