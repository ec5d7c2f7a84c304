//! The space that the central log's files take: what nothing needs is used again first, given back
//! when the log is closed, and enough of it stays for a deletion and a checkpoint where the medium
//! is full.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use paged::PagedError;
use paged::ids::{Lsn, PageNo, TxNo};
use paged::log::central::{Central, CentralOptions};
use paged::log::{Chain, Kind, LogManager, Record};
use paged::threads::Host;
use pm::Files;
use sim::RecordingFiles;

type Log = Central<RecordingFiles, Host>;

const CHECKPOINT_BYTES: u64 = 128 << 10;
const RECORD_BYTES: usize = 8 << 10;

/// Bytes that a log without live records has: two files with space for a checkpoint and a deletion,
/// and the headers of the others.
const LEAST_BYTES: u64 = 2 * (2 * RECORD_BYTES as u64 + (64 << 10)) + 8 * 512 + 1024;

/// Eight partitions, each of which has many times the bytes between checkpoints.
fn large() -> CentralOptions {
    CentralOptions {
        partitions: 8,
        partition_bytes: 2 << 20,
        buffer_bytes: 1 << 20,
        group_bytes: 64 << 10,
        record_bytes: RECORD_BYTES,
        reserve_bytes: 32 << 10,
        checkpoint_bytes: CHECKPOINT_BYTES,
        group_wait: Duration::ZERO,
    }
}

fn create(files: &RecordingFiles) -> Log {
    Central::create(files, "log-", large(), Arc::default()).unwrap()
}

fn open(files: &RecordingFiles) -> Log {
    Central::open(files, "log-", large(), Arc::default()).unwrap()
}

fn bytes(files: &RecordingFiles) -> u64 {
    files.image().values().map(|file| file.len() as u64).sum()
}

fn change(payload: &[u8]) -> Record<'_> {
    Record { page: PageNo(3), page_before: Lsn(4), payload, ..Record::bare(Kind::Change) }
}

/// A transaction of so many bytes, which is waited for.
fn commit(log: &Log, tx: u64, bytes: usize) -> Result<(), PagedError> {
    let mut chain = Chain::new(TxNo(tx));
    let payload = vec![tx as u8; bytes];
    log.reserve(&mut chain, bytes as u64 + 64)?;
    log.append(&mut chain, &change(&payload))?;
    let at = log.commit(&mut chain)?;
    log.force(at)
}

/// A checkpoint, after which the log is kept from `keep` on, or from its begin.
fn checkpoint(log: &Log, keep: Option<Lsn>) -> Lsn {
    let mut chain = Chain::default();
    let start = log.append(&mut chain, &Record::bare(Kind::CheckpointBegin)).unwrap();
    log.append(&mut chain, &Record { payload: &[0; 32], ..Record::bare(Kind::CheckpointEnd) })
        .unwrap();
    log.force(chain.last).unwrap();
    log.truncate(start, keep.unwrap_or(start)).unwrap();
    start
}

/// Transactions as between two checkpoints.
fn fill(log: &Log) {
    for tx in 1..=CHECKPOINT_BYTES / 2048 {
        commit(log, tx, 1900).unwrap();
    }
}

#[test]
fn dead_log_is_used_again_and_given_back_at_a_close() {
    let files = RecordingFiles::new();
    let mut log = create(&files);
    assert!(bytes(&files) <= LEAST_BYTES, "{}", bytes(&files));
    let mut sizes = Vec::new();
    for round in 0..60 {
        fill(&log);
        checkpoint(&log, None);
        sizes.push(bytes(&files));
        if round % 20 == 19 {
            log.close().unwrap();
            assert!(bytes(&files) <= LEAST_BYTES, "closed: {}", bytes(&files));
            drop(log);
            log = open(&files);
            assert!(bytes(&files) <= LEAST_BYTES, "opened: {}", bytes(&files));
        }
    }
    let most = sizes.iter().max().unwrap();
    assert!(*most <= 3 * CHECKPOINT_BYTES + LEAST_BYTES, "{most} bytes: {sizes:?}");
}

