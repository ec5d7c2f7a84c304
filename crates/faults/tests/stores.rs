//! Every ordered store of the NVM engines left out in turn, by the place in the source that asks for
//! it. Left out means: it never persists. The program that runs sees what it stored, and so does a
//! process that is killed, but after a power cut the word is as it was before, until something else
//! stores there. So a place that is not noticed is a hint, whose loss costs nothing that was
//! promised and is repaired, or it is superfluous.
//!
//! Minutes: `cargo test -p perdura-faults --test stores -- --ignored --nocapture`

mod common;

use std::ops::ControlFlow;
use std::time::Instant;

use common::{Explained, unexplained};
use faults::explorer::{Again, Effort, Story};
use faults::medium::{Medium, Part};
use faults::mutation::{How, Mutation, Where};
use faults::pool::PoolMedium;
use faults::story::{Plot, inserts_with_updates, two_operations_on_one_tuple};
use faults::sweep::sweep_with;
use perdura::EngineKind;
use pm::Site;

/// Places that store in the recovery from some of a story's states.
fn sites_in_recovery(story: &Story<PoolMedium>) -> Vec<Site> {
    let mut sites = Vec::new();
    let part = Part { from: 3, to: u64::MAX, stride: 7 };
    PoolMedium::walk(&story.trace, 2, part, 5, &mut |state| {
        if state.acknowledged.is_none() {
            // It is not created yet.
            return ControlFlow::Continue(());
        }
        let (db, memory) = story.medium.open(state.image, true).expect("it opens");
        db.abandon();
        for site in Mutation::sites_in_memory(How::NoStore, &PoolMedium::stop(&memory)) {
            if !sites.contains(&site) {
                sites.push(site);
            }
        }
        ControlFlow::Continue(())
    });
    sites
}

fn swept(engine: EngineKind, stories: &[(Story<PoolMedium>, u64)], explained: &[Explained]) {
    let mut places: Vec<Site> = Vec::new();
    for (story, _) in stories {
        places.extend(Mutation::sites_in_memory(How::NoStore, &story.trace));
        places.extend(sites_in_recovery(story));
    }
    let noticed = |fault: &Mutation| {
        // Once over all stories, since most places show soon; then with crashes in recovery.
        let once = |(story, bound): &(Story<PoolMedium>, u64)| {
            story.explore(Some(fault), Effort::once(*bound)).violation.is_some()
        };
        let nested = |(story, bound): &(Story<PoolMedium>, u64)| {
            let effort = Effort::once(*bound).then(Again::every(60, 1));
            story.explore(Some(fault), effort).violation.is_some()
        };
        stories.iter().any(once) || stories.iter().any(nested)
    };
    let swept = sweep_with(places, |site| {
        let begun = Instant::now();
        let noticed = noticed(&Mutation { how: How::NoStore, at: Where::Site(site) });
        println!("{engine}: {site} {noticed}, {} s", begun.elapsed().as_secs());
        noticed
    });
    println!("{engine}: {} places store, {} unnoticed", swept.places, swept.unnoticed.len());
    let (open, stale) = unexplained(swept.unnoticed, explained);
    assert!(open.is_empty(), "{engine}: superfluous, or the tests are blind: {open:#?}");
    assert!(stale.is_empty(), "{engine}: noticed now, or gone: {stale:?}");
}

fn plot(engine: EngineKind, seed: u64, transactions: usize, keys: u64) -> Plot {
    Plot::new(engine, seed, transactions, keys)
}

#[test]
#[ignore = "takes minutes"]
fn nvm_inp() {
    let engine = EngineKind::NvmInp;
    let stories = [
        (two_operations_on_one_tuple(engine, true), 60),
        (two_operations_on_one_tuple(engine, false), 60),
        (inserts_with_updates(engine), 4),
        (plot(engine, 14, 60, 3).run_in_pool(), 4),
        (plot(engine, 12, 60, 300).run_in_pool(), 4),
        (plot(engine, 11, 160, 60).run_in_pool(), 4),
    ];
    swept(engine, &stories, &[]);
}

#[test]
#[ignore = "takes minutes"]
fn nvm_cow() {
    let engine = EngineKind::NvmCow;
    let stories = [
        (plot(engine, 14, 60, 3).run_in_pool(), 4),
        (plot(engine, 12, 60, 300).run_in_pool(), 4),
        (plot(engine, 11, 120, 60).run_in_pool(), 4),
        (plot(engine, 13, 120, 60).groups_of(4).run_in_pool(), 4),
    ];
    swept(engine, &stories, &[]);
}

#[test]
#[ignore = "takes minutes"]
fn nvm_log() {
    let engine = EngineKind::NvmLog;
    let stories = [
        (two_operations_on_one_tuple(engine, true), 60),
        (two_operations_on_one_tuple(engine, false), 60),
        (inserts_with_updates(engine), 4),
        (plot(engine, 14, 60, 3).run_in_pool(), 4),
        (plot(engine, 12, 60, 300).run_in_pool(), 4),
        (plot(engine, 11, 80, 60).run_in_pool(), 4),
    ];
    swept(engine, &stories, &[]);
}
