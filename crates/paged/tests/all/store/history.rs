//! The history of an archive: it goes on with the log that it is of, and with no other one; a log
//! that is opened without it leaves no gap; a damaged base backup leaves no files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use paged::file::NewFile;
use paged::ids::{Lsn, PageNo};
use paged::log::archive::{Archive, Note};
use paged::log::central::Central;
use paged::log::{Archived, LogManager};
use paged::restore::{Made, restore};
use paged::store::Store;
use paged::threads::Host;
use paged::{PagedError, Result};
use pm::{File, Files};
use rand::SeedableRng;
use rand::rngs::StdRng;
use sim::RecordingFiles;

use super::archive::{
    Commits, Copied, FRAMES, Home, Image, Log, PREFIX, STAMP, copy, log_options, refusal, run,
};
use super::support::{TREES, TestStore, check, contents, options};

const NOTE: &str = "archive";

type Pages = Vec<(PageNo, Vec<u8>)>;

/// A store of which an archive is kept, and its files when they are closed.
fn made(many: u64) -> (Home, Copied) {
    let home = Home::new();
    let store = home.create(Log::Central);
    let base = copy(&store);
    run(&home, &store, &mut StdRng::seed_from_u64(21), &mut Commits::new(), many);
    store.close().expect("closed");
    (home, base)
}

fn of(files: Image, archive: Image, home: &Home) -> Home {
    let (files, archive) = (RecordingFiles::from_image(files), RecordingFiles::from_image(archive));
    Home { files, archive, now: Arc::clone(&home.now) }
}

fn open_log(home: &Home) -> Result<Arc<dyn LogManager>> {
    let log: Central<_, Host> = Central::open(&home.files, "log-", log_options(), Arc::default())?;
    Ok(Arc::new(log))
}

/// Opens it without naming the archive.
fn open_without(home: &Home) -> Arc<TestStore> {
    let log = open_log(home).expect("the log");
    let log = match Note::open(&home.files, "", STAMP).expect("read") {
        Some(note) => {
            let held = Archived::<RecordingFiles, _>::without(log, note, home.clock());
            Arc::new(held) as Arc<dyn LogManager>
        }
        None => log,
    };
    Store::open(&home.files, "", log, options(FRAMES)).expect("a store").0
}

/// Commits rows of 100 bytes until one is refused, or so many are there.
fn fill(store: &Arc<TestStore>, from: u64, many: u64) -> (u64, Option<PagedError>) {
    let mut session = store.session();
    for number in from..from + many {
        session.begin(number, None);
        if let Err(error) = session.insert(TREES[0], &number.to_be_bytes(), &[1; 100]) {
            session.abort().expect("aborted");
            return (number - from, Some(error));
        }
        let at = session.commit().expect("committed");
        store.wait(at).expect("durable");
    }
    (many, None)
}

fn name(number: u64) -> String {
    format!("{PREFIX}{number:012}")
}

#[test]
fn a_copy_that_has_gone_on_by_itself_is_refused() {
    let (home, _) = made(12);
    let (files, before) = (home.files.image(), home.archive.image());
    // The database goes on, and so does its archive.
    let store = home.open().expect("opened");
    fill(&store, 1 << 32, 40);
    store.close().expect("closed");
    drop(store);
    let archive = home.archive.image();
    assert!(archive.len() > before.len());
    // A copy of an earlier moment goes on without the archive, to the same LSNs and beyond.
    let copied = of(files, archive.clone(), &home);
    let why = refusal(copied.open());
    assert!(why.contains("of an earlier moment"), "{why}");
    let store = open_without(&copied);
    let (written, refused) = fill(&store, 2 << 32, 80);
    assert_eq!((written, refused.map(drop)), (80, None));
    store.close().expect("closed");
    drop(store);
    let why = refusal(copied.open());
    assert!(why.contains("another history"), "{why}");
    assert_eq!(copied.archive.image(), archive, "nothing was changed");
    // With what the archive had when it was copied, it goes on.
    let own = of(copied.files.image(), before, &home);
    own.open().expect("opened").close().expect("closed");
    // From then on each has segments of its own, and no mixture is taken for an archive.
    let other = own.archive.image();
    let apart = (1..).find(|number| archive[&name(*number)] != other[&name(*number)]);
    let apart = name(apart.expect("they part"));
    let mut mixture = other.clone();
    mixture.insert(apart.clone(), archive[&apart].clone());
    let why = refusal(of(Image::new(), mixture, &home).reader());
    assert!(why.contains("two histories") || why.contains("gap"), "{why}");
    // The first database is refused with the other's segments, and takes its own.
    let why = refusal(of(home.files.image(), other, &home).open());
    assert!(why.contains("another history") || why.contains("ends with segment"), "{why}");
    of(home.files.image(), archive, &home).open().expect("opened").close().expect("closed");
}

