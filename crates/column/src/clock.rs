//! The clock: commit numbers, and the last one up to which all commits are published.
//!
//! Numbers are published in order. A snapshot is the last published number, so no transaction sees a commit
//! without those before it.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use crate::latch::Waiting;
use crate::sync::AtomicU64;

#[derive(Debug)]
pub(crate) struct Clock {
    taken: AtomicU64,
    published: AtomicU64,
    waiting: Waiting,
}

impl Clock {
    /// A clock whose last commit is `number`.
    pub(crate) fn new(number: u64, waiting: &Waiting) -> Self {
        let (taken, published) = (AtomicU64::new(number), AtomicU64::new(number));
        Self { taken, published, waiting: waiting.clone() }
    }

    /// The snapshot of a transaction that begins now.
    pub(crate) fn now(&self) -> u64 {
        self.published.load(Acquire)
    }

    /// Takes a number for a commit. It has to be published, whatever the outcome of the commit.
    pub(crate) fn take(&self) -> u64 {
        self.taken.fetch_add(1, AcqRel) + 1
    }

    /// The last number that was taken. A thread that takes the next one sees everything that was done before this
    /// call.
    pub(crate) fn last_taken(&self) -> u64 {
        self.taken.fetch_add(0, AcqRel)
    }

    /// Publishes a number, when all before it are.
    pub(crate) fn publish(&self, number: u64) {
        self.wait_before(number);
        self.published.store(number, Release);
    }

    /// Waits until all numbers before a number that was taken are published.
    pub(crate) fn wait_before(&self, number: u64) {
        self.wait_for(number - 1);
    }

    /// Waits until a number that was taken is published.
    pub(crate) fn wait_for(&self, number: u64) {
        while self.now() < number {
            self.waiting.pause();
        }
    }
}
