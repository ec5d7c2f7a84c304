//! A connection that is killed after any store, and what live and later connections find.

use perdura_sqlite::store::connection::{Media, Store};
use perdura_sqlite::store::error::StoreError;
use perdura_sqlite::store::mode::Mode;
use perdura_sqlite::store::region::Region;
use pm::Memory;
use sim::{Recording, Replay, Trace};

use crate::explore::{DATA, Reader, SIDE, SLOT, line_after, media, recover};

pub(crate) const PAGE: usize = 1024;
/// The bytes that SQLite compares to validate its cache.
const COMPARED: std::ops::Range<usize> = 24..40;

/// A page 1 filled with a byte.
pub(crate) fn page(counter: u32, fill: u8) -> Vec<u8> {
    let mut page = vec![fill; PAGE];
    page[..100].fill(0);
    page[..16].copy_from_slice(b"SQLite format 3\0");
    (page[16], page[18], page[19]) = (4, 1, 1);
    for at in [24, 92] {
        page[at..at + 4].copy_from_slice(&counter.to_be_bytes());
    }
    page[28..32].copy_from_slice(&1_u32.to_be_bytes());
    page
}

pub(crate) fn file_bytes(memory: &Recording) -> u64 {
    media(memory).data.len()
}

/// A new file, as the kernel creates it.
pub(crate) fn new() -> Recording {
    let memory = Recording::new(SIDE + DATA).unwrap();
    memory.grow(SIDE + 4096).unwrap();
    memory
}

pub(crate) fn open(memory: &Recording, tag: u64) -> Store<Recording> {
    Store::open(media(memory), file_bytes(memory), tag, SLOT).unwrap()
}

/// A connection that was live when another was killed, and then locks.
fn live(memory: &Recording) -> Store<Recording> {
    let mut store = Store::attach(media(memory), file_bytes(memory)).unwrap();
    if !refresh(&mut store, || file_bytes(memory)) {
        store.recover().unwrap();
    }
    store.catch_up().unwrap();
    store
}

/// Cuts power during and after the next process's work, for each kill in `trace`. `next` notes what it
/// acknowledges. `check` gets page 1, if there is one, and the last note.
fn cut_power_after_kills(
    trace: &Trace,
    next: impl Fn(&Recording),
    check: impl Fn(Option<u8>, u64) -> bool,
) -> u64 {
    let mut states = 0;
    trace.kills(1, |killed| {
        let memory = Recording::from_image(killed.visible(), SIDE + DATA).unwrap();
        memory.start();
        next(&memory);
        let then = memory.stop();
        let explored = killed.replay(&then).explore(40, 1, |image, noted| {
            let memory = Recording::from_image(image, SIDE + DATA).unwrap();
            let found = recover(&memory)?.get(500).copied();
            let text = || format!("{found:?}; noted {noted}");
            if check(found, noted) { Ok(()) } else { Err(text()) }
        });
        assert_eq!(explored.failed, None, "killed at {}", killed.position());
        states += explored.states;
    });
    states
}

pub(crate) fn refresh(store: &mut Store<Recording>, mut file_bytes: impl FnMut() -> u64) -> bool {
    store.refresh(|| Ok::<_, StoreError>(file_bytes())).unwrap()
}

pub(crate) fn commit(store: &mut Store<Recording>, page: &[u8]) {
    store.write(0, page).unwrap();
    store.commit().unwrap();
}

/// Page 1 as SQLite reads it.
fn read(store: &Store<Recording>) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    store.read(0, &mut page).unwrap();
    page
}

/// The trace of what `work` does to a memory.
pub(crate) fn trace(memory: &Recording, work: impl FnOnce()) -> Trace {
    memory.start();
    work();
    memory.stop()
}

#[test]
fn live_connection_notices_a_replay() {
    Mode::ALL.into_iter().for_each(live_connection_notices);
}