#[test]
fn a_base_backup_is_restored_with_its_own_history_alone() {
    let (home, _) = made(12);
    let (files, archive) = (home.files.image(), home.archive.image());
    let go_on = |first: u64| {
        let home = of(files.clone(), archive.clone(), &home);
        let store = home.open().expect("opened");
        fill(&store, first, 40);
        let base = copy(&store);
        fill(&store, first + 1000, 40);
        let model = contents(&store).expect("read");
        store.close().expect("closed");
        (home, base, model)
    };
    let ((one, base, model), (two, other, _)) = (go_on(1 << 32), go_on(2 << 32));
    let to = |home: &Home| home.reader().expect("an archive").stored().to;
    assert_eq!(to(&one), to(&two), "the same LSNs");
    for (home, base) in [(&one, &other), (&two, &base)] {
        let why = refusal(home.restore(base, to(home)));
        assert!(why.contains("another history than the base backup"), "{why}");
    }
    check(&one.restore(&base, to(&one)).expect("restored"), &model).expect("all of it");
}

#[test]
fn a_log_that_is_opened_without_its_archive_leaves_no_gap() {
    let (home, base) = made(12);
    let store = open_without(&home);
    let (written, refused) = fill(&store, 1 << 32, 2_000);
    let refused = refused.expect("the log is full in the end").to_string();
    assert!(written > 90, "the log was used first: {written}");
    assert!(refused.contains("opened without it; open it with archive-0-"), "{refused}");
    store.close().expect("closed");
    drop(store);
    // Its archive has all of it afterwards.
    let store = home.open().expect("the archive joins the log");
    fill(&store, 2 << 32, 200);
    let model = contents(&store).expect("read");
    store.close().expect("closed");
    let to = home.reader().expect("an archive").stored().to;
    check(&home.restore(&base, to).expect("restored"), &model).expect("all of it");
}

#[test]
fn an_archive_that_is_ended_makes_way_for_another_one() {
    let (home, _) = made(12);
    let fresh = of(home.files.image(), Image::new(), &home);
    let why = refusal(fresh.open());
    assert!(why.contains("has no segment") && why.contains("end its archive"), "{why}");
    let store = open_without(&fresh);
    store.log().end_archive().expect("ended");
    let (written, refused) = fill(&store, 1 << 32, 1_000);
    assert_eq!((written, refused.map(drop)), (1_000, None), "the log is used again");
    store.close().expect("closed");
    drop(store);
    // The old one is not gone on with, since there is a gap; an empty one is.
    let old = of(fresh.files.image(), home.archive.image(), &home);
    let why = refusal(old.open());
    assert!(why.contains("there is segment") && why.contains("has ended it"), "{why}");
    let store = fresh.open().expect("opened");
    let base = copy(&store);
    fill(&store, 2 << 32, 100);
    let model = contents(&store).expect("read");
    store.close().expect("closed");
    let to = fresh.reader().expect("an archive").stored().to;
    check(&fresh.restore(&base, to).expect("restored"), &model).expect("all of it");
}

#[test]
fn a_database_that_was_used_past_its_note_is_refused() {
    let (home, _) = made(4);
    // A build that knows no notes.
    let log = open_log(&home).expect("the log");
    let store = Store::open(&home.files, "", log, options(FRAMES)).expect("a store").0;
    fill(&store, 1 << 32, 600);
    store.close().expect("closed");
    drop(store);
    let why = refusal(home.open());
    assert!(why.contains("used without it"), "{why}");
}

