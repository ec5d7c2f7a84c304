//! The store under power cuts and kills (`docs/format/crash-model.md`): at every fence, in the
//! states that lines and their stores can be in.
//!
//! Each committed transaction is there, the open transaction is there as a whole or not at all, all
//! pages agree, none is lost, and the store can be used. So it is when the crash comes while
//! another one is being recovered from, and when it comes after a kill. And without any one of its
//! flushes, fences and ordered stores the test fails, but for those that `left_out.rs` lists.

mod again;
pub(crate) mod flaws;
mod given_back;
pub(crate) mod left_out;
mod story;

use sim::{Recording, Replay};
use slotted::{
    Fash, Fash1, Fast, Fast1, FencedTwin, Journal, Line, Nvwal, Recovered, Scheme, Twin, Wal, Word,
};

use story::{Next, after_kills, after_power_cuts, story, verdict, verdict_and_use};

/// The schemes with a log in blocks, with a checkpoint every few transactions.
pub(crate) type SmallNvwal = Nvwal<Recording, 150>;
pub(crate) type SmallWal = Wal<Recording, 30>;

/// Explores stories, the first with this seed, until it has seen so many states.
pub(crate) fn survives_power_cuts<S: Scheme<Recording>>(mut seed: u64, wanted: u64) {
    let (mut points, mut states) = (0, 0);
    while states < wanted {
        let story = story::<S>(seed, 30);
        let mut met = 0;
        let explored = Replay::new(&story.trace).explore(100, 11, |image, noted| {
            met += 1;
            let check = if met % 8 == 0 { verdict_and_use::<S> } else { verdict::<S> };
            check(image, &story.acknowledged, noted)
        });
        assert_eq!(explored.failed, None, "{}, seed {seed}", S::NAME);
        (points, states, seed) = (points + explored.points, states + explored.states, seed + 100);
    }
    println!("{}: {points} points, {states} states", S::NAME);
}

/// Cuts the power of these processes at every fence; returns how many states there were.
fn power_cuts<S: Scheme<Recording>>(nexts: &[Next], bound: u64) -> u64 {
    let mut states = 0;
    for next in nexts {
        let explored = next
            .replay(&next.trace)
            .explore(bound, 11, |image, noted| verdict::<S>(image, &next.acknowledged, noted));
        assert_eq!(explored.failed, None, "{}", S::NAME);
        states += explored.states;
    }
    states
}

pub(crate) fn recovery_survives_power_cuts<S: Scheme<Recording>>(mut seed: u64, wanted: u64) {
    let mut crashes = 0;
    while crashes < wanted {
        let nexts = after_power_cuts::<S>(&story::<S>(seed, 3), 3).unwrap();
        crashes += power_cuts::<S>(&nexts, 6);
        seed += 100;
    }
    println!("{}: {crashes} crashes in recovery and behind it", S::NAME);
}

fn a_power_cut_after_a_kill_loses_nothing<S: Scheme<Recording>>(seed: u64) {
    let nexts = after_kills::<S>(&story::<S>(seed, 16), 24).unwrap();
    let states = power_cuts::<S>(&nexts, 6);
    println!("{}: {} kills, {states} power cuts behind them", S::NAME, nexts.len());
    assert!(nexts.len() > 5);
}

macro_rules! under_crashes {
    ($($name:ident: $scheme:ty, $states:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn committed_transactions_survive_power_cuts_at_every_fence() {
                survives_power_cuts::<$scheme>(1, $states);
            }

            #[test]
            fn recovery_survives_power_cuts_at_every_fence() {
                super::recovery_survives_power_cuts::<$scheme>(1, 1_000);
            }

            #[test]
            fn a_power_cut_after_a_kill_loses_nothing() {
                super::a_power_cut_after_a_kill_loses_nothing::<$scheme>(1);
            }

        }
    )*};
}

under_crashes! {
    fash: Fash<Recording>, 3_000;
    fast: Fast<Recording>, 3_000;
    nvwal: SmallNvwal, 3_000;
    journal: Journal<Recording>, 3_000;
    wal: SmallWal, 3_000;
    // Options in addition to them.
    fash1: Fash1<Recording>, 5_000;
    fast1: Fast1<Recording>, 5_000;
    word: Word<Recording>, 5_000;
    line: Line<Recording>, 5_000;
}

