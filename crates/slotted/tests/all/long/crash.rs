//! 500,000 crash states of each scheme, or as many as `PERDURA_STATES` says, and of those in recovery; and each
//! flush, fence and store left out.

use sim::Recording;
use slotted::{Fash, Fash1, Fast, Fast1, Journal, Line, Word};

use crate::crash::{
    SmallNvwal, SmallWal, left_out, recovery_survives_power_cuts, survives_power_cuts,
};

/// The number of states.
fn states() -> u64 {
    std::env::var("PERDURA_STATES").map_or(500_000, |number| number.parse().unwrap())
}

mod committed_transactions_survive_many_power_cuts {
    use super::*;

    macro_rules! under_crashes {
        ($($name:ident: $scheme:ty;)*) => {$(
            #[test]
            #[ignore = "scripts/long runs it"]
            fn $name() {
                survives_power_cuts::<$scheme>(1, states());
                recovery_survives_power_cuts::<$scheme>(1, states());
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
}

mod the_tests_fail_without_one_flush_fence_or_store {
    use super::*;

    macro_rules! without_one_instruction {
        ($($name:ident: $scheme:ty;)*) => {$(
            #[test]
            #[ignore = "scripts/long runs it"]
            fn $name() {
                left_out::is_noticed::<$scheme>(1);
            }
        )*};
    }

    without_one_instruction! {
        fash1: Fash1<Recording>;
        fast1: Fast1<Recording>;
        word: Word<Recording>;
        line: Line<Recording>;
    }
}
