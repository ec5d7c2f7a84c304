//! Histories made by hand, each with an anomaly or close to one.

use faults::history::Rule::{Serializable, Snapshot};
use faults::history::{Anomaly, Cell, History, Operation, Seen, Transaction};

use super::{
    aborted, cell, committed, delete, fails, fails_both, get, history, missing, passes, put, scan,
    tagged,
};

#[test]
fn a_lost_update_is_noticed() {
    let one = committed(0, 10, &[get(1, 1), put(1, 11)]);
    let other = committed(1, 11, &[get(1, 1), put(1, 12)]);
    fails_both(&history(&[one.clone(), other.clone()]), Anomaly::LostUpdate);
    // Two inserts of one key, too, and an update together with a deletion.
    let inserts = |value| [missing(5), put(5, value)];
    let both = [committed(0, 10, &inserts(11)), committed(1, 11, &inserts(12))];
    fails_both(&history(&both), Anomaly::LostUpdate);
    let both = [one, committed(1, 11, &[get(1, 1), delete(1)])];
    fails_both(&history(&both), Anomaly::LostUpdate);
}

#[test]
fn dirty_reads_are_noticed() {
    let wrote = [get(1, 1), put(1, 11)];
    let reader = committed(1, 11, &[get(1, 11), put(2, 21)]);
    fails_both(&history(&[aborted(0, 10, &wrote), reader.clone()]), Anomaly::AbortedRead);
    let twice = committed(0, 10, &[put(1, 11), put(1, 12)]);
    fails_both(&history(&[twice, reader]), Anomaly::IntermediateRead);
    let one = committed(0, 10, &[put(1, 11), get(2, 21)]);
    let other = committed(1, 11, &[put(2, 21), get(1, 11)]);
    fails_both(&history(&[one, other]), Anomaly::CircularRead);
}

#[test]
fn a_dirty_write_is_noticed() {
    let one = committed(0, 10, &[put(1, 11), put(2, 21)]);
    let other = committed(1, 11, &[put(1, 12), put(2, 22)]);
    // Of each a half is left; two readers in between show what was there before.
    let both = |end: Transaction| history(&[one.clone(), other.clone(), end]);
    fails_both(&both(committed(20, 21, &[get(1, 11), get(2, 22)])), Anomaly::DirtyWrite);
    passes(&both(committed(20, 21, &[get(1, 11), get(2, 21)])), Serializable);
    passes(&both(committed(20, 21, &[get(1, 12), get(2, 22)])), Serializable);
}

#[test]
fn a_non_repeatable_read_is_noticed() {
    let writer = committed(2, 3, &[get(1, 1), put(1, 11)]);
    let twice = committed(0, 10, &[get(1, 1), get(1, 11)]);
    fails_both(&history(&[writer.clone(), twice]), Anomaly::NonRepeatableRead);
    let gone = committed(0, 10, &[get(1, 1), missing(1)]);
    fails_both(&history(&[committed(2, 3, &[delete(1)]), gone]), Anomaly::NonRepeatableRead);
    // Two keys of one writer, of which one was read before and one after it.
    let writer = committed(2, 3, &[put(1, 11), put(2, 21)]);
    let skewed = committed(0, 10, &[get(1, 1), get(2, 21)]);
    fails_both(&history(&[writer, skewed]), Anomaly::ReadSkew);
}

#[test]
fn phantoms_are_noticed() {
    let insert = committed(2, 3, &[missing(5), put(5, 51)]);
    let twice = committed(0, 10, &[scan(3, 9, &[]), scan(3, 9, &[(5, 51)])]);
    fails_both(&history(&[insert.clone(), twice]), Anomaly::Phantom);
    // A scan that does not show one of two rows that were inserted together.
    let two = committed(2, 3, &[missing(5), put(5, 51), missing(6), put(6, 61)]);
    fails_both(&history(&[two, committed(0, 10, &[scan(3, 9, &[(6, 61)])])]), Anomaly::Phantom);
    // Each inserts what the other one's scan should have shown: a write skew on a range.
    let one = committed(0, 10, &[scan(3, 9, &[]), missing(5), put(5, 51)]);
    let other = committed(1, 11, &[scan(3, 9, &[]), missing(6), put(6, 61)]);
    fails(&history(&[one.clone(), other.clone()]), Serializable, Anomaly::Phantom);
    passes(&history(&[one, other]), Snapshot);
    // By the order of the tags.
    let one = committed(0, 10, &[tagged(1, 1, &[(1, 1)]), missing(5), put(5, 51)]);
    let other = committed(1, 11, &[tagged(1, 1, &[(1, 1)]), missing(6), put(6, 61)]);
    fails(&history(&[one, other]), Serializable, Anomaly::Phantom);
    let one = committed(0, 10, &[tagged(1, 1, &[(1, 1)]), missing(5), put(5, 52)]);
    let other = committed(1, 11, &[tagged(1, 1, &[(1, 1)]), missing(6), put(6, 62)]);
    passes(&history(&[one, other]), Serializable);
}

