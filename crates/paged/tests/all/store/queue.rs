//! Queues: rows go at one end of a tree and come at the other, while others have locked the gaps
//! between them. The cost of a look at the head, the locks of a scan that is stopped, and the end
//! of a scan do not depend on what went or comes. All of it in counts.

use std::sync::Arc;
use std::time::Duration;

use paged::PagedError;
use paged::store::{RowBound, RowRange};
use paged::tree::Direction;
use sim::RecordingFiles;

use super::support::{ALL, TREES, TestSession, TestStore, create, open, rows};

const FRAMES: usize = 512;
const PARTITION: u64 = 256 << 10;
const ROW: [u8; 20] = [7; 20];

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn fill(store: &Arc<TestStore>, rows: u64) {
    let mut session = store.session();
    session.begin(1, None);
    for row in 1..=rows {
        session.insert(TREES[0], &key(2 * row), &ROW).expect("inserted");
    }
    session.commit().expect("committed");
}

/// Returns the cost of one look at the first row: requests for locks, and visits of pages.
fn head(store: &Arc<TestStore>) -> (u64, u64) {
    let counts = || {
        let pages = store.pool_stats();
        (store.lock_counts().requests, pages.hits + pages.reads)
    };
    let mut session = store.session();
    session.begin(2, None);
    let before = counts();
    session.scan(TREES[0], &ALL, Direction::Forward, &mut |_, _| Ok(false)).expect("scanned");
    let after = counts();
    session.commit().expect("committed");
    (after.0 - before.0, after.1 - before.1)
}

/// The table and the row; some pages from the catalog's root on, and a leaf or two.
fn is_cheap((requests, pages): (u64, u64)) -> bool {
    requests <= 3 && pages <= 10
}

/// Deletes the head, while the gap before it is locked by a transaction that inserts there and
/// takes that back.
fn delete_beside_another(writer: &mut TestSession, other: &mut TestSession, row: u64) {
    other.begin(3, None);
    other.insert(TREES[0], &key(2 * row - 1), &ROW).expect("inserted");
    writer.begin(4, None);
    writer.delete(TREES[0], &key(2 * row)).expect("deleted");
    writer.commit().expect("committed");
    other.abort().expect("aborted");
}

#[test]
fn ghosts_go_with_the_last_lock_of_their_gap() {
    for rows in [50, 500] {
        let store = create(&RecordingFiles::new(), FRAMES, PARTITION);
        fill(&store, rows + 20);
        let before = store.pool().check().expect("sound");
        let (mut writer, mut other) = (store.session(), store.session());
        for row in 1..=rows {
            delete_beside_another(&mut writer, &mut other, row);
        }
        let checked = store.pool().check().expect("sound");
        assert_eq!((checked.rows - 2, checked.ghosts), (20, 0), "behind {rows} rows");
        assert!(
            checked.pages < before.pages / 2 + 4,
            "{} of {} pages",
            checked.pages,
            before.pages
        );
        let cost = head(&store);
        assert!(is_cheap(cost), "behind {rows} rows: {cost:?}");
    }
}

/// Rows that a transaction has inserted and undone leave nothing, at its end at the latest.
#[test]
fn undone_inserts_leave_no_ghosts() {
    let store = create(&RecordingFiles::new(), FRAMES, PARTITION);
    fill(&store, 20);
    let before = store.pool().check().expect("sound");
    let mut session = store.session();
    for turn in 0..200_u64 {
        session.begin(1, None);
        let savepoint = session.savepoint();
        for row in 0..5 {
            let key = key(10_000 + 5 * turn + row);
            session.insert(TREES[0], &key, &ROW).expect("inserted");
        }
        if turn % 2 == 0 {
            session.rollback_to(savepoint).expect("rolled back");
            session.commit().expect("committed");
        } else {
            session.abort().expect("aborted");
        }
    }
    let checked = store.pool().check().expect("sound");
    assert_eq!((checked.rows, checked.ghosts), (before.rows, 0));
    assert!(
        checked.pages <= before.pages + 1,
        "{} pages, and were {}",
        checked.pages,
        before.pages
    );
}