fn live_connection_notices(mode: Mode) {
    let memory = new();
    let mut one = open(&memory, 1);
    one.set_mode(mode);
    commit(&mut one, &page(1, 7));
    let cached = read(&one);
    let trace = trace(&memory, || commit(&mut one, &page(2, 8)));
    let mut changed = 0;
    trace.process_states(|events, image| {
        let memory = Recording::from_image(image, SIDE + DATA).unwrap();
        let now = read(&live(&memory));
        if now[100..] != cached[100..] {
            changed += 1;
            assert_ne!(now[COMPARED], cached[COMPARED], "{mode:?}, after event {events}");
        }
    });
    assert!(changed > 3, "{changed}");
}

#[test]
fn frame_log_that_cannot_grow_is_checkpointed() {
    let memory = new();
    let mut one = open(&memory, 1);
    one.set_mode(Mode::Nvwal);
    (1..20).for_each(|number| commit(&mut one, &page(number, number as u8)));
    memory.fail_growth_after(Some(0));
    (20..250).for_each(|number| commit(&mut one, &page(number, number as u8)));
    assert_eq!(read(&one)[500], 249);
    assert!(one.stats().checkpoints > 0, "{:?}", one.stats());
    let mut other = live(&memory);
    other.catch_up().unwrap();
    assert_eq!(read(&other), read(&one));
}

#[test]
fn frame_log_with_an_impossible_size_is_refused() {
    let memory = new();
    let mut one = open(&memory, 1);
    one.set_mode(Mode::Nvwal);
    commit(&mut one, &page(1, 7));
    commit(&mut one, &page(2, 8));
    let before = image(&memory);
    let frames: Vec<usize> = (0..before.len() - 8)
        .filter(|at| before[*at..*at + 8] == ((PAGE as u64) << 13).to_le_bytes())
        .collect();
    assert!(!frames.is_empty(), "the first commit says how long the database is");
    for size in [0_u64, 64, 1 << 40] {
        for at in &frames {
            let mut image = before.clone();
            image[*at..*at + 8].copy_from_slice(&(size << 13).to_le_bytes());
            // With the checksum of a log that was never emptied, so that the frame itself is refused.
            let place = *at as u64 - LOG;
            let words = [1, 0, place, size << 13].map(u64::to_le_bytes).concat();
            image[*at + 8..*at + 12].copy_from_slice(&crc32c::crc32c(&words).to_le_bytes());
            let memory = Recording::from_image(&image, SIDE + DATA).unwrap();
            let refused = recover(&memory).unwrap_err();
            assert!(refused.contains("of another database"), "{size}: {refused}");
        }
    }
}

/// The offset of a log's first frame: after the slots, since there is no table, and after the block's word.
const LOG: u64 = 8192 + 2 * SLOT + 64;

#[test]
fn damaged_frame_is_refused_and_changes_nothing() {
    let memory = new();
    let mut one = open(&memory, 1);
    one.set_mode(Mode::Nvwal);
    commit(&mut one, &page(1, 7));
    let mut reader = live(&memory);
    let first = media(&memory).side.load(112).unwrap() & (u64::MAX >> 16);
    commit(&mut one, &page(2, 8));
    let bytes = media(&memory).side.load(112).unwrap() & (u64::MAX >> 16);
    let whole = image(&memory);
    let mut refused = 0;
    for at in LOG..LOG + bytes {
        let mut damaged = whole.clone();
        damaged[at as usize] ^= 1 << (at % 8);
        let memory = Recording::from_image(&damaged, SIDE + DATA).unwrap();
        let why =
            Store::open(media(&memory), file_bytes(&memory), 2, SLOT).unwrap_err().to_string();
        assert!(why.contains("does not match its checksum"), "{at}: {why}");
        assert_eq!(image(&memory), damaged, "{at}");
        refused += 1;
        // A live connection that has read the first commit's frames accepts no damaged one either.
        let mut other = Store::attach(media(&memory), file_bytes(&memory)).unwrap();
        assert!(refresh(&mut other, || file_bytes(&memory)) && other.catch_up().is_err());
    }
    assert!(refused > 20 && first > 0 && first < bytes, "{refused}, {first}, {bytes}");
    media(&memory).side.copy(LOG + first, &[0xff; 8]);
    assert!(refresh(&mut reader, || file_bytes(&memory)));
    assert!(reader.catch_up().is_err());
}

