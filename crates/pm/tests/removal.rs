//! A program of its own: the removal takes everything that the process has not finished.
//!
//! After the removal of what is not finished nothing is begun or finished.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use pm::{Unfinished, remove_unfinished};

#[test]
fn nothing_is_begun_or_finished_after_the_removal() {
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
