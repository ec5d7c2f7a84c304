//! The savepoints of an open transaction.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::EngineError;

/// The next savepoint's number: no two of a process have the same one.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Places in the open transaction, each with the number that it is asked for by, oldest first.
#[derive(Debug)]
pub struct Savepoints<P> {
    /// The transaction that they belong to.
    transaction: u64,
    places: Vec<(u64, P)>,
}

impl<P> Default for Savepoints<P> {
    fn default() -> Self {
        Self { transaction: 0, places: Vec::new() }
    }
}

impl<P: Copy> Savepoints<P> {
    /// Marks a place in this transaction; returns the savepoint's number.
    pub fn mark(&mut self, transaction: u64, place: P) -> u64 {
        if transaction != self.transaction {
            self.transaction = transaction;
            self.places.clear();
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.places.push((number, place));
        number
    }

    /// Returns the place of a savepoint of this transaction; later savepoints are void from now on.
    ///
    /// # Errors
    /// [`EngineError::NoSavepoint`]: it is void, or of another transaction.
    pub fn back_to(&mut self, transaction: u64, number: u64) -> Result<P, EngineError> {
        let found = self.places.iter().position(|(known, _)| *known == number);
        match found.filter(|_| transaction == self.transaction) {
            Some(at) => {
                self.places.truncate(at + 1);
                Ok(self.places[at].1)
            }
            None => Err(EngineError::NoSavepoint),
        }
    }

    /// Makes all void. For the end of a transaction whose number goes on, since it has done
    /// nothing, or undone all.
    pub fn forget(&mut self) {
        self.places.clear();
    }
}
