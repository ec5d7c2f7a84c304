//! The central log without crashes: room, rounds, groups, errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use paged::PagedError;
use paged::ids::{Lsn, PageNo, TxNo};
use paged::log::central::{Central, CentralOptions};
use paged::log::record::record_bytes;
use paged::log::{Chain, Kind, LogManager, Record};
use paged::threads::{Baton, Host, Threads, Waiter};
use pm::Files;
use sim::{DiskEvent, RecordingFiles};

use super::toy::reserve;

type Log<T = Host> = Central<RecordingFiles, T>;

/// Four partitions of 4 KB.
fn small() -> CentralOptions {
    CentralOptions {
        partitions: 4,
        partition_bytes: 4096,
        buffer_bytes: 4096,
        group_bytes: 2048,
        record_bytes: 1024,
        reserve_bytes: 512,
        checkpoint_bytes: 2048,
        group_wait: Duration::ZERO,
    }
}

fn create(files: &RecordingFiles) -> Log {
    Central::create(files, "log-", small(), Arc::default()).unwrap()
}

fn open(files: &RecordingFiles) -> Result<Log, PagedError> {
    Central::open(files, "log-", small(), Arc::default())
}

fn change(payload: &[u8]) -> Record<'_> {
    Record { page: PageNo(3), page_before: Lsn(4), payload, ..Record::bare(Kind::Change) }
}

#[test]
fn an_lsn_is_a_partition_and_an_offset() {
    let log = create(&RecordingFiles::new());
    let mut chain = Chain::new(TxNo(7));
    assert_eq!(log.end(), Lsn(0x1_0000_0200));
    assert_eq!(log.append(&mut chain, &change(&[1; 56])).unwrap(), Lsn(0x1_0000_0200));
    assert_eq!(log.append(&mut chain, &change(&[1; 50])).unwrap(), Lsn(0x1_0000_0278));
    assert_eq!((chain.first, chain.last), (Lsn(0x1_0000_0200), Lsn(0x1_0000_0278)));
    assert_eq!(log.end(), Lsn(0x1_0000_02f0));
}

#[test]
fn records_are_read_from_the_buffer_and_from_the_file() {
    let files = RecordingFiles::new();
    let log = create(&files);
    let mut chain = Chain::new(TxNo(7));
    let lsns: Vec<Lsn> = (0..20)
        .map(|n| log.append(&mut chain, &change(&vec![n; 3 * n as usize])).unwrap())
        .collect();
    let check = |log: &Log| {
        for (n, lsn) in lsns.iter().enumerate() {
            let read = log.read(*lsn).unwrap();
            assert_eq!(read.payload, vec![n as u8; 3 * n]);
            assert_eq!(read.prev, n.checked_sub(1).map_or(Lsn::NONE, |before| lsns[before]));
            assert_eq!((read.tx, read.page, read.page_before), (TxNo(7), PageNo(3), Lsn(4)));
        }
        assert!(log.read(Lsn(lsns[3].0 + 8)).is_err(), "no record begins there");
        assert!(log.read(log.end()).is_err());
    };
    check(&log);
    assert_eq!(log.durable(), Lsn::NONE);
    log.force(Lsn(u64::MAX)).unwrap();
    assert_eq!(log.durable(), lsns[19]);
    check(&log);
    drop(log);
    let log = open(&files).unwrap();
    assert_eq!(log.durable(), lsns[19]);
    check(&log);
    let mut found = Vec::new();
    let mut collect = |read: paged::log::Logged| {
        found.push(read.lsn);
        Ok(())
    };
    log.scan(lsns[5], &mut collect).unwrap();
    assert_eq!(found, lsns[5..]);
}

