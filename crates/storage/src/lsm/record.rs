//! The form of an entry in a file: one [`Change`] with the values it brings, all fields inlined (P1
//! 4: tuples on durable storage have no fields elsewhere).
//!
//! ```text
//! columns  u16     of the table; 0 where the entry is a key and nothing else
//! set      bits    a bit for each column, whole bytes; only in a partial entry
//! ends             for each column that is there, where its value ends; u16 or u32
//! data             the values one after the other: numbers in eight little-endian bytes
//! ```
//!
//! The body of a tombstone is empty. The kind stands before the key: see [`super::block`].

use std::ops::Range;

use pm::{Bytes, View};

use super::block::Slice;
use super::change::{Change, ColumnSet, NoWhole};

const WHOLE: u8 = 1;
const PARTIAL: u8 = 2;
const TOMBSTONE: u8 = 3;
/// Ends have four bytes.
const WIDE: u8 = 0x10;

/// The kind of an entry that is a key and nothing else.
pub const KEY_ONLY: u8 = WHOLE;
/// The kind of a tombstone.
pub const KIND_TOMBSTONE: u8 = TOMBSTONE;

/// The message about an entry's bytes that do not make sense.
pub const MALFORMED: &str = "an entry does not make sense";

/// An entry, its form checked: a part of a view, of which only what is asked for is read.
#[derive(Clone, Copy, Debug)]
pub struct Record<V> {
    view: V,
    kind: u8,
    columns: u16,
    /// The place where the bits of the columns that are there start; in a partial entry only.
    set: usize,
    ends: usize,
    data: usize,
}

impl<'a> Record<Slice<'a>> {
    /// The entry of this kind with this body, if it makes sense.
    #[inline]
    pub fn parse(kind: u8, body: &'a [u8]) -> Option<Self> {
        Record::within(Slice(body), kind, 0..body.len())
    }
}

impl<V: View> Record<V> {
    /// The entry of this kind whose body is this part of a view, if it makes sense.
    #[inline]
    pub fn within(view: V, kind: u8, body: Range<usize>) -> Option<Self> {
        let plain = kind & !WIDE;
        let mut record =
            Self { view, kind, columns: 0, set: body.start, ends: body.end, data: body.end };
        if plain == TOMBSTONE || body.is_empty() {
            return (body.is_empty() && matches!(kind, TOMBSTONE | WHOLE)).then_some(record);
        }
        let take = |at: usize, len: usize| {
            let end = at.checked_add(len).filter(|end| *end <= body.end)?;
            Some((view.bytes(at, len), end))
        };
        let (columns, set) = take(body.start, 2)?;
        let columns = u16::from_le_bytes(columns.array(0));
        let (present, ends) = match plain {
            WHOLE => (usize::from(columns), set),
            PARTIAL => {
                let (bits, ends) = take(set, usize::from(columns).div_ceil(8))?;
                let last = bits.len().checked_sub(1).map_or(0, |last| bits.byte(last));
                if columns % 8 != 0 && last >> (columns % 8) != 0 {
                    return None;
                }
                (ones(bits, bits.len()), ends)
            }
            _ => return None,
        };
        let (all_ends, data) = take(ends, present * record.width())?;
        let before = if record.is_wide() {
            ascending(all_ends.arrays().map(|end| u32::from_le_bytes(end) as usize))?
        } else {
            ascending(all_ends.arrays().map(|end| usize::from(u16::from_le_bytes(end))))?
        };
        (record.columns, record.set, record.ends, record.data) = (columns, set, ends, data);
        (before == body.end - data).then_some(record)
    }

    /// The same entry in another view, in which it lies at the same place.
    #[inline]
    pub fn in_view<W: View>(self, wrap: impl FnOnce(V) -> W) -> Record<W> {
        let Self { view, kind, columns, set, ends, data } = self;
        Record { view: wrap(view), kind, columns, set, ends, data }
    }

