//! Room in a small log: what takes some gives it back.

use paged::PagedError;
use pm::RecordingFiles;

use super::support::{TREES, create};

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
