//! The log on a full medium: what is set aside takes deletions and a rotation, whatever other users of
//! the medium leave, and wherever the process is killed.

use pm::{Dram, Memory, Range};
use sim::RecordingFiles;
use storage::wal::{LogStart, Need, Wal, WalError, WalOptions};

type Log = Wal<RecordingFiles, Dram>;

const PREFIX: &str = "wal-0-";
const START: LogStart = LogStart { sequence: 1, txn: 1 };
const BUFFER: Range = Range::new(8, 128);
const ASIDE: u64 = 1000;

fn options() -> WalOptions {
    WalOptions { reserve_bytes: 4096, aside_bytes: ASIDE, ..WalOptions::default() }
}

fn memory() -> Dram {
    let memory = Dram::new(4096).unwrap();
    memory.grow(4096).unwrap();
    memory
}

fn create(files: &RecordingFiles) -> Log {
    Wal::create(files.clone(), PREFIX, START, memory(), BUFFER, options()).unwrap()
}

fn recover(files: &RecordingFiles, start: LogStart) -> (Log, u64) {
    let visit = |_, _: &[u8]| Ok::<(), WalError>(());
    let recovered = Wal::recover(files.clone(), PREFIX, start, memory(), BUFFER, options(), visit);
    let (log, report) = recovered.unwrap();
    (log, report.records)
}

fn bytes(files: &RecordingFiles) -> u64 {
    files.image().values().map(|bytes| bytes.len() as u64).sum()
}

fn put(log: &mut Log, bytes: usize, need: Need) -> Result<(), WalError> {
    log.make_room(bytes as u64, need)?;
    log.begin(log.next_txn())?;
    log.put(&vec![7; bytes])
}

fn commit(log: &mut Log, bytes: usize, need: Need) -> Result<(), WalError> {
    put(log, bytes, need)?;
    let _ = log.end()?;
    log.flush()
}

/// Fills the medium, which has so many bytes, and returns how many records that took.
fn fill(log: &mut Log) -> u64 {
    let mut records = 0;
    loop {
        match commit(log, 300, Need::Ordinary) {
            Ok(()) => records += 1,
            Err(WalError::Io { doing: "reserve space for", .. }) => return records,
            Err(error) => panic!("{error}"),
        }
        assert!(records < 10_000, "the medium is full at some time");
    }
}

#[test]
fn a_full_medium_takes_deletions_and_a_rotation() {
    for room in (3000..16_000).step_by(123) {
        let files = RecordingFiles::new();
        files.limit(Some(8192 + room));
        let mut log = create(&files);
        let (mut start, mut records) = (START, 0);
        for round in 0..6 {
            records += fill(&mut log);
            // Other users take what is left.
            files.limit(Some(bytes(&files)));
            assert!(!log.lacks_room(), "{room}, round {round}");
            let mut deleted = 0;
            while !log.lacks_room() {
                commit(&mut log, 40, Need::Freeing).unwrap();
                deleted += 1;
            }
            assert!(deleted >= ASIDE / 2 / (40 + 16), "{room}: {deleted}");
            assert!(commit(&mut log, 40, Need::Ordinary).is_err(), "{room}");
            if round % 3 == 2 {
                drop(log);
                log = recover(&files, start).0;
            }
            start = log.rotate().unwrap();
            log.remove_before(start.sequence).unwrap();
            assert!(!log.lacks_room(), "{room}, round {round}");
            files.limit(Some(8192 + room));
        }
        assert!(records > 0, "{room}");
        log.flush().unwrap();
        drop(log);
        assert_eq!(recover(&files, start).1, 0);
    }
}

/// A deletion that does not fit into what is set aside is refused whole, and others go on.
#[test]
fn a_deletion_beyond_what_is_set_aside_is_refused() {
    let files = RecordingFiles::new();
    files.limit(Some(30_000));
    let mut log = create(&files);
    fill(&mut log);
    files.limit(Some(bytes(&files)));
    assert!(commit(&mut log, 8000, Need::Freeing).is_err());
    assert!(!log.is_poisoned());
    commit(&mut log, ASIDE as usize / 2, Need::Freeing).unwrap();
}