    #[inline]
    fn is_wide(&self) -> bool {
        self.kind & WIDE != 0
    }

    #[inline]
    fn width(&self) -> usize {
        if self.is_wide() { 4 } else { 2 }
    }

    #[inline]
    fn end(&self, index: usize) -> usize {
        number(self.view.bytes(self.ends + index * self.width(), self.width()))
    }

    /// The bits of the columns that are there, of a partial entry.
    #[inline]
    fn set(&self) -> Bytes<'_> {
        self.view.bytes(self.set, usize::from(self.columns).div_ceil(8))
    }

    /// Returns what the entry says of its tuple.
    pub fn change(&self) -> Change {
        match self.kind & !WIDE {
            WHOLE => Change::Whole,
            TOMBSTONE => Change::Tombstone,
            _ => {
                let mut words = [0u64; crate::limits::MAX_COLUMNS / 64];
                for (index, [byte]) in self.set().arrays().enumerate().take(words.len() * 8) {
                    words[index / 8] |= u64::from(byte) << (index % 8 * 8);
                }
                Change::Partial(ColumnSet::from_words(&words))
            }
        }
    }

    /// Returns whether the entry is a tombstone.
    #[inline]
    pub fn is_tombstone(&self) -> bool {
        self.kind == TOMBSTONE
    }

    /// Returns whether the entry has all columns.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.kind & !WIDE == WHOLE
    }

    /// Returns how many columns the table has.
    pub fn columns(&self) -> u16 {
        self.columns
    }

    /// Announces to an observer of the memory that the values of columns `first` to `last` are
    /// about to be read, so that their lines are fetched as one range and not one by one. For an
    /// entry that has all columns.
    #[inline]
    pub fn read_together(&self, first: u16, last: u16) {
        if first <= last && last < self.columns {
            let start = if first == 0 { 0 } else { self.end(usize::from(first) - 1) };
            self.view.bytes(self.data + start, self.end(usize::from(last)) - start);
        }
    }

    /// The value of a column, if the entry has it.
    #[inline]
    pub fn column(&self, column: u16) -> Option<Bytes<'_>> {
        if column >= self.columns {
            return None;
        }
        let index = if self.is_whole() {
            usize::from(column)
        } else {
            let (set, byte, bit) = (self.set(), usize::from(column) / 8, column % 8);
            let bits = set.byte(byte);
            if bits & (1 << bit) == 0 {
                return None;
            }
            ones(set, byte) + (bits & ((1 << bit) - 1)).count_ones() as usize
        };
        let start = if index == 0 { 0 } else { self.end(index - 1) };
        Some(self.view.bytes(self.data + start, self.end(index) - start))
    }
}

/// An end, of two bytes or of four.
#[inline]
fn number(bytes: Bytes<'_>) -> usize {
    match bytes.whole() {
        Some(bytes) => usize::from(u16::from_le_bytes(bytes)),
        None => u32::from_le_bytes(bytes.array(0)) as usize,
    }
}

/// The last of these ends, 0 if there is none; `None` if one is less than the one before.
#[inline]
fn ascending(ends: impl Iterator<Item = usize>) -> Option<usize> {
    let mut before = 0;
    for end in ends {
        if end < before {
            return None;
        }
        before = end;
    }
    Some(before)
}

/// Returns how many bits of the first `len` bytes are set.
#[inline]
fn ones(bytes: Bytes<'_>, len: usize) -> usize {
    bytes.arrays().take(len).map(|[byte]| byte.count_ones() as usize).sum()
}

/// Builds the body of an entry, value by value. Meant to be used again and again.
#[derive(Default, Debug)]
pub struct Encoder {
    body: Vec<u8>,
    wide: bool,
    next_end: usize,
    data_at: usize,
}

