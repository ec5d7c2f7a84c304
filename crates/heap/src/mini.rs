//! Mini-transactions: several 8-byte words that change together or not at all.
//!
//! A split of a tree node, a new log segment and the like change a handful of words: pointers,
//! bitmaps of nodes, persisted bits of slots. A mini-transaction is a redo log of those words, in
//! the lane's area, with one header word that commits it. What the words will lead to, fresh nodes
//! and the like, has been written before; the record names its lines and covers their contents
//! with its checksum, so that one fence serves both. (A word of the transaction that lies in one of
//! these lines is left out of the checksum.)
//!
//! Invariant: a record whose header word matches its entries and lines may be applied again at any
//! time, since none of its words is changed by anything else until the header word is durably
//! zero. (Its lines may change sooner, once the words are durable: the record then matches no
//! more, and is not needed any more.)
//!
//! 1. Copy the entries and the runs of lines; store the header word (checksum, counts); flush all
//!    of it and the lines; fence. *Committed.*
//! 2. Store every word; flush; fence.
//! 3. Store zero into the header word; flush. The caller's next fence makes this durable, and
//!    nothing may change one of the words before that fence.
//!
//! The header word is stored last, but may persist first: then the checksum does not match, and
//! the record counts for nothing.

use std::sync::atomic::Ordering::Acquire;

use pm::{Bad, LINE_BYTES, Line, LineSet, Memory, Off, Range, View};
use zerocopy::IntoBytes;

use crate::layout::{MINI_LOG_AT, MINI_LOG_WORDS, MiniEntry};

/// Runs the protocol for `entries` in the log of the lane whose area is `area`. `lines` are
/// written already and become durable together with the commit. `entries` is used up.
#[track_caller]
pub(crate) fn run<M: Memory>(
    memory: &M,
    area: Range,
    entries: &mut Vec<MiniEntry>,
    lines: &mut LineSet,
) {
    if !M::DURABLE {
        lines.clear();
        for entry in &*entries {
            memory.store(Off::new(entry.at), entry.value);
        }
        return;
    }
    let words = entries.len();
    add_runs(entries, lines.lines());
    assert!(entries.len() <= MINI_LOG_WORDS, "a mini-transaction of {} entries", entries.len());
    let header = Off::<u64>::new(area.start + MINI_LOG_AT);
    let word = match header_word(memory, entries, words) {
        Ok(word) => word,
        Err(bad) => panic!("a line that was just written: {bad}"),
    };
    let bytes = entries.as_bytes();
    memory.copy(Off::new(header.get() + 64), bytes);
    memory.store(header, word);
    lines.add(header.range());
    lines.add(Range::new(header.get() + 64, bytes.len() as u64));
    lines.flush(memory);
    memory.fence();
    apply(memory, &entries[..words], lines);
    memory.store(header, 0);
    memory.flush_word(header);
}

/// Adds an entry for each run of neighbouring lines: its first line and how many there are.
fn add_runs(entries: &mut Vec<MiniEntry>, lines: &[Line]) {
    let mut rest = lines;
    while let Some(first) = rest.first() {
        let many = rest.iter().zip(first.0..).take_while(|(line, next)| line.0 == *next).count();
        entries.push(MiniEntry { at: first.start(), value: many as u64 });
        rest = &rest[many..];
    }
}

#[track_caller]
fn apply<M: Memory>(memory: &M, entries: &[MiniEntry], lines: &mut LineSet) {
    for entry in entries {
        memory.store(Off::new(entry.at), entry.value);
        lines.add(Range::new(entry.at, 8));
    }
    lines.flush(memory);
    memory.fence();
}

