//! The form of a tuple in memory (P1 3.1): a fixed-size slot with one word a column. A number
//! stands in its word; text and bytes of up to seven bytes do, too; longer ones lie in a
//! variable-length slot, whose location stands in the word. `docs/format/tuple.md` draws it.
//!
//! A table with inlined columns has places for their values behind the words of its tuples, and
//! their words lead there.
//!
//! The word of a variable-length field is `length << 45 | offset / 8`, zero for an empty value: the
//! length stands beside the location, so that reading a tuple needs no look into the slot before
//! the copy. Of 256 KiB and more it is `1 << 63 | (length - 1) << 39 | offset / 512`: the allocator
//! places large objects so. However large, a value is one object, all of its bytes one behind the other.

use std::sync::atomic::Ordering::Acquire;

use heap::LARGE_ALIGN;
use pm::{Bad, Component, LineSet, Memory, Off, Range, View, observe};

use crate::rows::row::{Row, RowField};
use crate::rows::value::ColumnType;
use crate::table::slots::{FieldForm, SlotLayout};

const OFFSET_BITS: u32 = 45;
/// Values of so many bytes and more have the other form of a word.
pub(crate) const LARGE_LEN: u64 = 1 << (63 - OFFSET_BITS);
const LARGE: u64 = 1 << 63;
const LARGE_OFFSET_BITS: u32 = 39;

const _: () = assert!(crate::rows::limits::MAX_VALUE_BYTES as u64 <= 1 << (63 - LARGE_OFFSET_BITS));
const _: () = assert!(LARGE_LEN == 256 << 10 && LARGE_ALIGN == 512);

/// Bytes of the object that a value of `len` bytes takes: one with a large word has to be an object
/// that starts at a multiple of [`LARGE_ALIGN`].
#[inline]
pub(crate) fn object_bytes(len: u64) -> u64 {
    if len == LARGE_LEN { len + 1 } else { len }
}

/// The word of a field whose `len` bytes lie at `offset`.
#[inline]
pub(crate) fn slot_word(offset: u64, len: u64) -> u64 {
    if len >= LARGE_LEN {
        return large_word(offset, len);
    }
    assert!(offset.is_multiple_of(8) && offset >> 3 < 1 << OFFSET_BITS);
    len << OFFSET_BITS | offset >> 3
}

#[cold]
fn large_word(offset: u64, len: u64) -> u64 {
    let (at, less) = (offset / LARGE_ALIGN, len - 1);
    assert!(offset.is_multiple_of(LARGE_ALIGN) && at >> LARGE_OFFSET_BITS == 0);
    assert!(less >> (63 - LARGE_OFFSET_BITS) == 0, "the length has been checked");
    LARGE | less << LARGE_OFFSET_BITS | at
}

/// Returns where the bytes of a variable-length field lie; nowhere if it is empty.
#[inline]
pub(crate) fn slot_range(word: u64) -> Range {
    if word & LARGE != 0 {
        return large_range(word);
    }
    small_range(word)
}

/// As [`slot_range`], of a table without large values ([`SlotLayout::has_large`]).
#[inline]
fn small_range(word: u64) -> Range {
    Range::new((word & ((1 << OFFSET_BITS) - 1)) << 3, word >> OFFSET_BITS)
}

#[cold]
fn large_range(word: u64) -> Range {
    let at = (word & ((1 << LARGE_OFFSET_BITS) - 1)) * LARGE_ALIGN;
    Range::new(at, ((word & !LARGE) >> LARGE_OFFSET_BITS) + 1)
}

/// The slot that a word of a variable-length field owns, if it owns one.
#[inline]
pub(crate) fn owned_slot(form: FieldForm, word: u64) -> Option<u64> {
    (form == FieldForm::Slot && word != 0).then(|| slot_range(word).start)
}