#[test]
fn partitions_are_used_round_after_round() {
    let files = RecordingFiles::new();
    let mut log = create(&files);
    let mut system = Chain::default();
    let mut sizes = Vec::new();
    for round in 0..600_u64 {
        let payload = vec![round as u8; (round * 97 % 900) as usize];
        let lsn = log.append(&mut system, &change(&payload)).unwrap();
        sizes.push((lsn, payload.len()));
        if round % 9 == 8 {
            log.truncate(lsn, lsn).unwrap();
            sizes.retain(|(kept, _)| *kept >= lsn);
        }
        if round % 31 == 30 {
            log.force(lsn).unwrap();
            drop(log);
            log = open(&files).unwrap();
            let mut found = Vec::new();
            let mut collect = |read: paged::log::Logged| {
                found.push((read.lsn, read.payload.len()));
                Ok(())
            };
            log.scan(log.start(), &mut collect).unwrap();
            assert_eq!(found, sizes);
        }
    }
    assert!(log.end() >= Lsn(40 << 32), "more than ten rounds");
    assert_eq!(files.list().unwrap(), ["log-0", "log-1", "log-2", "log-3", "log-head"]);
    for (name, bytes) in files.image() {
        assert!(bytes.len() <= 4096, "{name}");
    }
}

#[test]
fn a_full_log_lets_every_transaction_be_undone() {
    let log = create(&RecordingFiles::new());
    let mut chains: Vec<Chain> = (1..=6).map(|tx| Chain::new(TxNo(tx))).collect();
    let mut changes = Vec::new();
    let refused = 'full: loop {
        for (number, chain) in chains.iter_mut().enumerate() {
            match log.append(chain, &change(&[9; 100])) {
                Ok(_) => changes.push(number),
                Err(error) => break 'full error,
            }
        }
    };
    assert!(matches!(refused, PagedError::LogFull { .. }), "{refused}");
    let waited = log.reserve(&mut chains[0], 400).unwrap_err();
    assert!(matches!(waited, PagedError::LogFull { .. }), "nobody makes room: {waited}");
    assert!(changes.len() > 12, "{}", changes.len());
    // A checkpoint finds room, too.
    let mut system = Chain::default();
    log.append(&mut system, &Record::bare(Kind::CheckpointBegin)).unwrap();
    while let Some(number) = changes.pop() {
        let undo = Record { kind: Kind::Compensation, ..change(&[9; 100]) };
        log.append(&mut chains[number], &undo).unwrap();
    }
    for chain in &mut chains {
        log.append(chain, &Record::bare(Kind::Abort)).unwrap();
        log.append(chain, &Record::bare(Kind::End)).unwrap();
        assert_eq!((chain.aside, chain.ahead), (0, 0));
    }
}

#[test]
fn a_transaction_over_half_of_the_log_is_refused() {
    let log = create(&RecordingFiles::new());
    let mut chain = Chain::new(TxNo(1));
    let refused = loop {
        if let Err(error) = log.append(&mut chain, &change(&[9; 900])) {
            break error;
        }
    };
    let most = 4 * (4096 - 512 - 64 - 1024) / 2;
    assert!(matches!(refused, PagedError::TransactionTooLarge { most: at, .. } if at == most));
    let refused = log.reserve(&mut Chain::new(TxNo(2)), most).unwrap_err();
    assert!(matches!(refused, PagedError::TransactionTooLarge { .. }), "{refused}");
    let refused = log.append(&mut chain, &change(&[9; 961])).unwrap_err();
    assert!(matches!(refused, PagedError::TooLarge { bytes: 1032, most: 1024, .. }), "{refused}");
}

#[test]
fn what_is_given_back_can_be_used_again() {
    let log = create(&RecordingFiles::new());
    let before = log.room();
    let mut chain = Chain::new(TxNo(1));
    log.reserve(&mut chain, 300).unwrap();
    assert_eq!(log.room(), before - 600 - 128);
    log.append(&mut chain, &change(&[1; 36])).unwrap();
    assert_eq!(log.room(), before - 600 - 128, "it was set aside");
    log.commit(&mut chain).unwrap();
    assert_eq!(log.room(), before - 104 - 64, "the change and its commit");
    assert_eq!((chain.aside, chain.ahead), (0, 0));
}