#[test]
fn frames_without_room_are_not_checkpointed() {
    let memory = new();
    let mut one = open(&memory, 1);
    one.set_mode(Mode::Nvwal);
    commit(&mut one, &page(1, 7));
    memory.fail_growth_after(Some(0));
    // More than a block of frames.
    let large = [page(2, 8), (0..100 * PAGE).map(|byte| (byte / 7) as u8 | 1).collect()].concat();
    one.write(0, &large).unwrap();
    assert!(matches!(one.commit(), Err(StoreError::Full(_))));
    one.discard();
    memory.fail_growth_after(None);
    assert_eq!((read(&one)[500], one.stats().checkpoints), (7, 0));
    one.restore_layout().unwrap();
    assert_eq!((read(&one)[500], one.stats().checkpoints), (7, 1));
    // The next log is a new one to connections that have read this one.
    let mut other = live(&memory);
    commit(&mut one, &page(3, 9));
    assert!(refresh(&mut other, || file_bytes(&memory)));
    other.catch_up().unwrap();
    assert_eq!(read(&other), read(&one));
    one.restore_layout().unwrap();
    commit(&mut one, &page(4, 1));
    other.catch_up().unwrap();
    assert_eq!((read(&other), read(&other)[500]), (read(&one), 1));
}

#[test]
fn damaged_log_block_is_refused_and_changes_nothing() {
    let memory = new();
    let mut one = open(&memory, 1);
    one.set_mode(Mode::Nvwal);
    commit(&mut one, &page(1, 7));
    // There is no table yet, so the log follows the slots.
    let block = 8192 + 2 * SLOT;
    media(&memory).side.store(block, 0x1234);
    let image = memory.contents();
    let refused = Store::open(media(&memory), file_bytes(&memory), 2, SLOT).unwrap_err();
    assert!(refused.to_string().contains("a block of its log is not in use"), "{refused}");
    assert_eq!(memory.contents(), image);
}

#[test]
fn commit_during_an_unlocked_refresh_is_no_truncation() {
    let memory = new();
    let mut one = open(&memory, 1);
    commit(&mut one, &page(1, 7));
    let mut other = live(&memory);
    let looked = refresh(&mut other, || {
        let before = file_bytes(&memory);
        one.write(before, &[1; PAGE]).unwrap();
        one.commit().unwrap();
        before
    });
    assert!(looked);
    assert_eq!(other.size(), PAGE as u64);
}

#[test]
fn new_database_is_empty_if_its_first_commit_is_cut_off() {
    let memory = new();
    let mut one = open(&memory, 0x0101_0101_0101_0101);
    let grown = [page(1, 7), vec![8; 5 * PAGE]].concat();
    let trace = trace(&memory, || commit(&mut one, &grown));
    let (mut empty, mut whole) = (0, 0);
    trace.process_states(|events, image| {
        let memory = Recording::from_image(image, SIDE + DATA).unwrap();
        match recover(&memory).unwrap() {
            plain if plain.is_empty() => empty += 1,
            plain => {
                assert_eq!(plain[100..], grown[100..], "after event {events}");
                whole += 1;
            }
        }
    });
    assert!(empty > 3 && whole > 3, "{empty}, {whole}");
}

#[test]
fn found_marker_is_durable_before_the_next_commit() {
    let memory = new();
    let mut one = open(&memory, 1);
    let first = trace(&memory, || commit(&mut one, &page(1, 7)));
    let next = |memory: &Recording| {
        commit(&mut live(memory), &page(5, 9));
        memory.note(1);
        // A crash point after the last fence needs another event.
        media(memory).side.store(SIDE - 8, 1);
    };
    let check = |found, noted| match found {
        None | Some(7) => noted == 0,
        found => found == Some(9),
    };
    let states = cut_power_after_kills(&first, next, check);
    assert!(states > 100, "{states}");
}

