//! Damage in the middle of a log is not taken for its end, nor for a hole: every byte of a small
//! log is changed in turn, after a kill. Only what was made durable last may go unnoticed, since a
//! crash leaves the same.

use std::sync::Arc;
use std::time::Duration;

use paged::PagedError;
use paged::ids::{Lsn, PageNo, TxNo};
use paged::log::central::{Central, CentralOptions};
use paged::log::nv::{NvForm, NvLog, NvOptions, Persist};
use paged::log::{Chain, Kind, LogManager, Record};
use paged::threads::Host;
use pm::Memory;
use sim::{Recording, RecordingFiles};

type Log = Central<RecordingFiles, Host>;

/// Transactions of a log, each of which is forced when it is committed.
const TRANSACTIONS: u64 = 12;

/// Each transaction has two changes, of one page, and commits.
fn write(log: &dyn LogManager, transactions: std::ops::Range<u64>) {
    let mut page_before = Lsn::NONE;
    for tx in transactions {
        let mut chain = Chain::new(TxNo(tx));
        for number in 0..2 {
            let payload = vec![tx as u8; 20 + (tx * 13 + number * 29) as usize % 90];
            let change = Record {
                page: PageNo(3),
                page_before,
                payload: &payload,
                ..Record::bare(Kind::Change)
            };
            page_before = log.append(&mut chain, &change).unwrap();
        }
        let commit = log.commit(&mut chain).unwrap();
        log.force(commit).unwrap();
    }
}

/// The committed transactions, if all can be read.
fn committed(log: Result<impl LogManager, PagedError>) -> Result<Vec<u64>, PagedError> {
    let log = log?;
    let mut committed = Vec::new();
    log.scan(log.start(), &mut |record| {
        if record.kind == Kind::Commit {
            committed.push(record.tx.0);
        }
        Ok(())
    })?;
    Ok(committed)
}

/// Judges a log with a damaged byte. Returns whether it was noticed.
fn judge(found: Result<Vec<u64>, PagedError>, at: usize) -> bool {
    match found {
        Err(PagedError::DamagedLog { .. } | PagedError::WrongLog { .. }) => true,
        Err(error) => panic!("byte {at}: {error}"),
        Ok(found) => {
            let all: Vec<u64> = (0..TRANSACTIONS).collect();
            // Nothing speaks for the last transaction.
            let last = found == all[..all.len() - 1];
            assert!(found == all || last, "byte {at}: {found:?}");
            false
        }
    }
}

fn options() -> CentralOptions {
    CentralOptions {
        partitions: 4,
        partition_bytes: 4096,
        buffer_bytes: 4096,
        group_bytes: 2048,
        record_bytes: 1024,
        reserve_bytes: 512,
        checkpoint_bytes: 1 << 20,
        group_wait: Duration::ZERO,
    }
}

fn open(files: &RecordingFiles) -> Result<Log, PagedError> {
    Central::open(files, "log-", options(), Arc::default())
}

#[test]
fn a_damaged_byte_in_the_central_log_is_not_its_end() {
    let files = RecordingFiles::new();
    let log: Log = Central::create(&files, "log-", options(), Arc::default()).unwrap();
    write(&log, 0..5);
    drop(log);
    // Records of two restarts.
    write(&open(&files).unwrap(), 5..TRANSACTIONS);
    let image = files.image();
    let (mut noticed, mut bytes) = (0, 0);
    for name in ["log-1", "log-2"] {
        for at in 0..image[name].len() {
            let mut image = image.clone();
            image.get_mut(name).unwrap()[at] ^= 1 << (at % 8);
            let files = RecordingFiles::from_image(image);
            noticed += usize::from(judge(committed(open(&files)), at));
            bytes += 1;
        }
    }
    // The log has 3.2 KB, of which the last transaction has a twelfth.
    println!("{noticed} of {bytes} bytes noticed");
    assert!(noticed > 2500, "{noticed} of {bytes}");
}

/// A reader that saves what can be saved gets the records before the damage.
#[test]
fn a_log_can_be_read_up_to_the_damage() {
    let files = RecordingFiles::new();
    let log: Log = Central::create(&files, "log-", options(), Arc::default()).unwrap();
    write(&log, 0..TRANSACTIONS);
    drop(log);
    let image = files.image();
    let mut lengths = Vec::new();
    for at in (600..image["log-1"].len()).step_by(400) {
        let mut image = image.clone();
        image.get_mut("log-1").unwrap()[at] ^= 1;
        let files = RecordingFiles::from_image(image);
        let log: Result<Log, _> =
            Central::open_up_to_damage(&files, "log-", options(), Arc::default());
        let found = committed(log).unwrap();
        assert!(found.iter().copied().eq(0..found.len() as u64), "{found:?}");
        lengths.push(found.len());
    }
    assert!(lengths.is_sorted() && lengths[0] < 3 && lengths[lengths.len() - 1] > 6, "{lengths:?}");
}

