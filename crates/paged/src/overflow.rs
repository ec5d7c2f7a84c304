//! Long rows: a chain of pages, and in the leaf a stub with the row's length and first page.
//!
//! 1. The chain of a row is looked at and changed only with the row's leaf latched.
//! 2. Its pages are taken in the name of the row's transaction, and freed if that is undone.
//! 3. A chain stays when its row becomes shorter, and is written over when it is updated: before
//!    and after stand in the log. It goes with the row's ghost, a page and a record at a time, each
//!    of which leaves the stub with the rest.

use pm::Files;

use crate::change::{Body, Change};
use crate::ids::{Lsn, PageNo, TreeNo};
use crate::latch::Latching;
use crate::layout::{HEADER_BYTES, STUB_BYTES};
use crate::log::{Chain, Logged};
use crate::page::{Entry, PageKind};
use crate::pool::{Appender, How, Pool, WritePage};
use crate::tree::Tree;
use crate::{PagedError, Result};

/// Bytes of the longest row.
pub const MOST_ROW_BYTES: usize = 64 << 20;

/// Bytes of a long row that one record has, before and after.
const PIECE_BYTES: usize = 4096;

type Stub = [u8; STUB_BYTES];

fn stub(bytes: usize, first: PageNo) -> Stub {
    let mut stub = [0; STUB_BYTES];
    stub[..8].copy_from_slice(&(bytes as u64).to_le_bytes());
    stub[8..].copy_from_slice(&first.0.to_le_bytes());
    stub
}

