//! A comparison that is worse, and a report that cannot be written.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::saved::{self, results};
use super::{lab, run};
use crate::common::{Ran, perdura};

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn comparison_fails_beyond_the_share_and_noise() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = [
        ("old", 1000.0, 10.0),
        ("slower", 900.0, 10.0),
        ("faster", 1100.0, 10.0),
        ("noisy", 985.0, 10.0),
        ("costlier", 1000.0, 11.0),
        ("thriftier", 1000.0, 9.0),
    ];
    for (name, throughput, stores) in files {
        results(directory.path(), name, throughput, stores);
    }
    let file = |name: &str| directory.path().join(format!("{name}.db"));
    let compared = |name: &str, share: &str| {
        run(&["lab", "compare", text(&file("old")), text(&file(name)), "--fail-over", share])
    };
    for (name, share, code) in [
        ("slower", "5%", 1),
        ("slower", "0.05", 1),
        // A tenth less is no more than 15%.
        ("slower", "15%", 0),
        ("slower", "0.07%", 1),
        ("faster", "5%", 0),
        // The ranges of the repetitions touch.
        ("noisy", "0%", 0),
        ("costlier", "5%", 1),
        ("costlier", "10%", 0),
        ("thriftier", "0%", 0),
        ("old", "0%", 0),
    ] {
        let ran = compared(name, share);
        assert_eq!(ran.code, Some(code), "{name} {share}: {ran:?}");
        let said = ran.err.contains("1 figure is worse by more than");
        assert_eq!(said, code == 1, "{name} {share}: {ran:?}");
        assert!(ran.out.contains("worse,"), "the table is there in any case: {ran:?}");
    }
    let little = compared("slower", "0.07%");
    assert!(little.err.ends_with("worse by more than 0.07%\n"), "{little:?}");
    // Without the option it is reported, and is no failure.
    let ran = run(&["lab", "compare", text(&file("old")), text(&file("slower"))]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("10.0% worse"), "{ran:?}");
}

/// A figure that is not there any more, or was measured with another configuration, is not passed
/// over by `--fail-over`.
#[test]
fn compare_fails_where_figures_of_a_are_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let old = results(directory.path(), "old", 1000.0, 10.0);
    let new = results(directory.path(), "new", 1000.0, 10.0);
    add(&old, &saved::host(), "old", "P1-F9");
    let compared = |a: &Path, b: &Path, more: &[&str]| {
        run(&[&["lab", "compare", text(a), text(b)], more].concat())
    };
    let ran = compared(&old, &new, &["--fail-over", "5%"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("1 figures of A are not there in B"), "{ran:?}");
    assert!(ran.out.contains("1 of A and 0 of B that the other lacks"), "{ran:?}");
    // What is new in B is no loss, and without the option nothing fails.
    for (a, b, more) in [(&new, &old, &["--fail-over", "5%"][..]), (&old, &new, &[])] {
        let ran = compared(a, b, more);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
}

/// Adds a number to a file of results.
fn add(path: &Path, host: &lab::Host, commit: &str, experiment: &str) {
    let mut results = lab::results::Results::open_or_create(path).expect("opens");
    results.note_host(host).expect("noted");
    let key = lab::results::Key {
        study: "ycsb".into(),
        configuration: format!("{{\"of\": \"{experiment}\"}}"),
        scale: "quick".into(),
        commit: commit.into(),
        host: host.key(),
        seed: 1,
    };
    let point =
        lab::Point::of(experiment, "nvm-inp", "balanced").counted("nvm loads", "per txn", 1.0);
    results.save(&key, "", 1.0, &[point]).expect("saved");
}

/// The same seed has to give the same counts: where a round has another one, no report passes for
/// right, and the run says so.
#[test]
fn counts_that_differ_between_rounds_are_a_bug() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("results.db");
    let first = lab(&["run", "P1-T3", "--tiny"], &path);
    assert_eq!(first.code, Some(0), "{first:?}");
    let mut results = lab::results::Results::open(&path).expect("opens");
    let lab::results::Selection { commit, host, scale, seed } =
        results.select(lab::results::Wanted::default()).expect("one");
    for (round, space) in [(0, 1.25), (1, 1.5)] {
        let key = lab::results::Key {
            study: "bytes".into(),
            configuration: format!(r#"{{"repeat":2,"round":{round}}}"#),
            scale: scale.clone(),
            commit: commit.clone(),
            host: host.clone(),
            seed,
        };
        let point = lab::Point::of("P1-T3", "nvm-inp", 10_u64).counted("space", "B", space);
        results.save(&key, "", 1.0, &[point]).expect("saved");
    }
    drop(results);
    let again = lab(&["run", "P1-T3", "--tiny"], &path);
    assert_eq!(again.code, Some(1), "{again:?}");
    let what = "P1-T3: space of nvm-inp at 10 is 1.25 in one round and 1.5 in another";
    assert!(again.err.contains(what), "{again:?}");
    assert!(
        again.out.contains("0 of 12 measurements were missing"),
        "said all the same: {again:?}"
    );
    // Of what was not asked for nothing is said here, and everything in the report.
    let other = lab(&["run", "P1-F1", "--tiny"], &path);
    assert_eq!(other.code, Some(0), "{other:?}");
    let [page, small, json] =
        ["report.html", "report.md", "report.json"].map(|name| directory.path().join(name));
    let arguments = ["report", "--out", text(&page), "--markdown", text(&small)];
    let report = lab(&[&arguments[..], &["--json", text(&json)]].concat(), &path);
    assert_eq!(report.code, Some(0), "{report:?}");
    assert!(report.out.contains(what), "{report:?}");
    for file in [&page, &small, &json] {
        let written = fs::read_to_string(file).expect("written");
        assert!(written.contains(what), "{}", file.display());
    }
}

/// Two commits are compared on a machine that both were measured on, if there is one, and not at all
/// if there is none.
#[test]
fn compare_takes_one_machine_for_two_commits() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("all.db");
    let here = saved::host();
    let there = lab::Host { name: "there".into(), ..saved::host() };
    let compared = || {
        let file = text(&path);
        run(&["lab", "compare", "aaaa", "bbbb", "--results", file, "--json", "-"])
    };
    add(&path, &here, "aaaa", "P1-F9");
    add(&path, &there, "bbbb", "P1-F9");
    let ran = compared();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("may be the machines"), "{ran:?}");
    // Now there is one: B's, though A was measured elsewhere, too; and A's was the last.
    add(&path, &there, "aaaa", "P1-F9");
    add(&path, &here, "aaaa", "P1-F10");
    let ran = compared();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let compared: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(
        (&compared["a"]["host"]["name"], &compared["b"]["host"]["name"]),
        (&"there".into(), &"there".into())
    );
    // Two machines can be compared, if they are named.
    let machines = [here.key(), there.key()];
    let file = text(&path);
    let ran = run(&["lab", "compare", &machines[0], &machines[1], "--results", file]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// All names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("read");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("read").file_name();
    let mut names: Vec<String> =
        entries.map(|entry| name(entry).into_string().expect("text")).collect();
    names.sort();
    names
}

