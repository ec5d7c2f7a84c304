//! A writer that dies after its commit is durable, and before the index shows it: SQLite's next writer begins at the same
//! frame. The calls are those of SQLite.

use std::sync::Arc;

use perdura_sqlite::database::{Failure, IndexLock, LogFile, LogOpener as _, recover_records};

use super::super::recorded::{Fault, Opens, PAGE, State};
use super::*;

const SALTS: &[u8; 8] = b"saltsalt";

/// SQLite's header of a log, with its checksum.
fn header() -> [u8; 32] {
    let mut header = [0; 32];
    header[..4].copy_from_slice(&0x377f_0682_u32.to_be_bytes());
    header[4..8].copy_from_slice(&3_007_000_u32.to_be_bytes());
    header[8..12].copy_from_slice(&(PAGE as u32).to_be_bytes());
    header[16..24].copy_from_slice(SALTS);
    let (mut first, mut second) = (0_u32, 0_u32);
    for pair in header[..24].chunks_exact(8) {
        let word = |at: usize| u32::from_le_bytes(pair[at..at + 4].try_into().unwrap());
        first = first.wrapping_add(word(0)).wrapping_add(second);
        second = second.wrapping_add(word(4)).wrapping_add(first);
    }
    header[24..28].copy_from_slice(&first.to_be_bytes());
    header[28..].copy_from_slice(&second.to_be_bytes());
    header
}

/// A connection that has the lock for writing.
struct Writer {
    state: Arc<State>,
    number: usize,
    log: Box<dyn LogFile>,
}

impl Writer {
    fn new(state: &Arc<State>, number: usize) -> Self {
        let opens = Opens { state: Arc::clone(state), number };
        let log = opens.open_log(Path::new("log")).unwrap();
        let writer = Self { state: Arc::clone(state), number, log };
        writer.lock(true);
        writer
    }

    fn lock(&self, take: bool) {
        let lock = IndexLock { first: 0, count: 1, shared: false, take };
        self.state.lock(self.number, lock).unwrap();
        if take && let Some(commits) = self.state.commits(self.number) {
            commits.begin_writing();
        }
    }

    /// Writes the pages of a transaction from a frame on, and syncs. Otherwise as [`Self::write_unsynced`].
    fn write(&mut self, first: u64, words: &[(u32, u64)], pages: u32) {
        self.write_unsynced(first, words, pages);
        if pages > 0 {
            self.log.sync().unwrap();
        }
    }

    /// Writes pages with the words that all of each has. The database has `pages` afterwards, or the transaction does not
    /// end if there are none.
    fn write_unsynced(&mut self, first: u64, words: &[(u32, u64)], pages: u32) {
        let last = words.len() as u64 - 1;
        for (number, (page, word)) in (0..).zip(words) {
            let at = 32 + (first - 1 + number) * (PAGE + 24);
            let mut header = [0; 24];
            header[..4].copy_from_slice(&page.to_be_bytes());
            header[4..8].copy_from_slice(&(if number == last { pages } else { 0 }).to_be_bytes());
            header[8..16].copy_from_slice(SALTS);
            self.log.write(at, &header).unwrap();
            let image: Vec<u8> = (0..PAGE / 8).flat_map(|_| word.to_le_bytes()).collect();
            self.log.write(at + 24, &image).unwrap();
        }
    }

    /// The process is gone; the kernel knows it.
    fn dies(self) {
        self.lock(false);
    }
}

/// A database of three pages, and a writer whose first transaction has these and is shown.
fn begun(words: &[(u32, u64)]) -> (Arc<State>, Writer) {
    let state = State::new(&[0; 3 * PAGE as usize], Fault::None, true);
    let mut one = Writer::new(&state, 0);
    one.log.write(0, &header()).unwrap();
    one.write(1, words, 3);
    state.show(words.len() as u32);
    (state, one)
}

