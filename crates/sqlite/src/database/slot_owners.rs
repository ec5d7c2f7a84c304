//! The slots of the connections of a database, each of which belongs to the connection with a kernel lock on its byte
//! of the side file.
//!
//! The kernel drops the lock when the owner dies: a forked child has given up its copy of the open file.

use pm::{Lock, Plain, Range};

use crate::database::contract::Failure;
use crate::database::open_close_lock::LOCKS_START;
use crate::store::layout::LOCK_WORDS;
use crate::store::locks::Liveness;

/// The most connections of one database.
pub(crate) const SLOTS: usize = LOCK_WORDS as usize - 1;
/// The byte that the owner of slot 0 locks.
const FIRST_SLOT: u64 = LOCKS_START + 64;

/// The byte that the owner of a slot locks.
fn byte_of(slot: usize) -> Range {
    Range::new(FIRST_SLOT + slot as u64, 1)
}

/// The owners of the slots of a side file.
#[derive(Debug)]
pub(crate) struct SlotOwners(Plain);

impl SlotOwners {
    /// The owners of the slots of a side file.
    pub(crate) fn of(side: &Plain) -> Self {
        Self(side.clone())
    }

    /// Makes this connection the owner of the first free slot, and returns its number.
    ///
    /// # Errors
    /// All slots are taken.
    pub(crate) fn take_free(side: &Plain) -> Result<usize, Failure> {
        for slot in 0..SLOTS {
            if side.lock(byte_of(slot), Lock::Exclusive)? {
                return Ok(slot);
            }
        }
        Err(Failure::CannotOpen(format!(
            "it has {SLOTS} connections already, and can have no more"
        )))
    }

    /// Gives up the slot that this connection owns.
    pub(crate) fn give_up(side: &Plain, slot: usize) {
        let _ = side.unlock(byte_of(slot));
    }
}

impl Liveness for SlotOwners {
    fn is_alive(&self, slot: usize) -> bool {
        // If the kernel does not answer, waiting is safe.
        slot < SLOTS && self.0.is_locked_by_others(byte_of(slot)).unwrap_or(true)
    }
}
