//! `perdura crash`: what it lists, finds, refuses and repeats.

use serde_json::Value;

use crate::common::{Ran, run};

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn the_faults_are_listed() {
    let listed = json(&run(&["crash", "--list-faults", "--json", "-"]));
    let faults = listed["faults"].as_array().unwrap();
    assert!(faults.len() >= 40);
    for fault in faults {
        let (name, engine) = (fault["name"].as_str().unwrap(), fault["engine"].as_str().unwrap());
        assert!(name.starts_with(&format!("{engine}/")), "{name}");
        assert!(!fault["what"].as_str().unwrap().is_empty());
    }
    let text = run(&["crash", "--list-faults", "--engine", "cow"]);
    assert!(text.out.contains("cow/master-not-synced") && !text.out.contains("nvm-cow/"));
}

#[test]
fn a_fault_that_is_injected_is_found_and_explained() {
    let ran = run(&["crash", "--inject", "nvm-inp/commit-not-flushed", "--json", "-"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let found = json(&ran);
    assert!(found["host"]["cores"].is_u64());
    let found = &found["runs"][0];
    assert_eq!(found["engine"], "nvm-inp");
    assert_eq!(found["inject"], "nvm-inp/commit-not-flushed");
    assert_eq!(found["violations"], 1);
    for number in ["seed", "crash_points", "states", "nested_states"] {
        assert!(found[number].is_u64(), "{number}");
    }
    assert!(found["seconds"].is_f64());
    let text = run(&["crash", "--inject", "cow/master-not-synced"]);
    assert_eq!(text.code, Some(1));
    assert!(text.out.contains("the database"), "{}", text.out);
}

#[test]
fn the_same_seed_gives_the_same_states() {
    let explore = || {
        let ran =
            run(&["crash", "--engine", "cow", "--states", "100", "--nested", "10", "--json", "-"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let mut found = json(&ran)["runs"][0].clone();
        found["seconds"].take();
        found
    };
    let first = explore();
    assert!(
        first["states"].as_u64().unwrap() >= 100 && first["nested_states"].as_u64() >= Some(10)
    );
    assert_eq!(first, explore());
}

/// The command that a violation is printed with shows it again.
#[test]
fn a_violation_can_be_replayed() {
    let fault = "nvm-inp/commit-not-flushed";
    let first =
        run(&["crash", "--inject", fault, "--replay", "3", "--states", "0", "--nested", "0"]);
    assert_eq!(first.code, Some(1), "{first:?}");
    let command = first.out.lines().find_map(|line| line.split("again with: perdura ").nth(1));
    let arguments: Vec<&str> = command.expect("it is printed").split(' ').collect();
    assert!(arguments.contains(&"--transactions") && arguments.contains(&fault), "{arguments:?}");
    let second = run(&arguments);
    assert_eq!(second.code, Some(1), "{second:?}");
    let finding = |ran: &Ran| {
        let line = ran.out.lines().find(|line| line.contains("the database")).map(str::to_owned);
        line.expect("what is wrong")
    };
    assert_eq!(finding(&first), finding(&second));
}

/// A fault that shows in nothing that was looked at is no success.
#[test]
fn a_fault_that_is_not_noticed_is_an_error() {
    let ran = run(&[
        "crash",
        "--inject",
        "nvm-log/merged-leaf-not-flushed",
        "--replay",
        "3",
        "--transactions",
        "1",
        "--states",
        "0",
        "--nested",
        "0",
    ]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("not noticed: nvm-log/merged-leaf-not-flushed"), "{}", ran.err);
}

#[test]
fn processes_are_killed_and_nothing_is_lost() {
    let ran = run(&["crash", "--kills", "8", "--json", "-"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let found = json(&ran);
    let runs = found["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 * perdura::EngineKind::ALL.len(), "each engine, two domains");
    for run in runs {
        assert_eq!((run["kills"].as_u64(), run["lost"].as_u64()), (Some(8), Some(0)), "{run}");
        assert_eq!(run["surplus"], 0);
        // Some kills hit recovery, others work: half of the victims live on once they have opened.
        assert!(run["in_recovery"].as_u64() < Some(8), "{run}");
        assert!(run["acknowledged"].as_u64() > Some(8), "{run}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    for (wrong, said) in [
        (&["--inject", "nvm-inp/nonsense"][..], "--list-faults"),
        (&["--inject", "cow/page-lost", "--engine", "inp"], "--list-faults"),
        (&["--engine", "none"], "at least one"),
        (&["--kills", "0"], "at least 1"),
        (&["--kills", "3", "--inject", "all"], "cannot be used with"),
        (&["--states", "many"], "no number"),
        (&["--seed", "0"], "not in 1.."),
        (&["--kills", "3", "--states", "5"], "cannot be used with"),
        (&["--domain", "adr"], "--kills"),
        (&["--path", "/tmp"], "--kills"),
        (&["--transactions", "3"], "--replay"),
        (&["--engine", "cow", "--placement", "40"], "--engine sofort"),
        (&["--engine", "sofort", "--placement", "101"], "--placement"),
    ] {
        let ran = run(&[&["crash"], wrong].concat());
        assert_eq!(ran.code, Some(2), "{wrong:?}: {ran:?}");
        assert!(ran.err.contains(said), "{wrong:?}: {}", ran.err);
    }
    let ran = run(&["crash", "--kills", "3", "--path", "/nonexistent"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("/nonexistent"), "{}", ran.err);
}
