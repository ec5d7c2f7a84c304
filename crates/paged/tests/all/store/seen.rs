//! A transaction shows nothing that it has seen and that is not durable, though its locks were let
//! go early; and nothing at all after a conflict.

use std::time::Duration;

use paged::ids::Lsn;
use paged::tree::Direction;
use paged::{Conflict, PagedError};
use sim::RecordingFiles;

use super::support::{ALL, TREES, TestSession, create};

fn begin(session: &mut TestSession) {
    session.begin(1, None);
}

fn scan(session: &mut TestSession, direction: Direction) -> usize {
    let mut rows = 0;
    let mut count = |_: &[u8], _: &[u8]| {
        rows += 1;
        Ok(true)
    };
    session.scan(TREES[0], &ALL, direction, &mut count).expect("scanned");
    rows
}

#[test]
fn whoever_does_not_find_a_deleted_row_depends_on_its_delete() {
    let store = create(&RecordingFiles::new(), 32, 256 << 10);
    let (mut writer, mut reader) = (store.session(), store.session());
    begin(&mut writer);
    for key in 0..6_u64 {
        writer.insert(TREES[0], &key.to_be_bytes(), b"row").expect("inserted");
    }
    let at = writer.commit().expect("committed");
    store.wait(at).expect("durable");
    for (key, direction) in [(2_u64, Direction::Forward), (5, Direction::Backward)] {
        begin(&mut writer);
        writer.delete(TREES[0], &key.to_be_bytes()).expect("deleted");
        let deleted = writer.commit().expect("committed");
        assert!(deleted > store.log().durable(), "nobody has waited for it");

        begin(&mut reader);
        assert_eq!(scan(&mut reader, direction), if key == 2 { 5 } else { 4 });
        assert_eq!(reader.commit().expect("committed"), deleted, "a scan");
        begin(&mut reader);
        assert_eq!(reader.get(TREES[0], &key.to_be_bytes()).expect("read"), None);
        assert_eq!(reader.commit().expect("committed"), deleted, "a look at the key");
        // One that ends without a commit may tell of it, too.
        begin(&mut reader);
        scan(&mut reader, direction);
        reader.abort().expect("aborted");
        assert_eq!(reader.has_seen(), deleted, "one that was undone");
        // Nothing of it is in the other tree.
        begin(&mut reader);
        assert_eq!(reader.get(TREES[1], &key.to_be_bytes()).expect("read"), None);
        let count = &mut |_: &[u8], _: &[u8]| Ok(true);
        reader.scan(TREES[1], &ALL, direction, count).expect("scanned");
        assert_eq!(reader.commit().expect("committed"), Lsn::NONE);
        store.wait(deleted).expect("durable");
    }
}

#[test]
fn whoever_was_in_a_conflict_can_only_abort() {
    let store = create(&RecordingFiles::new(), 32, 256 << 10);
    let (mut one, mut other) = (store.session(), store.session());
    begin(&mut one);
    one.insert(TREES[0], b"a", b"row").expect("inserted");
    let timeout = |error: PagedError| matches!(error, PagedError::Conflict(Conflict::Timeout));
    // It has changed something, and waits no longer than its limit.
    other.begin(2, Some(Duration::ZERO));
    other.insert(TREES[0], b"b", b"row").expect("inserted");
    assert!(timeout(other.get(TREES[0], b"a").unwrap_err()));
    assert!(timeout(other.get(TREES[0], b"b").unwrap_err()));
    assert!(timeout(other.commit().unwrap_err()));
    other.abort().expect("aborted");
    assert_eq!(other.has_seen(), Lsn::NONE);
    one.commit().expect("committed");
    begin(&mut other);
    assert_eq!(scan(&mut other, Direction::Forward), 1);
    other.commit().expect("committed");
}
