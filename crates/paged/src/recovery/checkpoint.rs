//! Fuzzy checkpoints (P2 4.5): transactions do not stop.
//!
//! 1. Pages that have been dirty since before a given place are written.
//! 2. Room in the log is set aside for its records: an attempt that finds none costs no log. A
//!    record begins the checkpoint. Then the tables of dirty pages and of open transactions are
//!    read while others go on; records end the checkpoint with what was read, and are forced.
//! 3. The pages note where the log's start is going to be. Then it moves to the begin, or to a record
//!    that was being appended at it; what lies before the oldest LSN of a dirty page and the first
//!    record of an open transaction is freed.
//!
//! ```text
//! 0       8      16     20      24      28       32
//! +-------+------+------+-------+-------+--------+-- - - - - - -+-- - - - - - - - - - - - -+
//! | begin | from | part | parts | pages | opened | page, LSN    | tx, first, last, used    |
//! +-------+------+------+-------+-------+--------+-- - - - - - -+-- - - - - - - - - - - - -+
//! ```
//! One record of the end holds as many pages and transactions as fit; `parts` is their number.

use super::Transactions;
use super::transactions::Seen;
use crate::Result;
use crate::ids::{Lsn, PageNo, TxNo};
use crate::log::{Chain, Kind, LogManager, OpenRecords, Record};

const HEADER_BYTES: usize = 32;
const PAGE_BYTES: usize = 16;
const OPEN_BYTES: usize = 32;

/// The pages of a database, as a checkpoint needs them.
pub trait Pages {
    /// Writes the pages that have been dirty since before `lsn`, and makes them durable.
    ///
    /// # Errors
    /// The medium failed.
    fn write_before(&self, lsn: Lsn) -> Result<()>;

    /// Every dirty page with an LSN that is not greater than that of its oldest change that is not
    /// durable on its medium.
    fn dirty(&self) -> Vec<(PageNo, Lsn)>;

    /// Notes on the medium, durably, that analysis begins at `start` from now on: pages of another
    /// moment can be distinguished from these.
    ///
    /// # Errors
    /// The medium failed.
    fn note(&self, start: Lsn) -> Result<()>;
}

/// Reports what a checkpoint found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The place where analysis begins.
    pub start: Lsn,
    /// The oldest place that is kept.
    pub keep: Lsn,
    /// Dirty pages.
    pub pages: usize,
    /// Open transactions.
    pub open: usize,
    /// Bytes of its records.
    pub bytes: u64,
}

/// Takes a checkpoint. One runs at a time.
///
/// # Errors
/// A medium failed, or the log has stopped; or it has no room for a checkpoint, and what others
/// have set aside there is untouched.
pub fn take(
    log: &dyn LogManager,
    pages: &dyn Pages,
    transactions: &Transactions,
    write_before: Lsn,
) -> Result<Taken> {
    pages.write_before(write_before)?;
    let mut chain = Chain::default();
    reserve(log, &mut chain, &pages.dirty(), transactions)?;
    let appended = append(log, &mut chain, pages, transactions);
    if chain.ahead > 0 {
        log.unreserve(&mut chain);
    }
    let (from, dirty, open) = appended?;
    log.force(chain.last)?;
    pages.note(from)?;
    let redo = dirty.iter().map(|(_, lsn)| *lsn).min().map_or(from, |oldest| oldest.min(from));
    let keep = open.iter().map(|open| open.first).min().map_or(redo, |oldest| oldest.min(redo));
    let records: Vec<_> =
        open.iter().map(|open| OpenRecords { first: open.first, last: open.last }).collect();
    log.truncate_with_open(from, redo, &records)?;
    Ok(Taken { start: from, keep, pages: dirty.len(), open: open.len(), bytes: chain.used })
}

/// Sets room aside for the records of a checkpoint whose tables are those of now.
fn reserve(
    log: &dyn LogManager,
    chain: &mut Chain,
    dirty: &[(PageNo, Lsn)],
    transactions: &Transactions,
) -> Result<()> {
    let (open, pending) = transactions.seen();
    let needed = dirty.iter().map(|(_, lsn)| *lsn).chain(open.iter().map(|open| open.first));
    let keep = needed.chain((pending != Lsn(u64::MAX)).then_some(pending)).min();
    let begin = [0];
    let ends = payloads(dirty.len(), open.len(), log.largest());
    log.reserve_checkpoint(chain, &[&begin[..], &ends].concat(), keep)
}

/// The place where analysis begins, the changed pages, and the open transactions.
type Appended = (Lsn, Vec<(PageNo, Lsn)>, Vec<Seen>);

/// Appends the records of a checkpoint. Returns the place where analysis begins, and the tables.
fn append(
    log: &dyn LogManager,
    chain: &mut Chain,
    pages: &dyn Pages,
    transactions: &Transactions,
) -> Result<Appended> {
    let begin = log.append(chain, &Record::bare(Kind::CheckpointBegin))?;
    let dirty = pages.dirty();
    let (open, pending) = transactions.seen();
    let from = begin.min(pending);
    for payload in encode(begin, from, &dirty, &open, log.largest()) {
        let record = Record { payload: &payload, ..Record::bare(Kind::CheckpointEnd) };
        log.append(chain, &record)?;
    }
    Ok((from, dirty, open))
}

/// The bytes of the records that [`encode`] makes of tables of so many pages and transactions.
fn payloads(pages: usize, open: usize, most: usize) -> Vec<usize> {
    let cut = |many: usize, bytes: usize| {
        let fit = (most - HEADER_BYTES) / bytes;
        (0..many).step_by(fit).map(move |at| HEADER_BYTES + (many - at).min(fit) * bytes)
    };
    let mut payloads: Vec<usize> = cut(pages, PAGE_BYTES).chain(cut(open, OPEN_BYTES)).collect();
    if payloads.is_empty() {
        payloads.push(HEADER_BYTES);
    }
    payloads
}

