//! A transaction that cannot be undone.

use paged::PagedError;
use paged::ids::PageNo;
use pm::RecordingFiles;

use super::support::{TREES, create, open};

/// Its session is dropped while there is no frame for its page: a restart undoes it. Until then nobody
/// sees what it has changed.
#[test]
fn nobody_sees_what_a_session_could_not_undo() {
    let files = RecordingFiles::new();
    let store = create(&files, 8, 64 << 10);
    let mut session = store.session();
    session.begin(0, None);
    for key in 0..60_u8 {
        session.insert(TREES[0], &[key], &[1; 60]).expect("inserted");
    }
    session.commit().expect("committed");
    let mut lost = store.session();
    lost.begin(1, None);
    lost.update(TREES[0], &[30], &[2; 60]).expect("updated");
    let mut latched = Vec::new();
    for number in 2.. {
        match store.pool().read(PageNo(number)) {
            Ok(page) if page.find(&[30]).is_ok() => {}
            Ok(page) => latched.push(page),
            Err(PagedError::NoFrame { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    drop(lost);
    drop(latched);
    let held = store.lock_counts().held;
    assert!(held >= 2, "{held} locks are held, of the table and of the row");
    drop(session);
    drop(store);
    let store = open(&files, 8, 64 << 10).expect("opened");
    let mut session = store.session();
    session.begin(0, None);
    assert_eq!(session.get(TREES[0], &[30]).expect("read"), Some(vec![1; 60]));
}
