//! The log without crashes: what is appended is recovered, damage is named, aborts leave nothing.

use std::io::ErrorKind;

use pm::{Dram, File, Files, Memory, Range};
use sim::RecordingFiles;
use storage::wal::{LogStart, Wal, WalError, WalOptions, WalReport};

type Log = Wal<RecordingFiles, Dram>;

const START: LogStart = LogStart { sequence: 3, txn: 100 };
const OPTIONS: WalOptions = WalOptions {
    reserve_bytes: 4096,
    aside_bytes: 0,
    group: 2,
    closed: false,
    reaches: 0,
    end: None,
};
const BUFFER: Range = Range::new(8, 128);

fn memory() -> Dram {
    let memory = Dram::new(4096).unwrap();
    memory.grow(4096).unwrap();
    memory
}

fn create(files: &RecordingFiles) -> Log {
    Wal::create(files.clone(), "w", START, memory(), BUFFER, OPTIONS).unwrap()
}

type Found = (Log, WalReport, Vec<(u64, Vec<u8>)>);

fn recover_from(files: &RecordingFiles, start: LogStart) -> Result<Found, WalError> {
    recover(files, start, OPTIONS)
}

fn recover(
    files: &RecordingFiles,
    start: LogStart,
    options: WalOptions,
) -> Result<Found, WalError> {
    let mut records = Vec::new();
    let visit = |txn, bytes: &[u8]| {
        records.push((txn, bytes.to_vec()));
        Ok::<(), WalError>(())
    };
    let (log, report) = Wal::recover(files.clone(), "w", start, memory(), BUFFER, options, visit)?;
    Ok((log, report, records))
}

fn append(log: &mut Log, bytes: &[u8]) -> bool {
    log.begin(log.next_txn()).unwrap();
    log.put(bytes).unwrap();
    log.end().unwrap().group_full
}

#[test]
fn records_of_every_length_come_back() {
    let files = RecordingFiles::new();
    let mut log = create(&files);
    // Around the buffer's and the reservation's size, and none at all.
    let lengths: Vec<usize> = (0..300).chain(4000..4100).chain([5000, 20_000]).collect();
    for (number, length) in lengths.iter().enumerate() {
        append(&mut log, &vec![number as u8; *length]);
    }
    log.flush().unwrap();
    let bytes = log.bytes();
    drop(log);
    let (log, report, records) = recover_from(&files, START).unwrap();
    assert_eq!(records.len(), lengths.len());
    for (number, (record, length)) in records.iter().zip(&lengths).enumerate() {
        assert_eq!(record, &(100 + number as u64, vec![number as u8; *length]));
    }
    assert_eq!(report.records, lengths.len() as u64);
    assert_eq!(report.torn_tail_bytes, 0);
    assert_eq!((log.bytes(), log.pending()), (bytes, 0));
}

#[test]
fn a_group_is_synced_once() {
    let files = RecordingFiles::new();
    let mut log = create(&files);
    files.count(true);
    assert!(!append(&mut log, b"one"));
    assert_eq!((log.pending(), log.first_pending_lsn()), (1, 100));
    assert!(append(&mut log, b"two"));
    log.flush().unwrap();
    log.flush().unwrap();
    assert_eq!((log.pending(), log.first_pending_lsn()), (0, 102));
    let spent = files.counters();
    assert_eq!((spent.syncs, spent.file_bytes), (1, 2 * (16 + 3)), "two records, one sync");
}

#[test]
fn a_dropped_record_leaves_no_trace() {
    let files = RecordingFiles::new();
    let mut log = create(&files);
    for bytes in [0, 10, 1000] {
        append(&mut log, b"kept");
        log.begin(log.next_txn()).unwrap();
        log.put(&vec![7; bytes]).unwrap();
        log.discard().unwrap();
        log.discard().unwrap();
    }
    append(&mut log, b"last");
    log.flush().unwrap();
    let (_, report, records) = recover_from(&files, START).unwrap();
    let kept: Vec<_> = records.iter().map(|(_, bytes)| bytes.as_slice()).collect();
    assert_eq!(kept, [b"kept", b"kept", b"kept", b"last"]);
    assert_eq!(report.torn_tail_bytes, 0);
}

