//! Values that are too long for a record: chains of pages, each filled but for the last. The record
//! has the value's length and the first page.

use pm::{Bad, Memory, View};

use crate::Result;
use crate::flaw::{self, Flaw};
use crate::header::{Header, Kind};
use crate::layout::{OVERFLOW_HEADER, WORD};
use crate::scheme::Scheme;
use crate::store::Store;

impl<M: Memory, S: Scheme<M>> Store<M, S> {
    fn overflow_bytes(&self) -> usize {
        self.page_bytes() - OVERFLOW_HEADER
    }

    /// Returns how many pages a value of so many bytes takes.
    pub(crate) fn overflow_pages(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.overflow_bytes())
    }

    /// Returns how many pages the long value of a record takes.
    pub(crate) fn pages_of(&self, value: Option<[u8; 16]>) -> usize {
        let bytes: Option<[u64; 2]> = value.map(|value| zerocopy::transmute!(value));
        // A damaged length ends in an error when its pages are read.
        bytes.map_or(0, |[bytes, _]| self.overflow_pages(bytes.min(self.memory.len()) as usize))
    }

    /// Writes a value into pages and returns what its record has.
    pub(crate) fn write_overflow(&mut self, value: &[u8]) -> Result<[u8; 16]> {
        let mut next = 0;
        for part in value.chunks(self.overflow_bytes()).rev() {
            let page = self.allocate_page()?;
            let mut bytes = Vec::with_capacity(WORD + part.len());
            bytes.extend(u64::to_le_bytes(next));
            bytes.extend(part);
            let lines = self.work.lines.len();
            self.write(page, WORD, &bytes)?;
            if flaw::has::<M>(Flaw::OverflowUnflushed) {
                self.work.forget_lines(lines);
            }
            let content = part.len() as u16;
            let header = Header { kind: Kind::Overflow, seq: 0, content, free: 0, count: 0 };
            self.work.remember_overflow(page);
            self.work.overflow.insert(page, header.encode());
            next = page;
        }
        Ok(zerocopy::transmute!([(value.len() as u64).to_le_bytes(), next.to_le_bytes()]))
    }

    /// Calls `visit` with each page of a chain, whose next page has been read, and its part.
    pub(crate) fn each_overflow(
        &self,
        value: [u8; 16],
        mut visit: impl FnMut(u64, usize, &mut dyn FnMut(&mut Vec<u8>)) -> Result<()>,
    ) -> Result<()> {
        let [mut left, mut page]: [u64; 2] = zerocopy::transmute!(value);
        if left > self.memory.len() {
            return Err(Bad::Damaged { what: "length of a long value", at: page }.into());
        }
        while left > 0 {
            let damaged = Bad::Damaged { what: "overflow page", at: page };
            let view = self.view(page)?;
            let word = self.work.overflow.get(&page).copied().unwrap_or(view.word(0));
            let header = Header::decode(word).filter(|header| header.kind == Kind::Overflow);
            let bytes = usize::from(header.ok_or(damaged)?.content);
            if bytes != self.overflow_bytes().min(left as usize) {
                return Err(damaged.into());
            }
            let next = view.word(WORD);
            visit(page, bytes, &mut |out| view.bytes(OVERFLOW_HEADER, bytes).append_to(out))?;
            left -= bytes as u64;
            page = next;
        }
        Ok(())
    }

    /// Appends the value of a record whose value lies in overflow pages.
    pub(crate) fn read_overflow(&self, value: [u8; 16], out: &mut Vec<u8>) -> Result<()> {
        self.each_overflow(value, |_, _, part| {
            part(out);
            Ok(())
        })
    }

    /// Frees the pages of a value.
    pub(crate) fn free_overflow(&mut self, value: [u8; 16]) -> Result<()> {
        let mut pages = Vec::new();
        self.each_overflow(value, |page, _, _| {
            pages.push(page);
            Ok(())
        })?;
        for page in pages {
            self.work.remember_overflow(page);
            match self.work.overflow.remove(&page) {
                Some(_) if !self.work.is_kept(page) => self.work.spare.push(page),
                _ => self.work.freed.push(page),
            }
        }
        Ok(())
    }
}
