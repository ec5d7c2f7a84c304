//! More kills.

use crate::process_kills::{FASH1, Kind, MODES, kill_in_rounds};
use crate::shared::ALONE;
use crate::shared::kills::kills;

/// Each mode, with and without stock SQLite, and all modes together. `PERDURA_TEST_ROUNDS` in the environment is
/// the number of rounds.
#[test]
#[ignore = "scripts/long runs it"]
fn kills_in_each_mode_lose_no_acknowledged_row() {
    let rounds = std::env::var("PERDURA_TEST_ROUNDS").map_or(100, |text| text.parse().unwrap());
    let chosen = std::env::var("PERDURA_TEST_MODE").unwrap_or_default();
    for (number, share) in
        (0..MODES.len() + 1).flat_map(|number| [(number, "perdura"), (number, "stock")])
    {
        let modes = MODES.get(number..=number).unwrap_or(&MODES);
        let name = format!("{} {share}", modes.join("+"));
        if name.contains(&chosen) {
            println!("{name}: {rounds} rounds of four");
            kill_in_rounds(Kind { modes, share }, 4, rounds, 5 + number as u64);
        }
    }
}

#[test]
#[ignore = "scripts/long runs it"]
fn a_thousand_kills_lose_no_acknowledged_row() {
    kill_in_rounds(FASH1, 1, 1000, 3);
}

#[test]
#[ignore = "scripts/long runs it"]
fn a_thousand_kills_of_four_lose_no_acknowledged_row() {
    kill_in_rounds(FASH1, 4, 1000, 4);
}

#[test]
#[ignore = "scripts/long runs it"]
fn kills_of_stock_or_ours_lose_no_acknowledged_row() {
    kills(300, &[]);
    kills(300, &[ALONE, "nvwal"]);
}

#[test]
#[ignore = "scripts/long runs it"]
fn kills_in_wal_mode_lose_no_acknowledged_row() {
    let rounds = std::env::var("PERDURA_TEST_ROUNDS").map_or(1000, |text| text.parse().unwrap());
    crate::wal::kills::kill_in_rounds(4, rounds, 4);
}

#[test]
#[ignore = "scripts/long runs it"]
fn kills_with_a_differential_log_lose_no_acknowledged_row() {
    let rounds = std::env::var("PERDURA_TEST_ROUNDS").map_or(1000, |text| text.parse().unwrap());
    crate::wal::diff::kills::kill_in_rounds(4, rounds, 4);
}
