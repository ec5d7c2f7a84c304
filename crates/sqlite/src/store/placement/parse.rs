//! Pages of a b-tree in SQLite's file format (sqlite.org/fileformat2.html, 1.6).
//!
//! Invariants:
//! - What is accepted as a page of a b-tree is one: its cells and free blocks lie in the cell content area and do not
//!   overlap, and the rest of the area is as large as the header says.
//! - No bytes cause a panic.
//!
//! SQLite knows a page's kind from the reference to it; here only the bytes are known. A page of a chain (overflow,
//! free list) begins with the next page's number: with fewer than 2^25 pages its first byte is 0 or 1, which no page
//! of a b-tree has. A pointer-map page may look like one, and is known only by its number: [`Shape::is_pointer_map`].

use crate::store::shape::{FILE_HEADER_BYTES, Shape, be16, be32};
use crate::store::span::{Bytes, Span};

/// The number of pages from which a page of a chain may look like a page of a b-tree.
pub const PAGES_MAX: u32 = 1 << 25;
/// The least space of a cell, so that it can become a free block.
pub const CELL_BYTES_MIN: usize = 4;
/// Bytes at the beginning of a free block: the next block's offset and the own length.
pub const FREE_BLOCK_HEADER_BYTES: usize = 4;
/// The most bytes of a page in fragments, which are too short for a free block.
pub const FRAGMENTS_MAX: usize = 60;

/// The kind of a page of a b-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An inner page of an index.
    IndexInner = 2,
    /// An inner page of a table.
    TableInner = 5,
    /// A leaf of an index.
    IndexLeaf = 10,
    /// A leaf of a table.
    TableLeaf = 13,
}

impl Kind {
    /// The kind in the first byte of a page's header.
    pub const fn of(byte: u8) -> Option<Self> {
        match byte {
            2 => Some(Self::IndexInner),
            5 => Some(Self::TableInner),
            10 => Some(Self::IndexLeaf),
            13 => Some(Self::TableLeaf),
            _ => None,
        }
    }

    /// Returns whether cells refer to other pages.
    pub const fn is_inner(self) -> bool {
        matches!(self, Self::IndexInner | Self::TableInner)
    }

    /// The length of the page's header.
    pub const fn header_bytes(self) -> usize {
        if self.is_inner() { 12 } else { 8 }
    }
}

/// A parsed page of a b-tree.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    image: &'a [u8],
    shape: Shape,
    kind: Kind,
    header: usize,
    content: usize,
    cells: Vec<Span>,
    free_blocks: Vec<Span>,
    fragments: usize,
}

impl<'a> Page<'a> {
    /// Parses a page; `None` if it is not one of a b-tree. `first` says that it is page 1, where the file's header
    /// precedes the page's.
    pub fn parse(image: &'a [u8], shape: Shape, first: bool) -> Option<Self> {
        if image.len() != shape.page_bytes() {
            return None;
        }
        let header = if first { FILE_HEADER_BYTES } else { 0 };
        let kind = Kind::of(image[header])?;
        let pointers = header + kind.header_bytes();
        let pointers_end = pointers + 2 * be16(image, header + 3);
        let content = match be16(image, header + 5) {
            0 => 65_536,
            at => at,
        };
        if pointers_end > content || content > shape.usable() {
            return None;
        }
        let mut used = Bytes::none(shape.page_bytes());
        let mut cells = Vec::with_capacity((pointers_end - pointers) / 2);
        for pointer in (pointers..pointers_end).step_by(2) {
            let at = be16(image, pointer);
            if at < content {
                return None;
            }
            let cell = Span::new(at, cell_bytes(&image[..shape.usable()], at, shape, kind)?);
            if taken(cell).end() > shape.usable() || !used.add(taken(cell)) {
                return None;
            }
            cells.push(cell);
        }
        let free_blocks = free_blocks(image, shape, header, content, &mut used)?;
        let fragments = shape.usable() - content - used.count();
        let said = usize::from(image[header + 7]);
        (fragments == said && fragments <= FRAGMENTS_MAX).then_some(Self {
            image,
            shape,
            kind,
            header,
            content,
            cells,
            free_blocks,
            fragments,
        })
    }

