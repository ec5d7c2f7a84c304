//! `perdura lab`: from nothing to a report, and what is refused.

mod escaped;
mod frames;
mod look;
mod room;
mod saved;
mod trouble;

use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Ran, perdura, run};

fn lab(arguments: &[&str], results: &Path) -> Ran {
    let mut all = vec!["lab"];
    all.extend(arguments);
    all.extend(["--results", results.to_str().expect("text")]);
    run(&all)
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// Cells of a study that are done, and all of them; `None` as long as there are no results.
fn done(study: &str, results: &Path) -> Option<(u64, u64)> {
    let ran = lab(&["status", "--tiny", "--json", "-"], results);
    let status = if ran.code == Some(0) { json(&ran) } else { return None };
    let studies = status["studies"].as_array().expect("studies");
    let study = studies.iter().find(|one| one["study"] == study).expect("there");
    Some((study["done"].as_u64().expect("a number"), study["all"].as_u64().expect("a number")))
}

#[test]
fn all_experiments_of_p1_are_listed() {
    let listed = json(&run(&["lab", "list", "--json", "-"]));
    let listed = listed.as_array().expect("a list");
    let ids: Vec<&str> = listed.iter().filter_map(|one| one["experiment"].as_str()).collect();
    let figures = (5..=16).map(|number| format!("P1-F{number}"));
    for id in figures.chain(["P1-F1", "P1-T3", "PEERS-MIX"].map(str::to_owned)) {
        assert!(ids.contains(&id.as_str()), "{id}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().expect("a directory");
    let results = directory.path().join("results.db");

    let unknown = lab(&["run", "P1-F99", "--quick"], &results);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.err.contains("P1-F99") && unknown.err.contains("lab list"), "{unknown:?}");
    assert!(!results.exists(), "nothing was made");

    for command in [&["report"][..], &["status"], &["compare", "a", "b"]] {
        let nothing = lab(command, &results);
        assert_eq!(nothing.code, Some(1), "{nothing:?}");
        assert!(nothing.err.contains("lab run P1 --quick"), "{nothing:?}");
    }

    let text = "no database at all, but longer than the header of one, which takes a hundred bytes, \
                would be";
    std::fs::write(&results, text).expect("written");
    let other = lab(&["run", "P1-F1", "--tiny"], &results);
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(other.err.contains("not a results file"), "{other:?}");
    assert_eq!(std::fs::read_to_string(&results).expect("as it was"), text);

    // `5` without its sign would be 500%.
    for share in ["five", "5", "-1%", "inf"] {
        let ran = lab(&["compare", "a", "b", &format!("--fail-over={share}")], &results);
        assert!(ran.code == Some(2) && ran.err.contains("write 5% or 0.05"), "{ran:?}");
    }
    for arguments in
        [&["--one-in", "8"][..], &["--quick", "--one-in", "8"], &["--full", "--one-in", "0"]]
    {
        let ran = run(&[&["lab", "run", "P1-F1"], arguments].concat());
        assert!(ran.code == Some(2) && ran.err.contains("one-in"), "{ran:?}");
    }
    let nowhere = lab(&["report", "--out", "/nowhere/at/all/report.html"], &results);
    assert_eq!(nowhere.code, Some(1), "{nowhere:?}");
    assert!(nowhere.err.contains("no such directory"), "{nowhere:?}");
}

/// No report takes the place of the results, nor of another report.
#[test]
fn a_report_replaces_no_results() {
    let directory = tempfile::tempdir().expect("a directory");
    let results = saved::results(directory.path(), "results", 1000.0, 10.0);
    let before = std::fs::read(&results).expect("readable");
    let file = |name: &str| directory.path().join(name).to_str().expect("text").to_owned();
    let saved = results.to_str().expect("text");
    let (one, other) = (file("one"), file("other"));
    for arguments in [
        &["report", "--out", saved][..],
        &["report", "--out", &one, "--csv", saved],
        &["report", "--out", &one, "--csv", &other, "--markdown", &other],
        &["report", "--out", &one, "--json", &one],
        &["status", "--json", saved],
        &["compare", "a", "b", "--json", saved],
    ] {
        let ran = lab(arguments, &results);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        assert!(ran.err.contains("would replace it"), "{arguments:?}: {}", ran.err);
    }
    assert_eq!(std::fs::read(&results).expect("readable"), before);
    assert!(!Path::new(&one).exists());
}

#[test]
fn from_a_run_to_a_report_and_a_comparison() {
    let directory = tempfile::tempdir().expect("a directory");
    let in_it = |name: &str| directory.path().join(name).to_str().expect("text").to_owned();
    let results = directory.path().join("results.db");
    let first = lab(&["run", "P1-F1", "P1-T3", "--tiny"], &results);
    assert_eq!(first.code, Some(0), "{first:?}");
    // Four of Figure 1, and of six engines in two settings.
    assert!(first.out.contains("16 of 16 measurements were missing"), "{first:?}");
    let again = lab(&["run", "P1-F1", "--tiny", "--json", "-"], &results);
    let points = json(&again);
    let point = &points["lab"][0];
    for key in ["experiment", "series", "x", "metric", "unit", "value", "emulated", "setting"] {
        assert!(point.get(key).is_some(), "{key}");
    }
    assert_eq!(point["experiment"], "P1-F1");
    assert_eq!(done("bytes", &results), Some((12, 12)));
    let apart = json(&lab(&["status", "--full", "--one-in", "8", "--json", "-"], &results));
    assert_eq!(apart["scale"], "full/8");

    let reference = in_it("published.csv");
    let head = "figure,workload,engine,mix,skew,latency_ns,x,metric,unit,value\n";
    let row = "1,micro,allocator,durable write,random,,16 B,bandwidth,B/s,5\n";
    std::fs::write(&reference, format!("{head}{row}")).expect("written");
    let [page, csv, small] = ["report.html", "points.csv", "report.md"].map(in_it);
    let mut arguments = vec!["report", "--out", &page, "--reference", &reference, "--json", "-"];
    arguments.extend(["--csv", &csv, "--markdown", &small]);
    let report = json(&lab(&arguments, &results));
    // Each point says how it was measured, and the measurements say the rest.
    let cells = report["measurements"].as_array().expect("measurements");
    assert_eq!(cells.len(), 16);
    for point in report["runs"].as_array().expect("points") {
        let how = &point["configuration"];
        assert!(cells.iter().any(|cell| cell["configuration"] == *how), "{point}");
    }
    assert!(report["calibrations"].is_array());
    let claims = report["claims"].as_array().expect("claims");
    assert!(claims.len() >= 80);
    let verdict = |id: &str, setting: &str| {
        let is = |one: &&Value| one["claim"] == id && one["setting"] == setting;
        let claim = claims.iter().find(is).expect("there");
        (claim["verdict"].as_str().expect("text"), claim["reason"].as_str().expect("text"))
    };
    for setting in ["ours", "paper"] {
        assert_ne!(verdict("P1-T3-insert", setting).0, "not testable here");
        let untested = verdict("P1-F5-skew", setting);
        assert_eq!(untested.0, "not testable here");
        assert!(untested.1.contains("no results of P1-F5"), "{}", untested.1);
    }
    // The paper's setting is made of Figure 1.
    assert_ne!(verdict("P1-F1-bandwidth", "ours").0, "not testable here");
    assert!(verdict("P1-F1-bandwidth", "paper").1.contains("what was put in"));
    let follows = report["follows"].as_str().expect("text");
    assert!(
        follows.starts_with("In the paper's setting inp, cow, log, nvm-cow commit"),
        "{follows}"
    );
    let html = std::fs::read_to_string(&page).expect("written");
    assert!(html.contains("vegaEmbed") && html.contains("P1-T3") && html.len() > 800_000);
    let csv = std::fs::read_to_string(&csv).expect("written");
    let points = report["runs"].as_array().expect("points").len();
    assert_eq!(csv.lines().count(), 1 + points);
    let of = [&report["commit"], &point["configuration"]].map(|word| word.as_str().expect("text"));
    let quoted = of[1].replace('"', "\"\"");
    assert!(csv.contains(&format!("\"{quoted}\",{},", of[0])), "{csv}");
    let small = std::fs::read_to_string(&small).expect("written");
    for part in [
        "# Laboratory report",
        "### P1-F1: ",
        "| P1-F5-skew | ",
        " here | verdict | in the paper's setting | verdict | why |",
        follows,
    ] {
        assert!(small.contains(part), "{part}");
    }
    std::fs::write(&reference, "a,b\n1,2\n").expect("written");
    let wrong = lab(&["report", "--out", &page, "--reference", &reference], &results);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.err.contains("published.csv: its first line"), "{wrong:?}");

    let commit = report["commit"].as_str().expect("text");
    let same = lab(&["compare", commit, commit, "--fail-over", "5%"], &results);
    assert_eq!(same.code, Some(0), "{same:?}");
    assert!(same.out.contains("Nothing has changed"), "{same:?}");
    let unknown = lab(&["compare", commit, "0123"], &results);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(unknown.err.contains("no commit"), "{unknown:?}");
}

#[test]
fn a_run_that_was_killed_goes_on_where_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let results = directory.path().join("results.db");
    let arguments = ["lab", "run", "PEERS-REOPEN", "--tiny", "--results"];
    let mut command = perdura();
    command.args(arguments).arg(&results).stdout(Stdio::null()).stderr(Stdio::null());
    let mut victim = command.spawn().expect("starts");
    let started = Instant::now();
    while done("reopening", &results).is_none_or(|(done, _)| done == 0) {
        assert!(started.elapsed() < Duration::from_secs(120), "nothing is ever done");
        thread::sleep(Duration::from_millis(20));
    }
    // While it runs another run is refused; or it has just ended, which is no matter.
    let other = lab(&["run", "PEERS-REOPEN", "--tiny"], &results);
    let refused = other.err.contains("another `perdura lab run`");
    assert!(refused || other.code == Some(0), "{other:?}");
    victim.kill().expect("killed");
    victim.wait().expect("gone");
    let (before, all) = done("reopening", &results).expect("there");
    let rest = lab(&["run", "PEERS-REOPEN", "--tiny"], &results);
    assert_eq!(rest.code, Some(0), "{rest:?}");
    assert!(rest.out.contains(&format!("{} of {all} measurements", all - before)), "{rest:?}");
    assert_eq!(done("reopening", &results), Some((all, all)));
}
