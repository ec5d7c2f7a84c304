//! Modes that follow each other in one database, in each order, with large transactions.

use perdura_sqlite::store::mode::Mode;

use crate::explore::{explore_and_count, recorded_with};

const MODES: [&str; 5] = ["fash1", "fash", "fast", "nvwal", "full"];

/// For each pair of modes, a transaction too large for a slot and two small ones.
fn statements() -> Vec<String> {
    let mut all = vec!["CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)".to_owned()];
    let mut number = 0;
    let mut add = |mode: &str, bytes: usize| {
        number += 1;
        // A different letter each time, so that long rows differ in all bytes.
        let letter = char::from(b'a' + (number % 26) as u8);
        let text = format!("{mode}{}", letter.to_string().repeat(bytes));
        all.push(format!(
            "PRAGMA perdura_mode = {mode}; REPLACE INTO t VALUES({}, '{text}')",
            number % 7
        ));
    };
    for first in MODES {
        for then in MODES.into_iter().filter(|then| *then != first) {
            add(first, 6_000);
            add(then, 40);
            add(first, 30);
        }
    }
    all
}

#[test]
fn switching_modes_loses_nothing() {
    let (trace, models) = recorded_with("mixed", Mode::Fash1, 1024, "none", &statements());
    let (explored, recovered) = explore_and_count(&trace, &models, 60, 400);
    assert_eq!(explored.failed, None);
    assert!(explored.states > 3_000, "{explored:?}, {recovered:?}");
}