impl Encoder {
    /// Starts an entry of a table with so many columns, whose values have `data_bytes` bytes
    /// together. Returns its kind.
    pub fn start(&mut self, change: &Change, columns: u16, data_bytes: usize) -> u8 {
        self.body.clear();
        self.wide = data_bytes > usize::from(u16::MAX);
        let (kind, present) = match change {
            Change::Tombstone => return TOMBSTONE,
            Change::Whole => (WHOLE, usize::from(columns)),
            Change::Partial(set) => (PARTIAL, set.len()),
        };
        if columns == 0 {
            return kind;
        }
        self.body.extend_from_slice(&columns.to_le_bytes());
        if let Change::Partial(set) = change {
            let words = set.words(usize::from(columns));
            let bytes = words.iter().flat_map(|word| word.to_le_bytes());
            self.body.extend(bytes.take(usize::from(columns).div_ceil(8)));
        }
        self.next_end = self.body.len();
        self.data_at = self.next_end + present * if self.wide { 4 } else { 2 };
        self.body.resize(self.data_at, 0);
        if self.wide { kind | WIDE } else { kind }
    }

    /// Adds the value of the next column that is there.
    pub fn field(&mut self, bytes: Bytes<'_>) {
        bytes.append_to(&mut self.body);
        self.end_field();
    }

    /// Acts as [`Self::field`], with a value that `fill` appends.
    ///
    /// # Errors
    /// The error of `fill`.
    pub fn field_with<E>(
        &mut self,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        fill(&mut self.body)?;
        self.end_field();
        Ok(())
    }

    fn end_field(&mut self) {
        let end = (self.body.len() - self.data_at) as u32;
        let at = self.next_end;
        if self.wide {
            self.body[at..at + 4].copy_from_slice(&end.to_le_bytes());
            self.next_end += 4;
        } else {
            self.body[at..at + 2].copy_from_slice(&(end as u16).to_le_bytes());
            self.next_end += 2;
        }
    }

    /// The body that was built.
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

/// Builds the one entry that stands for these entries of a tuple, newest first. Returns its kind;
/// its body is in `out`.
///
/// # Errors
/// A partial entry over a tombstone.
pub fn combine(records: &[Record<Slice<'_>>], out: &mut Encoder) -> Result<u8, NoWhole> {
    let mut change = records[0].change();
    let mut used = 1;
    while !change.hides_older() && used < records.len() {
        change = change.over(&records[used].change())?;
        used += 1;
    }
    let records = &records[..used];
    let columns = records[0].columns;
    let newest = |column: u16| records.iter().find_map(|record| record.column(column));
    let set = match &change {
        Change::Tombstone => ColumnSet::EMPTY,
        Change::Whole => ColumnSet::first(usize::from(columns)),
        Change::Partial(set) => *set,
    };
    let data_bytes = set.iter().filter_map(newest).map(|value| value.len()).sum();
    let kind = out.start(&change, columns, data_bytes);
    for column in set.iter() {
        // A whole entry below has fewer columns only if it is damaged.
        out.field(newest(column).ok_or(NoWhole)?);
    }
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use proptest::prelude::*;

    fn encode(change: &Change, columns: u16, values: &[Vec<u8>]) -> (u8, Vec<u8>) {
        let mut encoder = Encoder::default();
        let kind = encoder.start(change, columns, values.iter().map(Vec::len).sum());
        values.iter().for_each(|value| encoder.field(value.into()));
        (kind, encoder.body().to_vec())
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(
            columns in 1u16..200, wide in any::<bool>(), whole in any::<bool>(),
            picks in prop::collection::vec(any::<bool>(), 200), byte in any::<u8>(),
        ) {
            let set: ColumnSet = (0..columns).filter(|column| picks[usize::from(*column)]).collect();
            let change = if whole { Change::Whole } else { Change::Partial(set) };
            let set = if whole { ColumnSet::first(usize::from(columns)) } else { set };
            let values: Vec<Vec<u8>> = set
                .iter()
                .map(|column| vec![byte ^ column as u8; usize::from(column) * if wide { 50 } else { 1 }])
                .collect();
            let (kind, body) = encode(&change, columns, &values);
            // Somewhere in a block.
            let block = [&[byte; 5], &body[..], &[byte; 3]].concat();
            let record = Record::within(Slice(&block), kind, 5..5 + body.len()).unwrap();
            prop_assert_eq!(record.change(), change);
            let mut expected = values.iter();
            for column in 0..columns + 2 {
                let value = set.contains(column).then(|| expected.next().unwrap().clone());
                prop_assert_eq!(record.column(column).map(|value| value.to_vec()), value);
            }
        }

        #[test]
        fn any_bytes_are_an_entry_or_are_refused(
            kind in any::<u8>(), body in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            if let Some(record) = Record::parse(kind, &body) {
                record.change();
                (0..=record.columns()).for_each(|column| { record.column(column); });
            }
        }
    }

    /// A slice that counts the bytes that are asked for.
    #[derive(Clone, Copy)]
    struct Watched<'a>(Slice<'a>, &'a Cell<usize>);

    impl View for Watched<'_> {
        fn word(&self, at: usize) -> u64 {
            self.1.update(|asked| asked + 8);
            self.0.word(at)
        }

        fn bytes(&self, at: usize, len: usize) -> Bytes<'_> {
            self.1.update(|asked| asked + len);
            self.0.bytes(at, len)
        }
    }