/// A transaction that stays open keeps what comes after it. Afterwards that goes.
#[test]
fn log_that_was_kept_is_given_back_when_it_is_not_needed() {
    let files = RecordingFiles::new();
    let log = create(&files);
    fill(&log);
    let oldest = log.end();
    for round in 1..=20 {
        fill(&log);
        checkpoint(&log, Some(oldest));
        assert!(log.read(oldest).is_ok());
        assert!(bytes(&files) >= round * CHECKPOINT_BYTES);
    }
    assert!(bytes(&files) <= 24 * CHECKPOINT_BYTES + LEAST_BYTES, "{}", bytes(&files));
    for _ in 0..2 {
        fill(&log);
        checkpoint(&log, None);
    }
    assert!(bytes(&files) <= 4 * CHECKPOINT_BYTES + LEAST_BYTES, "{}", bytes(&files));
}

/// The medium fills up with log that a checkpoint makes superfluous, again and again.
#[test]
fn a_full_medium_has_room_for_a_checkpoint_and_what_that_frees() {
    for spare in [0, 10 << 10, 100 << 10, 700 << 10] {
        let files = RecordingFiles::new();
        let mut log = create(&files);
        files.limit(Some(bytes(&files) + spare));
        for round in 0..12 {
            let mut tx = 0;
            let full = loop {
                match commit(&log, tx, 3000) {
                    Ok(()) => tx += 1,
                    Err(error) => break error,
                }
                assert!(tx < 10_000, "the medium is full at some time");
            };
            assert!(matches!(full, PagedError::LogFull { medium: true, .. }), "{full}");
            assert!(tx > 0, "round {round}, {spare} bytes more: there was room");
            assert!(log.would_free(log.end()), "a checkpoint is worth it");
            if round % 3 == 2 {
                drop(log);
                log = open(&files);
            }
            checkpoint(&log, None);
            if round % 5 == 4 {
                log.close().unwrap();
                drop(log);
                // Another user of the medium takes all of it.
                files.limit(Some(bytes(&files)));
                log = open(&files);
            }
        }
    }
}

/// Space that was set aside is found, whatever else is refused.
#[test]
fn a_full_medium_lets_every_transaction_be_undone() {
    for spare in (0..300 << 10).step_by(7 << 10) {
        let files = RecordingFiles::new();
        let log = create(&files);
        files.limit(Some(bytes(&files) + spare));
        let mut chains: Vec<Chain> = (1..=6).map(|tx| Chain::new(TxNo(tx))).collect();
        let mut changes = Vec::new();
        let refused = 'full: loop {
            for (number, chain) in chains.iter_mut().enumerate() {
                match log.append(chain, &change(&[9; 1000])) {
                    Ok(_) => changes.push(number),
                    Err(error) => break 'full error,
                }
            }
        };
        assert!(matches!(refused, PagedError::LogFull { medium: true, .. }), "{refused}");
        // It frees nothing, and takes nothing from what was set aside.
        checkpoint(&log, Some(chains[0].first));
        while let Some(number) = changes.pop() {
            let undo = Record { kind: Kind::Compensation, ..change(&[9; 1000]) };
            log.append(&mut chains[number], &undo).unwrap();
        }
        for chain in &mut chains {
            log.append(chain, &Record::bare(Kind::Abort)).unwrap();
            log.append(chain, &Record::bare(Kind::End)).unwrap();
        }
        log.force(log.end()).unwrap();
        checkpoint(&log, None);
        commit(&log, 9, 3000).unwrap();
    }
}