/// Writes a report into `directory`, into which no file of more than 100 KiB can be written.
fn limited(results: &Path, directory: &Path, more: &[&str]) -> Ran {
    let script = "trap '' XFSZ; ulimit -f 200; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(perdura().get_program());
    command.args(["lab", "report", "--results", text(results), "--out"]);
    command.arg(directory.join("report.html")).args(more);
    Ran::from(command.output().expect("a shell"))
}

#[test]
fn a_report_for_which_there_is_no_room_leaves_no_half_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let known = results(directory.path(), "known", 1000.0, 10.0);
    let place = directory.path().join("reports");
    fs::create_dir(&place).expect("made");

    let nothing = limited(&known, &place, &[]);
    assert_eq!(nothing.code, Some(1), "{nothing:?}");
    assert!(nothing.err.contains("report.html: ") && nothing.out.is_empty(), "{nothing:?}");
    assert_eq!(names(&place), [] as [&str; 0], "nothing is left");

    let page = place.join("report.html");
    let good = lab(&["report", "--out", text(&page)], &known);
    assert_eq!(good.code, Some(0), "{good:?}");
    let before = fs::read(&page).expect("written");
    let again = limited(&known, &place, &[]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(fs::read(&page).expect("there") == before, "the one of before is whole");
    assert_eq!(names(&place), ["report.html"]);
}

#[test]
fn full_disk_is_reported_with_what_to_do() {
    if !Path::new("/dev/full").exists() {
        eprintln!("there is no /dev/full: not tested");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let known = results(directory.path(), "known", 1000.0, 10.0);
    let page = directory.path().join("report.html");
    for arguments in [
        &["report", "--out", "/dev/full"][..],
        &["report", "--out", text(&page), "--csv", "/dev/full"],
        &["report", "--out", text(&page), "--markdown", "/dev/full"],
    ] {
        let full = lab(arguments, &known);
        assert_eq!(full.code, Some(1), "{full:?}");
        assert!(full.err.contains("/dev/full: the disk is full"), "{full:?}");
        assert!(full.err.contains("free some space"), "{full:?}");
    }
    let full = lab(&["report", "--out", text(&page), "--json", "/dev/full"], &known);
    assert_eq!(full.code, Some(1), "{full:?}");
    assert!(full.err.contains("/dev/full: "), "{full:?}");
    assert!(Path::new("/dev/full").exists(), "a device stays one");
    assert_eq!(names(directory.path()), ["known.db", "report.html"]);
}

#[test]
fn a_report_that_cannot_be_there_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let known = results(directory.path(), "known", 1000.0, 10.0);
    let into = lab(&["report", "--out", text(directory.path())], &known);
    assert_eq!(into.code, Some(1), "{into:?}");
    assert!(into.err.contains("this is a directory"), "{into:?}");
    // No user can make files there, not even root.
    let forbidden = lab(&["report", "--out", "/proc/report.html"], &known);
    assert_eq!(forbidden.code, Some(1), "{forbidden:?}");
    assert!(forbidden.err.contains("/proc/report.html: "), "{forbidden:?}");
    assert_eq!(names(directory.path()), ["known.db"]);
}