#[test]
fn writers_wait_while_a_checkpoint_makes_room() {
    for seed in 0..30 {
        let baton = Arc::new(Baton::new(seed));
        let files = RecordingFiles::new();
        let log: Log<Baton> = Central::create(&files, "log-", small(), Arc::clone(&baton)).unwrap();
        let daemon = Arc::new(Waiter::default());
        log.attend(Arc::clone(&daemon));
        let (left, freed) = (AtomicU64::new(3), AtomicU64::new(0));
        baton.run(4, |thread| {
            if thread == 3 {
                while left.load(Ordering::Relaxed) > 0 {
                    baton.park(&daemon, Some(baton.now() + Duration::from_millis(5)));
                    if log.is_due() {
                        let mut chain = Chain::default();
                        let begin = Record::bare(Kind::CheckpointBegin);
                        let start = log.append(&mut chain, &begin).unwrap();
                        log.truncate(start, start).unwrap();
                        freed.fetch_add(1, Ordering::Relaxed);
                    }
                }
                return;
            }
            for round in 0..40 {
                let mut chain = Chain::new(TxNo(thread as u64 * 1000 + round + 1));
                reserve(&log, &*baton, &mut chain, record_bytes(200) as u64);
                log.append(&mut chain, &change(&[7; 200])).unwrap();
                let at = log.commit(&mut chain).unwrap();
                log.force(at).unwrap();
            }
            left.fetch_sub(1, Ordering::Relaxed);
            baton.wake(&daemon);
        });
        assert!(freed.load(Ordering::Relaxed) >= 4, "120 transactions took many times the log");
    }
}

