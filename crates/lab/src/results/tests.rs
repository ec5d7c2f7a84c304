use std::path::PathBuf;

use super::*;
use crate::host::tests::host;
use crate::point::Point;

fn key(configuration: &str, commit: &str) -> Key {
    Key {
        study: "ycsb".into(),
        configuration: configuration.into(),
        scale: "quick".into(),
        commit: commit.into(),
        host: host().key(),
        seed: u64::MAX,
    }
}

fn points() -> Vec<Point> {
    let place = Point::of("P1-F15", "nvm-inp", 512_u64).panel("balanced");
    let named = Point::of("P1-F5", "nvm-inp", "balanced");
    vec![
        place.counted("nvm loads", "per txn", 0.1 + 0.2),
        named.measured("throughput", "txn/s", &[3.0, 1.0, 2.0]),
        named.modelled("throughput", "txn/s", (2.0, 1.0, 3.0), "2x"),
    ]
}

fn file() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("results.db");
    (directory, path)
}

#[test]
fn what_was_saved_is_read_back_to_the_bit() {
    let (_directory, path) = file();
    let mut results = Results::open_or_create(&path).expect("made");
    results.note_host(&host()).expect("noted");
    assert!(!results.contains(&key("{}", "a1")).expect("read"));
    results.save(&key("{}", "a1"), "small", 1.5, &points()).expect("saved");
    // Once more: it is replaced.
    results.save(&key("{}", "a1"), "small", 1.5, &points()).expect("saved");
    drop(results);

    let results = Results::open(&path).expect("opens");
    assert!(results.contains(&key("{}", "a1")).expect("read"));
    assert_eq!(results.measurements().expect("read").len(), 1);
    let selection = results.select(Wanted::default()).expect("one");
    assert_eq!(selection.seed, u64::MAX);
    assert_eq!(results.points(&selection).expect("read"), points());
    assert_eq!(results.host(&host().key()).expect("known"), host());
}

#[test]
fn a_selection_may_be_cut_short_but_must_be_one() {
    let (_directory, path) = file();
    let mut results = Results::open_or_create(&path).expect("made");
    results.note_host(&host()).expect("noted");
    for commit in ["abc1", "abd2"] {
        results.save(&key("{}", commit), "", 1.0, &points()).expect("saved");
    }
    let select = |commit| results.select(Wanted { commit: Some(commit), ..Wanted::default() });
    assert_eq!(select("abc").expect("one").commit, "abc1");
    assert!(matches!(select("ab"), Err(LabError::Ambiguous { .. })));
    assert!(matches!(select("x"), Err(LabError::Nothing { .. })));
    assert_eq!(results.select(Wanted::default()).expect("the last").commit, "abd2");
}

#[test]
fn a_selection_is_like_another_as_far_as_there_is_one() {
    let (_directory, path) = file();
    let mut results = Results::open_or_create(&path).expect("made");
    let other = crate::Host { name: "other".into(), ..host() };
    assert_ne!(host().key(), other.key());
    for one in [&host(), &other] {
        results.note_host(one).expect("noted");
    }
    // The last measurement of each commit is of another machine and another seed.
    for (commit, host, seed) in [
        ("first", &host(), 1),
        ("second", &other, 2),
        ("second", &host(), 1),
        ("first", &other, 2),
        ("third", &other, 3),
    ] {
        let key = Key { host: host.key(), seed, ..key("{}", commit) };
        results.save(&key, "", 1.0, &points()).expect("saved");
    }
    let commit = |commit| Wanted { commit: Some(commit), ..Wanted::default() };
    let last = results.select(commit("first")).expect("one");
    assert_eq!((last.host, last.seed), (other.key(), 2));
    let of_seed = results.select(Wanted { seed: Some(1), ..commit("first") }).expect("one");
    assert_eq!((&of_seed.host, of_seed.seed), (&host().key(), 1));
    let like = Wanted { host: Some(&of_seed.host), seed: Some(1), ..Wanted::default() };
    let alike = results.select_like(commit("second"), like).expect("one");
    assert_eq!((alike.host, alike.seed), (host().key(), 1));
    // There is none alike: the last one.
    assert_eq!(results.select_like(commit("third"), like).expect("one").seed, 3);
    let error = results.select(Wanted { seed: Some(7), ..Wanted::default() });
    let error = error.expect_err("there is none").to_string();
    assert!(error.contains("seed '7' has no results; there are: 1, 2, 3"), "{error}");
}

#[test]
fn a_file_whose_making_was_stopped_is_made_again() {
    let (_directory, path) = file();
    let stopped = rusqlite::Connection::open(&path).expect("opens");
    stopped.execute_batch("CREATE TABLE t (a); DROP TABLE t").expect("an empty database");
    drop(stopped);
    assert!(std::fs::metadata(&path).expect("there").len() > 0);
    assert!(matches!(Results::open(&path), Err(LabError::NoResults { .. })));
    Results::open_or_create(&path).expect("made");
    Results::open(&path).expect("opens");
}

