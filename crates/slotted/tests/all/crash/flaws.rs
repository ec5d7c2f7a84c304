//! Wrong policies in the place of right ones: each is noticed by a power cut in a story, in the
//! recovery from one, or after a kill; or the story itself goes wrong.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sim::{Recording, Replay};
use slotted::flaw::{self, Flaw};
use slotted::{Fash, Fash1, Fast, Journal, Nvwal, Scheme};

use super::story::{Next, after_kills, after_power_cuts, story, story_after, verdict};

/// Returns whether something is wrong in what the store, or a crash, leaves.
fn goes_wrong<S: Scheme<Recording>>(seed: u64) -> bool {
    // Roots change where a store begins.
    for run in [story::<S>(seed, 40), story_after::<S>(0, seed, 30)] {
        let explored = Replay::new(&run.trace)
            .explore(20, 11, |image, noted| verdict::<S>(image, &run.acknowledged, noted));
        if explored.failed.is_some() {
            return true;
        }
    }
    let run = story::<S>(seed, 12);
    let shown = |nexts: Result<Vec<Next>, String>| match nexts {
        Err(_) => true,
        Ok(nexts) => nexts.iter().any(|next| {
            let replay = next.replay(&next.trace);
            replay
                .explore(8, 11, |image, noted| verdict::<S>(image, &next.acknowledged, noted))
                .failed
                .is_some()
        }),
    };
    shown(after_power_cuts::<S>(&run, 4)) || shown(after_kills::<S>(&run, 60))
}

fn is_noticed<S: Scheme<Recording>>(flaw: Flaw) -> bool {
    (1..4).any(|seed| {
        flaw::set(Some(flaw));
        // A store that contradicts itself panics.
        let wrong = catch_unwind(AssertUnwindSafe(|| goes_wrong::<S>(seed))).unwrap_or(true);
        flaw::set(None);
        wrong
    })
}

/// The scheme that a flaw is one of.
fn noticed(flaw: Flaw) -> bool {
    type SmallNvwal = Nvwal<Recording, 40>;
    match flaw {
        Flaw::RecordUnflushed
        | Flaw::RecordUnfenced
        | Flaw::HeaderBeforeFence
        | Flaw::FirstWordFirst
        | Flaw::HeaderUnflushed
        | Flaw::ActiveLineOverwritten
        | Flaw::LineTorn
        | Flaw::AcknowledgedEarly
        | Flaw::EmptiedEarly => is_noticed::<Fast<Recording>>(flaw),
        Flaw::RecordUnchecked => is_noticed::<Fash1<Recording>>(flaw),
        Flaw::TailBeforeFrames | Flaw::BlocksReusedEarly | Flaw::UncommittedIndexed => {
            is_noticed::<SmallNvwal>(flaw)
        }
        Flaw::JournalUnsynced => is_noticed::<Journal<Recording>>(flaw),
        _ => is_noticed::<Fash<Recording>>(flaw),
    }
}

#[test]
fn a_flaw_of_each_kind_of_scheme_is_noticed() {
    are_noticed(&[Flaw::AcknowledgedEarly, Flaw::TailBeforeFrames, Flaw::JournalUnsynced]);
}

pub(crate) fn are_noticed(flaws: &[Flaw]) {
    let missed: Vec<Flaw> = flaws.iter().copied().filter(|flaw| !noticed(*flaw)).collect();
    assert_eq!(missed, []);
}