#[test]
fn a_group_is_one_write_and_one_sync() {
    let files = RecordingFiles::new();
    let log = create(&files);
    let mut chain = Chain::new(TxNo(7));
    log.append(&mut chain, &change(&[1; 100])).unwrap();
    log.append(&mut chain, &change(&[1; 100])).unwrap();
    let at = log.commit(&mut chain).unwrap();
    files.start();
    log.force(at).unwrap();
    log.force(at).unwrap();
    let kinds: Vec<bool> = files
        .stop()
        .events
        .iter()
        .map(|record| match record.event {
            DiskEvent::Write { .. } => true,
            DiskEvent::Sync { .. } => false,
            ref other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((kinds, log.groups()), (vec![true, false], 1));
}

#[test]
fn threads_that_commit_at_once_share_syncs() {
    let mut saved = 0;
    for seed in 0..20 {
        let baton = Arc::new(Baton::new(seed));
        let files = RecordingFiles::new();
        let mut options = small();
        options.partition_bytes = 65_536;
        let log: Log<Baton> = Central::create(&files, "log-", options, Arc::clone(&baton)).unwrap();
        files.count(true);
        baton.run(8, |thread| {
            for round in 0..10 {
                let mut chain = Chain::new(TxNo(thread as u64 * 100 + round + 1));
                log.append(&mut chain, &change(&[7; 40])).unwrap();
                let at = log.commit(&mut chain).unwrap();
                log.force(at).unwrap();
                assert!(log.durable() >= at);
            }
        });
        assert_eq!(files.counters().syncs, log.groups());
        saved += 80 - log.groups();
        assert!(log.groups() <= 40, "seed {seed}: {} groups for 80 commits", log.groups());
    }
    assert!(saved > 0);
}

/// Threads whose calls to files take a time, which the test does not really wait for.
#[derive(Debug)]
struct Slow {
    baton: Baton,
    spent: Arc<AtomicU64>,
}

impl Slow {
    /// Each call that changes a file of `files` takes a millisecond.
    fn over(seed: u64, files: &RecordingFiles) -> Arc<Self> {
        let spent = Arc::new(AtomicU64::new(0));
        let of_calls = Arc::clone(&spent);
        files.call_before_each(move |_| {
            of_calls.fetch_add(1, Ordering::Relaxed);
        });
        Arc::new(Self { baton: Baton::new(seed), spent })
    }

    fn spent(&self) -> Duration {
        Duration::from_millis(self.spent.load(Ordering::Relaxed))
    }
}

impl Threads for Slow {
    fn now(&self) -> Duration {
        self.baton.now() + self.spent()
    }

    fn park(&self, waiter: &Waiter, until: Option<Duration>) -> bool {
        self.baton.park(waiter, until.map(|until| until.saturating_sub(self.spent())))
    }

    fn wake(&self, waiter: &Waiter) {
        self.baton.wake(waiter);
    }

    fn point(&self) {
        self.baton.point();
    }
}

fn commit_and_wait(log: &Log<Slow>, thread: usize, round: u64) {
    let mut chain = Chain::new(TxNo(thread as u64 * 100 + round + 1));
    log.append(&mut chain, &change(&[7; 40])).unwrap();
    let at = log.commit(&mut chain).unwrap();
    log.force(at).unwrap();
    assert!(log.durable() >= at);
}

/// Threads whose commits return together commit together again, not half of them in each group.
#[test]
fn a_group_waits_for_those_who_were_in_the_last_one() {
    let groups = |seed, group_wait| {
        let files = RecordingFiles::new();
        let threads = Slow::over(seed, &files);
        let options = CentralOptions { partition_bytes: 65_536, group_wait, ..small() };
        let log = Central::create(&files, "log-", options, Arc::clone(&threads)).unwrap();
        threads.baton.run(8, |thread| {
            (0..10).for_each(|round| commit_and_wait(&log, thread, round));
        });
        log.groups()
    };
    for seed in 0..20 {
        let (without, with) =
            (groups(seed, Duration::ZERO), groups(seed, Duration::from_millis(5)));
        assert!(with <= 15 && with < without, "seed {seed}: {with} groups, {without} otherwise");
    }
}

/// A thread that is alone waits once for those that were there before.
#[test]
fn a_group_waits_once_for_those_who_do_not_come() {
    let files = RecordingFiles::new();
    let threads = Slow::over(1, &files);
    let group_wait = Duration::from_secs(1);
    let options = CentralOptions { partition_bytes: 65_536, group_wait, ..small() };
    let log = Central::create(&files, "log-", options, Arc::clone(&threads)).unwrap();
    threads.baton.run(4, |thread| {
        (0..4).for_each(|round| commit_and_wait(&log, thread, round));
    });
    let times = parking_lot::Mutex::new(Vec::new());
    threads.baton.run(1, |thread| {
        for round in 4..8 {
            let began = threads.baton.now();
            commit_and_wait(&log, thread, round);
            times.lock().push(threads.baton.now() - began);
        }
    });
    let times = times.into_inner();
    assert!(times[1..].iter().all(|time| *time < LEAST_WAIT), "{times:?}");
}

/// A group waits at least so long, if it waits.
const LEAST_WAIT: Duration = Duration::from_micros(50);

#[test]
fn threads_of_the_system_commit_without_a_lost_wakeup() {
    for wait in [Duration::ZERO, Duration::from_millis(1)].repeat(3) {
        let mut options = small();
        options.group_wait = wait;
        options.partition_bytes = 1 << 20;
        let files = RecordingFiles::new();
        // A sync that takes long enough to be waited for.
        files.call_before_each(|_| std::thread::sleep(Duration::from_micros(120)));
        let log: Log = Central::create(&files, "log-", options, Arc::default()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let log = &log;
                scope.spawn(move || {
                    for round in 0..40 {
                        let mut chain = Chain::new(TxNo(thread * 1000 + round + 1));
                        log.append(&mut chain, &change(&[7; 40])).unwrap();
                        let at = log.commit(&mut chain).unwrap();
                        log.force(at).unwrap();
                    }
                });
            }
        });
        let log = Central::open(&files, "log-", options, Arc::new(Host::default())).unwrap();
        let mut commits = 0;
        log.scan(log.start(), &mut |read| {
            commits += u64::from(read.kind == Kind::Commit);
            Ok(())
        })
        .unwrap();
        assert_eq!(commits, 320);
    }
}

#[test]
fn an_asynchronous_commit_is_durable_when_its_point_is_reached() {
    let log = create(&RecordingFiles::new());
    let mut chain = Chain::new(TxNo(7));
    let ticket = log.commit(&mut chain).unwrap();
    assert!(log.durable() < ticket);
    log.force(log.end()).unwrap();
    assert!(log.durable() >= ticket);
}