#[test]
fn a_file_that_cannot_be_written_is_refused_with_what_to_do() {
    let (_directory, path) = file();
    let nowhere = path.join("results.db");
    for wrong in [&nowhere, &path.parent().expect("the directory").to_owned()] {
        let error = Results::open_or_create(wrong).err().expect("refused").to_string();
        assert!(error.contains("--results"), "{error}");
    }
}

#[test]
fn a_file_that_is_something_else_is_left_alone() {
    let (_directory, path) = file();
    std::fs::write(&path, "this is a text and no database").expect("text");
    assert!(matches!(Results::open_or_create(&path), Err(LabError::NotResults { .. })));
    std::fs::remove_file(&path).expect("removed");
    let other = rusqlite::Connection::open(&path).expect("opens");
    other.execute_batch("CREATE TABLE t (a)").expect("made");
    drop(other);
    assert!(matches!(Results::open(&path), Err(LabError::NotResults { .. })));
    assert!(matches!(Results::open_or_create(&path), Err(LabError::NotResults { .. })));
}

#[test]
fn the_same_configuration_at_two_scales_is_two_measurements() {
    let (_directory, path) = file();
    let mut results = Results::open_or_create(&path).expect("made");
    results.note_host(&host()).expect("noted");
    results.save(&key("{}", "a1"), "", 1.5, &points()).expect("saved");
    let full = Key { scale: "full".into(), ..key("{}", "a1") };
    assert!(!results.contains(&full).expect("read"));
    results.save(&full, "", 1.5, &points()).expect("saved");
    assert_eq!(results.measurements().expect("read").len(), 2);
}

#[test]
fn a_host_is_calibrated_once() {
    let (_directory, path) = file();
    let results = Results::open_or_create(&path).expect("made");
    results.note_host(&host()).expect("noted");
    let line = |dependent_ns| crate::emulation::Host {
        arena_bytes: 1 << 20,
        dependent_ns,
        near_ns: 50.0,
        sequential_ns: 3.0,
        independent_ns: 2.0,
    };
    let key = host().key();
    assert_eq!(results.calibrations(&key, "a").expect("read"), []);
    results.note_calibrations(&key, "a", &[(1 << 20, line(100.0))]).expect("noted");
    results
        .note_calibrations(&key, "a", &[(1 << 20, line(200.0)), (1 << 21, line(300.0))])
        .expect("noted");
    assert_eq!(results.calibrations(&key, "b").expect("read"), [], "another commit");
    let known = results.calibrations(&key, "a").expect("read");
    assert_eq!(known, [(1 << 20, line(100.0)), (1 << 21, line(300.0))]);
}

#[test]
fn files_are_calibrated_once_and_older_ones_stay_valid() {
    use crate::emulation::FileCosts;
    let (_directory, path) = file();
    let results = Results::open_or_create(&path).expect("made");
    results.note_host(&host()).expect("noted");
    let (key, costs) = (host().key(), |call_ns| FileCosts { call_ns, sync_ns: 0.1 + 0.2 });
    assert_eq!(results.file_costs(&key, "a").expect("read"), None);
    results.note_file_costs(&key, "a", &costs(500.0)).expect("noted");
    results.note_file_costs(&key, "a", &costs(900.0)).expect("noted");
    drop(results);
    let results = Results::open(&path).expect("of this version");
    assert_eq!(results.file_costs(&key, "a").expect("read"), Some(costs(500.0)));
    assert_eq!(results.file_costs(&key, "b").expect("read"), None, "another commit");
}