/// The pages and the transactions of one record.
type Part<'a> = (&'a [(PageNo, Lsn)], &'a [Seen]);

fn encode(
    begin: Lsn,
    from: Lsn,
    dirty: &[(PageNo, Lsn)],
    open: &[Seen],
    most: usize,
) -> Vec<Vec<u8>> {
    let dirty = dirty.chunks((most - HEADER_BYTES) / PAGE_BYTES).map(|pages| (pages, &[][..]));
    let open = open.chunks((most - HEADER_BYTES) / OPEN_BYTES).map(|open| (&[][..], open));
    let mut parts: Vec<Part<'_>> = dirty.chain(open).collect();
    if parts.is_empty() {
        parts.push((&[], &[]));
    }
    let count = parts.len() as u32;
    let payload = |(part, (pages, open)): (usize, &Part<'_>)| {
        let mut bytes = Vec::new();
        bytes.extend(begin.0.to_le_bytes());
        bytes.extend(from.0.to_le_bytes());
        for number in [part as u32, count, pages.len() as u32, open.len() as u32] {
            bytes.extend(number.to_le_bytes());
        }
        for word in pages.iter().flat_map(|(page, lsn)| [page.0, lsn.0]) {
            bytes.extend(word.to_le_bytes());
        }
        for word in open.iter().flat_map(|open| [open.tx.0, open.first.0, open.last.0, open.used]) {
            bytes.extend(word.to_le_bytes());
        }
        bytes
    };
    parts.iter().enumerate().map(payload).collect()
}

/// The records of one checkpoint's end, put together.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) dirty: Vec<(PageNo, Lsn)>,
    pub(super) open: Vec<Seen>,
    begin: Lsn,
    parts: u32,
    complete: bool,
}

impl Tables {
    /// Adds a record of an end, if it is of the first checkpoint from whose tables analysis can begin
    /// at `start`. Returns whether it is sound.
    pub(super) fn add(&mut self, payload: &[u8], start: Lsn) -> bool {
        let word = |at: usize| {
            payload.get(at..at + 8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")))
        };
        let halves = |at: usize| word(at).map(|word| (word as u32, (word >> 32) as u32));
        let (Some(begin), Some(from), Some((part, parts)), Some((pages, open))) =
            (word(0), word(8), halves(16), halves(24))
        else {
            return false;
        };
        let (pages, open) = (pages as usize, open as usize);
        if part >= parts || payload.len() != HEADER_BYTES + pages * PAGE_BYTES + open * OPEN_BYTES {
            return false;
        }
        if Lsn(from) != start || self.complete {
            return true;
        }
        if part == 0 {
            *self = Self { begin: Lsn(begin), ..Self::default() };
        } else if self.begin != Lsn(begin) || part != self.parts {
            return false;
        }
        let words: Vec<u64> = (HEADER_BYTES..payload.len()).step_by(8).filter_map(word).collect();
        let (page_words, open_words) = words.split_at(pages * 2);
        let dirty = page_words.chunks(2).map(|words| (PageNo(words[0]), Lsn(words[1])));
        self.dirty.extend(dirty);
        self.open.extend(open_words.chunks(4).map(|words| Seen {
            tx: TxNo(words[0]),
            first: Lsn(words[1]),
            last: Lsn(words[2]),
            used: words[3],
        }));
        self.parts += 1;
        self.complete = self.parts == parts;
        true
    }

    /// Returns whether all records of the end were read.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Forgets a checkpoint whose end was cut off.
    pub(super) fn drop_unfinished(&mut self) {
        if !self.complete {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_many_parts_are_read_as_they_were_written() {
        let dirty: Vec<_> = (1..=20).map(|page| (PageNo(page), Lsn(page * 7))).collect();
        let seen = |tx| Seen { tx: TxNo(tx), first: Lsn(tx), last: Lsn(tx + 1), used: tx * 3 };
        let open: Vec<_> = (1..=9).map(seen).collect();
        for most in [64, 100, 4096] {
            let parts = encode(Lsn(9), Lsn(8), &dirty, &open, most);
            assert!(parts.iter().all(|part| part.len() <= most));
            let lengths: Vec<_> = parts.iter().map(Vec::len).collect();
            assert_eq!(lengths, payloads(dirty.len(), open.len(), most));
            let mut tables = Tables::default();
            // Half of an earlier one, of another that begins elsewhere, and then the whole one.
            let cut = encode(Lsn(5), Lsn(8), &dirty, &[], 64);
            assert!(tables.add(&cut[0], Lsn(8)));
            assert!(tables.add(&encode(Lsn(6), Lsn(6), &dirty, &[], 4096)[0], Lsn(8)));
            for part in &parts {
                assert!(tables.add(part, Lsn(8)));
            }
            assert!(tables.add(&encode(Lsn(12), Lsn(8), &[], &[], 64)[0], Lsn(8)), "a later one");
            tables.drop_unfinished();
            assert_eq!((&tables.dirty, &tables.open), (&dirty, &open));
        }
        assert_eq!(payloads(0, 0, 64), [encode(Lsn(9), Lsn(8), &[], &[], 64)[0].len()]);
        let mut tables = Tables::default();
        assert!(tables.add(&encode(Lsn(9), Lsn(8), &dirty, &open, 64)[0], Lsn(8)));
        tables.drop_unfinished();
        assert!(tables.dirty.is_empty());
        assert!(!tables.add(&[0; 40], Lsn(8)));
    }
}