#[test]
fn a_failed_sync_stops_the_log_and_everyone_who_waits() {
    let files = RecordingFiles::new();
    let log = create(&files);
    let mut chain = Chain::new(TxNo(7));
    let at = log.append(&mut chain, &change(&[1; 100])).unwrap();
    files.fail_once_after(1);
    assert!(matches!(log.force(at), Err(PagedError::Io { doing: "syncing the log", .. })));
    assert!(matches!(log.force(at), Err(PagedError::Stopped { .. })));
    assert!(matches!(log.append(&mut chain, &change(&[])), Err(PagedError::Stopped { .. })));
    assert!(matches!(log.commit(&mut chain), Err(PagedError::Stopped { .. })));
    assert!(matches!(log.reserve(&mut chain, 10), Err(PagedError::Stopped { .. })));
    assert!(matches!(log.truncate(at, at), Err(PagedError::Stopped { .. })));
    assert_eq!(log.durable(), Lsn::NONE);
}

#[test]
fn a_full_disk_refuses_the_record_and_leaves_the_log_usable() {
    let files = RecordingFiles::new();
    let log = create(&files);
    let now: usize = files.image().values().map(Vec::len).sum();
    files.limit(Some(now as u64));
    let mut chain = Chain::new(TxNo(7));
    let mut appended = 0;
    let refused = loop {
        match log.append(&mut chain, &change(&[1; 100])) {
            Ok(_) => appended += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, PagedError::LogFull { medium: true, .. }), "{refused}");
    assert!(appended > 2);
    for _ in 0..appended {
        let undo = Record { kind: Kind::Compensation, ..change(&[1; 100]) };
        log.append(&mut chain, &undo).unwrap();
    }
    let at = log.append(&mut chain, &Record::bare(Kind::End)).unwrap();
    log.force(at).unwrap();
}

/// Files of a database with a stamp.
#[derive(Clone, Debug)]
struct Stamped(RecordingFiles, u32);

impl Files for Stamped {
    type File = sim::RecordedFile;
    fn create(&self, name: &str) -> std::io::Result<Self::File> {
        self.0.create(name)
    }
    fn open(&self, name: &str) -> std::io::Result<Self::File> {
        self.0.open(name)
    }
    fn list(&self) -> std::io::Result<Vec<String>> {
        self.0.list()
    }
    fn remove(&self, name: &str) -> std::io::Result<()> {
        self.0.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.0.rename(from, to)
    }
    fn rename_new(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.0.rename_new(from, to)
    }
    fn stamp(&self) -> u32 {
        self.1
    }
    fn sync_directory(&self) -> std::io::Result<()> {
        self.0.sync_directory()
    }
    fn sync_all(&self) -> std::io::Result<()> {
        self.0.sync_all()
    }
    fn counters(&self) -> pm::Counters {
        self.0.counters()
    }
    fn count(&self, on: bool) {
        self.0.count(on);
    }
}

#[test]
fn files_of_another_log_and_missing_ones_are_named() {
    let files = RecordingFiles::new();
    let log = create(&files);
    let mut chain = Chain::default();
    for _ in 0..10 {
        let at = log.append(&mut chain, &change(&[1; 900])).unwrap();
        log.force(at).unwrap();
    }
    drop(log);
    let image = files.image();
    let refused = |image: std::collections::BTreeMap<String, Vec<u8>>, name: &str| {
        let error = open(&RecordingFiles::from_image(image)).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        error
    };
    for name in image.keys() {
        let mut less = image.clone();
        less.remove(name);
        assert!(refused(less, name).contains("missing"));
        let mut damaged = image.clone();
        damaged.get_mut(name).unwrap()[3] ^= 1;
        assert!(refused(damaged, name).contains("damaged"));
        let mut another = image.clone();
        let other = RecordingFiles::new();
        let stamped = Stamped(other.clone(), 5);
        Central::create(&stamped, "log-", small(), Arc::new(Host::default())).unwrap();
        another.insert(name.clone(), other.image()[name].clone());
        assert!(refused(another, name).contains("another database"));
    }
    // A partition of an earlier moment, and one that has lost its end.
    let fresh = RecordingFiles::new();
    drop(create(&fresh));
    let mut early = image.clone();
    early.insert("log-2".into(), fresh.image()["log-2"].clone());
    let error = open(&RecordingFiles::from_image(early)).unwrap_err();
    assert!(matches!(error, PagedError::DamagedLog { .. }), "{error}");
    let mut short = image.clone();
    short.get_mut("log-1").unwrap().truncate(2000);
    let error = open(&RecordingFiles::from_image(short)).unwrap_err();
    assert!(matches!(error, PagedError::DamagedLog { .. }), "{error}");
}

