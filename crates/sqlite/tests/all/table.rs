//! The table of the pages' frames grows over the place of a commit that is too large for a slot.

use perdura_sqlite::store::connection::Store;
use perdura_sqlite::store::error::StoreError;
use perdura_sqlite::store::mode::Mode;
use pm::Memory as _;
use sim::{Recording, Replay};

use crate::explore::{DATA, Reader, SIDE, media, recover};
use crate::store_kills::{commit, files_of_inserts, new, open, trace};

#[test]
fn growing_table_overwrites_no_commit_that_counts() {
    let files = files_of_inserts();
    let mut reader = Reader::new();
    let mut found = 0;
    for rows in 100..200 {
        let memory = new();
        memory.grow(SIDE + DATA).unwrap();
        // A stale side file is there, whose bytes are no entries.
        media(&memory).side.copy(0, &[0xa5; SIDE as usize]);
        let mut one = open(&memory, 1);
        one.set_mode(Mode::Full);
        commit(&mut one, &files[rows - 1]);
        one.set_mode(Mode::Fash1);
        let trace = trace(&memory, || {
            commit(&mut one, &files[rows]);
            memory.note(1);
            media(&memory).side.store(SIDE - 8, 1);
        });
        // Only a page that moves gets an entry.
        if one.stats().moved == 0 {
            continue;
        }
        found += 1;
        let explored = Replay::new(&trace).explore(20, 1, |image, noted| {
            let plain = recover(&Recording::from_image(image, SIDE + DATA).unwrap())?;
            let found = reader.read(plain)?.len();
            let right = found == rows + 1 || noted == 0 && found == rows;
            if right { Ok(()) } else { Err(format!("{found} rows of {rows}, noted {noted}")) }
        });
        assert_eq!(explored.failed, None);
        if found == 3 {
            return;
        }
    }
    panic!("a page moves in {found} of 100 commits");
}

/// A connection that trusts the file's length asks for it after another one's commit: pages may lie past its end.
#[test]
fn another_ones_commit_makes_a_reader_ask_for_the_files_length() {
    let files = files_of_inserts();
    let memory = new();
    memory.grow(SIDE + DATA).unwrap();
    let mut one = open(&memory, 1);
    commit(&mut one, &files[0]);
    let mut two = Store::attach(media(&memory), files[0].len() as u64).unwrap();
    let asks = |store: &mut Store<Recording>| {
        let mut asked = 0;
        let length = || {
            asked += 1;
            Ok::<_, StoreError>(DATA)
        };
        assert!(store.refresh_words(length).unwrap());
        asked
    };
    assert_eq!((asks(&mut two), asks(&mut two)), (1, 0), "it is known from the first time on");
    for (mode, file) in Mode::ALL.into_iter().zip(&files[1..]) {
        one.set_mode(mode);
        commit(&mut one, file);
        assert_eq!(asks(&mut one), 0, "its own commit, {mode:?}");
        // A header that is stored in place makes the file no longer, and moves nothing.
        let in_place = mode == Mode::Fast && one.stats().in_place > 0;
        assert_eq!(asks(&mut two), u32::from(!in_place), "{mode:?}");
        two.catch_up().unwrap();
        assert_eq!(asks(&mut two), 0, "{mode:?}");
    }
    // One that has begun may have made the file longer.
    one.write(0, &files[9]).unwrap();
    one.prepare_for(b"name").unwrap();
    let mut asked = 0;
    let whole = two.refresh_words(|| {
        asked += 1;
        Ok::<_, StoreError>(DATA)
    });
    assert!(!whole.unwrap());
    assert_eq!(asked, 1);
    one.roll_back_prepared().unwrap();
    one.discard();
    asks(&mut two);
    // One that cuts the file says so before.
    one.restore_layout().unwrap();
    asks(&mut two);
    one.announce_cut().unwrap();
    assert_eq!(asks(&mut two), 2, "for the marker, and for the length");
}