#[test]
fn cleared_marker_stays_cleared_with_a_new_side_file() {
    let memory = new();
    let mut one = open(&memory, 1);
    commit(&mut one, &page(1, 7));
    let closing = trace(&memory, || {
        one.checkpoint_slots().unwrap();
        one.make_plain().unwrap();
    });
    let next = |memory: &Recording| {
        let mut store = open(memory, 2);
        commit(&mut store, &page(5, 9));
        memory.note(1);
        media(memory).side.store(SIDE - 8, 1);
    };
    let check = |found, noted| found == Some(9) || found == Some(7) && noted == 0;
    let states = cut_power_after_kills(&closing, next, check);
    assert!(states > 50, "{states}");
}

#[test]
fn process_killed_while_growing_has_begun_a_commit() {
    let memory = new();
    let mut one = open(&memory, 1);
    commit(&mut one, &page(1, 7));
    let before = file_bytes(&memory);
    let trace = trace(&memory, || {
        one.write(PAGE as u64, &[1; 30 * PAGE]).unwrap();
        one.commit().unwrap();
    });
    let mut grown = 0;
    trace.process_states(|events, image| {
        let memory = Recording::from_image(image, SIDE + DATA).unwrap();
        let mut other = Store::attach(media(&memory), file_bytes(&memory)).unwrap();
        let whole = refresh(&mut other, || file_bytes(&memory));
        // Otherwise no process would make its length durable before relying on it.
        if file_bytes(&memory) > before && whole {
            assert_eq!(other.size(), 31 * PAGE as u64, "after event {events}");
        } else if file_bytes(&memory) > before {
            grown += 1;
        }
    });
    assert!(grown > 3, "{grown}");
}

