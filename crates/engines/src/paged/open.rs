//! The open transaction of a session, with the memory that its operations use again and again.

use std::time::Duration;

use paged::ids::Lsn;
use paged::store::Session;
use pm::Files;

use crate::savepoints::Savepoints;

/// Memory for a row that a session keeps from one transaction to the next.
const KEPT_BYTES: usize = 1 << 20;

/// An open transaction of a session.
#[derive(Debug)]
pub(super) struct Open<F: Files> {
    pub(super) session: Session<F>,
    /// The stored row that is read or changed, and what it is changed to.
    pub(super) row: Vec<u8>,
    pub(super) new: Vec<u8>,
    pub(super) savepoints: Savepoints<Lsn>,
    /// The number of the transaction among those of the session.
    pub(super) number: u64,
    pub(super) statements: u64,
}

impl<F: Files> Open<F> {
    /// A session without a transaction.
    pub(super) fn new(session: Session<F>) -> Self {
        let (row, new, savepoints) = (Vec::new(), Vec::new(), Savepoints::default());
        Self { session, row, new, savepoints, number: 0, statements: 0 }
    }

    /// Begins a transaction of this age, which waits for locks so long at most if it says so.
    pub(super) fn begin(&mut self, age: u64, wait: Option<Duration>) {
        self.session.begin(age, wait);
        (self.number, self.statements) = (self.number + 1, 0);
        for buffer in [&mut self.row, &mut self.new] {
            buffer.clear();
            buffer.shrink_to(KEPT_BYTES);
        }
    }
}
