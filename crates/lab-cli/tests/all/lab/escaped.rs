//! Names in a file of results, paths and arguments with control characters: none is printed as it is,
//! and none makes a line of its own.

use std::path::Path;

use lab::results::{Key, Results};
use lab::{Host, Point};

use super::saved::host;
use crate::common::{Ran, run};

/// A line that could be the command's own, and characters that a terminal acts upon.
const ODD: &str = "a\nDAMAGE: forged\r\u{1b}[31m\u{7f}\u{9b}\u{202e}";
/// The same as it has to be shown.
const SHOWN: &str = "a\\nDAMAGE: forged\\r\\u{1b}[31m\\u{7f}\\u{9b}\\u{202e}";

/// Returns what a command printed with this exit code, of which every line is its own.
fn printed(arguments: &[&str], code: i32) -> Ran {
    let ran = run(arguments);
    assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
    for line in ran.out.split('\n').chain(ran.err.split('\n')) {
        let is_raw = |character: char| character.is_control() || character == '\u{202e}';
        assert!(!line.contains(is_raw), "{arguments:?}: {line:?}");
        assert!(!line.trim_start().starts_with("DAMAGE: forged"), "{arguments:?}: {ran:?}");
    }
    // Names of experiments are in capitals.
    let text = format!("{}{}", ran.out, ran.err).to_lowercase();
    assert!(text.contains(&SHOWN.to_lowercase()), "{arguments:?}: {ran:?}");
    ran
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Saves a throughput that was measured on a machine with this name, of an odd commit.
fn save(results: &mut Results, name: &str) -> String {
    let host = Host { name: name.into(), ..host() };
    results.note_host(&host).expect("noted");
    let key = Key {
        study: "ycsb".into(),
        configuration: "{}".into(),
        scale: "quick".into(),
        commit: format!("{name}{ODD}"),
        host: host.key(),
        seed: 1,
    };
    let point = Point::of("P1-F5", "nvm-inp", "balanced").panel("low");
    let point = point.measured("native throughput", "txn/s", &[1000.0, 1001.0]);
    results.save(&key, "", 1.0, &[point]).expect("saved");
    key.commit
}

#[test]
fn names_in_results_are_escaped() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(ODD);
    let mut results = Results::open_or_create(&path).expect("made");
    let [one, other] = ["here", ODD].map(|name| save(&mut results, name));
    drop(results);
    let of = |command: &[&str], code| {
        printed(&[&["lab"], command, &["--results", text(&path)]].concat(), code)
    };
    let status = of(&["status"], 0).out;
    assert_eq!(status.lines().filter(|line| line.contains("forged")).count(), 2, "{status}");
    of(&["compare", &one, &other], 1);
    of(&["compare", &one, &one], 0);
    of(&["compare", &one, &format!("nowhere{ODD}")], 1);
    let out = directory.path().join(format!("report{ODD}"));
    of(&["report", "--commit", &one, "--out", text(&out)], 0);
    of(&["report", "--host", "nowhere", "--out", text(&out)], 1);
}

#[test]
fn arguments_of_the_laboratory_are_escaped() {
    let directory = tempfile::tempdir().expect("a directory");
    let (missing, nowhere) = (directory.path().join(ODD), directory.path().join(ODD).join("file"));
    let (missing, nowhere) = (text(&missing), text(&nowhere));
    for (command, code) in [
        (&["crash", "--inject", ODD][..], 2),
        (&["crash", "--engine", ODD], 2),
        (&["crash", "--states", ODD], 2),
        (&["crash", "--kills", "1", "--path", nowhere], 1),
        (&["demo", "--port", "0", "--path", nowhere], 1),
        (&["lab", ODD], 2),
        (&["lab", "run", ODD], 2),
        (&["lab", "run", "P1-F5", "--results", nowhere], 1),
        (&["lab", "status", "--results", missing], 1),
        (&["lab", "report", "--results", missing], 1),
        (&["lab", "compare", "a", "b", "--results", missing], 1),
        (&["lab", "compare", "a", "b", "--fail-over", ODD], 2),
    ] {
        printed(command, code);
    }
}
