//! The contents that a crash leaves, judged by what was acknowledged.

use faults::history::Rule::Serializable;
use faults::history::{Anomaly, History, Key, Operation, Transaction};
use rand::Rng;

use super::random::Random;
use super::{aborted, cell, committed, delete, get, history, in_flight, missing, put};

/// Judges `contents`, left by a crash before time `at`.
#[track_caller]
fn left(history: &History, at: u64, contents: &[(Key, u64)]) -> Result<Vec<usize>, Anomaly> {
    let contents: Vec<_> = contents.iter().map(|(key, value)| (*key, cell(*value))).collect();
    let left = history.recovered(Serializable, at, &contents);
    left.map_err(|violation| {
        println!("{violation}");
        violation.anomaly
    })
}

#[test]
fn a_crash_leaves_a_prefix_with_all_acknowledged() {
    let first = committed(0, 3, &[get(1, 1), put(1, 11)]);
    let second = committed(1, 9, &[get(1, 11), put(1, 12), put(2, 22)]);
    let third = committed(4, 10, &[missing(5), put(5, 51)]);
    let all = history(&[first, second, third]);
    let before = [(1, 1), (2, 2)];
    assert_eq!(left(&all, 3, &before), Ok(vec![]));
    assert_eq!(left(&all, 4, &before), Err(Anomaly::DirtyAcknowledgement));
    assert_eq!(left(&all, 4, &[(1, 11), (2, 2)]), Ok(vec![0]));
    assert_eq!(left(&all, 4, &[(1, 12), (2, 22)]), Ok(vec![0, 1]));
    assert_eq!(left(&all, 4, &[(1, 12), (2, 2)]), Err(Anomaly::Torn));
    assert_eq!(left(&all, 4, &[(1, 11), (2, 22)]), Err(Anomaly::Torn));
    assert_eq!(left(&all, 4, &[(1, 11), (2, 2), (5, 51)]), Ok(vec![0, 2]));
    assert_eq!(left(&all, 10, &[(1, 11), (2, 2)]), Err(Anomaly::DirtyAcknowledgement));
    assert_eq!(left(&all, 10, &[(1, 12), (2, 22)]), Ok(vec![0, 1]));
    assert_eq!(left(&all, 11, &[(1, 12), (2, 22)]), Err(Anomaly::DirtyAcknowledgement));
    assert_eq!(left(&all, 4, &[(1, 11), (2, 77)]), Err(Anomaly::Fabricated));
    assert_eq!(left(&all, 4, &[(1, 11), (2, 2), (7, 71)]), Err(Anomaly::Fabricated));
    assert_eq!(left(&all, 4, &[(1, 11)]), Err(Anomaly::Fabricated));
}

#[test]
fn a_crash_takes_volatile_commits_from_the_end_only() {
    let volatile = |begin, end, operations: &[Operation]| Transaction {
        durable: None,
        ..committed(begin, end, operations)
    };
    let first = volatile(0, 1, &[get(1, 1), put(1, 11)]);
    let second = volatile(2, 3, &[get(2, 2), put(2, 22)]);
    let all = history(&[first, second]);
    assert!(left(&all, 9, &[(1, 1), (2, 2)]).is_ok());
    assert!(left(&all, 9, &[(1, 11), (2, 2)]).is_ok());
    assert!(left(&all, 9, &[(1, 11), (2, 22)]).is_ok());
    assert_eq!(left(&all, 9, &[(1, 1), (2, 22)]), Err(Anomaly::NotAPrefix));
}

#[test]
fn a_transaction_in_flight_is_kept_whole_or_not_at_all() {
    let deletes = in_flight(0, &[get(1, 1), delete(1)]);
    let replaced = in_flight(0, &[get(2, 2), put(2, 21), missing(5), put(5, 51)]);
    let all = history(&[deletes, replaced]);
    assert_eq!(left(&all, 9, &[(1, 1), (2, 2)]), Ok(vec![]));
    assert_eq!(left(&all, 9, &[(2, 2)]), Ok(vec![0]));
    assert!(left(&all, 9, &[(2, 21), (5, 51)]).is_ok());
    assert_eq!(left(&all, 9, &[(2, 2), (5, 51)]), Err(Anomaly::Torn));
    // One that was undone must not be there.
    let all = history(&[aborted(0, 20, &[get(1, 1), put(1, 11)])]);
    assert_eq!(left(&all, 9, &[(1, 11), (2, 2)]), Err(Anomaly::AbortedRead));
}

/// Crashes of valid histories: prefixes pass, and a prefix that is too short, a key that is of
/// another time and a row too many do not.
#[test]
fn random_prefixes_pass_and_changed_ones_do_not() {
    random_prefixes(20);
}

pub(crate) fn random_prefixes(seeds: u64) {
    let (mut wrong, mut noticed) = (0, 0);
    for seed in 0..seeds {
        let mut random = Random::new(seed, 3 + seed % 6);
        let (history, after) = random.serial(40, 1 + seed as usize % 4);
        let at = random.random.random_range(0..45_000);
        let ends = |one: &Transaction| one.end.is_some_and(|end| end < at);
        let least = history.transactions.iter().rposition(ends).map_or(0, |last| last + 1);
        let begun = |one: &Transaction| one.begin < at;
        let most = history.transactions.iter().rposition(begun).map_or(0, |last| last + 1);
        // Every prefix that has all that ended, and none that had not begun.
        let prefixes =
            (least..=most).filter(|most| history.transactions[..*most].iter().all(begun));
        for prefix in prefixes {
            let contents: Vec<_> = after[prefix].iter().map(|(key, cell)| (*key, *cell)).collect();
            let left = history.recovered(Serializable, at, &contents);
            assert!(left.is_ok(), "seed {seed}, {prefix} of {least}: {}", left.unwrap_err());
            for key in 0..random.keys {
                let mut other = after[prefix].clone();
                let older =
                    after[..prefix].iter().rev().find(|rows| rows.get(&key) != other.get(&key));
                let Some(older) = older else { continue };
                match older.get(&key) {
                    Some(cell) => other.insert(key, *cell),
                    None => other.remove(&key),
                };
                if after[least..].contains(&other) {
                    continue;
                }
                wrong += 1;
                let contents: Vec<_> = other.into_iter().collect();
                noticed += u64::from(history.recovered(Serializable, at, &contents).is_err());
            }
        }
    }
    println!("{noticed} of {wrong}");
    // A part of the others is of another order that is as good.
    assert!(wrong > 8 * seeds && noticed * 100 > wrong * 95, "{noticed} of {wrong}");
}