/// The word of up to seven bytes.
pub(crate) fn short_word(bytes: &[u8]) -> u64 {
    let mut word = [0u8; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    word[7] = bytes.len() as u8;
    u64::from_le_bytes(word)
}

/// The bytes of a short field, and how many there are.
pub(crate) fn short_bytes(word: u64) -> ([u8; 8], usize) {
    let bytes = word.to_le_bytes();
    (bytes, usize::from(bytes[7]).min(7))
}

/// The word of a column. The tuple's offset may come from a damaged index: a word beyond all
/// memory stays there.
#[inline]
pub(crate) fn field_at(tuple: u64, column: u16) -> Off<u64> {
    Off::new(tuple.saturating_add(u64::from(column) * 8))
}

/// Asks for the lines of the chosen columns, before the words that lead to them have come: an
/// inlined column has its place in the tuple.
#[inline]
fn prefetch_inlined<M: Memory>(
    memory: &M,
    layout: &SlotLayout,
    tuple: u64,
    columns: Option<&[u16]>,
) {
    if !layout.inlines() {
        return;
    }
    match columns {
        Some(columns) if columns.len() * 2 < layout.forms.len() => {
            for column in columns {
                if layout.forms.get(usize::from(*column)) == Some(&FieldForm::Inline) {
                    memory.prefetch(layout.place(tuple, *column));
                }
            }
        }
        _ => memory.prefetch(Range::new(tuple, layout.tuple_bytes())),
    }
}

/// Returns where a word says that an inlined column's value lies.
///
/// # Errors
/// The word says something else.
#[inline]
pub(crate) fn inlined_range(
    layout: &SlotLayout,
    tuple: u64,
    column: u16,
    word: u64,
) -> Result<Range, Bad> {
    let (place, range) = (layout.place(tuple, column), slot_range(word));
    if word == 0 || range.start == place.start && (1..=place.len).contains(&range.len) {
        return Ok(range);
    }
    Err(Bad::Damaged { what: "inlined column", at: tuple })
}

/// Puts the value of an inlined column in its place, and the word if it changes.
///
/// # Errors
/// Damage.
#[inline]
#[track_caller]
pub(crate) fn put_inlined<M: Memory>(
    memory: &M,
    lines: &mut LineSet,
    layout: &SlotLayout,
    (tuple, column): (u64, u16),
    bytes: &[u8],
) -> Result<(), Bad> {
    let place = layout.place(tuple, column);
    if bytes.len() as u64 > place.len {
        return Err(Bad::Damaged { what: "inlined column", at: tuple });
    }
    let at = field_at(tuple, column);
    let before = memory.load(at, Acquire)?;
    let word = match bytes.len() as u64 {
        0 => 0,
        len => {
            memory.copy(Off::new(place.start), bytes);
            lines.add(Range::new(place.start, len));
            slot_word(place.start, len)
        }
    };
    if before != word {
        memory.store(at, word);
        lines.add(at.range());
    }
    Ok(())
}

/// Copies the chosen columns of the tuple at `tuple` into `row`.
#[inline]
pub(crate) fn read_tuple<M: Memory>(
    memory: &M,
    layout: &SlotLayout,
    tuple: u64,
    columns: Option<&[u16]>,
    row: &mut Row,
) -> Result<(), Bad> {
    prefetch_inlined(memory, layout, tuple, columns);
    let view = memory.view(Range::new(tuple, layout.words_bytes()))?;
    read_words(memory, layout, |column| view.word(column * 8), columns, row, tuple)
}

/// As [`read_tuple`], for a tuple whose words are given; `at` is named in errors.
#[inline]
pub(crate) fn read_words<M: Memory>(
    memory: &M,
    layout: &SlotLayout,
    word_of: impl Fn(usize) -> u64,
    columns: Option<&[u16]>,
    row: &mut Row,
    at: u64,
) -> Result<(), Bad> {
    observe!(M: memory.enter(Component::Storage));
    if layout.has_large {
        return read_large_words(memory, layout, &word_of, columns, row, at);
    }
    read_words_at(memory, layout, (word_of, small_range, LARGE), columns, row, at)
}

/// As [`read_words`], where a word may be that of a large value.
#[cold]
#[inline(never)]
fn read_large_words<M: Memory>(
    memory: &M,
    layout: &SlotLayout,
    word_of: &dyn Fn(usize) -> u64,
    columns: Option<&[u16]>,
    row: &mut Row,
    at: u64,
) -> Result<(), Bad> {
    let is_long = |column: &usize| layout.forms[*column].is_long();
    let too_long = |column: usize| {
        let kind = layout.schema.columns()[column].kind;
        let max = kind.max_bytes().map_or(0, u64::from);
        slot_range(word_of(column)).len > max
    };
    let damaged = match columns {
        None => (0..layout.forms.len()).filter(is_long).any(too_long),
        Some(columns) => {
            columns.iter().map(|column| usize::from(*column)).filter(is_long).any(too_long)
        }
    };
    if damaged {
        // Before memory is asked for, as much as a damaged word says.
        return Err(Bad::Damaged { what: "length of a value", at });
    }
    read_words_at(memory, layout, (word_of, slot_range, 0), columns, row, at)
}

/// As [`read_words`], with the meaning of a word given, and the bits that none has.
#[inline]
fn read_words_at<M: Memory>(
    memory: &M,
    layout: &SlotLayout,
    (word_of, range_of, never): (impl Fn(usize) -> u64, impl Fn(u64) -> Range, u64),
    columns: Option<&[u16]>,
    row: &mut Row,
    at: u64,
) -> Result<(), Bad> {
    row.fields.clear();
    row.parts.clear();
    let (mut filled, mut seen) = (0, 0);
    let mut add = |column: usize| {
        let word = word_of(column);
        let kind = layout.schema.columns()[column].kind;
        let mut field = RowField { kind: Some(kind), word, len: 0 };
        match layout.forms[column] {
            FieldForm::Word => {}
            FieldForm::Slot | FieldForm::Inline => {
                let range = range_of(word);
                seen |= word;
                field = RowField { kind: Some(kind), word: filled, len: range.len as u32 };
                filled += range.len;
                row.parts.push(range);
            }
            FieldForm::Short => {
                // Short fields are copied behind the others, once these are in place.
                field.len = u32::MAX;
            }
        }
        row.fields.push(field);
    };
    match columns {
        None => (0..layout.forms.len()).for_each(&mut add),
        Some(columns) => columns.iter().for_each(|column| add(usize::from(*column))),
    }
    if seen & never != 0 {
        return Err(Bad::Damaged { what: "length of a value", at });
    }
    row.bytes.resize(filled as usize, 0);
    memory.gather(&row.parts, &mut row.bytes)?;
    for field in row.fields.iter_mut().filter(|field| field.len == u32::MAX) {
        let (bytes, len) = short_bytes(field.word);
        field.word = row.bytes.len() as u64;
        field.len = len as u32;
        row.bytes.extend_from_slice(&bytes[..len]);
    }
    if layout.has_text {
        check_text(row, at)?;
    }
    Ok(())
}

/// Runs that are gathered in one go.
const RUNS: usize = 16;

/// Copies the chosen columns of the tuple at `tuple` one behind the other into `out`, numbers as
/// eight little-endian bytes. Returns how many bytes they have; copies nothing if `out` is shorter.
#[inline]
pub(crate) fn read_tuple_bytes<M: Memory>(
    memory: &M,
    layout: &SlotLayout,
    tuple: u64,
    columns: &[u16],
    out: &mut [u8],
) -> Result<usize, Bad> {
    prefetch_inlined(memory, layout, tuple, Some(columns));
    let view = memory.view(Range::new(tuple, layout.words_bytes()))?;
    read_word_bytes(memory, layout, |column| view.word(column * 8), columns, out, tuple)
}

/// As [`read_tuple_bytes`], for a tuple whose words are given; `at` is named in errors.
#[inline]
pub(crate) fn read_word_bytes<M: Memory>(
    memory: &M,
    layout: &SlotLayout,
    word_of: impl Fn(usize) -> u64,
    columns: &[u16],
    out: &mut [u8],
    at: u64,
) -> Result<usize, Bad> {
    observe!(M: memory.enter(Component::Storage));
    if layout.has_large {
        return read_large_word_bytes(memory, layout, &word_of, columns, out, at);
    }
    read_word_bytes_at(memory, layout, (word_of, small_range, LARGE), columns, out, at)
}

/// As [`read_word_bytes`], where a word may be that of a large value.
#[cold]
#[inline(never)]
fn read_large_word_bytes<M: Memory>(
    memory: &M,
    layout: &SlotLayout,
    word_of: &dyn Fn(usize) -> u64,
    columns: &[u16],
    out: &mut [u8],
    at: u64,
) -> Result<usize, Bad> {
    read_word_bytes_at(memory, layout, (word_of, slot_range, 0), columns, out, at)
}

/// As [`read_word_bytes`], with the meaning of a word given, and the bits that none has.
#[inline]
fn read_word_bytes_at<M: Memory>(
    memory: &M,
    layout: &SlotLayout,
    (word_of, range_of, never): (impl Fn(usize) -> u64, impl Fn(u64) -> Range, u64),
    columns: &[u16],
    out: &mut [u8],
    at: u64,
) -> Result<usize, Bad> {
    let (mut total, mut seen) = (0, 0);
    for column in columns {
        let word = word_of(usize::from(*column));
        total += match layout.forms[usize::from(*column)] {
            FieldForm::Word => 8,
            FieldForm::Short => short_bytes(word).1,
            FieldForm::Slot | FieldForm::Inline => {
                seen |= word;
                range_of(word).len as usize
            }
        };
    }
    if seen & never != 0 {
        return Err(Bad::Damaged { what: "length of a value", at });
    }
    if total > out.len() {
        return Ok(total);
    }
    let mut rest = &mut out[..total];
    for some in columns.chunks(RUNS) {
        let mut parts = [Range::new(0, 0); RUNS];
        let (mut runs, mut bytes) = (0, 0);
        for column in some {
            let word = word_of(usize::from(*column));
            if layout.forms[usize::from(*column)].is_long() {
                parts[runs] = range_of(word);
                bytes += parts[runs].len as usize;
                runs += 1;
                continue;
            }
            // What stands in the tuple itself comes between the runs.
            let (now, later) = std::mem::take(&mut rest).split_at_mut(bytes);
            memory.gather(&parts[..runs], now)?;
            (runs, bytes) = (0, 0);
            let (short, len) = match layout.forms[usize::from(*column)] {
                FieldForm::Word => (word.to_le_bytes(), 8),
                _ => short_bytes(word),
            };
            let (now, later) = later.split_at_mut(len);
            now.copy_from_slice(&short[..len]);
            rest = later;
        }
        let (now, later) = std::mem::take(&mut rest).split_at_mut(bytes);
        memory.gather(&parts[..runs], now)?;
        rest = later;
    }
    Ok(total)
}

fn check_text(row: &Row, tuple: u64) -> Result<(), Bad> {
    for field in &row.fields {
        if matches!(field.kind, Some(ColumnType::Text { .. })) {
            let bytes = &row.bytes[field.word as usize..][..field.len as usize];
            if std::str::from_utf8(bytes).is_err() {
                return Err(Bad::Damaged { what: "text column", at: tuple });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::schema::TableSchema;

    #[test]
    fn words_of_fields() {
        assert_eq!(slot_range(slot_word(8192, 100)), Range::new(8192, 100));
        assert_eq!(slot_range(0).len, 0);
        let far = (1u64 << 47) + 8;
        assert_eq!(slot_range(slot_word(far, 131_072)), Range::new(far, 131_072));
        let most = u64::from(crate::rows::limits::MAX_VALUE_BYTES);
        for len in [LARGE_LEN - 1, LARGE_LEN, LARGE_LEN + 1, most - 1, most] {
            for offset in [512, (1 << 48) - 512] {
                assert_eq!(slot_range(slot_word(offset, len)), Range::new(offset, len));
            }
        }
        for text in ["", "a", "seven b"] {
            let (bytes, len) = short_bytes(short_word(text.as_bytes()));
            assert_eq!(&bytes[..len], text.as_bytes());
        }
    }

    /// A table without large values has no large words, so such a word is damaged, whatever it says.
    #[test]
    fn a_large_word_in_a_table_without_large_values_is_damaged() {
        use crate::rows::catalog::Catalog;
        use crate::rows::schema::Schema;
        let layout = |max| {
            let table = TableSchema::new("t").column("k", ColumnType::U64);
            let table = table.column("v", ColumnType::Bytes { max }).key(&["k"]);
            let catalog = Catalog::new(&Schema::new().table(table)).unwrap();
            SlotLayout::new(&catalog.tables[0])
        };
        let memory = pm::Dram::new(2 << 20).unwrap();
        memory.grow(2 << 20).unwrap();
        let read = |max, word| {
            let (layout, mut row, mut out) = (layout(max), Row::new(), vec![0; 1 << 20]);
            let words = |column: usize| [7, word][column];
            let all = read_words(&memory, &layout, words, None, &mut row, 64)
                .map(|()| row.bytes(1).len());
            (all, read_word_bytes(&memory, &layout, words, &[1], &mut out, 64))
        };
        let (small, large) = (slot_word(4096, 100), slot_word(4096, LARGE_LEN));
        let damaged = || Bad::Damaged { what: "length of a value", at: 64 };
        assert_eq!(read(100, small), (Ok(100), Ok(100)));
        assert_eq!(read(100, small | LARGE), (Err(damaged()), Err(damaged())));
        assert_eq!(read(LARGE_LEN as u32, large), (Ok(LARGE_LEN as usize), Ok(LARGE_LEN as usize)));
        assert_eq!(read(LARGE_LEN as u32, slot_word(4096, LARGE_LEN + 1)).0, Err(damaged()));
    }
}