/// Appends a change of so many bytes until the log has no room for another one. Returns how many.
fn fill_with(log: &Log, chain: &mut Chain, bytes: usize) -> usize {
    let payload = vec![9; bytes];
    let mut appended = 0;
    loop {
        match log.append(chain, &change(&payload)) {
            Ok(_) => appended += 1,
            Err(PagedError::LogFull { medium: true, .. }) => return appended,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Takes back so many changes of so many bytes, and ends their transaction.
fn undo(log: &Log, chain: &mut Chain, changes: usize, bytes: usize) -> Result<(), PagedError> {
    let payload = vec![9; bytes];
    log.append(chain, &Record::bare(Kind::Abort))?;
    for _ in 0..changes {
        log.append(chain, &Record { kind: Kind::Compensation, ..change(&payload) })?;
    }
    log.append(chain, &Record::bare(Kind::End))?;
    log.force(log.end())
}

/// A checkpoint with large tables that frees nothing.
fn large_checkpoint(log: &Log, keep: Lsn) -> Result<(), PagedError> {
    let mut chain = Chain::default();
    let start = log.append(&mut chain, &Record::bare(Kind::CheckpointBegin))?;
    for _ in 0..3 {
        log.append(
            &mut chain,
            &Record { payload: &[0; 7000], ..Record::bare(Kind::CheckpointEnd) },
        )?;
    }
    log.force(chain.last)?;
    log.truncate(start, keep)
}

#[test]
fn checkpoints_take_nothing_of_what_is_set_aside() {
    for spare in (0..300 << 10).step_by(29 << 10) {
        let files = RecordingFiles::new();
        let log = create(&files);
        files.limit(Some(bytes(&files) + spare));
        let mut chain = Chain::new(TxNo(1));
        let changes = fill_with(&log, &mut chain, 1000);
        let refused = (0..10_000).find_map(|_| large_checkpoint(&log, chain.first).err());
        assert!(matches!(refused, Some(PagedError::LogFull { medium: true, .. })), "{refused:?}");
        undo(&log, &mut chain, changes, 1000).unwrap();
    }
}

/// Others take the space of the medium that a truncation gives back. A transaction that is open
/// needs more than the newest partition has left, and more than is kept for the next checkpoint.
#[test]
fn a_truncation_keeps_what_is_set_aside() {
    let options = CentralOptions { partition_bytes: 256 << 10, checkpoint_bytes: 4096, ..large() };
    let files = RecordingFiles::new();
    let log: Log = Central::create(&files, "log-", options, Arc::default()).unwrap();
    for tx in 0..100 {
        commit(&log, tx, 7000).unwrap();
    }
    let mut chain = Chain::new(TxNo(1000));
    for _ in 0..200 {
        log.append(&mut chain, &change(&[9; 1000])).unwrap();
    }
    let before = bytes(&files);
    checkpoint(&log, Some(chain.first));
    assert!(bytes(&files) < before, "there was something to give back");
    files.limit(Some(bytes(&files)));
    undo(&log, &mut chain, 200, 1000).unwrap();
    checkpoint(&log, None);
    commit(&log, 2000, 1000).unwrap();
}

/// The files of version 2, in which a partition's file is its number modulo theirs.
#[test]
fn a_log_of_the_version_before_is_opened() {
    let files = RecordingFiles::new();
    let log = create(&files);
    fill(&log);
    let start = checkpoint(&log, None);
    commit(&log, 7, 100).unwrap();
    drop(log);
    let mut image: BTreeMap<String, Vec<u8>> = files.image();
    for bytes in image.values_mut() {
        for header in bytes.chunks_mut(512).take(2).filter(|bytes| bytes.starts_with(b"PERDPL")) {
            assert_eq!(header[8], 3);
            header[8] = 2;
            header[12..16].fill(0);
            let sum = crc32c::crc32c(header);
            header[12..16].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let files = RecordingFiles::from_image(image);
    let log = open(&files);
    assert_eq!(log.start(), start);
    let mut changes = 0;
    log.scan(start, &mut |read| {
        changes += usize::from(read.kind == Kind::Change);
        Ok(())
    })
    .unwrap();
    assert_eq!(changes, 1);
    fill(&log);
    checkpoint(&log, None);
    drop(log);
    drop(open(&files));
    assert_eq!(files.list().unwrap().len(), 9);
}