/// The first word of each page after a recovery.
fn recovered(state: &Arc<State>) -> Vec<u64> {
    let copy = State::again(&state.image());
    let [records, log, database] = copy.files();
    recover_records(Some(&records), &log, &database).unwrap();
    let (database, _) = super::super::power_cuts::files(&copy.image());
    database
        .chunks_exact(PAGE as usize)
        .map(|page| {
            let words: Vec<_> = page.chunks_exact(8).collect();
            assert!(words.iter().all(|word| word == &words[0]), "a page of two commits");
            u64::from_le_bytes(words[0].try_into().unwrap())
        })
        .collect()
}

#[test]
fn commit_that_was_not_shown_is_replaced() {
    let (state, mut one) = begun(&[(1, 10), (2, 20)]);
    assert_eq!(recovered(&state), [10, 20, 0]);
    one.lock(false);
    let mut two = Writer::new(&state, 1);
    two.write(3, &[(1, 11), (3, 31)], 3);
    // It counts if all die now.
    assert_eq!(recovered(&state), [11, 20, 31]);
    two.dies();
    // It does not if another connection goes on.
    let mut three = Writer::new(&state, 2);
    three.write(3, &[(2, 22)], 3);
    assert_eq!(recovered(&state), [10, 22, 0]);
    three.dies();
    // So does the next one. It has noted frames of its own that it gave up before.
    let mut four = Writer::new(&state, 3);
    four.write(3, &[(3, 30), (1, 17)], 0);
    four.lock(false);
    four.lock(true);
    four.write(3, &[(3, 33)], 3);
    assert_eq!(recovered(&state), [10, 20, 33]);
    state.show(3);
    four.write(4, &[(1, 14), (2, 24)], 2);
    assert_eq!(recovered(&state), [14, 24]);
    four.dies();
    // The first one has last seen two frames.
    one.lock(true);
    one.write(4, &[(1, 15)], 3);
    assert_eq!(recovered(&state), [15, 20, 33]);
    state.show(4);
    one.lock(false);
    assert_eq!(recovered(&state), [15, 20, 33]);
}

/// The one that replaces it has no sync, and its writer dies after the index shows it, and before it is logged.
#[test]
fn replacing_commit_that_was_not_logged_is_not_taken_for_it() {
    let (state, mut one) = begun(&[(1, 10), (2, 20)]);
    one.lock(false);
    let mut two = Writer::new(&state, 1);
    two.write(3, &[(1, 11)], 3);
    two.dies();
    let mut three = Writer::new(&state, 2);
    three.write_unsynced(3, &[(2, 22)], 3);
    state.show(3);
    three.dies();
    let checkpoint = || state.commits(0).unwrap().before_checkpoint();
    assert!(matches!(checkpoint(), Err(Failure::Busy)), "{:?}", checkpoint());
    one.lock(true);
    one.write(4, &[(3, 33)], 3);
    assert_eq!(recovered(&state), [10, 22, 33]);
    state.show(4);
    one.lock(false);
    checkpoint().unwrap();
}

/// Its writer dies before it is logged, and the next one before its own is shown. The first of the two stays.
#[test]
fn commit_of_others_is_logged_apart_from_one_that_is_not_shown() {
    let (state, one) = begun(&[(1, 10), (2, 20)]);
    one.lock(false);
    let mut two = Writer::new(&state, 1);
    two.write_unsynced(3, &[(1, 11)], 3);
    state.show(3);
    two.dies();
    let mut three = Writer::new(&state, 2);
    three.write(4, &[(2, 22)], 3);
    assert_eq!(recovered(&state), [11, 22, 0]);
    three.dies();
    let mut four = Writer::new(&state, 3);
    four.write_unsynced(4, &[(3, 33)], 3);
    // The index shows three frames, which are logged.
    state.commits(0).unwrap().before_checkpoint().unwrap();
    four.log.sync().unwrap();
    assert_eq!(recovered(&state), [11, 20, 33]);
}

/// A connection leaves the exclusive mode with a transaction that it has given up: no call says so.
#[test]
fn frames_of_an_exclusive_transaction_are_forgotten_with_the_next_lock() {
    let (state, mut one) = begun(&[(1, 10), (2, 20)]);
    one.write_unsynced(3, &[(1, 12), (3, 30)], 0);
    one.lock(false);
    let mut two = Writer::new(&state, 1);
    two.write(3, &[(2, 22), (1, 11), (3, 33)], 3);
    state.show(5);
    two.lock(false);
    one.lock(true);
    one.write(6, &[(2, 23)], 3);
    assert_eq!(recovered(&state), [11, 23, 33]);
}