#[test]
fn a_checkpoint_is_due_by_what_was_logged() {
    let log = create(&RecordingFiles::new());
    let asked = Arc::new(Waiter::default());
    log.attend(Arc::clone(&asked));
    let host = Host::default();
    let woken = || host.park(&asked, Some(Duration::ZERO));
    let mut chain = Chain::default();
    let over = AtomicBool::new(false);
    while log.consumed() + 264 < 2048 {
        log.append(&mut chain, &change(&[1; 200])).unwrap();
        over.store(log.is_due() || woken(), Ordering::Relaxed);
    }
    assert!(!over.into_inner());
    log.append(&mut chain, &change(&[1; 200])).unwrap();
    assert!(log.is_due() && woken());
    let start = log.append(&mut chain, &Record::bare(Kind::CheckpointBegin)).unwrap();
    log.append(&mut chain, &change(&[1; 200])).unwrap();
    log.truncate(start, start).unwrap();
    assert_eq!((log.consumed(), log.is_due(), log.start()), (64 + 264, false, start));
}

/// The options at opening may ask for other sizes than the log was made with.
#[test]
fn a_log_that_was_made_small_opens_with_the_options_of_a_large_one() {
    let files = RecordingFiles::new();
    drop(create(&files));
    let log = Central::open(&files, "log-", CentralOptions::default(), Arc::new(Host::default()));
    let log = log.expect("opened");
    assert!(log.largest() <= 1024, "{}", log.largest());
    let mut chain = Chain::default();
    log.append(&mut chain, &change(&[1; 800])).unwrap();
    log.force(log.end()).unwrap();
}

/// Records that are as long, and end with the same bytes, so that each is whole with the other's
/// end.
#[test]
fn a_torn_record_is_not_made_whole_by_its_successor() {
    // The torn record begins within a sector, or with one.
    for (before, bytes) in [(352, 34), (448, 450)] {
        let payload = |byte: u8| [vec![byte; bytes - 2], vec![0; 2]].concat();
        let files = RecordingFiles::new();
        let log = create(&files);
        log.append(&mut Chain::new(TxNo(1)), &change(&vec![1; before])).unwrap();
        let torn = log.append(&mut Chain::new(TxNo(2)), &change(&payload(2))).unwrap();
        log.force(torn).unwrap();
        drop(log);
        let at = (torn.0 & u64::from(u32::MAX)) as usize;
        let (sector, end) = (at / 512 * 512, at + record_bytes(bytes));
        assert!(sector + 512 < end && end < sector + 1024, "it ends in the next sector");
        // A power cut loses that: there is what lay there before.
        let mut image = files.image();
        image.get_mut("log-1").unwrap()[sector + 512..sector + 1024].fill(0xaa);
        let files = RecordingFiles::from_image(image);
        let log = open(&files).unwrap();
        assert_eq!(log.end(), torn);
        let opened = files.image();
        assert_eq!(log.append(&mut Chain::new(TxNo(3)), &change(&payload(3))).unwrap(), torn);
        let last = log.append(&mut Chain::new(TxNo(3)), &change(b"behind")).unwrap();
        log.force(last).unwrap();
        drop(log);
        // The next one loses the first sector of what was written.
        let mut image = files.image();
        let lost = sector..sector + 512;
        image.get_mut("log-1").unwrap()[lost.clone()].copy_from_slice(&opened["log-1"][lost]);
        let log = open(&RecordingFiles::from_image(image)).unwrap();
        let mut found = Vec::new();
        let mut collect = |read: paged::log::Logged| {
            found.push(read.tx.0);
            Ok(())
        };
        log.scan(log.start(), &mut collect).unwrap();
        assert_eq!(found, [1], "at offset {at}");
    }
}
