//! Mini-transactions: several 8-byte words that change together or not at all.
//!
//! A split of a tree node, a new log segment and the like change a handful of words: pointers,
//! bitmaps of nodes, persisted bits of slots. A mini-transaction is a redo log of those words, in
//! the lane's area, with one header word that commits it.
//!
//! Invariant: a record whose header word matches its entries may be applied again at any time,
//! since none of its words is changed by anything else until the header word is durably zero.
//!
//! 1. Copy the entries; store the header word (checksum and count); flush; fence. *Committed.*
//! 2. Store every word; flush; fence.
//! 3. Store zero into the header word; flush. The caller's next fence makes this durable, and
//!    nothing may change one of the words before that fence.
//!
//! The header word is stored after the copy of the entries, but may persist before them: then the
//! checksum does not match, and the record counts for nothing.

use std::sync::atomic::Ordering::Acquire;

use pm::{Bad, LineSet, Memory, Off, Range};
use zerocopy::IntoBytes;

use crate::layout::{MINI_LOG_AT, MINI_LOG_WORDS, MiniEntry};

/// Runs the protocol for `entries` in the log of the lane whose area is `area`. `lines` are
/// written already and become durable together with the commit.
pub(crate) fn run<M: Memory>(memory: &M, area: Range, entries: &[MiniEntry], lines: &mut LineSet) {
    if !M::DURABLE {
        lines.clear();
        for entry in entries {
            memory.store(Off::new(entry.at), entry.value);
        }
        return;
    }
    assert!(entries.len() <= MINI_LOG_WORDS, "a mini-transaction of {} words", entries.len());
    let header = Off::<u64>::new(area.start + MINI_LOG_AT);
    let bytes = entries.as_bytes();
    memory.copy(Off::new(header.get() + 64), bytes);
    memory.store(header, header_word(bytes, entries.len()));
    lines.add(header.range());
    lines.add(Range::new(header.get() + 64, bytes.len() as u64));
    lines.flush(memory);
    memory.fence();
    apply(memory, entries, lines);
    memory.store(header, 0);
    memory.flush(header.range());
}

fn apply<M: Memory>(memory: &M, entries: &[MiniEntry], lines: &mut LineSet) {
    for entry in entries {
        memory.store(Off::new(entry.at), entry.value);
        lines.add(Range::new(entry.at, 8));
    }
    lines.flush(memory);
    memory.fence();
}

/// Applies the record that a crash left committed in the lane whose area is `area`, if any.
///
/// # Errors
/// A committed record names a word outside of the memory.
pub(crate) fn finish<M: Memory>(memory: &M, area: Range) -> Result<(), Bad> {
    let header = Off::<u64>::new(area.start + MINI_LOG_AT);
    let word = memory.load(header, Acquire)?;
    if word == 0 {
        return Ok(());
    }
    let count = (word as u32) as usize;
    let mut entries = Vec::new();
    if (1..=MINI_LOG_WORDS).contains(&count) {
        for index in 0..count {
            let at = Off::<MiniEntry>::new(header.get() + 64 + index as u64 * 16);
            entries.push(memory.read(at)?);
        }
    }
    if !entries.is_empty() && word == header_word(entries.as_bytes(), count) {
        for entry in &entries {
            memory.load(Off::new(entry.at), Acquire)?;
        }
        apply(memory, &entries, &mut LineSet::new());
    }
    memory.store(header, 0);
    memory.flush(header.range());
    memory.fence();
    Ok(())
}

fn header_word(entries: &[u8], count: usize) -> u64 {
    u64::from(crc32c::crc32c(entries)) << 32 | count as u64
}