/// Pages that a checkpoint copies were shown when it began: commits after that need not be logged for it.
#[test]
fn checkpoint_waits_for_no_later_commit() {
    let (state, one) = begun(&[(1, 10), (2, 20)]);
    one.lock(false);
    let commits = state.commits(0).unwrap();
    commits.before_checkpoint().unwrap();
    let mut two = Writer::new(&state, 1);
    two.write_unsynced(3, &[(1, 11)], 3);
    state.show(3);
    commits.before_checkpoint().unwrap();
    commits.end_checkpoint();
    assert!(matches!(commits.before_checkpoint(), Err(Failure::Busy)));
    two.log.sync().unwrap();
    commits.before_checkpoint().unwrap();
}

/// A connection gives up the lock after a commit that was not shown. Another one's commits replace it, and go farther.
#[test]
fn frames_that_were_not_shown_are_forgotten_with_the_lock() {
    let (state, mut one) = begun(&[(1, 10), (2, 20), (3, 30)]);
    one.write(4, &[(1, 11)], 3);
    state.commits(0).unwrap().end_writing().unwrap();
    one.lock(false);
    let mut two = Writer::new(&state, 1);
    two.write(4, &[(2, 22)], 3);
    two.write(5, &[(3, 33)], 3);
    state.show(5);
    two.lock(false);
    one.lock(true);
    state.commits(0).unwrap().end_writing().unwrap();
    one.write(6, &[(1, 22), (2, 10)], 3);
    assert_eq!(recovered(&state), [22, 10, 33]);
}

/// SQLite reads the checksum of the header alone when it writes frames again.
#[test]
fn parts_of_the_header_are_as_sqlite_wrote_them() {
    let (_, mut one) = begun(&[(1, 10)]);
    for (at, len) in [(0, 32), (24, 8), (4, 4), (31, 1), (28, 20)] {
        let mut read = vec![0; len];
        assert_eq!(one.log.read(at as u64, &mut read).unwrap(), len);
        let known = len.min(32 - at);
        assert_eq!(read[..known], header()[at..at + known], "{len} bytes from {at} on");
    }
}

/// It lives on: SQLite's index had no room for the frames. Another connection replaces the commit, of as many frames.
#[test]
fn commit_of_the_living_that_was_not_shown_is_forgotten() {
    let (state, mut one) = begun(&[(1, 10), (2, 20), (3, 30)]);
    one.write(4, &[(1, 11)], 3);
    state.commits(0).unwrap().end_writing().unwrap();
    one.lock(false);
    let mut two = Writer::new(&state, 1);
    two.write(4, &[(2, 22)], 3);
    state.show(4);
    two.lock(false);
    // The page before is that of its first frame, and the other one's that of the replaced frame.
    one.lock(true);
    one.write(5, &[(1, 22), (2, 10)], 3);
    assert_eq!(recovered(&state), [22, 10, 30]);
}

/// It dies while it shares where its commit ends, before the last of these words.
#[test]
fn commit_that_was_not_shared_is_replaced() {
    let state = State::new(&[0; 2 * PAGE as usize], Fault::None, true);
    let mut one = Writer::new(&state, 0);
    one.log.write(0, &header()).unwrap();
    for (frame, word) in [(1, 10), (2, 11), (3, 12)] {
        one.write(frame, &[(1, word)], 2);
        state.show(frame as u32);
    }
    for (loses, shown) in (0..4).zip(4..) {
        state.lose_words_after(loses);
        one.write(shown, &[(2, 20), (1, 99)], 2);
        state.keep_words();
        one.lock(false);
        let mut two = Writer::new(&state, 1);
        two.write(shown, &[(1, shown)], 2);
        assert_eq!(recovered(&state), [shown, 0], "after {loses} words");
        state.show(shown as u32);
        two.dies();
        one.lock(true);
    }
}