#[test]
fn a_head_that_has_lost_its_newest_slot_does_not_hide_records() {
    let files = RecordingFiles::new();
    let log: Log = Central::create(&files, "log-", options(), Arc::default()).unwrap();
    write(&log, 0..5);
    drop(log);
    write(&open(&files).unwrap(), 5..8);
    let mut image = files.image();
    // The second slot was written when the log was opened.
    image.get_mut("log-head").unwrap()[512 + 40] ^= 1;
    let error = committed(open(&RecordingFiles::from_image(image))).unwrap_err();
    assert!(matches!(error, PagedError::DamagedLog { .. }), "{error}");
}

const FORM: NvForm = NvForm { entries: 64, segments: 16, segment_bytes: 2048, record_bytes: 512 };
const AT: u64 = 64;
const LIMIT: u64 = 1 << 20;

fn open_nv(memory: &Recording, persist: Persist) -> Result<NvLog<Recording, Host>, PagedError> {
    NvLog::open(memory.clone(), AT, 7, nv_options(persist), Arc::default())
}

fn nv_options(persist: Persist) -> NvOptions {
    NvOptions { persist, lanes: 2, checkpoint_records: 1000 }
}

#[test]
fn a_damaged_byte_in_an_nv_log_is_neither_its_end_nor_a_hole() {
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        let memory = Recording::new(LIMIT).unwrap();
        memory.grow(AT + FORM.bytes()).unwrap();
        let options = nv_options(persist);
        let log = NvLog::create(memory.clone(), AT, FORM, 7, options, Arc::new(Host::default()));
        write(&log, 0..5);
        drop(log);
        write(&open_nv(&memory, persist).unwrap(), 5..TRANSACTIONS);
        let image = memory.contents();
        let (mut noticed, mut bytes) = (0, 0);
        // The head's numbers have no checksum: see docs/guarantees.md.
        let ring = AT as usize + 64;
        for at in (ring..image.len()).filter(|at| image[*at] != 0) {
            let mut image = image.clone();
            image[at] ^= 1 << (at % 8);
            let memory = Recording::from_image(&image, LIMIT).unwrap();
            let found = committed(open_nv(&memory, persist));
            noticed += usize::from(judge(found, at));
            bytes += 1;
        }
        println!("{persist:?}: {noticed} of {bytes} bytes noticed");
        assert!(noticed * 10 > bytes * 8, "{persist:?}: {noticed} of {bytes}");
    }
}

/// A record cannot know of one that came after it: that a page has such an LSN, of another log,
/// makes no damage of a hole.
#[test]
fn a_record_speaks_only_for_those_before_it() {
    let memory = Recording::new(LIMIT).unwrap();
    memory.grow(AT + FORM.bytes()).unwrap();
    let options = nv_options(Persist::OnInsert);
    let log = NvLog::create(memory.clone(), AT, FORM, 7, options, Arc::new(Host::default()));
    let append = |page_before: u64| {
        let page_before = Lsn(page_before);
        let change = Record { page: PageNo(3), page_before, ..Record::bare(Kind::Change) };
        log.append(&mut Chain::new(TxNo(1)), &change).unwrap()
    };
    assert_eq!([append(2), append(0), append(1)], [Lsn(1), Lsn(2), Lsn(3)]);
    drop(log);
    let mut image = memory.contents();
    // Its entry: neighbours share no line.
    let entry = AT as usize + 64 + 2 * 64;
    image[entry..entry + 8].fill(0);
    let memory = Recording::from_image(&image, LIMIT).unwrap();
    let log = open_nv(&memory, Persist::OnInsert).unwrap();
    assert!(log.read(Lsn(2)).is_err() && log.read(Lsn(3)).is_ok());
}