/// Applies the record that a crash left committed in the lane whose area is `area`, if any. The
/// caller fences. What it goes by may be what a killed process had stored: it becomes durable
/// before what follows from it, or another crash would find half of that and no record.
///
/// # Errors
/// A committed record names a word outside of the memory.
pub(crate) fn finish<M: Memory>(memory: &M, area: Range) -> Result<(), Bad> {
    let header = Off::<u64>::new(area.start + MINI_LOG_AT);
    let word = memory.load(header, Acquire)?;
    // A zero, too: the record under it would be applied again, over newer words.
    memory.flush_word(header);
    if word == 0 {
        return Ok(());
    }
    let (words, count) = (usize::from(word as u16), usize::from((word >> 16) as u16));
    if words <= count && count <= MINI_LOG_WORDS {
        let mut entries = Vec::with_capacity(count);
        for index in 0..count {
            let at = Off::<MiniEntry>::new(header.get() + 64 + index as u64 * 16);
            entries.push(memory.read(at)?);
        }
        // A record that names lines outside of the memory is none.
        if header_word(memory, &entries, words) == Ok(word) {
            for entry in &entries[..words] {
                memory.load(Off::new(entry.at), Acquire)?;
            }
            memory.flush(Range::new(header.get() + 64, entries.as_bytes().len() as u64));
            for run in &entries[words..] {
                memory.flush(Range::new(run.at, run.value * LINE_BYTES));
            }
            memory.fence();
            apply(memory, &entries[..words], &mut LineSet::new());
        }
    }
    memory.store(header, 0);
    memory.flush_word(header);
    Ok(())
}

/// Checksum of the entries and of the lines that they name after the first `words`, with both
/// counts. Words that the transaction changes count as zero in these lines, so that the record
/// still matches when it has been applied in part. Never zero for a record with a word.
fn header_word<M: Memory>(memory: &M, entries: &[MiniEntry], words: usize) -> Result<u64, Bad> {
    // The record may be a damaged one: a word that is not aligned may lie in two lines.
    if let Some(entry) = entries[..words].iter().find(|entry| !entry.at.is_multiple_of(8)) {
        return Err(Bad::Misaligned { at: entry.at, align: 8 });
    }
    // And so it may in what is no line.
    if let Some(run) = entries[words..].iter().find(|run| !run.at.is_multiple_of(LINE_BYTES)) {
        return Err(Bad::Misaligned { at: run.at, align: LINE_BYTES });
    }
    let mut sum = crc32c::crc32c(entries.as_bytes());
    for run in &entries[words..] {
        let bytes = run.value.saturating_mul(LINE_BYTES);
        let view = memory.view(Range::new(run.at, bytes))?;
        for index in 0..run.value {
            let start = index * LINE_BYTES;
            let mut line = [0u8; LINE_BYTES as usize];
            view.bytes(start as usize, LINE_BYTES as usize).copy_to(&mut line);
            for word in &entries[..words] {
                let within = word.at.wrapping_sub(run.at + start);
                if within < LINE_BYTES {
                    line[within as usize..within as usize + 8].fill(0);
                }
            }
            sum = crc32c::crc32c_append(sum, &line);
        }
    }
    Ok(u64::from(sum) << 32 | (entries.len() as u64) << 16 | words as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checksum of such a record cannot be right, and working it out must not go wrong.
    #[test]
    fn a_record_whose_lines_do_not_begin_at_a_line_is_none() {
        let memory = sim::Recording::new(1 << 20).unwrap();
        memory.grow(64 << 10).unwrap();
        let area = Range::new(8192, crate::layout::LANE_AREA_BYTES);
        let header = Off::<u64>::new(area.start + MINI_LOG_AT);
        for at in (32_768..32_768 + LINE_BYTES).step_by(4) {
            let run = MiniEntry { at, value: 2 };
            let words = (30..50).map(|word| MiniEntry { at: 32_768 + word * 8 - 240, value: 7 });
            let mut entries: Vec<MiniEntry> = words.collect();
            entries.push(run);
            memory.copy(Off::new(header.get() + 64), entries.as_bytes());
            memory.store(header, 1 << 32 | 21 << 16 | 20);
            finish(&memory, area).unwrap();
            assert_eq!(memory.load(header, Acquire), Ok(0));
            assert_eq!(memory.load(Off::new(32_768), Acquire), Ok(0), "{at}: it was applied");
        }
    }
}