/// The other options are those of `long`.
macro_rules! without_one_instruction {
    ($($name:ident: $scheme:ty;)*) => {$(
        #[test]
        fn $name() {
            left_out::is_noticed::<$scheme>(1);
        }
    )*};
}

mod the_tests_fail_without_one_flush_fence_or_store {
    use super::*;

    without_one_instruction! {
        fash: Fash<Recording>;
        nvwal: SmallNvwal;
    }
}

/// Counts the states of a story by what their opening reports: those in which the log had nothing
/// to do, and the others.
fn reported<S: Scheme<Recording>>(transactions: u64) -> [u64; 2] {
    let (story, mut states) = (story::<S>(1, 8), [0; 2]);
    let explored = Replay::new(&story.trace).explore(20, 11, |image, _| {
        let memory = story::from_image(image)?;
        let reported = story::open::<S>(memory.clone())?.recovered();
        if reported == Recovered::default() {
            states[0] += 1;
            return Ok(());
        }
        states[1] += 1;
        let Recovered { frames, frame_bytes, .. } = reported;
        // A frame has a header of 16 bytes and a word at least.
        let right =
            reported.transactions == transactions && frames > 0 && frame_bytes >= 24 * frames;
        if !right {
            return Err(format!("{reported:?}"));
        }
        let again = story::open::<S>(memory)?.recovered();
        if again == Recovered::default() { Ok(()) } else { Err(format!("again: {again:?}")) }
    });
    assert_eq!(explored.failed, None, "{}", S::NAME);
    states
}

#[test]
fn opening_reports_what_the_log_had() {
    let emptied = [
        reported::<Fash<Recording>>(1),
        reported::<Fast<Recording>>(1),
        reported::<Journal<Recording>>(1),
    ];
    // These are not emptied by a commit.
    let kept = [reported::<SmallNvwal>(0), reported::<SmallWal>(0)];
    assert!(emptied.iter().all(|states| states[0] > 10), "{emptied:?}");
    assert!(emptied.iter().chain(&kept).all(|states| states[1] > 10), "{emptied:?} {kept:?}");
}

/// Up to so many states of each fence of a story on a processor on which between two fences every
/// word of a line persists by itself (aarch64's rules). Returns how many were seen, and what was
/// wrong with one.
fn on_a_weakly_ordered_processor<S: Scheme<Recording>>(seed: u64) -> (u64, Option<String>) {
    let story = story::<S>(seed, 24);
    let explored = Replay::new(&story.trace)
        .weakly_ordered()
        .explore(60, 11, |image, noted| verdict::<S>(image, &story.acknowledged, noted));
    (explored.states, explored.failed)
}

#[test]
fn twin_lines_with_a_fence_survive_where_a_line_has_no_order() {
    for seed in [1, 101, 201] {
        let (states, failed) = on_a_weakly_ordered_processor::<Fast<Recording, FencedTwin>>(seed);
        assert_eq!(failed, None, "seed {seed}");
        assert!(states > 1_000, "seed {seed}: {states} states");
    }
}

#[test]
fn twin_lines_without_that_fence_do_not() {
    if cfg!(not(target_arch = "aarch64")) {
        let found = [1, 101, 201].map(on_a_weakly_ordered_processor::<Fast<Recording, Twin>>);
        assert!(found.iter().any(|(_, failed)| failed.is_some()), "{found:?}");
        let found = [1, 101, 201].map(on_a_weakly_ordered_processor::<Fast1<Recording, false>>);
        assert!(found.iter().any(|(_, failed)| failed.is_some()), "{found:?}");
    }
}

/// Logs and words rely on fences alone, and so do lines with a checksum that have the fence of
/// aarch64.
#[test]
fn the_other_schemes_need_no_order_within_a_line() {
    fn survives<S: Scheme<Recording>>() {
        assert_eq!(on_a_weakly_ordered_processor::<S>(1).1, None, "{}", S::NAME);
    }
    survives::<Fash<Recording>>();
    survives::<Word<Recording>>();
    survives::<Fash1<Recording>>();
    survives::<Fast1<Recording, true>>();
    survives::<SmallNvwal>();
    survives::<Journal<Recording>>();
    survives::<SmallWal>();
}
