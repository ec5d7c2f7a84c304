//! Images of inlined columns: copies that log entries lead to, since the column itself is
//! overwritten.
//!
//! An image lies in a slot that is never persisted: it is there as long as the log can ask for it,
//! and after a crash until recovery has ended, since nothing is allocated before. It becomes
//! durable under the fence of its log entry. The entry has a checksum of it, so that an entry that
//! persisted without its image is known; nothing has been overwritten then, and the checksum is
//! that of what stands in the column.

use std::sync::atomic::Ordering::Acquire;

use heap::Purpose;
use index::LeafLayout;
use pm::{Bad, Memory, Off, Range};

use super::Tables;
use super::change::write_slot;
use crate::error::StorageError;
use crate::logs::undo_entry::NewField;
use crate::rows::value::Value;
use crate::table::slots::SlotLayout;
use crate::table::tuple::{inlined_range, put_inlined};
use crate::table::words::FieldForm;
use crate::table::words::{field_at, slot_range};

/// The contents of an inlined column that a log entry leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Image {
    /// The contents are those from before the update, to undo it.
    Before,
    /// The new ones, to do it again.
    After,
}

impl<M: Memory, L: LeafLayout> Tables<M, L> {
    /// Writes the image that the log entry of an update of an inlined column leads to.
    pub(super) fn write_image(
        &mut self,
        (table, tuple): (u16, u64),
        column: u16,
        value: &Value<'_>,
        image: Image,
    ) -> Result<NewField, StorageError> {
        let Self { lane, tables, lines, images, contents, .. } = self;
        // The tuple's offset may come from a damaged index: it is looked at before anything is
        // logged, also where only the new value is of interest.
        let layout = &tables[usize::from(table)].layout;
        lane.memory().view(layout.place(tuple, column))?;
        let word = lane.memory().load(field_at(tuple, column), Acquire)?;
        let range = inlined_range(layout, tuple, column, word)?;
        let bytes = match image {
            Image::After => value.as_bytes().unwrap_or_default(),
            Image::Before => {
                contents.resize(range.len as usize, 0);
                lane.memory().read_into(Off::new(range.start), contents)?;
                contents
            }
        };
        let word = write_slot(lane, lines, bytes, Purpose::Log)?;
        if word != 0 {
            images.push(slot_range(word).start);
        }
        Ok(match image {
            Image::Before => NewField { column, old: word, new: u64::from(crc32c::crc32c(bytes)) },
            Image::After => NewField { column, old: 0, new: word },
        })
    }

    /// Gives the images of a transaction back whose end is durable, so that its log entries do not
    /// count any more.
    #[inline]
    pub fn release_images(&mut self) {
        if !self.images.is_empty() {
            self.give_back_images(0);
        }
    }

    /// Gives back the images after the first `kept` of the transaction.
    pub(super) fn give_back_images(&mut self, kept: usize) {
        let Self { lane, images, .. } = self;
        images.drain(kept..).for_each(|slot| lane.release(slot));
    }

    /// Checks that the words of a tuple's inlined columns lead to their places.
    pub(super) fn check_inlined(&self, table: u16, tuple: u64) -> Result<(), Bad> {
        let layout = self.layout(table);
        for column in (0..layout.forms.len() as u16).filter(|_| layout.inlines()) {
            if layout.forms[usize::from(column)] == FieldForm::Inline {
                inlined_range(layout, tuple, column, self.field(tuple, column)?)?;
            }
        }
        Ok(())
    }

    /// Undoes the update of an inlined column: puts the image that the log entry leads to by `word`
    /// in its place, as [`Self::put_image`] does. An image without the checksum `expected` may not
    /// have persisted when its entry had: what it is an image of stands in the column still, and
    /// nothing is done. Otherwise it is damaged.
    #[track_caller]
    pub(crate) fn restore_image(
        &mut self,
        layout: &SlotLayout,
        (tuple, column): (u64, u16),
        word: u64,
        expected: u32,
    ) -> Result<(), Bad> {
        let image = slot_range(word);
        if self.checksum(image)? == expected {
            return self.put_image(layout, (tuple, column), word);
        }
        // The place comes from the log.
        self.memory().view(layout.place(tuple, column))?;
        let column = inlined_range(layout, tuple, column, self.field(tuple, column)?)?;
        if self.checksum(column)? == expected {
            return Ok(());
        }
        Err(Bad::Damaged { what: "image of a column", at: image.start })
    }

    fn checksum(&mut self, range: Range) -> Result<u32, Bad> {
        self.contents.resize(range.len as usize, 0);
        self.lane.memory().read_into(Off::new(range.start), &mut self.contents)?;
        Ok(crc32c::crc32c(&self.contents))
    }

    /// Puts the image that a log entry leads to by `word` in the column's place. For undo and redo:
    /// all of it is to be flushed, since a killed process may only have stored what is there
    /// already.
    #[track_caller]
    pub(crate) fn put_image(
        &mut self,
        layout: &SlotLayout,
        (tuple, column): (u64, u16),
        word: u64,
    ) -> Result<(), Bad> {
        let Self { lane, lines, contents, .. } = self;
        let memory = lane.memory();
        // The places come from the log.
        let place = layout.place(tuple, column);
        memory.view(place)?;
        let at = field_at(tuple, column);
        memory.load(at, Acquire)?;
        let range = slot_range(word);
        contents.resize(range.len as usize, 0);
        memory.read_into(Off::new(range.start), contents)?;
        put_inlined(memory, lines, layout, (tuple, column), contents)?;
        lines.add(at.range());
        Ok(())
    }
}
