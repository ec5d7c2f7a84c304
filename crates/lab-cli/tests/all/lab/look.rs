//! `.ci/look`, which opens a report in a browser.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::lab;
use super::saved::results;
use crate::common::Ran;

/// A program of this system, by where it is.
fn program(name: &str) -> Option<PathBuf> {
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths).map(|path| path.join(name)).find(|path| path.is_file())
}

/// The interpreter itself: what the path has of that name may be a script, which needs more.
fn python() -> Option<PathBuf> {
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let said = String::from_utf8(asked.ok()?.stdout).ok()?;
    Some(PathBuf::from(said.trim())).filter(|path| path.is_file())
}

/// The script, to be run where `path` has all programs that there are; `None` without Python.
fn look(path: Option<&Path>, report: &Path) -> Option<Ran> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/look");
    let mut command = Command::new(python()?);
    command.arg(script).arg(report).env_remove("BROWSER_BINARY");
    if let Some(path) = path {
        command.env("PATH", path);
    }
    Some(command.output().expect("starts").into())
}

fn browser() -> bool {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
    names.into_iter().any(|name| program(name).is_some())
}

#[test]
fn without_a_browser_the_look_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("report.html");
    let missing = look(Some(directory.path()), &page);
    fs::write(&page, "<html></html>").expect("written");
    let (Some(missing), Some(ran)) = (missing, look(Some(directory.path()), &page)) else {
        eprintln!("there is no Python: not tested");
        return;
    };
    assert_eq!(missing.code, Some(2), "{missing:?}");
    assert!(missing.err.contains("there is no such report"), "{missing:?}");
    assert_eq!(ran.code, Some(3), "{ran:?}");
    for said in ["there is no browser", "chromium", "BROWSER_BINARY"] {
        assert!(ran.err.contains(said), "{ran:?}");
    }
    assert!(ran.out.is_empty(), "nothing was looked at: {ran:?}");
}

#[test]
fn a_plot_that_cannot_be_drawn_fails_the_look() {
    if !browser() || python().is_none() {
        eprintln!("there is no browser, or no Python: not tested");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let known = results(directory.path(), "known", 1000.0, 10.0);
    let page = directory.path().join("report.html");
    let made = lab(&["report", "--out", page.to_str().expect("text")], &known);
    assert_eq!(made.code, Some(0), "{made:?}");
    // Native throughput alone is not what Figure 5 draws.
    let bare = look(None, &page).expect("Python");
    assert_eq!(bare.code, Some(1), "{bare:?}");
    assert!(bare.out.contains("wide: 1 plots\n  measured, but without a plot: P1-F5"), "{bare:?}");

    let html = fs::read_to_string(&page).expect("written");
    let html = html.replace(r#""metric":"native throughput""#, r#""metric":"throughput""#);
    fs::write(&page, &html).expect("written");
    let good = look(None, &page).expect("Python");
    assert_eq!(good.code, Some(0), "{good:?}");
    assert!(good.out.contains("wide: 2 plots"), "{good:?}");

    let call = "vegaEmbed(plot.place, spec, options)";
    assert_eq!(html.matches(call).count(), 1);
    let broken = html.replace(call, "vegaEmbed(plot.place, { mark: 7 }, options)");
    fs::write(&page, broken).expect("written");
    let bad = look(None, &page).expect("Python");
    assert_eq!(bad.code, Some(1), "{bad:?}");
    assert!(bad.out.contains("plots failed") && bad.out.contains("0 of 2 plots"), "{bad:?}");
}
