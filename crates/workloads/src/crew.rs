//! The workers, and how work is shared out among them.

use std::sync::Barrier;
use std::thread;

use crate::measure::RunError;

/// The share of one of `partitions`: an even one, the first partitions get the remainder.
pub(crate) fn share(total: u64, partitions: usize, partition: usize) -> u64 {
    let partitions = partitions as u64;
    total / partitions + u64::from((partition as u64) < total % partitions)
}

/// Runs `work` in so many threads, each with its number and a barrier at which all of them must
/// wait exactly once, and collects what they return.
///
/// # Errors
/// The first error; the other workers finish.
pub(crate) fn crew<T: Send>(
    workers: usize,
    work: impl Fn(usize, &Barrier) -> Result<T, RunError> + Sync,
) -> Result<Vec<T>, RunError> {
    let (barrier, work) = (&Barrier::new(workers), &work);
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..workers).map(|number| scope.spawn(move || work(number, barrier))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect()
    });
    outcomes.into_iter().collect()
}