/// A crash comes before the ghosts could be removed: scans that pass them do that, a bounded part
/// each.
#[test]
fn ghosts_of_before_a_crash_go_with_the_scans_that_pass_them() {
    for rows in [50, 800] {
        let files = RecordingFiles::new();
        let store = create(&files, FRAMES, PARTITION);
        fill(&store, rows + 20);
        let (mut writer, mut other) = (store.session(), store.session());
        other.begin(3, None);
        for row in 1..=rows {
            other.insert(TREES[0], &key(2 * row - 1), &ROW).expect("inserted");
        }
        writer.begin(4, None);
        for row in 1..=rows {
            writer.delete(TREES[0], &key(2 * row)).expect("deleted");
        }
        let at = writer.commit().expect("committed");
        store.wait(at).expect("durable");
        std::mem::forget(other);
        let files = RecordingFiles::from_image(files.image());
        let store = open(&files, FRAMES, PARTITION).expect("opened");
        assert!(store.pool().check().expect("sound").ghosts >= rows, "nobody has passed them");
        let costs: Vec<_> = (0..6).map(|_| head(&store)).collect();
        assert!(is_cheap(costs[5]), "{rows} rows: {costs:?}");
        let most = costs.iter().map(|cost| cost.1).max();
        assert!(most < Some(64 * 25), "a look does a bounded part: {costs:?}");
        assert_eq!(store.pool().check().expect("sound").ghosts, 0);
    }
}

/// A stopped scan has locked the table and what it has shown, or less than as much again.
#[test]
fn a_stopped_scan_has_locked_what_it_showed() {
    let store = create(&RecordingFiles::new(), FRAMES, PARTITION);
    fill(&store, 300);
    let low = RowRange { low: RowBound::Included(&key(40)), high: RowBound::Unbounded };
    for direction in [Direction::Forward, Direction::Backward] {
        for range in [ALL, low] {
            for stop in [1, 2, 3, 10, 64, 150] {
                let mut session = store.session();
                session.begin(1, None);
                let mut shown = 0;
                session
                    .scan(TREES[0], &range, direction, &mut |_, _| {
                        shown += 1;
                        Ok(shown < stop)
                    })
                    .expect("scanned");
                let held = store.lock_counts().held;
                // Backward, the gap above the range is locked before its rows.
                let least = if direction == Direction::Forward { 1 } else { 2 };
                let read_ahead = if stop <= 2 { 0 } else { stop - 1 };
                assert!(
                    held >= stop + least && held <= stop + least + read_ahead,
                    "{direction:?}, {stop} rows: {held} locks"
                );
                // After that, others change what they like.
                let mut other = store.session();
                other.begin(2, Some(Duration::ZERO));
                let beyond = if direction == Direction::Forward { 600 } else { 42 };
                other.update(TREES[0], &key(beyond), &[8; 20]).expect("it is not locked");
                other.abort().expect("aborted");
                session.commit().expect("committed");
            }
        }
    }
}

/// Others append, or prepend, two rows for each that a scan shows, as long as they are let.
#[test]
fn a_scan_ends_though_others_append_faster() {
    for direction in [Direction::Forward, Direction::Backward] {
        for high in [RowBound::Unbounded, RowBound::Excluded(&key(1 << 30)[..])] {
            let store = create(&RecordingFiles::new(), FRAMES, PARTITION);
            let mut writer = store.session();
            writer.begin(1, None);
            for row in 0..300 {
                writer.insert(TREES[0], &key((1 << 20) + row), &ROW).expect("inserted");
            }
            writer.insert(TREES[0], &key(1 << 40), &ROW).expect("inserted");
            writer.insert(TREES[0], &key(1), &ROW).expect("inserted");
            writer.commit().expect("committed");
            let range = RowRange { low: RowBound::Included(&[0, 0, 0, 0, 0, 1]), high };
            let (mut shown, mut appended, mut refused) = (0_u64, 0_u64, 0);
            let mut scanner = store.session();
            scanner.begin(2, None);
            scanner
                .scan(TREES[0], &range, direction, &mut |_, _| {
                    shown += 1;
                    for _ in 0..2 {
                        writer.begin(3, Some(Duration::ZERO));
                        let place = match (direction, high) {
                            (Direction::Forward, RowBound::Unbounded) => (1 << 41) + appended,
                            (Direction::Forward, _) => (1 << 25) + appended,
                            (Direction::Backward, _) => (1 << 20) - 1 - appended,
                        };
                        match writer.insert(TREES[0], &key(place), &ROW) {
                            Ok(()) => {
                                writer.commit()?;
                                appended += 1;
                            }
                            Err(PagedError::Conflict(_)) => {
                                writer.abort()?;
                                refused += 1;
                            }
                            Err(error) => return Err(error),
                        }
                    }
                    Ok(shown < 5_000)
                })
                .expect("scanned");
            assert!(shown < 2_000, "{direction:?}: {shown} rows, {appended} appended");
            assert!(appended > 300, "they went on while it was far from the end: {appended}");
            assert!(refused > 0);
            // Nothing has come that it has not seen.
            let mut again = 0;
            scanner
                .scan(TREES[0], &range, direction, &mut |_, _| {
                    again += 1;
                    Ok(true)
                })
                .expect("scanned");
            assert_eq!(again, shown, "{direction:?}");
            scanner.commit().expect("committed");
            let all = rows(&store, TREES[0], direction).expect("rows").len() as u64;
            assert!(all >= shown);
        }
    }
}
