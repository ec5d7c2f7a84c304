//! A transaction that cannot be undone.

use paged::PagedError;
use paged::ids::PageNo;
use paged::store::{Restart, StoreOptions};
use sim::RecordingFiles;

use super::support::{TREES, create, open, open_with, options};

/// Its session is dropped while there is no frame for its page: a restart undoes it. Until then
/// what it has changed is not seen.
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

/// Kills in the middle of a long row: its pages are in use, and nothing leads to them before they
/// are given back.
#[test]
fn a_look_at_the_pages_comes_behind_what_a_restart_undoes() {
    let files = RecordingFiles::new();
    let store = create(&files, 8, 64 << 10);
    let mut session = store.session();
    session.begin(0, None);
    for key in 0..40_u8 {
        session.insert(TREES[0], &[key], &[1; 60]).expect("inserted");
    }
    let at = session.commit().expect("committed");
    store.wait(at).expect("durable");
    files.start();
    session.begin(1, None);
    session.insert(TREES[1], b"long", &[2; 9000]).expect("inserted");
    std::mem::forget(session);
    let (mut states, mut losers) = (0, 0);
    files.stop().process_states(|_, _, image| {
        let files = RecordingFiles::from_image(image.clone());
        let on_demand = StoreOptions { restart: Restart::OnDemand, background: true, ..options(8) };
        let store = open_with(&files, 64 << 10, on_demand).expect("opened");
        losers += store.unfinished().1;
        let checked = store.check().expect("whole");
        assert_eq!((checked.lost, checked.overflow_pages, store.unfinished().1), (0, 0, 0));
        states += 1;
    });
    assert!(states > 10 && losers > 0, "{states} states, {losers} losers");
}
