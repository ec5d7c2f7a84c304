//! The work of a tree that has been begun: writing a MemTable out, merging runs. `work.rs` does it.

use super::error::LsmError;
use super::levels::Merge as Due;
use super::merge::Merge;
use super::record::Encoder;
use super::sstable::{Sequence, SsWriter};
use crate::rows::key::TableKey;

/// Writing out the frozen MemTable.
#[derive(Debug)]
pub(super) struct Flush<R: pm::File> {
    pub(super) writer: SsWriter<R>,
    /// The tree that it has come to.
    pub(super) tree: u16,
    pub(super) after: Option<TableKey>,
    pub(super) done: u64,
}

/// Merging the runs of a level with that of the next.
#[derive(Debug)]
pub(super) struct Merging<R: pm::File> {
    pub(super) inputs: Vec<u64>,
    pub(super) due: Due,
    pub(super) merge: Merge<Sequence<R>>,
    pub(super) writer: Option<SsWriter<R>>,
    pub(super) encoder: Encoder,
    pub(super) total: u64,
    /// Bytes of the inputs that have been merged, and that writers want to be by now.
    pub(super) done: u64,
    pub(super) wanted: u64,
}

/// Work that has been begun.
#[derive(Debug)]
pub(super) struct Work<R: pm::File> {
    pub(super) flush: Option<Flush<R>>,
    pub(super) flush_wanted: u64,
    pub(super) merges: Vec<Merging<R>>,
    /// The bytes that the active MemTable counted for when writers did the last step.
    pub(super) paced: u64,
    /// Growth of the MemTable that has to come before a failed merge is tried again.
    pub(super) patience: u64,
    /// Tombstones before which it is not tried again to merge all runs on a full medium.
    pub(super) relief_at: u64,
}

impl<R: pm::File> Default for Work<R> {
    fn default() -> Self {
        Self {
            flush: None,
            flush_wanted: 0,
            merges: Vec::new(),
            paced: 0,
            patience: 0,
            relief_at: 0,
        }
    }
}

impl<R: pm::File> Merging<R> {
    /// Merges about `budget` bytes; returns whether all is merged.
    pub(super) fn step(&mut self, budget: u64) -> Result<bool, LsmError> {
        let until = self.done.saturating_add(budget);
        while let Some(key) = self.merge.key() {
            if let Some(kind) = self.merge.combine(self.due.to_bottom, &mut self.encoder)?
                && let Some(writer) = &mut self.writer
            {
                writer.add(kind, key, self.encoder.body())?;
            }
            self.merge.advance()?;
            self.done = self.merge.cursors().iter().map(Sequence::position).sum();
            if self.done >= until {
                return Ok(false);
            }
        }
        end_some(self.writer.as_mut(), &mut self.done, until)
    }
}

/// Writes a part of what follows the last entry of a run, if it has one, until `done` reaches
/// `until`. Returns whether only the footer is left.
pub(super) fn end_some<R: pm::File>(
    writer: Option<&mut SsWriter<R>>,
    done: &mut u64,
    until: u64,
) -> Result<bool, LsmError> {
    let Some(writer) = writer.filter(|writer| writer.entries() > 0) else { return Ok(true) };
    let before = writer.finish_step(0)?;
    if before == 0 {
        return Ok(true);
    }
    let left = writer.finish_step(until.saturating_sub(*done))?;
    *done += before - left;
    Ok(left == 0)
}
