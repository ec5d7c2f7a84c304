//! Random SQL on top of a recording: every crash state is recovered and read by stock SQLite. A seed chooses the
//! statements, the page size and the mode.

use perdura_sqlite::store::mode::Mode;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::explore::{Recovered, explore_and_count, recorded_with};

/// The statements of a scenario.
const STATEMENTS: usize = 40;
const PAGE_BYTES: [u32; 4] = [512, 512, 1024, 4096];

/// `None` gives each statement its own mode, as if other connections made them.
const MODES: [Option<Mode>; 9] = {
    let usual = Some(Mode::Fash1);
    [
        usual,
        usual,
        Some(Mode::Lean),
        Some(Mode::Fash),
        Some(Mode::Fast),
        Some(Mode::Nvwal),
        Some(Mode::Full),
        None,
        None,
    ]
};

/// A statement, small enough that a database of them fits into a recording.
pub(crate) fn statement(random: &mut SmallRng) -> String {
    let (key, many) = (random.random_range(0..90), random.random_range(1..60));
    match random.random_range(0..24) {
        0..9 => {
            let lead = random.random_range(10..99);
            format!("INSERT OR REPLACE INTO t VALUES({key}, {lead} || hex(zeroblob({many})))")
        }
        9..12 => format!("UPDATE t SET b = '{many}' || substr(b, 3) WHERE a = {key}"),
        12 => format!("UPDATE t SET b = b || 'x' WHERE a % 7 = {}", key % 7),
        13..16 => format!("DELETE FROM t WHERE a BETWEEN {key} AND {}", key + many / 20),
        16 => format!("INSERT OR REPLACE INTO t VALUES({key}, hex(zeroblob({})))", many * 40),
        17 => format!(
            "WITH n(a) AS (SELECT 0 UNION ALL SELECT a + 1 FROM n LIMIT {many})
             INSERT OR REPLACE INTO t SELECT (a * 37 + {key}) % 90, hex(zeroblob({many})) FROM n"
        ),
        18 => format!(
            "BEGIN; INSERT OR REPLACE INTO t VALUES({key}, 'one'); SAVEPOINT s;
             DELETE FROM t WHERE a < {key}; ROLLBACK TO s; COMMIT"
        ),
        19 => format!("BEGIN; UPDATE t SET b = NULL WHERE a > {key}; ROLLBACK"),
        20 => "PRAGMA incremental_vacuum".into(),
        21 if many < 20 => "DROP INDEX IF EXISTS i".into(),
        21 => "CREATE INDEX IF NOT EXISTS i ON t(b)".into(),
        22 if many < 15 => {
            format!("PRAGMA page_size = {}; VACUUM", PAGE_BYTES[many % PAGE_BYTES.len()])
        }
        22 if many < 30 => "VACUUM".into(),
        _ => format!("UPDATE t SET b = '{many}' WHERE a BETWEEN {key} AND {}", key + 9),
    }
}

/// Explores the scenario of a seed: at most `bound` states of each crash point, and the crashes of one recovery in
/// fifty.
fn explore(seed: u64, bound: u64) -> (u64, Recovered) {
    let mut random = SmallRng::seed_from_u64(seed);
    let page_bytes = PAGE_BYTES[random.random_range(0..PAGE_BYTES.len())];
    let mode = MODES[random.random_range(0..MODES.len())];
    let vacuum = ["none", "full", "incremental"][random.random_range(0..3)];
    let mut statements = vec![
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)".to_owned(),
        "CREATE INDEX i ON t(b)".to_owned(),
    ];
    statements.extend((0..STATEMENTS).map(|_| {
        let statement = statement(&mut random);
        let other = Mode::ALL[random.random_range(0..Mode::ALL.len())].name();
        let chooses =
            if mode.is_none() { format!("PRAGMA perdura_mode = {other}; ") } else { String::new() };
        chooses + &statement
    }));
    let name = format!("random-{seed}");
    let (trace, models) =
        recorded_with(&name, mode.unwrap_or_default(), page_bytes, vacuum, &statements);
    let (explored, recovered) = explore_and_count(&trace, &models, bound, 50);
    assert_eq!(explored.failed, None, "seed {seed}, {mode:?}, {page_bytes} bytes, {vacuum}");
    (explored.states, recovered)
}

/// Explores scenarios from a seed on, until `wanted` states have been visited.
pub(crate) fn explore_states(first: u64, wanted: u64, bound: u64) {
    let (mut states, mut both, mut home, mut stories) = (0, 0, 0, 0);
    while states < wanted {
        let (found, recovered) = explore(first + stories, bound);
        stories += 1;
        states += found;
        both += recovered.both;
        home += recovered.restored;
    }
    println!(
        "{stories} stories, {states} states, of which {both} had two commits in the log and {home} pages away"
    );
    assert!(both > wanted / 20 && home > wanted / 100, "{both} and {home} of {states}");
}

#[test]
fn every_crash_state_of_random_sql_is_whole() {
    explore_states(1, 14_000, 6);
}