    #[test]
    fn of_an_entry_only_what_is_asked_for_is_read() {
        let (kind, body) = encode(&Change::Whole, 10, &vec![vec![1; 100]; 10]);
        let asked = Cell::new(0);
        let view = Watched(Slice(&body), &asked);
        let record = Record::within(view, kind, 0..body.len()).unwrap();
        assert_eq!(asked.get(), 2 + 10 * 2, "number of columns, ends");
        record.column(3).unwrap();
        assert_eq!(asked.get(), 22 + 2 * 2 + 100, "two ends, a value");
        record.read_together(2, 5);
        assert_eq!(asked.get(), 126 + 2 * 2 + 400, "two ends, four values");
        [(5, 2), (9, 10), (10, 10)].iter().for_each(|(a, b)| record.read_together(*a, *b));
        assert_eq!(asked.get(), 530, "there are no such columns");
    }

    #[test]
    fn entries_are_combined_newest_first() {
        let partial = |columns: &[u16], value: u8| {
            let set: ColumnSet = columns.iter().copied().collect();
            encode(&Change::Partial(set), 4, &vec![vec![value; 3]; columns.len()])
        };
        let parts = [
            partial(&[1], 10),
            partial(&[1, 2], 20),
            encode(&Change::Whole, 4, &vec![vec![30; 3]; 4]),
            encode(&Change::Tombstone, 0, &[]),
        ];
        let records: Vec<Record<Slice<'_>>> =
            parts.iter().map(|(kind, body)| Record::parse(*kind, body).unwrap()).collect();
        let mut out = Encoder::default();
        let kind = combine(&records[..2], &mut out).unwrap();
        let both = Record::parse(kind, out.body()).unwrap();
        assert_eq!(both.change(), Change::Partial([1, 2].into_iter().collect()));
        let column = |column| both.column(column).unwrap().to_vec();
        assert_eq!((column(1), column(2)), (vec![10; 3], vec![20; 3]));
        let mut out = Encoder::default();
        let kind = combine(&records, &mut out).unwrap();
        let all = Record::parse(kind, out.body()).unwrap();
        let firsts: Vec<u8> = (0..4).map(|column| all.column(column).unwrap().byte(0)).collect();
        assert_eq!((all.is_whole(), firsts), (true, vec![30, 10, 20, 30]));
        assert_eq!(combine(&[records[0], records[3]], &mut out), Err(NoWhole));
        assert_eq!(combine(&records[3..], &mut out), Ok(TOMBSTONE));
        assert_eq!(out.body(), [0u8; 0]);
    }
}