#[test]
fn a_damaged_or_foreign_note_is_refused() {
    let (home, _) = made(4);
    let image = home.files.image();
    for bit in [0, 100, 511 * 8] {
        let mut damaged = image.clone();
        damaged.get_mut(NOTE).expect("a note")[bit / 8] ^= 1 << (bit % 8);
        let why = refusal(of(damaged, home.archive.image(), &home).open());
        assert!(why.contains("its note, archive, is damaged; remove that file"), "{why}");
    }
    let why = refusal(Note::open(&home.files, "", STAMP + 1));
    assert!(why.contains("is of another database"), "{why}");
}

#[test]
fn files_of_others_stay_where_they_are() {
    let (home, _) = made(4);
    let next = home.archive.image().len() as u64 + 1;
    let put = |name: &str, bytes: &[u8]| {
        home.archive.create(name).expect("made").write_at(0, bytes).expect("written");
    };
    let notes = format!("{PREFIX}notes-of-may.tmp");
    let later = format!("{}.tmp", name(next + 7));
    put(&notes, b"mine");
    put(&later, b"mine, too");
    let store = home.open().expect("opened");
    fill(&store, 1 << 32, 20);
    store.close().expect("closed");
    drop(store);
    assert!([&notes, &later].iter().all(|name| home.archive.image().contains_key(*name)));
    // In the way, and no unfinished segment of this database: named, and left.
    let next = home.reader().expect("an archive").stored().segments + 1;
    let in_the_way = format!("{}.tmp", name(next));
    put(&in_the_way, b"PERFECTLY GOOD THING OF MINE, LONG");
    let why = refusal(home.open());
    assert!(why.contains(&in_the_way) && why.contains("in the way"), "{why}");
    assert!(home.archive.image().contains_key(&in_the_way));
    // Nothing is removed where the directory is another database's.
    home.archive.remove(&in_the_way).expect("removed");
    let other = Archive::open(home.archive.clone(), PREFIX, STAMP).expect("its own");
    drop(other);
    let half = format!("{}.tmp", name(next));
    put(&half, b"");
    let why = refusal(Archive::open(home.archive.clone(), PREFIX, STAMP + 1));
    assert!(why.contains("another database"), "{why}");
    assert!(home.archive.image().contains_key(&half));
    home.open().expect("opened").close().expect("closed");
    assert!(!home.archive.image().contains_key(&half), "it was left by a crash");
}

#[test]
fn nobody_who_asks_how_an_archive_is_waits_for_its_medium() {
    let home = Home::new();
    let store = home.create(Log::Central);
    home.archive.limit(Some(0));
    fill(&store, 0, 20);
    store.checkpoint().expect("a checkpoint");
    assert!(store.log().hindrance().is_some());
    // While the archive's medium is at work, asking for its state is answered.
    home.archive.limit(None);
    let (asking, answers) = (Arc::clone(&store), Arc::new(AtomicU64::new(0)));
    let answered = Arc::clone(&answers);
    home.archive.call_before_each(move |_| {
        let (say, hear) = std::sync::mpsc::channel();
        let store = Arc::clone(&asking);
        std::thread::spawn(move || {
            let _ = say.send(store.log().hindrance().is_some());
        });
        // A limit for the test alone: the answer comes at once, or never.
        let failing = hear.recv_timeout(Duration::from_secs(20));
        answered.fetch_add(u64::from(failing == Ok(true)), Ordering::Relaxed);
        assert!(failing.is_ok(), "asking waits for the archive");
    });
    store.checkpoint().expect("a checkpoint");
    assert!(answers.load(Ordering::Relaxed) > 3);
    assert!(store.log().hindrance().is_none());
    home.archive.call_before_each(|_| ());
    store.close().expect("closed");
}

