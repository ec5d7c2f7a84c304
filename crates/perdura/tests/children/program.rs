//! The processes that the tests of this crate start: `perdura-children (load|write) ROWS BUFFER DIRECTORY`. Built for
//! tests alone: see Cargo.toml.

#![allow(dead_code, reason = "a module of the tests, of which a part is used here")]

#[path = "../all/larger/process.rs"]
mod process;

use process::{Order, load, write};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [what, rows, buffer, directory] = arguments[..] else { panic!("no child {arguments:?}") };
    let number = |text: &str| text.parse().expect("a number");
    let order = Order { rows: number(rows), buffer: number(buffer), directory: directory.into() };
    match what {
        "load" => load(&order).expect("loaded"),
        "write" => write(&order).expect("written"),
        _ => panic!("no child {what}"),
    }
}
