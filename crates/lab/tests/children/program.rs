//! The process that a test of this crate starts: `perdura-laboratory-children FILE` writes the counts of a run, each
//! figure with all its digits. Built for tests alone, by the feature `children`.

#![allow(dead_code, reason = "modules of the tests, of which a part is used here")]

#[path = "../all/common.rs"]
mod common;
#[path = "../all/counted.rs"]
mod counted;

use counted::{COUNTED, counts};

fn main() {
    let into = std::env::args_os().nth(1).expect("a file");
    let lines: Vec<String> =
        counts(&COUNTED, 7).iter().map(|point| format!("{point:?}\n")).collect();
    std::fs::write(into, lines.concat()).unwrap();
}