/// What an abort, or a kill, drops after it has reached the file leaves what is set aside.
#[test]
fn a_dropped_deletion_leaves_what_is_set_aside() {
    for kill in [false, true] {
        let files = RecordingFiles::new();
        files.limit(Some(30_000));
        let mut log = create(&files);
        let records = fill(&mut log);
        let limit = bytes(&files);
        for _ in 0..20 {
            // The medium is as full as it can be.
            files.limit(Some(bytes(&files)));
            put(&mut log, 700, Need::Freeing).unwrap();
            if kill {
                drop(log);
                let found;
                (log, found) = recover(&files, START);
                assert_eq!(found, records);
            } else {
                log.discard().unwrap();
            }
            assert!(bytes(&files) >= limit - 4096);
        }
        commit(&mut log, 700, Need::Freeing).unwrap();
        log.rotate().unwrap();
        log.flush().unwrap();
        drop(log);
        assert_eq!(recover(&files, START).1, records + 1);
    }
}

/// A kill at each call of a rotation on a full medium: the log opens again, and has room for a deletion
/// and for another rotation.
#[test]
fn a_kill_in_a_rotation_leaves_room_for_another_one() {
    let files = RecordingFiles::new();
    files.limit(Some(20_000));
    let mut log = create(&files);
    let records = fill(&mut log);
    files.start();
    let limit = bytes(&files);
    files.limit(Some(limit));
    commit(&mut log, 200, Need::Freeing).unwrap();
    let start = log.rotate().unwrap();
    log.remove_before(start.sequence).unwrap();
    let mut states = 0;
    files.stop().process_states(|_, _, image| {
        states += 1;
        let killed = RecordingFiles::from_image(image.clone());
        killed.limit(Some(limit));
        let start = match image.contains_key("wal-0-0000000000000001") {
            true => START,
            false => start,
        };
        let (mut log, found) = recover(&killed, start);
        assert!(found == 0 || found >= records, "{found}");
        for _ in 0..3 {
            commit(&mut log, 100, Need::Freeing).unwrap();
            log.rotate().unwrap();
        }
        commit(&mut log, 100, Need::Freeing).unwrap();
    });
    assert!(states > 8, "{states}");
}

/// A checkpoint that fails leaves the log before its rotation: those segments keep no space but what they
/// say, so that a rotation can be tried again and again. The same if the process is killed before a
/// segment has given its space back.
#[test]
fn failed_checkpoints_leave_what_is_set_aside() {
    for kill in [false, true] {
        let files = RecordingFiles::new();
        files.limit(Some(30_000));
        let mut log = create(&files);
        let mut records = fill(&mut log);
        let limit = bytes(&files);
        files.limit(Some(limit));
        for round in 0..8 {
            assert!(!log.lacks_room(), "{round}, {kill}");
            commit(&mut log, 40, Need::Freeing).unwrap();
            records += 1;
            let before = files.image();
            log.rotate().unwrap();
            let mut image = files.image();
            let name = format!("wal-0-{:016x}", round + 1);
            let end = image[&name].iter().rposition(|byte| *byte != 0).unwrap() + 1;
            assert_eq!(image[&name].len(), end, "it ends with its seal");
            if kill {
                image.get_mut(&name).unwrap().resize(before[&name].len(), 0);
                image.remove("spare-wal-0");
                let killed = RecordingFiles::from_image(image);
                killed.limit(Some(limit));
                assert_eq!(recover(&killed, START).1, records);
                assert_eq!(killed.image()[&name].len(), end);
            }
        }
        commit(&mut log, 400, Need::Freeing).unwrap();
        drop(log);
        assert_eq!(recover(&files, START).1, records + 1);
    }
}

/// A medium that copies what is overwritten has no room for zeros: the end is cut off, and nothing that
/// was dropped comes back.
#[test]
fn what_cannot_be_overwritten_is_cut_off() {
    for kill in [false, true] {
        let files = RecordingFiles::new();
        files.limit(Some(30_000));
        let mut log = create(&files);
        let records = fill(&mut log);
        put(&mut log, 700, Need::Freeing).unwrap();
        if kill {
            drop(log);
            files.fail_once_after(0);
            log = recover(&files, START).0;
        } else {
            files.fail_once_after(0);
            log.discard().unwrap();
        }
        assert!(!files.will_fail() && files.refused().unwrap().file().contains("wal"));
        assert!(!log.is_poisoned());
        commit(&mut log, 500, Need::Freeing).unwrap();
        log.rotate().unwrap();
        drop(log);
        assert_eq!(recover(&files, START).1, records + 1);
    }
}
