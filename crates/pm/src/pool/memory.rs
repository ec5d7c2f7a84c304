//! A pool as a memory: growing, flushes and fences.

use std::io;
use std::sync::PoisonError;
use std::sync::atomic::{Ordering, compiler_fence};

use super::options::Access;
use super::{Mode, Pool, grown};
use crate::counters::bump;
use crate::delegate::as_mapping;
use crate::domain::Domain;
use crate::error::{Bad, GrowError};
use crate::flush::{FlushInstruction, store_fence};
use crate::limits::page_bytes;
use crate::mapping::NativeView;
use crate::media::free_bytes;
use crate::memory::Memory;
use crate::offset::{LINE_BYTES, Line, Range};
use crate::poison::fork_generation;
use crate::space::reserve_space;

impl Pool {
    #[cold]
    #[inline(never)]
    fn flush_slowly(&self, at: Range) {
        let shared = &*self.0;
        if at.len == 0 {
            return;
        }
        let (first, end) = at.lines();
        if shared.counting.load(Ordering::Relaxed) && shared.fences && shared.domain != Domain::Eadr
        {
            bump(&shared.tally.flushed_lines, end - first);
            bump(&shared.tally.bytes_persisted, (end - first) * LINE_BYTES);
        }
        match (shared.access, shared.domain) {
            (Access::ReadWrite, Domain::Adr) => {
                let Some(instruction) = shared.instruction else { return };
                assert!(end * LINE_BYTES <= shared.mapping.len().next_multiple_of(LINE_BYTES));
                // SAFETY: the lines lie within the mapping; the instruction was detected.
                unsafe { instruction.write_back(shared.mapping.base(), first, end) };
            }
            (Access::ReadWrite, Domain::Disk) => self.note_pages(at),
            _ => compiler_fence(Ordering::SeqCst),
        }
    }

    /// Notes the pages of a range for the next sync.
    #[inline(never)]
    fn note_pages(&self, at: Range) {
        let page = page_bytes();
        let start = at.start / page * page;
        self.0.notes.add(Range::new(start, at.end().next_multiple_of(page) - start));
    }

    #[cold]
    #[inline(never)]
    fn fence_slowly(&self) {
        let shared = &*self.0;
        if !shared.fences {
            return;
        }
        if shared.counting.load(Ordering::Relaxed) {
            bump(&shared.tally.fences, 1);
        }
        if shared.domain == Domain::Disk {
            self.sync_pages();
        } else {
            store_fence();
        }
    }

    /// Syncs the noted pages. Apart from [`Self::fence_slowly`], which would have to save registers
    /// for it.
    #[inline(never)]
    fn sync_pages(&self) {
        let shared = &*self.0;
        shared.notes.sync(|range| {
            let len = range.len.min(shared.mapping.len() - range.start);
            // SAFETY: the pages lie within the mapping.
            let result = unsafe {
                libc::msync(
                    shared.mapping.base().add(range.start as usize).cast(),
                    len as usize,
                    libc::MS_SYNC,
                )
            };
            if shared.counting.load(Ordering::Relaxed) {
                bump(&shared.tally.syncs, 1);
            }
            if result != 0 {
                // What a failed sync left is unknown: acknowledge nothing any more.
                shared.health.poison();
            }
        });
    }
}

impl Memory for Pool {
    const DURABLE: bool = true;
    type View<'a> = NativeView<'a>;

    #[inline]
    fn len(&self) -> u64 {
        self.0.mapping.len()
    }

    fn grow(&self, to: u64) -> Result<(), GrowError> {
        let shared = &*self.0;
        let mut header = shared.header.lock().unwrap_or_else(PoisonError::into_inner);
        let from = shared.mapping.len();
        if to <= from {
            return Ok(());
        }
        if to > header.limit {
            return Err(GrowError::Limit { limit: header.limit });
        }
        let most = header.limit.min(shared.mapping.reserved());
        if to > most {
            return Err(GrowError::Addresses { wanted: to });
        }
        let to = grown(from, to, most, shared.info.medium.page_bytes);
        let medium = |source| GrowError::Medium { wanted: to, source };
        if shared.health.is_poisoned() {
            return Err(medium(io::Error::other(Bad::Poisoned)));
        }
        let file_bytes = shared.file.metadata().map_err(medium)?.len();
        if file_bytes > from {
            // A growth that a crash cut off, or bytes that were appended: new space is zero.
            shared.file.set_len(from).map_err(medium)?;
        }
        if let Err(source) = reserve_space(&shared.file, from, to - from) {
            let _ = shared.file.set_len(from);
            return Err(medium(source));
        }
        shared
            .mapping
            .map_file(&shared.file, Range::new(from, to - from), shared.sharing)
            .map_err(medium)?;
        if !shared.health.has_grown(to) {
            return Err(medium(io::Error::other(Bad::Poisoned)));
        }
        if shared.domain != Domain::Process && !header.modelled {
            // The file's length must be durable before anything in the new part is. A sync that fails
            // may have lost what was stored elsewhere, too: acknowledge nothing any more.
            shared.file.sync_all().map_err(|source| {
                shared.health.poison();
                medium(source)
            })?;
        }
        header.size = to;
        header.sequence += 1;
        header.write(self);
        if shared.health.is_poisoned() {
            return Err(medium(io::Error::other("a sync of the pool's header failed")));
        }
        shared.mapping.set_len(to);
        shared.collapse(from, to);
        Ok(())
    }

    fn headroom(&self) -> u64 {
        let shared = &*self.0;
        let header = shared.header.lock().unwrap_or_else(PoisonError::into_inner);
        let most = header.limit.min(shared.mapping.reserved());
        // Where the kernel does not say, nothing is counted on.
        let free = free_bytes(&shared.file).unwrap_or(0);
        most.saturating_sub(shared.mapping.len()).min(free)
    }

    #[inline]
    fn healthy(&self) -> Result<(), Bad> {
        if self.0.forks != fork_generation() {
            return Err(Bad::Forked);
        }
        if self.0.health.is_poisoned() { Err(Bad::Poisoned) } else { Ok(()) }
    }

    as_mapping!(self => self.0.mapping);

    #[inline]
    fn flush(&self, at: Range) {
        let mode = self.0.mode.load(Ordering::Relaxed);
        if mode == Mode::Clwb as u8 {
            let (first, end) = at.lines();
            assert!(end * LINE_BYTES <= self.0.mapping.len());
            compiler_fence(Ordering::SeqCst);
            // SAFETY: the lines lie within the mapping; CLWB was detected.
            unsafe {
                FlushInstruction::Clwb.write_back(self.0.mapping.base(), first, end);
            }
        } else if mode == Mode::Nothing as u8 {
            compiler_fence(Ordering::SeqCst);
        } else {
            self.flush_slowly(at);
        }
    }

    #[inline]
    fn fence(&self) {
        if self.0.mode.load(Ordering::Relaxed) == Mode::Clwb as u8 {
            store_fence();
            compiler_fence(Ordering::SeqCst);
        } else {
            self.fence_slowly();
        }
    }

    fn has_store_line(&self) -> bool {
        self.0.line_store.is_some()
    }

    #[inline]
    fn store_line(&self, line: Line, bytes: &[u8; LINE_BYTES as usize]) {
        let shared = &*self.0;
        let by = shared.line_store.expect("`has_store_line` was asked");
        if shared.counting.load(Ordering::Relaxed) && shared.fences {
            bump(&shared.tally.flushed_lines, 1);
            bump(&shared.tally.bytes_persisted, LINE_BYTES);
        }
        shared.mapping.store_line(by, line, bytes);
    }
}
