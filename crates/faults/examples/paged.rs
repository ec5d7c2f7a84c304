//! The paged store under crashes, for as many states as are asked for:
//! `cargo run --release -p perdura-faults --example paged -- [LOG] STATES NESTED [SEED]`, where LOG
//! is `central`, `flush-on-insert` or `flush-on-commit`; without it, all of them. Exit code 1 and
//! the seed if a state is wrong. With `faults [LOG] [SEEDS]` it says of each seeded fault what
//! notices it, with `sites [LOG] [SEEDS]` the same of each flush, fence and sync that is left out.

use std::process::ExitCode;
use std::time::Instant;

use faults::mutation::Defect;
use faults::paged::catalogue::FAULTS;
use faults::paged::examine::examine;
use faults::paged::left_out::LeftOut;
use faults::paged::stage::LogKind;
use faults::sweep::Swept;

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

/// Looks at scenarios until there were enough states; returns whether all was well.
fn explore(log: LogKind, states: u64, nested: u64, first: u64) -> bool {
    let begun = Instant::now();
    let examined = examine(log, first, states, nested);
    let seconds = begun.elapsed().as_secs_f64();
    match &examined {
        Ok(examined) => println!("{}: {examined:?}, no violation, {seconds:.1} s", log.name()),
        Err(violation) => println!("{violation}"),
    }
    examined.is_ok()
}

/// Says what notices each fault; returns whether all are noticed.
fn faults(log: LogKind, seeds: u64) -> bool {
    let mut all = true;
    for fault in FAULTS.iter().filter(|fault| fault.logs.contains(&log)) {
        let begun = Instant::now();
        let found = fault.notice(log, seeds);
        all &= found.is_ok();
        let said = match found {
            Ok(found) => {
                format!("scenario {}, {} states: {}", found.seed, found.states, found.what)
            }
            Err(injected) => format!("NOT NOTICED, {injected} events changed"),
        };
        let seconds = begun.elapsed().as_secs_f64();
        println!("{}, {}, {seconds:.1} s, {said}", log.name(), fault.name);
    }
    all
}

/// Leaves out each flush, fence and sync in turn; returns whether all are noticed.
fn sites(log: LogKind, seeds: u64) -> bool {
    let left_out = LeftOut::new(log, seeds, 23);
    [Defect::NoFlush, Defect::NoFence, Defect::NoSync].into_iter().fold(true, |all, defect| {
        let Swept { places, unnoticed } = left_out.sweep(defect);
        println!("{}, {defect:?}: {places} places, unnoticed: {unnoticed:?}", log.name());
        all && unnoticed.is_empty()
    })
}
