//! Kills of a program: all that it has left of an archive, and of the note next to the log, may lie
//! in the caches alone: nothing rests on it before it is durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use paged::log::archive::{Archive, Note};
use paged::log::central::Central;
use paged::log::nv::Persist;
use paged::log::{Archived, LogManager};
use paged::store::Store;
use paged::threads::Host;
use sim::{DiskReplay, RecordingFiles};

use super::archive::{FRAMES, Home, Image, Log, PREFIX, STAMP, log_options, nv_log};
use super::support::{TREES, options};

/// Lets a program that does `work` die at its `number`-th call to these files at a place in this
/// part of the source. What it has written stays in the caches. Returns whether it came to that.
fn dies_in(files: &RecordingFiles, source: &'static str, number: u64, work: impl FnOnce()) -> bool {
    files.start();
    let (of, left) = (files.clone(), AtomicU64::new(number + 1));
    files.call_before_each(move |site| {
        if site.file().ends_with(source) && left.fetch_sub(1, Ordering::Relaxed) == 1 {
            of.fail_after(Some(0));
        }
    });
    work();
    let died = files.refused().is_some();
    files.call_before_each(|_| {});
    files.fail_after(None);
    died
}

/// As [`dies_in`], in so many transactions and the checkpoint after them.
fn dies_at(
    home: &Home,
    (files, source, number): (&RecordingFiles, &'static str, u64),
    transactions: u64,
) -> bool {
    let store = home.create(Log::Central);
    dies_in(files, source, number, || {
        let mut session = store.session();
        for number in 0..transactions {
            session.begin(number, None);
            let inserted = session.insert(TREES[0], &number.to_be_bytes(), &[1; 700]);
            let done = inserted.and_then(|()| session.commit()).and_then(|at| store.wait(at));
            if done.is_err() {
                break;
            }
        }
        let _ = store.checkpoint();
        drop((session, store));
    })
}

/// Calls `visit` with states after a power cut now.
fn cut(files: &RecordingFiles, visit: &mut dyn FnMut(&Image)) {
    files.note(1);
    let trace = files.stop();
    let mut replay = DiskReplay::new(&trace);
    while let Some(point) = replay.next_point() {
        if point.last_note == Some(1) {
            point.for_each_state(20, 1, &mut *visit);
        }
    }
}

#[test]
fn a_segment_that_was_found_after_a_kill_is_there_after_a_power_cut() {
    let mut segments = 0;
    for number in 0.. {
        let home = Home::new();
        if !dies_at(&home, (&home.archive, "new_file.rs", number), 1) {
            break;
        }
        let found = Archive::open(home.archive.clone(), PREFIX, STAMP).expect("opened").last();
        segments += u64::from(found.number > 0);
        cut(&home.archive, &mut |image| {
            let files = RecordingFiles::from_image(image.clone());
            assert_eq!(Archive::open(files, PREFIX, STAMP).expect("opened").last(), found);
        });
    }
    assert!(segments > 0, "one was renamed before the kill");
}

#[test]
fn a_note_that_was_found_after_a_kill_is_durable_before_the_log_is_truncated_up_to_it() {
    let mut freed = 0;
    for number in 0.. {
        let home = Home::new();
        // The log has gone on to other partitions.
        if !dies_at(&home, (&home.files, "archive/note.rs", number), 48) {
            break;
        }
        let log: Central<_, Host> =
            Central::open(&home.files, "log-", log_options(), Arc::default()).expect("a log");
        let note = Note::open(&home.files, "", STAMP).expect("read").expect("there is one");
        let log = Archived::<RecordingFiles, _>::without(Arc::new(log), note, home.clock());
        let store = Store::open(&home.files, "", Arc::new(log), options(FRAMES)).expect("opened").0;
        let kept = store.log().kept();
        store.checkpoint().expect("it keeps what the archive lacks");
        freed += u64::from(store.log().kept() > kept);
        drop(store);
        let archive = home.archive.image();
        cut(&home.files, &mut |image| {
            let (files, now) = (RecordingFiles::from_image(image.clone()), Arc::clone(&home.now));
            let archive = RecordingFiles::from_image(archive.clone());
            Home { files, archive, now }.open().expect("the archive joins the log");
        });
    }
    assert!(freed > 0, "the log goes on from the note that was found");
}

/// A log in persistent memory syncs no directory when it is opened.
#[test]
fn the_name_of_a_note_that_was_found_after_a_kill_is_durable_before_it_is_relied_on() {
    let mut found = 0;
    for number in 0.. {
        let home = Home::new();
        let begin = || drop(home.archived(nv_log(Persist::OnInsert)));
        if !dies_in(&home.files, "new_file.rs", number, begin) {
            break;
        }
        let Some(note) = Note::open(&home.files, "", STAMP).expect("read") else { continue };
        found += 1;
        let log = nv_log(Persist::OnInsert);
        let start = log.start();
        let log = Archived::<RecordingFiles, _>::without(log, note, home.clock());
        let _ = log.truncate(start, start);
        cut(&home.files, &mut |image| {
            let files = RecordingFiles::from_image(image.clone());
            assert!(Note::open(&files, "", STAMP).expect("read").is_some());
        });
    }
    assert!(found > 0, "one was renamed before the kill");
}
