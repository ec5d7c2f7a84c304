//! Each flush, fence and sync of the store and its logs left out in turn, in what threads do and in the
//! recoveries from it: either a state is wrong, or the stories are blind there, or it is superfluous.

use std::time::Instant;

use pm::Site;

use super::catalogue::efforts;
use super::stage::LogKind;
use super::tell::{Plan, Story};
use crate::mutation::{How, Mutation, Where};
use crate::sweep::{Swept, sweep_with};
use crate::workers::in_parallel;

/// Seeds of the stories whose places are looked for.
const PLACES: u64 = 3;

fn stories(log: LogKind, seeds: u64) -> Vec<Story> {
    in_parallel(seeds as usize, |index| {
        let seed = index as u64 + 1;
        let told = Plan::new(log, seed).tell();
        told.unwrap_or_else(|why| panic!("{}, seed {seed}: {why}", log.name()))
    })
}

/// The places where stories and the recoveries from them flush, fence or sync, in their order and perhaps
/// more than once.
fn places(stories: &[Story], how: How) -> Vec<Site> {
    let mut sites = Vec::new();
    for story in stories.iter().take(PLACES as usize) {
        let recoveries = story.recoveries(50).expect("it recovers");
        for trace in recoveries.iter().chain([&story.trace]) {
            sites.extend(match how {
                How::NoSync => Mutation::sites_in_files(how, &trace.files),
                _ => Mutation::sites_in_memory(how, &trace.memory),
            });
        }
    }
    sites
}

/// Leaves out what is flushed, fenced or synced in each place in turn, in the stories with the first few
/// seeds.
///
/// # Panics
/// A story goes wrong without that.
pub fn sweep(log: LogKind, how: How, seeds: u64) -> Swept {
    let stories = stories(log, seeds.max(PLACES));
    let looks: Vec<_> = efforts()
        .into_iter()
        .flat_map(|effort| stories.iter().map(move |story| (story, effort)))
        .collect();
    let known = in_parallel(looks.len(), |index| looks[index].0.known(looks[index].1));
    sweep_with(places(&stories, how), |site| {
        let (fault, begun) = (Mutation { how, at: Where::Site(site) }, Instant::now());
        let noticed = looks.iter().zip(&known).position(|((story, effort), known)| {
            story.explore_beyond(known, &fault, *effort).violation.is_some()
        });
        let seconds = begun.elapsed().as_secs_f64();
        println!("{}, {how:?} at {site}: look {noticed:?}, {seconds:.1} s", log.name());
        noticed.is_some()
    })
}
