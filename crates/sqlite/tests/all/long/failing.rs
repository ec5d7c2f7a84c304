//! Every call fails.

use crate::failing::child::{HeldLocks, Work};
use crate::failing::databases::Fate;
use crate::failing::{ALIKE, CHANGES, ONCE, Scenario, WAYS};
use crate::ptrace::Fault;

/// Each call, with all kinds of held locks. `PERDURA_TEST_WAY` and `PERDURA_TEST_FATE` in the environment select
/// ways and fates by a part of their names.
#[cfg_attr(not(target_arch = "x86_64"), ignore = "calls fail on x86_64 alone")]
#[test]
#[ignore = "scripts/long runs it"]
fn every_call_fails_once_or_for_good_or_is_the_last() {
    let [way, fate] = ["PERDURA_TEST_WAY", "PERDURA_TEST_FATE"]
        .map(|name| std::env::var(name).unwrap_or_default());
    let kills = [1, 2, 3, 5, 8].map(|after| Fate::Fails(Fault::Killed(after)));
    let fates = [ONCE, ALIKE, CHANGES].into_iter().chain(kills);
    let fates: Vec<Fate> = fates.filter(|one| format!("{one:?}").contains(&fate)).collect();
    let mut wrong = Vec::new();
    for way in WAYS.iter().filter(|one| one.contains(&way)) {
        for fate in &fates {
            for databases in [1, 2] {
                for work in [Work::Commits, Work::Life, Work::Open, Work::Close] {
                    let scenario = Scenario::new(databases, work, *fate);
                    let mut scenarios = vec![scenario, scenario.with_other()];
                    if work != Work::Open {
                        scenarios.push(scenario.held_locks(HeldLocks::Exclusive));
                        scenarios.push(scenario.with_other().held_locks(HeldLocks::Reading));
                    }
                    for scenario in scenarios {
                        let run = || scenario.run(way);
                        let failed = std::panic::catch_unwind(run).is_err();
                        wrong.extend(failed.then_some((way, scenario)));
                    }
                }
            }
            let scenario = Scenario::new(2, Work::Open, *fate);
            let run = || scenario.open_what_is_left(way);
            wrong.extend(std::panic::catch_unwind(run).is_err().then_some((way, scenario)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
