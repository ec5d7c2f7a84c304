//! Notes which pages of a `disk` pool have been flushed and are to be synced at the next fence.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::offset::Range;

/// Pages that threads have flushed since they were synced last.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    noted: Mutex<Vec<Range>>,
    /// Held while pages are synced: the thread that took them may have taken another thread's, too, whose
    /// fence must not return before.
    syncing: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notes {
    /// Notes a range of whole pages.
    pub(crate) fn add(&self, range: Range) {
        let mut noted = lock(&self.noted);
        if noted.last() != Some(&range) {
            noted.push(range);
        }
    }

    /// Calls `sync` with all that is noted, ranges that touch as one. When this returns, everything
    /// that was noted before it was called has been synced, by this call or by another thread's.
    pub(crate) fn sync(&self, mut sync: impl FnMut(Range)) {
        let _others_are_done = lock(&self.syncing);
        let mut noted = std::mem::take(&mut *lock(&self.noted));
        noted.sort_by_key(|range| range.start);
        let mut merged: Vec<Range> = Vec::with_capacity(noted.len());
        for range in noted {
            match merged.last_mut() {
                Some(last) if range.start <= last.end() => {
                    last.len = last.len.max(range.end() - last.start);
                }
                _ => merged.push(range),
            }
        }
        merged.into_iter().for_each(&mut sync);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn ranges_that_touch_are_synced_once() {
        let notes = Notes::default();
        for (start, len) in [(8192, 4096), (0, 4096), (8192, 4096), (4096, 4096), (40_960, 4096)] {
            notes.add(Range::new(start, len));
        }
        let mut synced = Vec::new();
        notes.sync(|range| synced.push(range));
        assert_eq!(synced, [Range::new(0, 12_288), Range::new(40_960, 4096)]);
        notes.sync(|range| panic!("{range:?} has been synced"));
    }

    #[test]
    fn a_fence_waits_for_its_pages_that_another_thread_is_syncing() {
        let notes = Notes::default();
        let synced = AtomicBool::new(false);
        let (begin, begun) = mpsc::channel();
        let (_never, go_on) = mpsc::channel::<()>();
        notes.add(Range::new(0, 4096));
        thread::scope(|scope| {
            let (notes, synced) = (&notes, &synced);
            scope.spawn(move || {
                notes.sync(|_| {
                    begin.send(()).expect("the other thread waits");
                    // Time for the other one to return too early.
                    let _ = go_on.recv_timeout(Duration::from_millis(200));
                    synced.store(true, Ordering::SeqCst);
                });
            });
            begun.recv().expect("it begins");
            notes.sync(|range| panic!("{range:?} is the other thread's by now"));
            assert!(
                synced.load(Ordering::SeqCst),
                "a fence has returned before its pages are synced"
            );
        });
    }
}
