//! Changes as bytes: a tag, the tree, and the fields in the order of their declaration. Numbers are
//! little-endian; a string of bytes has its length before it, in two bytes, entries in four.

use smallvec::SmallVec;

use super::{Body, Change};
use crate::ids::{PageNo, TreeNo};
use crate::page::Entry;

/// Appends an entry: the lengths of key, row and room, the flags, key and row.
pub(crate) fn push_entry(out: &mut Vec<u8>, entry: &Entry<'_>) {
    for number in [entry.key.len(), entry.row.len(), entry.room] {
        out.extend_from_slice(&len_bytes(number));
    }
    out.push(entry.flags);
    out.extend_from_slice(entry.key);
    out.extend_from_slice(entry.row);
}

/// Returns the entries that were encoded; what is not whole is an error.
pub(crate) fn entries_of(bytes: &[u8]) -> impl Iterator<Item = Result<Entry<'_>, Malformed>> {
    let mut reader = Reader { left: bytes };
    std::iter::from_fn(move || {
        (!reader.left.is_empty()).then(|| {
            let entry = reader.entry();
            if entry.is_err() {
                reader.left = &[];
            }
            entry
        })
    })
}

/// The payload of a record is no change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// The bytes of a change: most are so few that they need no memory of their own.
pub type Payload = SmallVec<[u8; 512]>;

fn len_bytes(len: usize) -> [u8; 2] {
    u16::try_from(len).expect("a length in a page").to_le_bytes()
}

fn put(out: &mut Payload, bytes: &[u8]) {
    out.extend_from_slice(&len_bytes(bytes.len()));
    out.extend_from_slice(bytes);
}

fn put_page(out: &mut Payload, page: Option<PageNo>) {
    out.extend_from_slice(&page.map_or(0, |page| page.0).to_le_bytes());
}

fn put_entries(out: &mut Payload, entries: &[u8]) {
    let len = u32::try_from(entries.len()).expect("entries of a page");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(entries);
}

fn put_high(out: &mut Payload, high: Option<&[u8]>) {
    out.push(u8::from(high.is_some()));
    put(out, high.unwrap_or_default());
}

impl Body<'_> {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Payload) {
        out.push(tag(&self.change));
        out.extend_from_slice(&self.tree.0.to_le_bytes());
        match &self.change {
            Change::Insert { key, row, long }
            | Change::Ghost { key, row, long }
            | Change::Unghost { key, row, long } => {
                put(out, key);
                put(out, row);
                out.push(u8::from(*long));
            }
            Change::InsertMany { entries } | Change::EraseMany { entries } => {
                put_entries(out, entries);
            }
            Change::Update { key, before, was_long, after, long } => {
                put(out, key);
                put(out, before);
                out.push(u8::from(*was_long));
                put(out, after);
                out.push(u8::from(*long));
            }
            Change::Patch { key, at, before, after }
            | Change::OverflowBytes { key, at, before, after } => {
                put(out, key);
                out.extend_from_slice(&at.to_le_bytes());
                put(out, before);
                put(out, after);
            }
            Change::Erase { key }
            | Change::Reclaim { key }
            | Change::Trim { key }
            | Change::Unpost { key } => put(out, key),
            Change::Post { key, child } => {
                put(out, key);
                put_page(out, Some(*child));
            }
            Change::Split { right, level, key, high, next, entries } => {
                put_page(out, Some(*right));
                out.push(*level);
                put(out, key);
                put_high(out, *high);
                put_page(out, *next);
                put_entries(out, entries);
            }
            Change::Merge { right, high, next, entries } => {
                put_page(out, Some(*right));
                put_high(out, *high);
                put_page(out, *next);
                put_entries(out, entries);
            }
            Change::Root { child, level, entries } => {
                put_page(out, Some(*child));
                out.push(*level);
                put_entries(out, entries);
            }
            // As long as what undoes it.
            Change::NewTree => put_page(out, None),
            Change::NewMap => {}
            Change::NewOverflow { key, prev, bytes } => {
                put(out, key);
                put_page(out, *prev);
                put(out, bytes);
            }
            Change::PopOverflow { key, page, next } => {
                put(out, key);
                put_page(out, Some(*page));
                put_page(out, *next);
            }
            Change::FreePage { prev } => put_page(out, *prev),
        }
    }
}

fn tag(change: &Change<'_>) -> u8 {
    match change {
        Change::Insert { .. } => 1,
        Change::InsertMany { .. } => 2,
        Change::Update { .. } => 3,
        Change::Patch { .. } => 4,
        Change::Ghost { .. } => 5,
        Change::Unghost { .. } => 6,
        Change::Erase { .. } => 7,
        Change::Reclaim { .. } => 8,
        Change::Trim { .. } => 9,
        Change::Post { .. } => 10,
        Change::Unpost { .. } => 11,
        Change::Split { .. } => 12,
        Change::Merge { .. } => 13,
        Change::Root { .. } => 14,
        Change::NewTree => 15,
        Change::NewMap => 16,
        Change::NewOverflow { .. } => 17,
        Change::OverflowBytes { .. } => 18,
        Change::PopOverflow { .. } => 19,
        Change::FreePage { .. } => 20,
        Change::EraseMany { .. } => 21,
    }
}

struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (taken, left) = self.left.split_at_checked(bytes).ok_or(Malformed)?;
        self.left = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }

    fn entries(&mut self) -> Result<&'a [u8], Malformed> {
        let len = u32::from_le_bytes(self.array()?);
        let entries = self.take(usize::try_from(len).map_err(|_| Malformed)?)?;
        entries_of(entries).try_for_each(|entry| entry.map(drop))?;
        Ok(entries)
    }

    fn page_or_none(&mut self) -> Result<Option<PageNo>, Malformed> {
        Ok(Some(PageNo(u64::from_le_bytes(self.array()?))).filter(|page| page.0 != 0))
    }

    fn page(&mut self) -> Result<PageNo, Malformed> {
        self.page_or_none()?.ok_or(Malformed)
    }

    fn high(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let is_there = self.bool()?;
        let high = self.bytes()?;
        Ok(is_there.then_some(high))
    }

    fn entry(&mut self) -> Result<Entry<'a>, Malformed> {
        let (key, row, room) = (self.u16()?, self.u16()?, self.u16()?);
        let flags = self.u8()?;
        let (key, row) = (self.take(usize::from(key))?, self.take(usize::from(row))?);
        let room = usize::from(room);
        if room < row.len() { Err(Malformed) } else { Ok(Entry { key, row, room, flags }) }
    }
}

impl<'a> Body<'a> {
    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// It is something else.
    pub fn decode(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Reader { left: payload };
        let tag = from.u8()?;
        let tree = TreeNo(u32::from_le_bytes(from.array()?));
        let change = match tag {
            1 => Change::Insert { key: from.bytes()?, row: from.bytes()?, long: from.bool()? },
            2 => Change::InsertMany { entries: from.entries()? },
            3 => Change::Update {
                key: from.bytes()?,
                before: from.bytes()?,
                was_long: from.bool()?,
                after: from.bytes()?,
                long: from.bool()?,
            },
            4 => Change::Patch {
                key: from.bytes()?,
                at: from.u16()?,
                before: from.bytes()?,
                after: from.bytes()?,
            },
            5 => Change::Ghost { key: from.bytes()?, row: from.bytes()?, long: from.bool()? },
            6 => Change::Unghost { key: from.bytes()?, row: from.bytes()?, long: from.bool()? },
            7 => Change::Erase { key: from.bytes()? },
            8 => Change::Reclaim { key: from.bytes()? },
            9 => Change::Trim { key: from.bytes()? },
            10 => Change::Post { key: from.bytes()?, child: from.page()? },
            11 => Change::Unpost { key: from.bytes()? },
            12 => Change::Split {
                right: from.page()?,
                level: from.u8()?,
                key: from.bytes()?,
                high: from.high()?,
                next: from.page_or_none()?,
                entries: from.entries()?,
            },
            13 => Change::Merge {
                right: from.page()?,
                high: from.high()?,
                next: from.page_or_none()?,
                entries: from.entries()?,
            },
            14 => Change::Root { child: from.page()?, level: from.u8()?, entries: from.entries()? },
            15 => match from.page_or_none()? {
                None => Change::NewTree,
                Some(_) => return Err(Malformed),
            },
            16 => Change::NewMap,
            17 => Change::NewOverflow {
                key: from.bytes()?,
                prev: from.page_or_none()?,
                bytes: from.bytes()?,
            },
            18 => Change::OverflowBytes {
                key: from.bytes()?,
                at: from.u16()?,
                before: from.bytes()?,
                after: from.bytes()?,
            },
            19 => Change::PopOverflow {
                key: from.bytes()?,
                page: from.page()?,
                next: from.page_or_none()?,
            },
            20 => Change::FreePage { prev: from.page_or_none()? },
            21 => Change::EraseMany { entries: from.entries()? },
            _ => return Err(Malformed),
        };
        if from.left.is_empty() { Ok(Self { tree, change }) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(entries: &[u8]) -> Vec<Change<'_>> {
        let (key, row, high) = (&b"key"[..], &b"row"[..], Some(&b"z"[..]));
        let (page, next) = (PageNo(9), Some(PageNo(10)));
        vec![
            Change::Insert { key, row, long: true },
            Change::InsertMany { entries },
            Change::Update { key, before: row, was_long: false, after: b"", long: true },
            Change::Patch { key, at: 3, before: b"a", after: b"b" },
            Change::Ghost { key, row, long: false },
            Change::Unghost { key, row, long: true },
            Change::Erase { key },
            Change::EraseMany { entries },
            Change::Reclaim { key },
            Change::Trim { key },
            Change::Post { key, child: page },
            Change::Unpost { key },
            Change::Split { right: page, level: 1, key, high: None, next: None, entries },
            Change::Split { right: page, level: 0, key, high, next, entries },
            Change::Merge { right: page, high, next, entries },
            Change::Root { child: page, level: 2, entries },
            Change::NewTree,
            Change::NewMap,
            Change::NewOverflow { key, prev: next, bytes: row },
            Change::OverflowBytes { key, at: 4, before: row, after: b"" },
            Change::PopOverflow { key, page, next: None },
            Change::FreePage { prev: None },
        ]
    }

    #[test]
    fn every_change_is_read_as_it_was_written_and_not_if_a_byte_lacks() {
        let mut entries = Vec::new();
        for key in [&b"a"[..], b"bcd"] {
            push_entry(&mut entries, &Entry { key, row: b"row", room: 5, flags: 1 });
        }
        let mut tags = std::collections::HashSet::new();
        for change in all(&entries) {
            let (body, mut bytes) = (Body { tree: TreeNo(3), change }, Payload::new());
            body.encode(&mut bytes);
            assert_eq!(Body::decode(&bytes).as_ref(), Ok(&body));
            for cut in 0..bytes.len() {
                assert_eq!(Body::decode(&bytes[..cut]), Err(Malformed), "{body:?} up to {cut}");
            }
            tags.insert(bytes[0]);
            bytes.push(0);
            assert_eq!(Body::decode(&bytes), Err(Malformed), "{body:?} and a byte more");
        }
        assert_eq!(tags.len(), 21, "each has a number of its own");
        assert_eq!(Body::decode(&[22, 0, 0, 0, 0]), Err(Malformed));
    }
}