/// The length of a long row, and the first page of its chain.
pub(crate) fn read_stub(stub: &[u8]) -> (u64, Option<PageNo>) {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&stub[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    (word(0), Some(PageNo(word(8))).filter(|first| first.0 != 0))
}

fn damaged(page: PageNo) -> PagedError {
    PagedError::DamagedPage { page, what: "it is not the part of a long row that it should be" }
}

impl<F: Files, T: Latching> Pool<F, T> {
    fn part_bytes(&self) -> usize {
        self.page_bytes() - HEADER_BYTES
    }

    /// Frees a page as undo of what it was taken for.
    pub(crate) fn free_page(
        &self,
        chain: &mut dyn Appender,
        how: How,
        tree: TreeNo,
        logged: &Logged,
        prev: Option<PageNo>,
    ) -> Result<()> {
        let mut before = prev.map(|prev| self.write(prev)).transpose()?;
        let mut page = self.write(logged.page)?;
        let mut map = self.map(logged.page)?;
        let body = Body { tree, change: Change::FreePage { prev } };
        self.perform(chain, how, &body, &mut page, before.as_mut(), Some(&mut map))?;
        self.freed(logged.page);
        Ok(())
    }
}

impl<'a, F: Files, T: Latching> Tree<'a, F, T> {
    pub(crate) fn check_row(&self, row: &[u8]) -> Result<()> {
        if row.len() > MOST_ROW_BYTES {
            let (what, bytes) = ("a row", row.len());
            return Err(PagedError::TooLarge { what, bytes, most: MOST_ROW_BYTES });
        }
        Ok(())
    }

    /// Writes a row into a new chain; returns its stub. What was written is undone if it fails.
    pub(crate) fn write_chain(
        &self,
        chain: &mut dyn Appender,
        key: &[u8],
        row: &[u8],
    ) -> Result<Stub> {
        let before = chain.last();
        match self.append_parts(chain, key, None, row) {
            Ok(first) => Ok(stub(row.len(), first)),
            Err(error) => {
                self.pool.undo_to(chain, before)?;
                Err(error)
            }
        }
    }

    /// Appends pages with a row, or its rest, to a chain. Returns the first of them.
    fn append_parts(
        &self,
        chain: &mut dyn Appender,
        key: &[u8],
        mut prev: Option<PageNo>,
        row: &[u8],
    ) -> Result<PageNo> {
        let mut first = None;
        for bytes in row.chunks(self.pool.part_bytes()) {
            let mut before = prev.map(|prev| self.pool.write(prev)).transpose()?;
            let (number, mut map) = self.pool.allocate()?;
            let mut page = self.pool.write_new(number)?;
            let body = self.body(Change::NewOverflow { key, prev, bytes });
            self.pool.perform(chain, How::Do, &body, &mut page, before.as_mut(), Some(&mut map))?;
            prev = Some(number);
            first.get_or_insert(number);
        }
        Ok(first.expect("a long row has bytes"))
    }

    /// Writes another row over a chain; it becomes longer if it has to. Returns the new stub.
    pub(crate) fn rewrite_chain(
        &self,
        chain: &mut dyn Appender,
        key: &[u8],
        old: &[u8],
        row: &[u8],
    ) -> Result<Stub> {
        let (_, first) = read_stub(old);
        let (mut next, mut last, mut left) = (first, None, row);
        while let Some(number) = next
            && !left.is_empty()
        {
            let mut page = self.pool.write(number)?;
            if page.kind() != PageKind::Overflow || page.tree() != self.number {
                return Err(damaged(number));
            }
            let bytes = left.len().min(self.pool.part_bytes());
            let (part, rest) = left.split_at(bytes);
            self.rewrite_part(chain, key, &mut page, part)?;
            (next, last, left) = (page.right(), Some(number), rest);
        }
        let first = match first {
            Some(first) if left.is_empty() => first,
            Some(first) => {
                self.append_parts(chain, key, last, left)?;
                first
            }
            None => self.append_parts(chain, key, None, left)?,
        };
        Ok(stub(row.len(), first))
    }

    /// Writes a part over another one, in pieces that fit into a record.
    fn rewrite_part(
        &self,
        chain: &mut dyn Appender,
        key: &[u8],
        page: &mut WritePage<'a, T>,
        part: &[u8],
    ) -> Result<()> {
        let common = page.part().len().min(part.len());
        let mut pieces: Vec<_> = (0..common)
            .step_by(PIECE_BYTES)
            .map(|from| (from, (from + PIECE_BYTES).min(common)))
            .map(|(from, to)| (from, to, to))
            .collect();
        if part.len() > common {
            // Bytes after a shorter part stay: the stub says where the row ends.
            pieces.push((common, common, part.len()));
        }
        for (from, to, new_to) in pieces {
            if page.part()[from..to] == part[from..new_to] {
                continue;
            }
            let before = page.part()[from..to].to_vec();
            let at = u16::try_from(from).expect("a place in a page");
            let after = &part[from..new_to];
            let body = self.body(Change::OverflowBytes { key, at, before: &before, after });
            self.pool.perform(chain, How::Do, &body, page, None, None)?;
        }
        Ok(())
    }

    pub(crate) fn undo_overflow(
        &self,
        chain: &mut dyn Appender,
        how: How,
        logged: &Logged,
        change: &Change<'_>,
    ) -> Result<()> {
        let Change::OverflowBytes { key, at, before, after } = *change else { return Ok(()) };
        let mut page = self.pool.write(logged.page)?;
        if page.kind() != PageKind::Overflow {
            return Err(damaged(logged.page));
        }
        let body = self.body(Change::OverflowBytes { key, at, before: after, after: before });
        self.pool.perform(chain, how, &body, &mut page, None, None).map(drop)
    }

    /// Copies the row of an entry whose leaf is latched into `row`, which has nothing else then.
    pub(crate) fn copy_row(&self, entry: &Entry<'_>, row: &mut Vec<u8>) -> Result<()> {
        self.copy_row_below(Lsn(u64::MAX), entry, row)
    }

    /// Copies the row as it is below a horizon.
    ///
    /// # Errors
    /// [`PagedError::TooOld`]: a page of a long row was changed since. Or as [`Self::copy_row`].
    pub(crate) fn copy_row_below(
        &self,
        horizon: Lsn,
        entry: &Entry<'_>,
        row: &mut Vec<u8>,
    ) -> Result<()> {
        row.clear();
        if !entry.is_long() {
            row.extend_from_slice(entry.row);
            return Ok(());
        }
        let (bytes, mut next) = read_stub(entry.row);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        row.reserve(bytes.min(MOST_ROW_BYTES));
        let mut at = PageNo::default();
        while row.len() < bytes {
            at = next.ok_or_else(|| damaged(at))?;
            let page = self.pool.read(at)?;
            let is_ours = page.kind() == PageKind::Overflow && page.tree() == self.number;
            if !is_ours || page.part().is_empty() {
                return Err(damaged(at));
            }
            if page.lsn() >= horizon {
                return Err(PagedError::TooOld);
            }
            self.pool.check_running()?;
            let part = page.part();
            row.extend_from_slice(&part[..part.len().min(bytes - row.len())]);
            next = page.right();
        }
        Ok(())
    }

    /// Frees the chain of a ghost, if it has one.
    pub(crate) fn free_chain(&self, leaf: &mut WritePage<'a, T>, key: &[u8]) -> Result<()> {
        loop {
            let slot = leaf.find(key).expect("it is there");
            let entry = leaf.entry(slot);
            let Some(number) = entry.is_long().then(|| read_stub(entry.row).1).flatten() else {
                return Ok(());
            };
            let mut page = self.pool.write(number)?;
            if page.kind() != PageKind::Overflow || page.tree() != self.number {
                return Err(damaged(number));
            }
            let mut map = self.pool.map(number)?;
            let body = self.body(Change::PopOverflow { key, page: number, next: page.right() });
            let mut chain = Chain::default();
            self.pool.perform(&mut chain, How::Do, &body, leaf, Some(&mut page), Some(&mut map))?;
            drop((page, map));
            self.pool.freed(number);
        }
    }
}
