//! A program of its own: the crate's source is compiled again at its root, over a scheduler's atomics.
//!
//! The table that the handler of SIGBUS looks pools up in, while others are opened and closed, under
//! a scheduler that chooses the interleaving. The source is that of the crate, compiled a second
//! time over the scheduler's atomics.

mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicPtr, AtomicUsize};
}
#[path = "../src/watched.rs"]
mod watched;

use std::sync::Arc;

use shuttle::thread;

use crate::watched::Watched;

/// A pool is in use and meets an error of its medium while others around it come and go, in places
/// of the table that others have left.
fn an_error_while_pools_come_and_go() {
    let watched = Arc::new(Watched::<u8, 2>::new());
    // Below the pool in use, and above it: an end of each would span it.
    let mine = 0;
    let others: Vec<_> = (0..2usize)
        .map(|number| {
            let watched = watched.clone();
            thread::spawn(move || {
                let other = 1;
                for round in 0..2 {
                    let start = [1000, 5000][(number + round) % 2];
                    if let Some(place) = watched.add(start, start + 1000, &other) {
                        thread::yield_now();
                        watched.remove(place);
                    }
                }
            })
        })
        .collect();
    let mut place = None;
    while place.is_none() {
        place = watched.add(3000, 4000, &mine);
        thread::yield_now();
    }
    for address in [3000, 3999] {
        assert_eq!(watched.find(address), Some(std::ptr::from_ref(&mine)));
    }
    assert_eq!(watched.find(4000), None);
    watched.remove(place.unwrap());
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(watched.find(3500), None);
    assert_eq!(watched.find(1500), None);
}

#[test]
fn an_error_is_found_while_pools_open_and_close() {
    shuttle::check_random_with_seed(an_error_while_pools_come_and_go, 7, 4_000);
    shuttle::check_pct(an_error_while_pools_come_and_go, 1_000, 3);
}