#[test]
fn write_skew_fails_only_under_serializable() {
    let one = committed(0, 10, &[get(1, 1), get(2, 2), put(1, 11)]);
    let other = committed(1, 11, &[get(1, 1), get(2, 2), put(2, 22)]);
    let skewed = history(&[one, other]);
    fails(&skewed, Serializable, Anomaly::WriteSkew);
    passes(&skewed, Snapshot);
    let violation = skewed.check(Serializable).unwrap_err();
    assert_eq!(violation.length, 2);
    assert_eq!(
        violation.to_string(),
        "write skew (G2): T0 (thread 0) did not see what T1 (thread 0) did to key 2, the value 22; \
         T1 (thread 0) did not see what T0 (thread 0) did to key 1, the value 11"
    );
}

#[test]
fn a_long_fork_is_noticed() {
    let writers = [committed(0, 10, &[put(1, 11)]), committed(0, 10, &[put(2, 22)])];
    let readers =
        [committed(0, 10, &[get(1, 11), get(2, 2)]), committed(0, 10, &[get(1, 1), get(2, 22)])];
    fails_both(&history(&[writers, readers].concat()), Anomaly::LongFork);
}

#[test]
fn a_stale_read_is_noticed() {
    let writer = committed(0, 1, &[get(1, 1), put(1, 11)]);
    fails_both(&history(&[writer.clone(), committed(2, 3, &[get(1, 1)])]), Anomaly::RealTime);
    passes(&history(&[writer.clone(), committed(0, 3, &[get(1, 1)])]), Serializable);
    // A row that was there all the time.
    fails_both(&history(&[committed(2, 3, &[scan(1, 2, &[(2, 2)])])]), Anomaly::Fabricated);
    let inserted = committed(0, 1, &[missing(5), put(5, 51)]);
    fails_both(&history(&[inserted, committed(2, 3, &[scan(3, 9, &[])])]), Anomaly::RealTime);
}

#[test]
fn fabricated_reads_and_unseen_own_writes_are_noticed() {
    fails_both(&history(&[committed(0, 1, &[get(1, 77)])]), Anomaly::Fabricated);
    let torn = Operation::Read { key: 1, saw: Seen::Cell(Cell { value: 1, tag: 7 }) };
    fails_both(&history(&[committed(0, 1, &[torn])]), Anomaly::Fabricated);
    fails_both(&history(&[committed(0, 1, &[missing(1)])]), Anomaly::Fabricated);
    let here = Operation::Read { key: 9, saw: Seen::Present };
    fails_both(&history(&[committed(0, 1, &[here])]), Anomaly::Fabricated);
    let unseen = |after| history(&[committed(0, 1, &[put(1, 11), after])]);
    fails_both(&unseen(get(1, 1)), Anomaly::OwnWriteUnseen);
    fails_both(&unseen(missing(1)), Anomaly::OwnWriteUnseen);
    fails_both(&unseen(scan(0, 1, &[])), Anomaly::OwnWriteUnseen);
    passes(&unseen(scan(0, 2, &[(1, 11), (2, 2)])), Serializable);
    let twice = [committed(0, 1, &[put(1, 11)]), committed(2, 3, &[put(2, 11)])];
    fails_both(&history(&twice), Anomaly::SameValueTwice);
}

/// A wrong number of the engine's own neither hides nor makes anything.
#[test]
fn the_number_of_a_commit_is_a_hint() {
    let one = Transaction { order: Some(2), ..committed(0, 10, &[put(1, 11)]) };
    let other = Transaction { order: Some(1), ..committed(0, 10, &[put(1, 12)]) };
    let last = committed(20, 21, &[get(1, 12)]);
    assert_eq!(passes(&history(&[one.clone(), other.clone(), last]), Serializable), [0, 1, 2]);
    let last = committed(20, 21, &[get(1, 11)]);
    assert_eq!(passes(&history(&[one, other, last]), Serializable), [1, 0, 2]);
}

/// A thread that has committed may hear of it long after others have gone on.
#[test]
fn a_late_acknowledgement_keeps_its_place_in_the_order() {
    const LATER: u64 = 700;
    let late = committed(2, 10_000, &[get(0, 11), put(0, 12)]);
    let mut all = vec![committed(0, 1, &[put(0, 11)]), late, committed(3, 4, &[get(0, 12)])];
    all.extend((0..LATER).map(|number| {
        let write = if number % 2 == 0 { delete(0) } else { put(0, 20 + number) };
        committed(5 + 2 * number, 6 + 2 * number, &[write])
    }));
    let order = passes(&history(&all), Serializable);
    assert_eq!(order[..3], [0, 1, 2]);
}

/// T4 has to be before T3, since it saw key 0 before T3 put it there. That depends on the order in
/// which they wrote key 5, which nothing shows.
#[test]
fn a_read_undoes_a_wrong_choice_of_order() {
    let initial = vec![(6, cell(60))];
    let transactions = vec![
        committed(1, 5, &[put(5, 51)]),
        committed(7, 8, &[delete(5)]),
        committed(9, 10, &[put(6, 61), delete(0)]),
        committed(6, 11, &[get(6, 60), put(5, 52), put(0, 1)]),
        committed(4, 12, &[delete(5), missing(0), get(6, 60)]),
    ];
    let order = passes(&History { initial, transactions }, Serializable);
    assert_eq!(order, [0, 1, 4, 3, 2]);
}
