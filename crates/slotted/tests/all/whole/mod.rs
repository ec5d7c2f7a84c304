//! Tests that each build of `.ci/run` adds to the ordinary ones: `cargo test --workspace --tests -- --ignored whole::`.
//! Transactions and recovery survive power cuts, in 20,000 states of each scheme and 2,000 crashes in recovery.

use sim::Recording;
use slotted::{Fash, Fash1, Fast, Fast1, Journal, Line, Word};

use crate::crash::{SmallNvwal, SmallWal, recovery_survives_power_cuts, survives_power_cuts};

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