#[test]
fn a_payload_that_looks_like_a_frame_is_not_taken_for_one() {
    let files = RecordingFiles::new();
    let mut log = create(&files);
    append(&mut log, b"first");
    append(&mut log, b"second");
    log.flush().unwrap();
    // The second record's own frame, as the user might have read it from the file.
    let frame = files.image()["w0000000000000003"][32 + 21..32 + 21 + 22].to_vec();
    let other = RecordingFiles::new();
    let mut log = create(&other);
    log.begin(100).unwrap();
    // Dropped, with the copy just where the frame after `first` will be looked for.
    let mut payload = vec![1; 5];
    payload.extend(&frame);
    payload.resize(600, 1);
    log.put(&payload).unwrap();
    log.discard().unwrap();
    append(&mut log, b"first");
    log.flush().unwrap();
    assert_eq!(recover_from(&other, START).unwrap().2.len(), 1);
}

#[test]
fn a_checkpoint_starts_at_a_rotation_and_older_segments_go() {
    let files = RecordingFiles::new();
    let mut log = create(&files);
    append(&mut log, b"one");
    let second = log.rotate().unwrap();
    assert_eq!(second, LogStart { sequence: 4, txn: 101 });
    append(&mut log, b"two");
    let third = log.rotate().unwrap();
    // The older ones end with their seals.
    assert_eq!(log.bytes(), 4096 + 2 * (32 + 16 + 3 + 16));
    drop(log);
    assert_eq!(recover_from(&files, START).unwrap().2.len(), 2);
    let mut image = files.image();
    image.remove("w0000000000000005");
    let without_newest = recover_from(&RecordingFiles::from_image(image), START);
    let error = without_newest.map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, "log segment w0000000000000005 is missing");
    let (mut log, _, records) = recover_from(&files, second).unwrap();
    assert_eq!(records, [(101, b"two".to_vec())]);
    assert_eq!(files.list().unwrap(), ["w0000000000000004", "w0000000000000005"]);
    log.remove_before(third.sequence).unwrap();
    assert_eq!((log.bytes(), files.list().unwrap().len()), (4096, 1));
    assert_eq!(recover_from(&files, third).unwrap().2, []);
    assert!(matches!(recover_from(&files, second), Err(WalError::Missing { .. })));
    let wrong = LogStart { txn: 7, ..third };
    assert!(matches!(recover_from(&files, wrong), Err(WalError::Damaged { at: 0, .. })));
}

