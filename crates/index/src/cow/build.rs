//! Building nodes: every change of a node makes its image anew from runs of stored records and
//! new ones, so that a copy and a change are one step and a page never has holes.

use pm::{Bad, Bytes, View};

use super::node::{Node, SLOT_BYTES, TreeShape};
use crate::pages::page::{Header, PAGE_HEADER_BYTES};

/// A run of records for a new node.
#[derive(Debug)]
pub(crate) enum Piece<'a, V> {
    Nothing,
    /// Stored records from one index up to another.
    Stored(&'a Node<'a, V>, usize, usize),
    /// A new record.
    New(&'a [u8]),
}

impl<V> Clone for Piece<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V> Copy for Piece<'_, V> {}

/// Records of two neighbouring nodes with a change in one of them.
const MOST: usize = 10;

/// The records of one or two new nodes, in order.
#[derive(Debug)]
pub(crate) struct Pieces<'a, V> {
    list: [Piece<'a, V>; MOST],
    len: usize,
}

impl<'a, V: View> Pieces<'a, V> {
    pub(crate) fn new() -> Self {
        Self { list: [const { Piece::Nothing }; MOST], len: 0 }
    }

    pub(crate) fn push(&mut self, piece: Piece<'a, V>) {
        if matches!(piece, Piece::Stored(_, from, to) if from >= to) {
            return;
        }
        self.list[self.len] = piece;
        self.len += 1;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Piece<'a, V>> {
        self.list[..self.len].iter().copied()
    }

    /// Takes the first record away and returns its bytes.
    pub(crate) fn pop_first(&mut self) -> Result<Option<Bytes<'a>>, Bad> {
        let record = match &mut self.list[0] {
            Piece::Stored(node, from, to) => {
                let record = node.record(*from)?;
                *from += 1;
                if from < to {
                    return Ok(Some(record));
                }
                record
            }
            Piece::New(record) => Bytes::from(*record),
            Piece::Nothing => return Ok(None),
        };
        self.list.copy_within(1..self.len, 0);
        self.len -= 1;
        self.list[self.len] = Piece::Nothing;
        Ok(Some(record))
    }

    fn for_each(&self, mut visit: impl FnMut(Bytes<'_>)) -> Result<(), Bad> {
        for piece in self.iter() {
            match piece {
                Piece::Stored(node, from, to) => {
                    for index in from..to {
                        visit(node.record(index)?);
                    }
                }
                Piece::New(record) => visit(record.into()),
                Piece::Nothing => {}
            }
        }
        Ok(())
    }

    fn count(&self) -> usize {
        self.iter()
            .map(|piece| match piece {
                Piece::Stored(_, from, to) => to - from,
                Piece::New(_) => 1,
                Piece::Nothing => 0,
            })
            .sum()
    }
}

/// The plan that the nodes to build share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) shape: TreeShape,
    pub(crate) level: u8,
    /// The transaction that makes the pages.
    pub(crate) birth: u64,
    /// Keys come in ascending order: if there are two nodes, the second starts with the last
    /// record only.
    pub(crate) ascending: bool,
}

impl Plan {
    fn header(&self, count: usize, used: usize) -> Header {
        let (birth, level) = (self.birth, self.level);
        Header { birth, used, checksum: 0, count, level, kind: self.shape.kind() }
    }

    /// Builds one node, or two if the records do not fit one; returns how many. There is at least
    /// one record.
    pub(crate) fn build<V: View>(
        &self,
        pieces: &Pieces<'_, V>,
        images: &mut [Vec<u8>; 2],
    ) -> Result<usize, Bad> {
        match self.shape.stride(self.level) {
            0 => self.build_slotted(pieces, images),
            stride => self.build_packed(pieces, stride, images),
        }
    }

    fn build_packed<V: View>(
        &self,
        pieces: &Pieces<'_, V>,
        stride: usize,
        images: &mut [Vec<u8>; 2],
    ) -> Result<usize, Bad> {
        let count = pieces.count();
        let most = (self.shape.page_bytes as usize - PAGE_HEADER_BYTES) / stride;
        let first = match count {
            _ if count <= most => count,
            _ if self.ascending => count - 1,
            _ => count / 2,
        };
        let [left, right] = images;
        left.clear();
        left.resize(PAGE_HEADER_BYTES, 0);
        for piece in pieces.iter() {
            match piece {
                Piece::Stored(node, from, to) => node.packed(from, to).append_to(left),
                Piece::New(record) => left.extend_from_slice(record),
                Piece::Nothing => {}
            }
        }
        let used = PAGE_HEADER_BYTES + first * stride;
        if first < count {
            right.clear();
            right.resize(PAGE_HEADER_BYTES, 0);
            right.extend_from_slice(&left[used..]);
            left.truncate(used);
            self.header(count - first, right.len()).put(right);
        }
        self.header(first, used).put(left);
        Ok(1 + usize::from(first < count))
    }

    fn build_slotted<V: View>(
        &self,
        pieces: &Pieces<'_, V>,
        images: &mut [Vec<u8>; 2],
    ) -> Result<usize, Bad> {
        let room = self.shape.page_bytes as usize - PAGE_HEADER_BYTES;
        let (mut count, mut total) = (0, 0);
        pieces.for_each(|record| {
            count += 1;
            total += record.len() + SLOT_BYTES;
        })?;
        let first = if total <= room { count } else { self.split(pieces, total, count, room)? };
        let (mut index, mut page) = (0, 0);
        for (image, records) in images.iter_mut().zip([first, count - first]) {
            image.clear();
            image.resize(PAGE_HEADER_BYTES + records * SLOT_BYTES, 0);
        }
        pieces.for_each(|record| {
            if index == first && page == 0 {
                (index, page) = (0, 1);
            }
            let image: &mut Vec<u8> = &mut images[page];
            let at = (image.len() as u16).to_le_bytes();
            let slot = PAGE_HEADER_BYTES + index * SLOT_BYTES;
            image[slot..slot + SLOT_BYTES].copy_from_slice(&at);
            record.append_to(image);
            index += 1;
        })?;
        let made = 1 + usize::from(first < count);
        for (image, records) in images.iter_mut().zip([first, count - first]).take(made) {
            let used = image.len();
            self.header(records, used).put(image);
        }
        Ok(made)
    }

    /// Returns how many records the first of two nodes gets: halves, as near as both fit. Records
    /// are at most half a page, so there is always a place.
    fn split<V: View>(
        &self,
        pieces: &Pieces<'_, V>,
        total: usize,
        count: usize,
        room: usize,
    ) -> Result<usize, Bad> {
        let (mut index, mut before) = (0, 0);
        let mut best = (usize::MAX, 0);
        pieces.for_each(|record| {
            index += 1;
            before += record.len() + SLOT_BYTES;
            let after = total - before;
            if index < count && before <= room && after <= room {
                let unlike = if self.ascending { count - index } else { before.abs_diff(after) };
                best = best.min((unlike, index));
            }
        })?;
        // Only records that lie over one another in a damaged page are too many for two.
        if best.1 == 0 { Err(Bad::Damaged { what: "page of a tree", at: 0 }) } else { Ok(best.1) }
    }
}
