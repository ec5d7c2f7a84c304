//! Room in a small log: what takes some gives it back.

use paged::PagedError;
use paged::store::Store;
use sim::RecordingFiles;

use super::super::pages::support::TestLog;
use super::support::{TREES, create, options};

/// Transactions that log nothing, since all that they try fails.
#[test]
fn a_transaction_without_a_record_gives_back_the_room_that_it_has_reserved() {
    let store = create(&RecordingFiles::new(), 64, 16 << 10);
    let mut session = store.session();
    session.begin(0, None);
    session.insert(TREES[0], b"key", b"row").expect("inserted");
    session.commit().expect("committed");
    for number in 0..400 {
        session.begin(number, None);
        let done = session.insert(TREES[0], b"key", b"another");
        assert!(matches!(done, Err(PagedError::Duplicate)), "{number}: {done:?}");
        let done = session.delete(TREES[0], b"none");
        assert!(matches!(done, Err(PagedError::Missing)), "{number}: {done:?}");
        if number % 2 == 0 {
            session.commit().expect("committed");
        } else {
            session.abort().expect("aborted");
        }
    }
    session.begin(0, None);
    session.insert(TREES[0], b"other", b"row").expect("there is room");
    session.commit().expect("committed");
}

/// While a transaction stays open that has the oldest record, room cannot be made. The
/// attempts leave enough for the checkpoint that can.
#[test]
fn a_full_log_has_room_again_when_its_oldest_transaction_ends() {
    let store = create(&RecordingFiles::new(), 64, 16 << 10);
    let (mut oldest, mut other) = (store.session(), store.session());
    oldest.begin(0, None);
    oldest.insert(TREES[0], b"oldest", b"row").expect("inserted");
    let (mut key, mut refused) = (0_u32, 0);
    while refused < 2 {
        other.begin(1, None);
        key += 1;
        match other.insert(TREES[0], &key.to_be_bytes(), &[1; 100]) {
            Ok(()) => drop(other.commit().expect("committed")),
            Err(PagedError::LogFull { .. } | PagedError::Conflict(_)) => {
                refused += 1;
                other.abort().expect("aborted");
            }
            Err(error) => panic!("{error}"),
        }
    }
    oldest.commit().expect("committed");
    for key in 0..100_u32 {
        other.begin(1, None);
        let key = [&[0xff][..], &key.to_be_bytes()].concat();
        other.insert(TREES[0], &key, &[1; 100]).expect("there is room");
        other.commit().expect("committed");
    }
}

/// Another transaction has inserted before rows that are deleted, and ends when the log has no room.
#[test]
fn ghosts_that_find_no_room_in_the_log_go_later() {
    let log = TestLog::of(Vec::new());
    let files = RecordingFiles::new();
    let store = Store::create(&files, "", 77, log.clone(), options(64), &TREES).expect("created");
    let (mut deleting, mut inserting) = (store.session(), store.session());
    deleting.begin(0, None);
    for key in 0..5 {
        deleting.insert(TREES[0], &[key, 1], b"row").expect("inserted");
    }
    deleting.commit().expect("committed");
    deleting.begin(1, None);
    inserting.begin(2, None);
    for key in 0..5 {
        inserting.insert(TREES[0], &[key, 0], b"row").expect("inserted");
        deleting.delete(TREES[0], &[key, 1]).expect("deleted");
    }
    deleting.commit().expect("committed");
    let ghosts = || store.check().expect("sound").ghosts;
    assert_eq!(ghosts(), 5);
    log.limit(Some(0));
    inserting.commit().expect("committed");
    assert_eq!(ghosts(), 5);
    log.limit(None);
    inserting.begin(3, None);
    inserting.commit().expect("committed");
    assert_eq!(ghosts(), 0);
}