#[test]
fn damage_before_the_newest_segment_is_named_with_its_place() {
    let files = RecordingFiles::new();
    let mut log = create(&files);
    append(&mut log, b"one");
    append(&mut log, b"two");
    log.rotate().unwrap();
    append(&mut log, b"three");
    log.flush().unwrap();
    let image = files.image();
    let name = "w0000000000000003";
    for at in 32..32 + 2 * 19 {
        let mut damaged = image.clone();
        damaged.get_mut(name).unwrap()[at] ^= 0x10;
        let files = RecordingFiles::from_image(damaged.clone());
        let error = recover_from(&files, START).unwrap_err();
        let frame = 32 + (at as u64 - 32) / 19 * 19;
        assert_eq!(
            error.to_string(),
            format!(
                "log segment {name} is damaged at byte {frame}: the next segment continues with a later or earlier transaction"
            )
        );
        assert_eq!(files.image(), damaged, "nothing was changed");
    }
    for at in 0..32 {
        let mut damaged = image.clone();
        damaged.get_mut(name).unwrap()[at] ^= 0x10;
        let error = recover_from(&RecordingFiles::from_image(damaged), START).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
    // In the newest segment, a header that is damaged while records follow it.
    let mut damaged = image.clone();
    damaged.get_mut("w0000000000000004").unwrap()[20] ^= 1;
    assert!(recover_from(&RecordingFiles::from_image(damaged), START).is_err());
}

#[test]
fn garbage_is_an_error_or_a_shorter_log_and_never_a_panic() {
    let files = RecordingFiles::new();
    let mut log = create(&files);
    append(&mut log, &[5; 90]);
    append(&mut log, &[6; 90]);
    log.flush().unwrap();
    let image = files.image();
    let name = "w0000000000000003";
    for length in 0..image[name].len().min(400) {
        let mut cut = image.clone();
        cut.get_mut(name).unwrap().truncate(length);
        if let Ok((.., records)) = recover_from(&RecordingFiles::from_image(cut), START) {
            assert!(records.len() <= 2 && length >= 32);
        }
    }
    for bit in 0..300 * 8 {
        let mut flipped = image.clone();
        flipped.get_mut(name).unwrap()[bit / 8] ^= 1 << (bit % 8);
        if let Ok((_, report, records)) = recover_from(&RecordingFiles::from_image(flipped), START)
        {
            let full = records.len() == 2;
            assert!(bit >= 32 * 8 && (full || report.torn_tail_bytes > 0), "bit {bit}");
        }
    }
    let mut newer = image.clone();
    newer.get_mut(name).unwrap()[8] = 2;
    let error = recover_from(&RecordingFiles::from_image(newer), START).unwrap_err();
    assert!(matches!(error, WalError::Version { found: 2, supported: 1, .. }));
}

#[test]
fn a_full_medium_fails_the_transaction_and_not_the_log() {
    let files = RecordingFiles::new();
    let mut log = create(&files);
    append(&mut log, b"before");
    files.fail_after(Some(0));
    log.begin(log.next_txn()).unwrap();
    let error = log.put(&[1; 5000]).unwrap_err();
    let WalError::Io { doing: "reserve space for", source, .. } = error else { panic!("{error}") };
    assert_eq!(source.kind(), ErrorKind::StorageFull);
    assert!(matches!(log.end(), Err(WalError::Incomplete)));
    log.discard().unwrap();
    files.fail_after(None);
    assert!(!log.is_poisoned());
    append(&mut log, &[2; 5000]);
    log.flush().unwrap();
    // A rotation that finds no room leaves the log where it is.
    files.fail_after(Some(0));
    assert!(log.rotate().is_err());
    files.fail_after(None);
    append(&mut log, b"after");
    log.rotate().unwrap();
    assert_eq!(recover_from(&files, START).unwrap().2.len(), 3);
}

/// The next segment's file gets its name when it has its space. A kill after that, or a crash that has
/// left some of its space or of its header, leaves a segment that was never used.
#[test]
fn a_segment_that_was_begun_and_never_used_is_no_damage() {
    let files = RecordingFiles::new();
    let mut log = create(&files);
    append(&mut log, b"one");
    log.flush().unwrap();
    let next = "w0000000000000004".to_owned();
    for calls in [0, 1, 0, 0] {
        files.fail_after(Some(calls));
        assert!(matches!(log.rotate(), Err(WalError::Io { doing: "reserve space for", .. })));
        files.fail_after(None);
        assert!(!files.image().contains_key(&next) && !log.is_poisoned());
    }
    for (bytes, space) in (0..32).flat_map(|bytes| [(bytes, 32), (bytes, 4096)]) {
        for has_spare in [true, false] {
            let mut image = files.image();
            let mut segment = b"PERDWAL\0\x01\0\0\0????\x04\0\0\0\0\0\0\0"[..].to_vec();
            segment.resize(bytes, 0);
            segment.resize(space, 0);
            image.insert(next.clone(), segment);
            if !has_spare {
                image.remove("spare-w");
            }
            let killed = RecordingFiles::from_image(image);
            let (mut log, _, records) = recover_from(&killed, START).unwrap();
            assert_eq!(records.len(), 1);
            assert_eq!(killed.list().unwrap(), ["spare-w", "w0000000000000003"]);
            append(&mut log, b"two");
            assert_eq!(log.rotate().unwrap(), LogStart { sequence: 4, txn: 102 });
            drop(log);
            assert_eq!(recover_from(&killed, START).unwrap().2.len(), 2);
        }
    }
    log.close().unwrap();
    let closed = WalOptions { closed: true, ..OPTIONS };
    let copy = RecordingFiles::from_image(files.image());
    assert_eq!(recover(&copy, START, closed).unwrap().2.len(), 1);
    append(&mut log, b"two");
    assert_eq!(log.rotate().unwrap(), LogStart { sequence: 4, txn: 102 });
    append(&mut log, b"three");
    log.close().unwrap();
    drop(log);
    assert_eq!(recover(&files, START, closed).unwrap().2.len(), 3);
}

#[test]
fn a_log_whose_sync_failed_acknowledges_nothing_more() {
    let files = RecordingFiles::new();
    let mut log = create(&files);
    append(&mut log, b"one");
    files.fail_after(Some(1));
    assert!(matches!(log.flush(), Err(WalError::Io { doing: "sync", .. })));
    files.fail_after(None);
    assert!(log.is_poisoned());
    assert_eq!((log.first_pending_lsn(), log.pending()), (100, 1));
    assert!(matches!(log.flush(), Err(WalError::Poisoned)));
    assert!(matches!(log.begin(101), Err(WalError::Poisoned)));
    assert!(matches!(log.rotate(), Err(WalError::Poisoned)));
}

#[test]
fn files_of_others_are_left_alone() {
    let files = RecordingFiles::new();
    for name in ["w", "w123", "w000000000000000G", "w0000000000000003x", "v0000000000000001"] {
        files.create(name).unwrap().write_at(0, b"x").unwrap();
    }
    let mut log = create(&files);
    let start = log.rotate().unwrap();
    log.remove_before(start.sequence).unwrap();
    assert_eq!(files.list().unwrap().len(), 6);
}
