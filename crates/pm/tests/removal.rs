//! A program of its own: the removal takes everything that the process has not finished.
//!
//! After the removal of what is not finished nothing is begun or finished.

use std::convert::Infallible;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;

use pm::{Domain, Files, NewPool, Place, PoolOptions, Unfinished, remove_unfinished};

static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn nothing_is_begun_or_finished_after_the_removal() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = || Unfinished::begin(|| Ok::<_, Infallible>(((), None)));
    let (unfinished, ()) = begin().expect("nothing to make");
    let nothing_more = remove_unfinished();
    let (over, (ready, wait)) = (AtomicBool::new(false), channel());
    thread::scope(|scope| {
        let (over, finisher) = (&over, ready.clone());
        scope.spawn(move || {
            finisher.send(()).expect("it waits");
            let finish = |_: Option<&mut _>| {
                assert!(over.load(Ordering::Relaxed), "finished");
                Ok::<_, Infallible>(())
            };
            unfinished.finish(finish).expect("nothing to do");
        });
        scope.spawn(move || {
            ready.send(()).expect("it waits");
            let _begun = begin().expect("nothing to make");
            assert!(over.load(Ordering::Relaxed), "begun");
        });
        // Both are at it; nothing here says when one of them would have been done.
        for _ in 0..2 {
            wait.recv().expect("it is sent");
        }
        (0..100).for_each(|_| thread::yield_now());
        over.store(true, Ordering::Relaxed);
        drop(nothing_more);
    });
}

/// Another thread ends the process while a thread gives something up.
#[test]
fn removal_waits_for_one_that_is_under_way() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().expect("a directory");
    let place = Place::of(&directory.path().join("db")).expect("there is such a directory");
    let domain = Domain::Process;
    let options = PoolOptions { domain: Some(domain), ..PoolOptions::default() };
    let (new, pool) = NewPool::begin(&place, &[], &options).expect("nothing is there");
    let files = place.with_suffix(".files");
    let files = new.add_directory(&pool, files, (domain, false)).expect("made");
    files.create("first").expect("made");
    // The directory stays as long as this is in it, so its removal is tried again and again.
    let inner = directory.path().join("db.files/inner");
    fs::create_dir(&inner).expect("made");
    thread::scope(|scope| {
        scope.spawn(move || drop((pool, files, new)));
        while directory.path().join("db.files/first").exists() {
            thread::yield_now();
        }
        let _nothing_more = remove_unfinished();
        assert!(!directory.path().join("db.perdura-new").exists(), "the last to be removed");
    });
}
