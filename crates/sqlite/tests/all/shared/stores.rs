//! Stores of a shared database, without SQLite: counters, refreshes while another connection clears the marker, and
//! crash states.

use perdura_sqlite::store::connection::Store;
use perdura_sqlite::store::error::StoreError;
use perdura_sqlite::store::mode::Mode;
use pm::{LineSet, Memory};
use sim::{Recording, Replay};

use crate::explore::{DATA, SIDE, SLOT, media};
use crate::store_kills;

/// A transaction is rolled back, or finds no room, after the marker was set: stock SQLite may have read the old
/// content with the announced counter.
#[test]
fn change_counter_is_issued_once() {
    for fails in [false, true] {
        for mode in Mode::ALL {
            let memory = store_kills::new();
            let mut one = store_kills::open(&memory, 1);
            one.set_mode(mode);
            one.set_keeps_layout(true);
            let counters = || {
                [24, 92].map(|at| {
                    let mut counter = [0; 4];
                    media(&memory).data.read_into(at, &mut counter).unwrap();
                    u32::from_be_bytes(counter)
                })
            };
            let plain = |one: &mut Store<Recording>| {
                one.restore_layout().unwrap();
                one.make_plain().unwrap();
                counters()
            };
            store_kills::commit(&mut one, &store_kills::page(4, 7));
            assert_eq!(plain(&mut one), [4; 2], "{mode:?}");
            store_kills::commit(&mut one, &store_kills::page(5, 8));
            assert_eq!(plain(&mut one), [5; 2], "{mode:?}");
            one.write(0, &store_kills::page(6, 9)).unwrap();
            if fails {
                one.write(0, &[store_kills::page(6, 9), vec![3; 2 * DATA as usize]].concat())
                    .unwrap();
                assert!(matches!(one.commit(), Err(StoreError::Full(_))));
            } else {
                one.prepare_for(b"a super-journal").unwrap();
                one.roll_back_prepared().unwrap();
            }
            one.discard();
            assert_eq!(plain(&mut one), [6; 2], "{mode:?}");
            // SQLite has kept its lock and counts on from 5.
            store_kills::commit(&mut one, &store_kills::page(6, 10));
            let then = plain(&mut one);
            assert!(then[0] == then[1] && then[0] > 6, "{mode:?}, {then:?}");
            store_kills::commit(&mut one, &store_kills::page(20, 11));
            assert_eq!(plain(&mut one), [20; 2], "{mode:?}");
        }
    }
}

/// A connection refreshes without a lock, as SQLite does when it opens a database, while another clears the marker.
#[test]
fn marker_seen_while_being_cleared_is_not_trusted() {
    let memory = store_kills::new();
    let mut one = store_kills::open(&memory, 1);
    store_kills::commit(&mut one, &store_kills::page(1, 7));
    let size = || Ok::<_, StoreError>(store_kills::PAGE as u64);
    let mut two = Store::attach(media(&memory), store_kills::PAGE as u64).unwrap();
    assert!(store_kills::refresh(&mut two, || store_kills::PAGE as u64) && two.is_marked());
    // `Store::make_plain`, step by step.
    let (side, data) = (media(&memory).side, media(&memory).data);
    side.store(6144, 1);
    assert!(two.refresh_unlocked(size).unwrap());
    let plain = store_kills::page(2, 8);
    data.copy(16, &plain[16..]);
    assert!(two.refresh(size).unwrap());
    assert!(!two.is_marked());
    let mut found = vec![0; store_kills::PAGE];
    two.read(0, &mut found).unwrap();
    assert_eq!(found, plain);
}

/// It refreshes while another connection commits a smaller database and cuts the file.
#[test]
fn file_truncated_during_refresh_is_read_again() {
    let memory = store_kills::new();
    let mut one = store_kills::open(&memory, 1);
    one.set_keeps_layout(true);
    let page = store_kills::PAGE as u64;
    one.write(page, &[7; 2 * store_kills::PAGE]).unwrap();
    store_kills::commit(&mut one, &store_kills::page(1, 7));
    let mut two = Store::attach(media(&memory), 3 * page).unwrap();
    assert!(store_kills::refresh(&mut two, || 3 * page));
    assert_eq!(two.size(), 3 * page);
    let cut = two.refresh(|| Ok::<_, StoreError>(page)).unwrap_err();
    assert!(matches!(cut, StoreError::Cut { .. }), "{cut}");
    let mut shrinks = Some(());
    let whole = two.refresh_unlocked(|| {
        if shrinks.take().is_some() {
            one.truncate(page).unwrap();
            store_kills::commit(&mut one, &store_kills::page(2, 8));
            one.restore_layout().unwrap();
        }
        Ok::<_, StoreError>(page)
    });
    assert!(whole.unwrap());
    assert_eq!(two.size(), page);
}

/// Stores page 1 durably, as stock SQLite does while no other has a lock.
fn store_as_stock(memory: &Recording, page: &[u8]) {
    let (region, mut lines) = (media(memory).data, LineSet::new());
    region.copy(0, page);
    region.note(&mut lines, 0, page.len() as u64);
    lines.flush(memory);
    memory.fence();
}

/// Commits of this VFS and of stock SQLite in turn: each crash state is one of them, whole, to all that may read
/// it.
#[test]
fn every_crash_state_is_plain_and_whole_or_recoverable() {
    for mode in Mode::ALL {
        let memory = store_kills::new();
        let size = || store_kills::PAGE as u64;
        let mut one = Store::open(media(&memory), 0, 1, SLOT).unwrap();
        one.set_mode(mode);
        one.set_keeps_layout(true);
        let trace = store_kills::trace(&memory, || {
            for turn in 0..4_u32 {
                store_kills::commit(
                    &mut one,
                    &store_kills::page(10 * turn + 1, 2 * turn as u8 + 1),
                );
                memory.note(u64::from(2 * turn + 1));
                one.restore_layout().unwrap();
                one.make_plain().unwrap();
                store_as_stock(&memory, &store_kills::page(10 * turn + 5, 2 * turn as u8 + 2));
                memory.note(u64::from(2 * turn + 2));
                assert!(store_kills::refresh(&mut one, size));
                assert!(!one.is_marked());
            }
        });
        let (mut plain, mut ours) = (0, 0);
        let explored = Replay::new(&trace).explore(60, 1, |image, noted| {
            let found = if image[SIDE as usize + 19] == 80 {
                ours += 1;
                let memory = Recording::from_image(image, SIDE + DATA).unwrap();
                let whole = crate::explore::recover(&memory)?;
                if whole.is_empty() { vec![0; store_kills::PAGE] } else { whole }
            } else {
                plain += 1;
                image[SIDE as usize..][..store_kills::PAGE].to_vec()
            };
            let fill = found[100];
            // Stock SQLite's own store is not atomic, and its journal is not in the recording.
            let stocks = noted % 2 == 1 && image[SIDE as usize + 19] != 80;
            let whole = found[100..].iter().all(|byte| *byte == fill);
            let now = |fill: &u8| u64::from(*fill) == noted || u64::from(*fill) == noted + 1;
            let right = found[100..].iter().all(now) && (whole || stocks);
            if right { Ok(()) } else { Err(format!("{fill}; noted {noted}, {whole}")) }
        });
        assert_eq!(explored.failed, None, "{mode:?}");
        assert!(plain > 10 && ours > 10, "{mode:?}: {plain} and {ours}");
    }
}
