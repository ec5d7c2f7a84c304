//! The table of the addresses of pools, for the handler of SIGBUS. The handler can read it at any
//! moment, without a lock, while other threads open and close pools.
//!
//! Each place has a version, which is odd while the place changes. Who looks an address up believes
//! a place only if its version was even and the same before and after: a range of which one end is
//! an old pool's and the other a new one's would claim addresses of a third. The place of the pool
//! that is asked for does not change meanwhile, since that pool is in use.

use std::sync::atomic::Ordering::SeqCst;

use crate::sync::{AtomicPtr, AtomicUsize};

#[derive(Debug)]
struct Place<T> {
    version: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
    pool: AtomicPtr<T>,
}

/// A table of `N` places, each of which leads to what is known of a pool.
#[derive(Debug)]
pub(crate) struct Watched<T, const N: usize>([Place<T>; N]);

impl<T, const N: usize> Watched<T, N> {
    /// A table in which nothing is watched.
    pub(crate) const fn new() -> Self {
        Self(
            [const {
                Place {
                    version: AtomicUsize::new(0),
                    start: AtomicUsize::new(0),
                    end: AtomicUsize::new(0),
                    pool: AtomicPtr::new(std::ptr::null_mut()),
                }
            }; N],
        )
    }

    /// Watches the addresses from `start` on, which is not zero, up to `end`. Returns the place, or
    /// `None` if all are taken.
    pub(crate) fn add(&self, start: usize, end: usize, pool: &T) -> Option<usize> {
        let take =
            |place: &Place<T>| place.start.compare_exchange(0, start, SeqCst, SeqCst).is_ok();
        let taken = self.0.iter().position(take)?;
        let place = &self.0[taken];
        place.version.fetch_add(1, SeqCst);
        place.pool.store(std::ptr::from_ref(pool).cast_mut(), SeqCst);
        place.end.store(end, SeqCst);
        place.version.fetch_add(1, SeqCst);
        Some(taken)
    }

    /// Ends the watch at a place.
    pub(crate) fn remove(&self, taken: usize) {
        let place = &self.0[taken];
        place.version.fetch_add(1, SeqCst);
        place.end.store(0, SeqCst);
        place.pool.store(std::ptr::null_mut(), SeqCst);
        place.version.fetch_add(1, SeqCst);
        place.start.store(0, SeqCst);
    }

    /// Returns the entry of the pool that is in use at `address`.
    pub(crate) fn find(&self, address: usize) -> Option<*const T> {
        self.0.iter().find_map(|place| {
            let version = place.version.load(SeqCst);
            let (start, end) = (place.start.load(SeqCst), place.end.load(SeqCst));
            let pool = place.pool.load(SeqCst);
            let steady = version.is_multiple_of(2) && place.version.load(SeqCst) == version;
            let has = start != 0 && (start..end).contains(&address) && !pool.is_null();
            (steady && has).then_some(pool.cast_const())
        })
    }
}
