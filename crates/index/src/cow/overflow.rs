//! Values that are too long for a leaf: a chain of overflow pages.
//!
//! ```text
//! | header | next page, 0 at the end | bytes of the value ...
//! ```

use pm::{Bad, Bytes, View};

use super::node::{Node, Stored, TreeShape};
use super::store::Pages;
use crate::error::IndexError;
use crate::pages::page::{Header, KIND_OVERFLOW, PAGE_HEADER_BYTES};
use crate::pages::{PageBackend, PageSource};

const DATA_AT: usize = PAGE_HEADER_BYTES + 8;

/// Returns how many overflow pages a value takes that has so many bytes.
pub(crate) fn page_count(page_bytes: u32, bytes: usize) -> u64 {
    bytes.div_ceil(page_bytes as usize - DATA_AT) as u64
}

/// Writes a value into fresh pages; returns the first one. The last part is written first.
pub(crate) fn write<B: PageBackend>(
    pages: &mut Pages<B>,
    value: &[u8],
    image: &mut Vec<u8>,
) -> Result<u64, IndexError> {
    let room = pages.backend().page_bytes() as usize - DATA_AT;
    let mut next = 0u64;
    for part in value.chunks(room).rev() {
        let page = pages.allocate()?;
        let used = DATA_AT + part.len();
        let header = Header {
            birth: pages.number(),
            used,
            checksum: 0,
            count: 0,
            level: 0,
            kind: KIND_OVERFLOW,
        };
        image.clear();
        image.resize(PAGE_HEADER_BYTES, 0);
        header.put(image);
        image.extend_from_slice(&next.to_le_bytes());
        image.extend_from_slice(part);
        pages.write(page, image)?;
        next = page;
    }
    Ok(next)
}

/// Calls `visit` with each page of a chain that holds `bytes` bytes: its number, its birth, its
/// part of the value.
fn follow<S: PageSource>(
    source: &S,
    shape: &TreeShape,
    (bytes, first): (u64, u64),
    mut visit: impl FnMut(u64, u64, Bytes<'_>) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    let (mut page, mut left) = (first, bytes);
    while left > 0 {
        page = source.with(page, |view| {
            let header = Header::read(view);
            let part = (header.used.wrapping_sub(DATA_AT)) as u64;
            let fits = header.used > DATA_AT && header.used <= shape.page_bytes as usize;
            // Each part takes some of the value, so a cycle comes to an end.
            if header.kind != KIND_OVERFLOW || !fits || part > left {
                return Err(damaged(page).into());
            }
            let next = view.word(PAGE_HEADER_BYTES);
            if (next == 0) != (part == left) {
                return Err(damaged(page).into());
            }
            left -= part;
            visit(page, header.birth, view.bytes(DATA_AT, part as usize))?;
            Ok::<u64, IndexError>(next)
        })??;
    }
    Ok(())
}

/// The bytes of a value.
pub(crate) fn read<S: PageSource>(
    source: &S,
    shape: &TreeShape,
    place: (u64, u64),
) -> Result<Vec<u8>, IndexError> {
    let mut value = Vec::new();
    follow(source, shape, place, |_, _, part| {
        part.append_to(&mut value);
        Ok(())
    })?;
    Ok(value)
}

/// Gives the pages of a value up.
pub(crate) fn supersede<B: PageBackend>(
    pages: &mut Pages<B>,
    shape: &TreeShape,
    place: (u64, u64),
) -> Result<(), IndexError> {
    let mut chain = Vec::new();
    follow(pages.source(), shape, place, |page, birth, _| {
        chain.push((page, birth));
        Ok(())
    })?;
    for (page, birth) in chain {
        pages.supersede(page, birth);
    }
    Ok(())
}

/// Calls `visit` with every overflow page of a leaf.
pub(crate) fn for_each_page<S: PageSource>(
    source: &S,
    shape: &TreeShape,
    leaf: u64,
    visit: &mut dyn FnMut(u64) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    source.with(leaf, |view| {
        let node = Node::open(view, shape, leaf, 0)?;
        for index in 0..node.count {
            if let Stored::Overflow { bytes, first } = node.value(index)? {
                follow(source, shape, (bytes, first), |page, _, _| visit(page))?;
            }
        }
        Ok(())
    })?
}

fn damaged(page: u64) -> Bad {
    Bad::Damaged { what: "overflow page", at: page }
}
