//! The form of a tuple in memory (P1 3.1): a fixed-size slot with one word a column. A number
//! stands in its word; text and bytes of up to seven bytes do, too; longer ones lie in a
//! variable-length slot, whose location stands in the word. `docs/format/tuple.md` draws it.
//!
//! A table with inlined columns has places for their values after the words of its tuples, and
//! their words lead there. `words.rs` says what a word means.

use std::sync::atomic::Ordering::Acquire;

use pm::{Bad, Component, LineSet, Memory, Off, Range, View, observe};

use crate::rows::row::{Row, RowField};
use crate::rows::value::ColumnType;
use crate::table::slots::SlotLayout;
use crate::table::words::{
    FieldForm, LARGE, field_at, short_bytes, slot_range, slot_word, small_range,
};

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

/// Acts as [`read_tuple`], for a tuple whose words are given; `at` is named in errors.
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

/// Acts as [`read_words`], where a word may be that of a large value.
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

/// Acts as [`read_words`], with the meaning of a word given, and the bits that none has.
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
                // Short fields are copied after the others, once these are in place.
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

/// Copies the chosen columns of the tuple at `tuple` in sequence into `out`, numbers as eight
/// little-endian bytes. Returns how many bytes they have; copies nothing if `out` is shorter.
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

/// Acts as [`read_tuple_bytes`], for a tuple whose words are given; `at` is named in errors.
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

/// Acts as [`read_word_bytes`], where a word may be that of a large value.
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

/// Acts as [`read_word_bytes`], with the meaning of a word given, and the bits that none has.
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
            // Values in the tuple itself come between the runs.
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
    use crate::table::words::LARGE_LEN;

    /// A table without large values has no large words, so such a word is damaged, whatever it
    /// says.
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