#[test]
fn a_truncation_that_failed_is_not_forgotten() {
    let home = Home::new();
    let store = home.create(Log::Central);
    home.archive.limit(Some(0));
    fill(&store, 0, 20);
    store.checkpoint().expect("a checkpoint");
    let why = store.log().hindrance().expect("it fails").to_string();
    assert!(why.contains("takes nothing"), "{why}");
    // The archive takes it, and then the log's own file of notes refuses.
    home.archive.limit(None);
    home.files.fail_once_after(0);
    store.log().end_pause();
    assert!(!store.log().would_free(Lsn(u64::MAX)), "nothing was freed");
    let why = store.log().hindrance().expect("it is still wanted").to_string();
    assert!(why.contains("noting the archive"), "{why}");
    store.log().end_pause();
    assert!(store.log().would_free(Lsn(u64::MAX)), "it is done now");
    assert!(store.log().hindrance().is_none());
    store.close().expect("closed");
}

/// Restores with other pages than the base has, into files that must stay empty.
fn restored_of(home: &Home, base: &Copied) -> Result<()> {
    let files = RecordingFiles::new();
    let log = Central::<_, Host>::create(&files, "log-", log_options(), Arc::default())?;
    let before = files.image();
    let made = Made {
        files: &files,
        prefix: "",
        new: NewFile { page_bytes: 512, stamp: 88 },
        frames: FRAMES,
        log_start: log.start(),
    };
    let mut pages = base.pages.iter().cloned();
    let reader = home.reader()?;
    let until = reader.stored().to;
    let restored = restore(&made, &base.base, &mut || Ok(pages.next()), reader, until);
    if restored.is_err() {
        assert_eq!(files.image(), before, "nothing is left");
    }
    restored.map(drop)
}

#[test]
fn a_damaged_base_backup_is_refused_and_leaves_nothing() {
    let (home, _) = made(30);
    let store = home.open().expect("opened");
    let base = copy(&store);
    store.close().expect("closed");
    restored_of(&home, &base).expect("it is whole");
    let with = |act: &dyn Fn(&mut Pages)| {
        let mut base = base.clone();
        act(&mut base.pages);
        refusal(restored_of(&home, &base))
    };
    let missing = with(&|pages| drop(pages.pop()));
    assert!(missing.contains("pages, and had"), "{missing}");
    let twice = with(&|pages| pages.insert(1, pages[1].clone()));
    assert!(twice.contains("twice"), "{twice}");
    let swapped = with(&|pages| pages.swap(1, 2));
    assert!(swapped.contains("after a later one"), "{swapped}");
    let header = with(&|pages| pages[0].0 = PageNo(0));
    assert!(header.contains("after a later one"), "{header}");
    let far = with(&|pages| {
        let last = pages.last_mut().expect("a page");
        last.0 = PageNo(1 << 50);
    });
    assert!(far.contains("its file ended before"), "{far}");
    let flipped = with(&|pages| pages[2].1[200] ^= 1);
    assert!(flipped.contains("checksum"), "{flipped}");
    // With a sound checksum: docs/format/paged-pages.md says where the two are.
    let foreign = with(&|pages| {
        let page = &mut pages[2].1;
        page[24..32].copy_from_slice(&(STAMP + 1).to_le_bytes());
        let sum = crc32c::crc32c(&page[4..]).to_le_bytes();
        page[..4].copy_from_slice(&sum);
    });
    assert!(foreign.contains("of another file"), "{foreign}");
    let short = with(&|pages| pages[0].1.truncate(511));
    assert!(short.contains("another size"), "{short}");
}

#[test]
fn a_full_medium_leaves_nothing_of_a_restored_store() {
    let (home, base) = made(10);
    let mut calls = 0;
    loop {
        let files = RecordingFiles::new();
        let log = Central::<_, Host>::create(&files, "log-", log_options(), Arc::default());
        let (log, before) = (log.expect("a log"), files.image());
        let made = Made {
            files: &files,
            prefix: "",
            new: NewFile { page_bytes: 512, stamp: 88 },
            frames: FRAMES,
            log_start: log.start(),
        };
        let mut pages = base.pages.iter().cloned();
        let reader = home.reader().expect("an archive");
        let until = reader.stored().to;
        files.fail_once_after(calls);
        let restored = restore(&made, &base.base, &mut || Ok(pages.next()), reader, until);
        if files.will_fail() {
            restored.expect("restored");
            break;
        }
        assert!(restored.is_err(), "call {calls}");
        assert_eq!(files.image(), before, "call {calls}");
        calls += 1;
    }
    assert!(calls > 20, "{calls}");
}
