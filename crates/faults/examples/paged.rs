//! The paged store under crashes, for as many states as are asked for:
//! `cargo run --release -p perdura-faults --example paged -- [LOG] STATES NESTED [SEED]`, where LOG is
//! `central`, `flush-on-insert` or `flush-on-commit`; without it, all of them. Exit code 1 and the seed if
//! a state is wrong. With `faults [LOG] [SEEDS]` it says of each seeded fault what notices it, with `sites
//! [LOG] [SEEDS]` the same of each flush, fence and sync that is left out.

use std::process::ExitCode;
use std::time::Instant;

use faults::explorer::{Again, Effort};
use faults::mutation::{How, Mutation, Where};
use faults::paged::catalogue::{FAULTS, Fault, Put};
use faults::paged::stage::LogKind;
use faults::paged::tell::Plan;

/// Crashes in recovery: from one in so many states, one for five of the first ones.
const AGAIN: Again = Again { per_mille: 200, ..Again::every(29, 2) };

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = LogKind::ALL.into_iter().find(|log| arguments.iter().any(|one| one == log.name()));
    let numbers: Vec<u64> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    let [states, nested, seed] = [(0, 20_000), (1, 2_000), (2, 1)]
        .map(|(at, usual)| numbers.get(at).copied().unwrap_or(usual));
    let logs: Vec<LogKind> = named.map_or(LogKind::ALL.to_vec(), |log| vec![log]);
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let (seeds, mut wrong) = (numbers.first().copied().unwrap_or(6), false);
    for log in logs {
        wrong |= match (has("faults"), has("sites")) {
            (true, _) => !faults(log, seeds),
            (_, true) => !sites(log, seeds),
            _ => !explore(log, states, nested, seed),
        };
    }
    if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Looks at stories until there were enough states; returns whether all was well.
fn explore(log: LogKind, states: u64, nested: u64, first: u64) -> bool {
    let begun = Instant::now();
    let (mut seen, mut again, mut points, mut barriers, mut seed) = (0, 0, 0, 0, first);
    while seen < states || again < nested {
        let story = match Plan::new(log, seed).tell() {
            Ok(story) => story,
            Err(why) => {
                println!("{}, seed {seed}, without a crash: {why}", log.name());
                return false;
            }
        };
        let explored = story.explore(Effort::once(8).then(AGAIN));
        (seen, again) = (seen + explored.states, again + explored.nested);
        (points, barriers) = (points + explored.points, barriers + explored.barriers);
        if let Some(violation) = explored.violation {
            println!("{}, seed {seed}: {violation:#?}", log.name());
            return false;
        }
        seed += 1;
    }
    println!(
        "{}: {} stories, {barriers} fences and syncs, {points} crash points, {seen} states, {again} \
         crashes in recovery, no violation, {:.1} s",
        log.name(),
        seed - first,
        begun.elapsed().as_secs_f64()
    );
    true
}

/// Says what notices each fault; returns whether all are noticed.
fn faults(log: LogKind, seeds: u64) -> bool {
    let mut all = true;
    for fault in FAULTS.iter().filter(|fault| fault.logs.contains(&log)) {
        let begun = Instant::now();
        let found = fault.notice(log, seeds);
        all &= found.is_ok();
        let said = match found {
            Ok(found) => format!("story {}, {} states: {}", found.seed, found.states, found.what),
            Err(injected) => format!("NOT NOTICED, {injected} events changed"),
        };
        let seconds = begun.elapsed().as_secs_f64();
        println!("{}, {}, {seconds:.1} s, {said}", log.name(), fault.name);
    }
    all
}

/// Leaves out each flush, fence and sync in turn; returns whether all are noticed.
fn sites(log: LogKind, seeds: u64) -> bool {
    let mut all = true;
    let story = Plan::new(log, 1).tell().expect("a story");
    let memory = [How::NoFlush, How::NoFence].into_iter().flat_map(|how| {
        Mutation::sites_in_memory(how, &story.trace.memory).into_iter().map(move |site| (how, site))
    });
    let files = Mutation::sites_in_files(How::NoSync, &story.trace.files);
    for (how, site) in memory.chain(files.into_iter().map(|site| (How::NoSync, site))) {
        let mutation = Mutation { how, at: Where::Site(site) };
        let fault = Fault { name: "site", logs: &[], put: Put::Record(mutation) };
        let said = match fault.notice(log, seeds) {
            Ok(found) => format!("story {}, {} states: {}", found.seed, found.states, found.what),
            Err(injected) => {
                all = false;
                format!("NOT NOTICED, {injected} events changed")
            }
        };
        println!("{}, {how:?} at {site}, {said}", log.name());
    }
    all
}