/// Two transactions change a page, and neither has ended: of the first record only the page of the
/// second one speaks.
#[test]
fn a_record_that_only_its_page_names_is_no_hole() {
    let create = |page_before| {
        let memory = Recording::new(LIMIT).unwrap();
        memory.grow(AT + FORM.bytes()).unwrap();
        let options = nv_options(Persist::OnInsert);
        let log = NvLog::create(memory.clone(), AT, FORM, 7, options, Arc::new(Host::default()));
        let append = |tx, page_before| {
            let change = Record {
                page: PageNo(3),
                page_before,
                payload: &[5; 9],
                ..Record::bare(Kind::Change)
            };
            log.append(&mut Chain::new(TxNo(tx)), &change).unwrap()
        };
        let before = memory.contents();
        let first = append(1, Lsn::NONE);
        let after = memory.contents();
        assert_eq!((first, append(2, page_before)), (Lsn(1), Lsn(2)));
        // The bytes of its entry and of its object.
        let changed = before.iter().zip(&after).enumerate();
        let changed = changed.filter(|(_, (before, after))| before != after);
        (memory.contents(), changed.map(|(at, _)| at).collect::<Vec<_>>())
    };
    let (named, places) = create(Lsn(1));
    let (unnamed, _) = create(Lsn::NONE);
    assert!(places.len() >= 20, "{places:?}");
    for at in places {
        let open = |image: &[u8]| {
            let mut image = image.to_vec();
            image[at] ^= 1 << (at % 8);
            open_nv(&Recording::from_image(&image, LIMIT).unwrap(), Persist::OnInsert)
        };
        let error = open(&named).unwrap_err();
        assert!(matches!(error, PagedError::DamagedLog { at: Lsn(1), .. }), "byte {at}: {error}");
        // A crash can leave the same if nothing rests on it.
        assert!(open(&unnamed).unwrap().read(Lsn(2)).is_ok(), "byte {at}");
    }
}

/// A hole that a restart has skipped stays one, though later transactions were sure of the log
/// before them.
#[test]
fn a_hole_of_an_earlier_restart_is_no_damage() {
    let memory = Recording::new(LIMIT).unwrap();
    memory.grow(AT + FORM.bytes()).unwrap();
    let options = nv_options(Persist::OnInsert);
    let log = NvLog::create(memory.clone(), AT, FORM, 7, options, Arc::new(Host::default()));
    let append = |payload: u8| {
        let change =
            Record { page: PageNo(3), payload: &[payload; 9], ..Record::bare(Kind::Change) };
        log.append(&mut Chain::new(TxNo(u64::from(payload))), &change).unwrap()
    };
    let (lost, kept) = (append(1), append(2));
    assert_eq!((lost, kept), (Lsn(1), Lsn(2)));
    drop(log);
    // As a power cut leaves the first of two that were appended at the same time: no entry.
    let mut image = memory.contents();
    let ring = AT as usize + 64;
    image[ring + 64..ring + 72].fill(0);
    let memory = Recording::from_image(&image, LIMIT).unwrap();
    for round in 0..4 {
        let log = open_nv(&memory, Persist::OnInsert).unwrap();
        assert_eq!(log.read(kept).unwrap().payload, [2; 9]);
        assert!(log.read(lost).is_err());
        write(&log, round * 2..round * 2 + 2);
    }
    // Without its mark it would be damage.
    let mut image = memory.contents();
    image[ring + 64..ring + 72].fill(0);
    let memory = Recording::from_image(&image, LIMIT).unwrap();
    let error = open_nv(&memory, Persist::OnInsert).unwrap_err();
    assert!(matches!(error, PagedError::DamagedLog { at: Lsn(1), .. }), "{error}");
}

/// Two transactions have changed a page each, and neither has ended: of the first record only a page says that
/// it was durable, by the newest LSN with which one was written.
#[test]
fn the_newest_record_of_written_pages_is_no_hole() {
    let memory = Recording::new(LIMIT).unwrap();
    memory.grow(AT + FORM.bytes()).unwrap();
    let options = nv_options(Persist::OnInsert);
    let log = NvLog::create(memory.clone(), AT, FORM, 7, options, Arc::new(Host::default()));
    let append = |tx| {
        let change = Record { page: PageNo(tx), payload: &[5; 9], ..Record::bare(Kind::Change) };
        log.append(&mut Chain::new(TxNo(tx)), &change).unwrap();
        memory.contents()
    };
    let (before, after, all) = (memory.contents(), append(1), append(2));
    let places = (0..all.len()).filter(|at| before.get(*at) != after.get(*at));
    for at in places {
        let open = |written| {
            let mut image = all.clone();
            image[at] ^= 1 << (at % 8);
            let memory = Recording::from_image(&image, LIMIT).unwrap();
            let host = Arc::new(Host::default());
            NvLog::open_under(memory, AT, 7, options, host, written)
        };
        let error = open(Lsn(1)).unwrap_err();
        assert!(matches!(error, PagedError::DamagedLog { at: Lsn(1), .. }), "byte {at}: {error}");
        assert!(open(Lsn::NONE).unwrap().read(Lsn(2)).is_ok(), "byte {at}");
    }
}