/// The files that stock SQLite makes, one after each statement.
pub(crate) fn files_of(statements: impl Iterator<Item = String>) -> Vec<Vec<u8>> {
    let directory = crate::sql::folder();
    let path = directory.path().join("db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch("PRAGMA page_size = 512; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
        .unwrap();
    let file_after = |sql: String| {
        connection.execute_batch(&sql).unwrap();
        std::fs::read(&path).unwrap()
    };
    statements.map(file_after).collect()
}

/// The files of inserts in random order.
pub(crate) fn files_of_inserts() -> Vec<Vec<u8>> {
    let insert =
        |number: i64| format!("INSERT INTO t VALUES({}, hex(zeroblob(20)))", number * 7919 % 1009);
    files_of((0..300).map(insert))
}

#[test]
fn applied_stores_are_durable_with_the_next_commit() {
    let files = files_of_inserts();
    let memory = new();
    let mut one = open(&memory, 1);
    commit(&mut one, &files[0]);
    let mut both = [live(&memory), one];
    let trace = trace(&memory, || {
        for (number, file) in (1..).zip(&files[1..140]) {
            let store = &mut both[number % 3 % 2];
            assert!(refresh(store, || file_bytes(&memory)));
            commit(store, file);
            memory.note(number as u64);
        }
    });
    let moved = both.each_ref().map(|store| store.stats().moved);
    assert!(moved.iter().all(|moved| *moved > 2), "{moved:?}");
    let mut reader = Reader::new();
    let explored = Replay::new(&trace).explore(12, 1, |image, noted| {
        let plain = recover(&Recording::from_image(image, SIDE + DATA).unwrap())?;
        let found = reader.read(plain)?.len() as u64;
        let wanted = [noted + 1, noted + 2];
        if wanted.contains(&found) { Ok(()) } else { Err(format!("{found} rows; noted {noted}")) }
    });
    assert_eq!(explored.failed, None);
    assert!(explored.states > 900, "{explored:?}");
}

/// Cuts power during and after the next process's work, for each kill in `trace`. `next` returns how many rows it
/// promises. Before that `missing` rows may be missing.
fn cut_power_after_commits(
    trace: &Trace,
    missing: u64,
    next: impl Fn(&Recording, &mut Reader) -> u64,
) -> u64 {
    let (mut reader, mut states) = (Reader::new(), 0);
    trace.kills(1, |killed| {
        let memory = Recording::from_image(killed.visible(), SIDE + DATA).unwrap();
        memory.start();
        let reported = next(&memory, &mut reader);
        memory.note(reported);
        // A crash point after the last fence needs another event.
        media(&memory).side.store(SIDE - 8, 1);
        let then = memory.stop();
        let explored = killed.replay(&then).explore(12, 1, |image, noted| {
            let plain = recover(&Recording::from_image(image, SIDE + DATA).unwrap())?;
            let found = reader.read(plain)?.len() as u64;
            let least = if noted == reported { reported } else { reported - missing };
            let right = (least..=reported).contains(&found);
            if right { Ok(()) } else { Err(format!("{found} rows, {reported} reported: {noted}")) }
        });
        assert_eq!(explored.failed, None, "killed at {}", killed.position());
        states += explored.states;
    });
    states
}

/// The committed database.
pub(crate) fn whole(store: &Store<Recording>) -> Vec<u8> {
    let mut bytes = vec![0; store.size() as usize];
    store.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn stores_of_a_killed_process_are_durable_once_read() {
    let files = files_of_inserts();
    let memory = new();
    let mut one = open(&memory, 1);
    files[..40].iter().for_each(|file| commit(&mut one, file));
    let trace = trace(&memory, || files[40..43].iter().for_each(|file| commit(&mut one, file)));
    let states = cut_power_after_commits(&trace, 2, |memory, reader| {
        let rows = reader.read(whole(&live(memory))).unwrap().len();
        assert!((40..=43).contains(&rows), "{rows}");
        rows as u64
    });
    assert!(states > 500, "{states}");
}

#[test]
fn repeating_a_killed_commit_is_durable() {
    let files = files_of_inserts();
    let memory = new();
    let mut one = open(&memory, 1);
    files[..40].iter().for_each(|file| commit(&mut one, file));
    let trace = trace(&memory, || files[40..43].iter().for_each(|file| commit(&mut one, file)));
    let states = cut_power_after_commits(&trace, 2, |memory, reader| {
        let mut next = live(memory);
        let rows = reader.read(whole(&next)).unwrap().len();
        commit(&mut next, &files[rows]);
        rows as u64 + 1
    });
    assert!(states > 500, "{states}");
}

/// Databases that stock SQLite makes with another page size: with the same rows, and with some more.
fn with_larger_pages(file: &[u8], more: usize) -> [Vec<u8>; 2] {
    let directory = crate::sql::folder();
    let path = directory.path().join("db");
    std::fs::write(&path, file).unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    let insert = |row| format!("INSERT INTO t VALUES(5000 + {row}, 'one more');");
    let insert: String = (0..more).map(insert).collect();
    ["PRAGMA page_size = 1024; VACUUM", &insert].map(|batch| {
        connection.execute_batch(batch).unwrap();
        std::fs::read(&path).unwrap()
    })
}

#[test]
fn kill_during_layout_restore_is_noticed() {
    const ROWS: usize = 60;
    const MORE: usize = 12;
    let files = files_of_inserts();
    let memory = new();
    let mut one = open(&memory, 1);
    files[..ROWS].iter().for_each(|file| commit(&mut one, file));
    let [larger, larger_with_more] = with_larger_pages(&files[ROWS - 1], MORE);
    let settled = one.stats().fences;
    let trace = trace(&memory, || {
        one.truncate(larger.len() as u64).unwrap();
        commit(&mut one, &larger);
    });
    // Each chunk has a fence.
    assert!(one.stats().restored > 1 && one.stats().fences - settled > 5, "{:?}", one.stats());
    let mut finished = Vec::new();
    trace.process_states(|_, image| {
        let memory = Recording::from_image(image, SIDE + DATA).unwrap();
        let mut other = Store::attach(media(&memory), file_bytes(&memory)).unwrap();
        if refresh(&mut other, || file_bytes(&memory)) {
            // Without its checksum.
            let applied = u64::from_le_bytes(image[80..88].try_into().unwrap()) << 16 >> 16;
            finished.push(applied);
        }
    });
    // None of it, or all.
    finished.retain(|applied| *applied != ROWS as u64);
    finished.dedup();
    assert_eq!(finished.len(), 1, "{finished:?}");
    let states = cut_power_after_commits(&trace, MORE as u64, |memory, _| {
        let mut next = live(memory);
        let pages_are_larger = whole(&next)[16] == 4;
        let file = if pages_are_larger { &larger_with_more } else { &files[ROWS + MORE - 1] };
        commit(&mut next, file);
        (ROWS + MORE) as u64
    });
    assert!(states > 500, "{states}");
}

#[test]
fn checkpointed_lines_are_not_flushed_in_another_page_size() {
    const PAGES: usize = 140;
    let memory = new();
    let limited = Media { side: Region::new(memory.clone(), 0, 8192 + 4 * SLOT), ..media(&memory) };
    let mut one = Store::open(limited.clone(), file_bytes(&memory), 1, SLOT).unwrap();
    // Few bytes of each page change, so that the log has room.
    let mut small = [page(1, 7), vec![0; (PAGES - 1) * PAGE]].concat();
    commit(&mut one, &small);
    *small.last_mut().unwrap() = 1;
    commit(&mut one, &small);
    let mut other = Store::attach(limited, file_bytes(&memory)).unwrap();
    assert!(refresh(&mut other, || file_bytes(&memory)));
    let mut larger = [page(2, 7), vec![9; (PAGES - 1) * PAGE]].concat();
    larger[16] = 8;
    other.write(0, &larger).unwrap();
    assert!(matches!(other.commit(), Err(StoreError::Full(_))));
    other.discard();
    assert!(refresh(&mut one, || file_bytes(&memory)));
    let at = small.len() - 300;
    small[at] = 2;
    let trace = trace(&memory, || commit(&mut one, &small));
    let end = SIDE + small.len() as u64;
    let inside = |event: &sim::Event| !matches!(event, sim::Event::Flush { end: line, .. } if line * 64 > end);
    assert!(trace.events.iter().all(|recorded| inside(&recorded.event)));
    assert_eq!(whole(&one)[at..], small[at..]);
}

/// All bytes of a memory.
pub(crate) fn image(memory: &Recording) -> Vec<u8> {
    let mut image = vec![0; memory.len() as usize];
    memory.read_into(pm::Off::new(0), &mut image).unwrap();
    image
}

#[test]
fn damaged_or_short_side_file_is_an_error() {
    let files = files_of_inserts();
    let memory = new();
    let mut one = open(&memory, 1);
    files[..100].iter().for_each(|file| commit(&mut one, file));
    assert!(one.stats().moved > 0);
    let (whole, side_bytes) = (image(&memory), one.side_bytes().unwrap());
    let opened = |image: Vec<u8>, side_bytes: u64| {
        let memory = Recording::from_image(&image, SIDE + DATA).unwrap();
        let side = Region::new(memory.clone(), 0, side_bytes);
        let media = Media { side, ..media(&memory) };
        Store::open(media, file_bytes(&memory), 1, SLOT).map(|_| ())
    };
    opened(whole.clone(), side_bytes).unwrap();
    for end in (0..side_bytes).step_by(64) {
        assert!(opened(whole.clone(), end).is_err(), "cut at {end}");
    }
    let words = (64..104).step_by(8);
    let word = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap());
    let replaced = |at: usize, word: u64| {
        let mut image = whole.clone();
        image[at..at + 8].copy_from_slice(&word.to_le_bytes());
        opened(image, SIDE)
    };
    for at in words.clone() {
        let damaged = [0, u64::MAX].into_iter().chain((0..64).map(|bit| word(at) ^ 1 << bit));
        let others = words.clone().filter(|other| *other != at).map(word);
        for damaged in damaged.chain(others) {
            let refused = replaced(at, damaged).unwrap_err().to_string();
            assert!(
                refused.contains("does not match its checksum"),
                "{damaged:x} at {at}: {refused}"
            );
        }
    }
    // With a right checksum, but impossible page sizes or numbers of entries.
    for table in [8, 17, 255, 1 << 8, 63 << 8 | 9, 33 << 8 | 9, 1 << 16 | 9, 32 << 8 | 9] {
        let bytes = [1, 96, table].map(u64::to_le_bytes).concat();
        let sealed = u64::from(crc32c::crc32c(&bytes) as u16) << 48 | table;
        let refused = replaced(96, sealed).unwrap_err().to_string();
        assert!(refused.contains("its table is"), "{table:x}: {refused}");
    }
}

#[test]
fn file_truncated_by_a_killed_close_grows_again() {
    let files = files_of_inserts();
    let memory = new();
    let mut one = open(&memory, 1);
    files.iter().for_each(|file| commit(&mut one, file));
    one.truncate(files[20].len() as u64).unwrap();
    commit(&mut one, &files[20]);
    one.restore_layout().unwrap();
    let mut cut = image(&memory);
    cut.truncate(SIDE as usize + files[20].len());
    let memory = Recording::from_image(&cut, SIDE + DATA).unwrap();
    let mut next = open(&memory, 2);
    files[21..].iter().for_each(|file| commit(&mut next, file));
    assert_eq!(Reader::new().read(whole(&next)).unwrap().len(), files.len());
}

#[test]
fn layout_is_restored_without_room_for_another_page() {
    let files = files_of_inserts();
    let last = files.last().unwrap();
    for spare in [0, 512, 4096] {
        let memory = new();
        let limited = Media {
            data: Region::new(memory.clone(), SIDE, last.len() as u64 + spare),
            ..media(&memory)
        };
        let mut store = Store::open(limited, 0, 1, SLOT).unwrap();
        for file in &files {
            store.write(0, file).unwrap();
            store.commit().unwrap();
        }
        assert!(store.stats().moved > 10, "{:?}", store.stats());
        store.restore_layout().unwrap();
        store.checkpoint_slots().unwrap();
        assert!(store.stats().restored > 10, "{:?}", store.stats());
        store.make_plain().unwrap();
        let mut plain = vec![0; last.len()];
        media(&memory).data.read_into(0, &mut plain).unwrap();
        let directory = crate::sql::folder();
        let path = directory.path().join("db");
        std::fs::write(&path, plain).unwrap();
        assert_eq!(crate::sql::rows(&crate::sql::stock(&path)).len(), 300);
    }
}

#[test]
fn page_size_is_durable_before_a_commit_by_pages() {
    let memory = new();
    let limited = Media { side: Region::new(memory.clone(), 0, 8192 + 2 * SLOT), ..media(&memory) };
    let mut one = Store::open(limited, file_bytes(&memory), 1, SLOT).unwrap();
    commit(&mut one, &[page(1, 7), vec![8; 3 * PAGE]].concat());
    let trace = trace(&memory, || {
        // Pages twice as large, which the log has no room for.
        let mut larger = [page(2, 7), vec![9; 11 * PAGE]].concat();
        larger[16] = 8;
        one.write(0, &larger).unwrap();
        assert!(matches!(one.commit(), Err(StoreError::Full(_))));
        one.discard();
        one.write(PAGE as u64, &[5; PAGE]).unwrap();
        one.commit().unwrap();
        memory.note(1);
        media(&memory).side.store(SIDE - 8, 1);
    });
    let explored = |trace: &Trace| {
        let explored = Replay::new(trace).explore(200, 1, |image, noted| {
            let plain = recover(&Recording::from_image(image, SIDE + DATA).unwrap())?;
            let second = if plain[PAGE] == 5 || noted == 1 { 5 } else { 8 };
            let wanted = [[second; PAGE], [8; PAGE], [8; PAGE]].concat();
            if plain[PAGE..] == wanted { Ok(()) } else { Err(format!("noted {noted}")) }
        });
        explored.failed
    };
    assert_eq!(explored(&trace), None);
    let home = include_str!("../../src/store/restore_layout.rs");
    let place = format!("restore_layout.rs{}", line_after(home, "set_table(Table { entries: 0"));
    let at_it = |one: &sim::Instruction| one.to_string().ends_with(&place);
    let instructions: Vec<_> = trace.instructions().into_iter().filter(at_it).collect();
    assert_eq!(instructions.len(), 2, "a flush and a fence");
    for one in instructions {
        assert_ne!(explored(&trace.without(one)), None, "{one}");
    }
}