#[test]
fn a_point_is_of_the_setting_that_its_configuration_names() {
    let (_directory, path) = file();
    let mut results = Results::open_or_create(&path).expect("made");
    results.note_host(&host()).expect("noted");
    let (ours, papers) = (r#"{"engine":"inp"}"#, r#"{"engine":"inp","setting":"paper"}"#);
    for configuration in [ours, papers] {
        results.save(&key(configuration, "a1"), "", 1.0, &points()).expect("saved");
    }
    let selection = results.select(Wanted::default()).expect("one");
    let settings: Vec<_> =
        results.configured(&selection).expect("read").iter().map(Configured::setting).collect();
    let (ours, papers) = (crate::setting::Setting::Ours, crate::setting::Setting::Paper);
    assert_eq!(settings, [ours, ours, ours, papers, papers, papers]);
}

#[test]
fn a_file_of_another_version_is_refused_with_what_to_do() {
    let (_directory, path) = file();
    drop(Results::open_or_create(&path).expect("made"));
    for (version, advice) in [(0, "name a new file"), (FORMAT_VERSION + 1, "use the newer perdura")]
    {
        let other = rusqlite::Connection::open(&path).expect("opens");
        other.execute_batch(&format!("PRAGMA user_version = {version}")).expect("set");
        drop(other);
        let error = Results::open(&path).err().expect("refused").to_string();
        assert!(error.contains(advice) && error.contains("results.db"), "{error}");
    }
}

#[test]
fn without_a_file_nothing_is_made_by_looking() {
    let (_directory, path) = file();
    assert!(matches!(Results::open(&path), Err(LabError::NoResults { .. })));
    assert!(!path.exists());
}

#[test]
fn one_run_writes_at_a_time() {
    let (_directory, path) = file();
    let results = Results::open_or_create(&path).expect("made");
    let lock = results.lock().expect("free");
    assert!(matches!(results.lock(), Err(LabError::Running { .. })));
    drop(lock);
    results.lock().expect("free again");
}

#[test]
fn a_disk_that_is_full_leaves_what_was_there() {
    let (_directory, path) = file();
    let mut results = Results::open_or_create(&path).expect("made");
    results.note_host(&host()).expect("noted");
    results.save(&key("{}", "a1"), "", 1.0, &points()).expect("saved");
    let pages: i64 =
        results.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).expect("read");
    results.connection.execute_batch(&format!("PRAGMA max_page_count = {pages}")).expect("set");
    let many: Vec<Point> = (0..2000).flat_map(|_| points()).collect();
    let error = results.save(&key("{1}", "a1"), "", 1.0, &many).expect_err("no room");
    assert!(matches!(error, LabError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("run the same command again"));
    assert_eq!(results.measurements().expect("read").len(), 1);
}

#[test]
fn rounds_are_read_as_repetitions_of_one_measurement() {
    let (_directory, path) = file();
    let mut results = Results::open_or_create(&path).expect("made");
    results.note_host(&host()).expect("noted");
    let timed = Point::of("PEERS-MIX", "lmdb", "balanced").panel("10");
    let counted = Point::of("PEERS-SPACE", "lmdb", 10_u64);
    let save = |results: &mut Results, configuration: &str, speed: f64, space: f64| {
        let points = [
            timed.measured("throughput", "txn/s", &[speed]),
            counted.counted("space", "B", space),
            counted.counted("the same", "B", 1.5),
        ];
        results.save(&key(configuration, "a1"), "", 1.0, &points).expect("saved");
    };
    save(&mut results, r#"{"of":1,"repeat":3,"round":0}"#, 30.0, 1.0);
    save(&mut results, r#"{"of":2,"repeat":1,"round":0}"#, 5.0, 9.0);
    save(&mut results, r#"{"of":1,"repeat":3,"round":1}"#, 10.0, 1.0);
    save(&mut results, r#"{"of":3}"#, 7.0, 9.0);
    let selection = results.select(Wanted::default()).expect("one");
    let so_far = results.configured(&selection).expect("read");
    let lacking = |one: &Configured| one.configuration.contains("\"of\":1");
    assert!(!so_far.iter().any(lacking), "a round is missing: {so_far:?}");
    assert_eq!(so_far.len(), 6);
    let unequal = results.unequal(&selection).expect("read");
    assert!(unequal.is_empty(), "each configuration by itself: {unequal:?}");
    save(&mut results, r#"{"of":1,"repeat":3,"round":2}"#, 20.0, 3.0);
    let unequal = results.unequal(&selection).expect("read");
    let texts: Vec<&str> = unequal.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(texts, ["PEERS-SPACE: space of lmdb at 10 is 1 in one round and 3 in another"]);
    let all = results.configured(&selection).expect("read");
    let summaries: Vec<(&str, f64, f64, f64, u32, bool)> = all
        .iter()
        .map(|Configured { configuration, point }| {
            let Point { value, low, high, n, exact, .. } = *point;
            (configuration.as_str(), value, low, high, n, exact)
        })
        .collect();
    let (one, two, three) = (r#"{"of":1,"repeat":3}"#, r#"{"of":2,"repeat":1}"#, r#"{"of":3}"#);
    assert_eq!(
        summaries,
        [
            (one, 20.0, 10.0, 30.0, 3, false),
            // A value that should have been the same each time and was not is no count.
            (one, 1.0, 1.0, 3.0, 3, false),
            (one, 1.5, 1.5, 1.5, 1, true),
            (two, 5.0, 5.0, 5.0, 1, false),
            (two, 9.0, 9.0, 9.0, 1, true),
            (two, 1.5, 1.5, 1.5, 1, true),
            (three, 7.0, 7.0, 7.0, 1, false),
            (three, 9.0, 9.0, 9.0, 1, true),
            (three, 1.5, 1.5, 1.5, 1, true),
        ]
    );
}
