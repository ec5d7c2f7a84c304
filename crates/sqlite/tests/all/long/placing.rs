//! Forty times as many commits whose pages are laid out anew.

use crate::placing::crashes::Wrong;
use crate::placing::databases::{Scenario, run};

#[test]
#[ignore = "scripts/long runs it"]
fn stock_sqlite_reads_what_was_placed() {
    for seed in 100..260 {
        let page_bytes = [512, 1024, 2048, 4096, 8192, 65_536][seed as usize % 6];
        let (auto_vacuum, secure_delete) = ((seed / 6 % 3) as u8, seed % 5 < 2);
        let (commits, wrong) = (600, Wrong::Nothing);
        run(Scenario { page_bytes, auto_vacuum, secure_delete, commits, seed, wrong });
    }
}
