//! Reads records again: one, many, or all from a place on.

use std::sync::atomic::Ordering;

use pm::Files;

use super::super::record::{self, HEADER_BYTES};
use super::super::{Logged, Visit};
use super::Central;
use super::layout::{self, SECTOR};
use super::walk::{Walk, Walked};
use crate::ids::Lsn;
use crate::threads::Threads;
use crate::{PagedError, Result};

fn damaged(at: Lsn, what: &str) -> PagedError {
    PagedError::DamagedLog { at, what: what.into() }
}

impl<F: Files, T: Threads> Central<F, T> {
    /// Reads a record, durable or not.
    pub(super) fn read_at(&self, at: Lsn) -> Result<Logged> {
        let (number, offset) = layout::place_of(at);
        let state = self.lock();
        let space = &state.space;
        if number < space.first() || (number, offset) >= (space.number, space.offset) {
            return Err(damaged(at, "it is not in the log"));
        }
        let groups = [Some(&state.filling), state.writing.as_deref()];
        if let Some(bytes) = groups.into_iter().flatten().find_map(|group| group.from(at)) {
            let whole = &bytes[..record::bytes_of(bytes)];
            let read = record::decode(whole).and_then(|read| read.logged(&whole[HEADER_BYTES..]));
            return read.ok_or_else(|| damaged(at, "there is no record"));
        }
        let file = space.file(number);
        drop(state);
        self.record(&mut self.walk(file, number, offset))
    }

    /// Reads durable records at places that rise.
    pub(super) fn read_places(&self, places: &[Lsn], visit: Visit<'_>) -> Result<()> {
        let durable = Lsn(self.durable.load(Ordering::Acquire));
        let mut walk: Option<(u32, Walk<'_, F::File>)> = None;
        for at in places {
            let (number, offset) = layout::place_of(*at);
            let mut here = match walk.take() {
                Some((of, walk)) if of == number => walk,
                _ => {
                    let state = self.lock();
                    if number < state.space.first() || *at > durable {
                        return Err(damaged(*at, "it is not in the log"));
                    }
                    self.walk(state.space.file(number), number, offset)
                }
            };
            here.seek(offset);
            visit(self.record(&mut here)?)?;
            walk = Some((number, here));
        }
        Ok(())
    }

    fn walk(&self, file: usize, number: u32, offset: u64) -> Walk<'_, F::File> {
        Walk::at(&*self.files[file], number, offset, self.shape.partition_bytes)
    }

    /// The record at the place of a walk.
    fn record(&self, walk: &mut Walk<'_, F::File>) -> Result<Logged> {
        let at = walk.place();
        match walk.next(0, self.restart)? {
            Walked::Record(read, payload) => {
                read.logged(payload).ok_or_else(|| damaged(at, "there is no record"))
            }
            _ => Err(damaged(at, "there is no sound record")),
        }
    }

    /// Calls `visit` with the records of an opened log from one place on, before another one.
    pub(super) fn scan_between(&self, from: Lsn, to: Lsn, visit: Visit<'_>) -> Result<()> {
        let (mut number, mut offset) = layout::place_of(from);
        let newest = self.lock().newest;
        if from > newest {
            return Ok(());
        }
        loop {
            let file = self.lock().space.file(number);
            let mut walk = self.walk(file, number, offset);
            loop {
                let at = walk.place();
                if at >= to {
                    return Ok(());
                }
                match walk.next(0, self.restart)? {
                    Walked::Record(read, payload) => {
                        if let Some(logged) = read.logged(payload) {
                            visit(logged)?;
                        }
                        if at >= newest {
                            return Ok(());
                        }
                    }
                    Walked::Seal(_) => break,
                    Walked::End => {
                        return Err(damaged(
                            at,
                            "there is no sound record, though the log goes on",
                        ));
                    }
                }
            }
            (number, offset) = (number + 1, SECTOR as u64);
        }
    }
}