    /// The page's bytes.
    pub const fn image(&self) -> &'a [u8] {
        self.image
    }

    /// The shape of the database's pages.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// The page's kind.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns whether the file's header precedes the page's.
    pub const fn is_first(&self) -> bool {
        self.header != 0
    }

    /// The offset of the page's header.
    pub const fn header(&self) -> usize {
        self.header
    }

    /// The offset of the cell content area.
    pub const fn content(&self) -> usize {
        self.content
    }

    /// The cells, in key order.
    pub fn cells(&self) -> &[Span] {
        &self.cells
    }

    /// The bytes of a cell.
    pub fn cell(&self, number: usize) -> &'a [u8] {
        self.cells[number].of(self.image)
    }

    /// The free blocks, by offset.
    pub fn free_blocks(&self) -> &[Span] {
        &self.free_blocks
    }

    /// The bytes in fragments.
    pub const fn fragments(&self) -> usize {
        self.fragments
    }

    /// The rightmost child of an inner page.
    pub fn right_child(&self) -> Option<u32> {
        self.kind.is_inner().then(|| be32(self.image, self.header + 8))
    }

    /// The offset just past the cell pointers.
    pub fn pointers_end(&self) -> usize {
        self.header + self.kind.header_bytes() + 2 * self.cells.len()
    }

    /// The live bytes: headers, pointers, cells, bytes of extensions. Stores to all others are invisible to
    /// readers.
    pub fn live(&self) -> Bytes {
        let mut live = Bytes::none(self.shape.page_bytes());
        live.add(Span::between(0, self.pointers_end()));
        live.add(Span::between(self.shape.usable(), self.shape.page_bytes()));
        for cell in &self.cells {
            live.add(taken(*cell));
        }
        for block in &self.free_blocks {
            live.add(Span::new(block.at, FREE_BLOCK_HEADER_BYTES));
        }
        live
    }
}

/// Returns whether two images of a page are equivalent: pages of a b-tree have the same cells in the same order, at
/// any offset; others have the same bytes.
pub fn same(one: &[u8], other: &[u8], shape: Shape, first: bool) -> bool {
    let parsed = (Page::parse(one, shape, first), Page::parse(other, shape, first));
    let (Some(a), Some(b)) = parsed else { return one == other };
    one[..a.header] == other[..b.header]
        && a.kind == b.kind
        && a.right_child() == b.right_child()
        && a.cells.len() == b.cells.len()
        && (0..a.cells.len()).all(|cell| a.cell(cell) == b.cell(cell))
        && one[shape.usable()..] == other[shape.usable()..]
}

/// The space of a cell.
pub fn taken(cell: Span) -> Span {
    Span::new(cell.at, cell.bytes.max(CELL_BYTES_MIN))
}

/// The free blocks, whose bytes are added to `used`; `None` if their chain is malformed.
fn free_blocks(
    image: &[u8],
    shape: Shape,
    header: usize,
    content: usize,
    used: &mut Bytes,
) -> Option<Vec<Span>> {
    let mut blocks = Vec::new();
    let mut at = be16(image, header + 1);
    // Blocks are ascending, with at least four bytes between them.
    let mut least = content;
    while at != 0 {
        if at < least || at + FREE_BLOCK_HEADER_BYTES > shape.usable() {
            return None;
        }
        let block = Span::new(at, be16(image, at + 2));
        let fits = block.bytes >= FREE_BLOCK_HEADER_BYTES && block.end() <= shape.usable();
        if !fits || !used.add(block) {
            return None;
        }
        blocks.push(block);
        least = block.end() + FREE_BLOCK_HEADER_BYTES;
        at = be16(image, at);
    }
    Some(blocks)
}

/// The length of the cell at `at`; `None` if it does not end within `page`.
fn cell_bytes(page: &[u8], at: usize, shape: Shape, kind: Kind) -> Option<usize> {
    let mut next = at;
    if kind.is_inner() {
        next += 4;
    }
    if kind == Kind::TableInner {
        next = varint(page, next)?.1;
        return Some(next - at);
    }
    let (payload, after) = varint(page, next)?;
    next = after;
    if kind == Kind::TableLeaf {
        next = varint(page, next)?.1;
    }
    // SQLite's longest row has fewer bytes than that.
    let payload = usize::try_from(payload).ok().filter(|bytes| *bytes < 1 << 31)?;
    let (most, least) = local_bytes(shape, kind);
    let end = if payload <= most {
        next + payload
    } else {
        let local = least + (payload - least) % (shape.usable() - 4);
        next + if local <= most { local } else { least } + 4
    };
    (end <= page.len()).then_some(end - at)
}

/// The most and the least bytes of a payload on a page, if it overflows.
const fn local_bytes(shape: Shape, kind: Kind) -> (usize, usize) {
    let least = (shape.usable() - 12) * 32 / 255 - 23;
    match kind {
        Kind::TableLeaf => (shape.usable() - 35, least),
        _ => ((shape.usable() - 12) * 64 / 255 - 23, least),
    }
}

/// A varint of one to nine bytes at `at`, and the offset after it.
fn varint(page: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for byte in 0..8 {
        let part = *page.get(at + byte)?;
        value = value << 7 | u64::from(part & 0x7f);
        if part < 0x80 {
            return Some((value, at + byte + 1));
        }
    }
    Some((value << 8 | u64::from(*page.get(at + 8)?), at + 9))
}
