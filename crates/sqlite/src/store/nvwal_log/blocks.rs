//! NVWAL's log in the side file: log frames in sequence, in blocks of 8 KiB after the table.
//!
//! One word says how many bytes of log frames are committed. A block is *pending* while frames are written to it, and
//! *in use* once a commit covers them. Its word names how often the log was emptied, so all earlier blocks are free. A
//! commit in another mode empties the log first: the table may grow over it, or a large commit be logged there.

use pm::{LineSet, Memory};

use crate::store::error::{Result, StoreError};
use crate::store::layout::{EMPTIED_AT, LOG_BYTES_AT};
use crate::store::room;
use crate::store::sealed::{seal, unseal};
use crate::store::side::Side;

/// Bytes of a block, as in NVWAL.
const BLOCK_BYTES: u64 = 8 << 10;
/// The offset of the first frame in a block.
const FRAMES_AT: u64 = pm::LINE_BYTES;
/// Bytes of frames in a block.
const PAYLOAD: u64 = BLOCK_BYTES - FRAMES_AT;
const PENDING: u64 = 1;
const IN_USE: u64 = 2;
/// Bits of a block's state. Above them are the lower bits of the number of times that the log was emptied.
const STATE_BITS: u32 = 2;
const TIMES_BITS: u32 = 40;

/// The word of a block.
fn block_word(state: u64, emptied: u64) -> u64 {
    (emptied & ((1 << TIMES_BITS) - 1)) << STATE_BITS | state
}

impl<M: Memory> Side<M> {
    /// Bytes of committed log frames, and the number of times that the log was emptied.
    ///
    /// # Errors
    /// The medium fails, or a word is damaged.
    pub(crate) fn log_state(&self) -> Result<(u64, u64)> {
        Ok((self.get(LOG_BYTES_AT)?, self.get(EMPTIED_AT)?))
    }

    /// Stores the number of bytes of committed log frames.
    #[track_caller]
    pub(crate) fn set_log_bytes(&self, bytes: u64, lines: &mut LineSet) {
        self.put(LOG_BYTES_AT, bytes);
        self.region().note(lines, LOG_BYTES_AT, 8);
    }

    /// Stores how often the log was emptied. A reader of the old log then does not take the new one for its
    /// continuation.
    #[track_caller]
    pub(crate) fn set_emptied(&self, emptied: u64) {
        self.put(EMPTIED_AT, emptied);
    }

    /// Bytes of a side file with so many bytes of log frames.
    pub(crate) fn bytes_with_log(&self, bytes: u64) -> u64 {
        if bytes == 0 {
            self.table_end()
        } else {
            self.table_end() + bytes.div_ceil(PAYLOAD) * BLOCK_BYTES
        }
    }

    /// Makes room for so many bytes of log frames.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn reserve_log(&self, bytes: u64) -> Result<()> {
        Ok(self.region().grow(self.bytes_with_log(bytes))?)
    }

    /// The parts of blocks that hold the bytes `from..to` of the log: the block's number, the offset in the side
    /// file, the length.
    fn pieces(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64, u64)> + use<M> {
        let (first, mut at) = (self.table_end(), from);
        std::iter::from_fn(move || {
            let (block, within) = (at / PAYLOAD, at % PAYLOAD);
            let len = (PAYLOAD - within).min(to - at);
            at += len;
            let place = first + block * BLOCK_BYTES + FRAMES_AT + within;
            (len > 0).then_some((block, place, len))
        })
    }

    /// Appends frames to a log of `from` bytes. A block that gets its first ones is pending until
    /// [`Self::use_blocks`].
    pub(crate) fn write_log(&self, from: u64, frames: &[u8], emptied: u64, lines: &mut LineSet) {
        let mut rest = frames;
        for (block, at, len) in self.pieces(from, from + frames.len() as u64) {
            if at % BLOCK_BYTES == (self.table_end() + FRAMES_AT) % BLOCK_BYTES {
                self.put_block(block, PENDING, emptied);
            }
            let (these, after) = rest.split_at(len as usize);
            self.region().copy(at, these);
            self.region().note(lines, at, len);
            rest = after;
        }
    }

    /// Takes the blocks that begin within the bytes `from..to` of the log into use.
    pub(crate) fn use_blocks(&self, from: u64, to: u64, emptied: u64, lines: &mut LineSet) {
        for block in from.div_ceil(PAYLOAD)..to.div_ceil(PAYLOAD) {
            self.put_block(block, IN_USE, emptied);
            self.region().note(lines, self.table_end() + block * BLOCK_BYTES, 8);
        }
    }

    #[track_caller]
    fn put_block(&self, block: u64, state: u64, emptied: u64) {
        let at = self.table_end() + block * BLOCK_BYTES;
        self.region().store(at, seal(self.tag(), at, block_word(state, emptied)));
    }

    /// The bytes `from..to` of the log.
    ///
    /// # Errors
    /// The medium fails, or a block is not in use.
    pub(crate) fn read_log(&self, from: u64, to: u64, emptied: u64) -> Result<Vec<u8>> {
        if self.bytes_with_log(to) > self.region().len() {
            return Err(StoreError::SideDamaged("its log of frames is not all there"));
        }
        let mut frames = room::zeros((to - from) as usize)?;
        let mut done = 0;
        for (block, at, len) in self.pieces(from, to) {
            let word = self.table_end() + block * BLOCK_BYTES;
            let found = unseal(self.tag(), word, self.region().load(word)?);
            if found != Some(block_word(IN_USE, emptied)) {
                return Err(StoreError::SideDamaged("a block of its log is not in use"));
            }
            self.region().read_into(at, &mut frames[done..done + len as usize])?;
            done += len as usize;
        }
        Ok(frames)
    }
}
