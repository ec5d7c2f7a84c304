//! Logs that are those of `journal`, and of `wal` that of `nvwal`.

use sim::Arena;
use slotted::{Fash, Fast, Fast1, Wal, Word};

use crate::given_back::{MANY_ROWS, gives_back};

#[test]
#[ignore = "scripts/long runs it"]
fn fash_gives_back_what_its_log_had_taken() {
    gives_back::<Fash<Arena>>(MANY_ROWS);
}

#[test]
#[ignore = "scripts/long runs it"]
fn fast_gives_back_what_its_log_had_taken() {
    gives_back::<Fast<Arena>>(MANY_ROWS);
}

#[test]
#[ignore = "scripts/long runs it"]
fn the_log_of_pages_gives_back_what_it_had_taken() {
    gives_back::<Wal<Arena>>(MANY_ROWS);
}

#[test]
#[ignore = "scripts/long runs it"]
fn fast1_gives_back_what_its_log_had_taken() {
    gives_back::<Fast1<Arena>>(MANY_ROWS);
}

#[test]
#[ignore = "scripts/long runs it"]
fn word_gives_back_what_its_log_had_taken() {
    gives_back::<Word<Arena>>(MANY_ROWS);
}
