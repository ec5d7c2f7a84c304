//! The encodings of keys and of tuples as literals: what `docs/format/keys.md` and `tuple.md` say.

use pm::Bytes;
use storage::{
    Catalog, ColumnType, InlineRow, Schema, SlotLayout, StoredRow, TableLayout, TableSchema, Value,
    encode_row,
};

fn layout(table: TableSchema) -> std::sync::Arc<TableLayout> {
    let catalog = Catalog::new(&Schema::new().table(table)).expect("a schema");
    catalog.tables[0].clone()
}

/// A table whose key is one column of this type, and one more that keeps it from being packed.
fn key_of(kind: ColumnType, value: Value<'_>) -> Vec<u8> {
    let table = TableSchema::new("t")
        .column("k", kind)
        .column("w", ColumnType::Bytes { max: 6 })
        .key(&["k", "w"]);
    let key = layout(table).primary_key(&[value, Value::Bytes(b"")]).expect("a key");
    let bytes = key.bytes(&mut [0; 8]).to_vec();
    assert!(bytes.len().is_multiple_of(8));
    let own = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes[..own].to_vec()
}

#[test]
fn keys() {
    let text = ColumnType::Text { max: 4 };
    let uuid = *b"0123456789abcdef";
    let nan = f64::from_bits(0xfff0_dead_beef_0001);
    let cases: [(ColumnType, Value<'_>, &[u8]); 24] = [
        (ColumnType::U8, Value::U64(0xab), &[0xab]),
        (ColumnType::U16, Value::U64(0x1234), &[0x12, 0x34]),
        (ColumnType::U32, Value::U64(0x0102_0304), &[1, 2, 3, 4]),
        (ColumnType::U64, Value::U64(7), &[0, 0, 0, 0, 0, 0, 0, 7]),
        (ColumnType::I8, Value::I64(-1), &[0x7f]),
        (ColumnType::I16, Value::I64(1), &[0x80, 1]),
        (ColumnType::I32, Value::I64(-2), &[0x7f, 0xff, 0xff, 0xfe]),
        (ColumnType::I64, Value::I64(i64::MIN), &[]),
        (ColumnType::I64, Value::I64(5), &[0x80, 0, 0, 0, 0, 0, 0, 5]),
        (ColumnType::Timestamp, Value::I64(5), &[0x80, 0, 0, 0, 0, 0, 0, 5]),
        (ColumnType::Timestamp, Value::I64(-1), &[0x7f, 255, 255, 255, 255, 255, 255, 255]),
        (ColumnType::Bool, Value::Bool(false), &[]),
        (ColumnType::Bool, Value::Bool(true), &[1]),
        (ColumnType::F64, Value::F64(1.5), &[0xbf, 0xf8]),
        (ColumnType::F64, Value::F64(-1.5), &[0x40, 7, 255, 255, 255, 255, 255, 255]),
        (ColumnType::F64, Value::F64(0.0), &[0x80]),
        (ColumnType::F64, Value::F64(-0.0), &[0x80]),
        (ColumnType::F64, Value::F64(f64::INFINITY), &[0xff, 0xf0]),
        (ColumnType::F64, Value::F64(f64::NAN), &[0xff, 0xf8]),
        (ColumnType::F64, Value::F64(nan), &[0xff, 0xf8]),
        (ColumnType::Uuid, Value::Bytes(&uuid), b"0123456789abcdef"),
        (text, Value::Text("ab"), b"ab\0\0\0\x02"),
        (text, Value::Text(""), b""),
        (ColumnType::Bytes { max: 3 }, Value::Bytes(&[9, 0]), &[9, 0, 0, 0, 2]),
    ];
    for (kind, value, bytes) in cases {
        assert_eq!(key_of(kind, value), bytes, "{kind}: {value:?}");
    }
}

/// A UUID has the length of its type; a text after it has its own.
#[test]
fn a_text_after_a_uuid_has_its_length() {
    let table = TableSchema::new("t")
        .column("text", ColumnType::Text { max: 3 })
        .column("who", ColumnType::Uuid)
        .column("last", ColumnType::Bytes { max: 2 })
        .key(&["text", "who", "last"]);
    let (layout, uuid) = (layout(table), *b"0123456789abcdef");
    let values = [Value::Text("ab"), Value::Bytes(&uuid), Value::Bytes(&[9])];
    let expected = [&b"ab\0\0\x02"[..], &uuid, &[9, 0, 0, 1], &[0; 7]].concat();
    let key = layout.primary_key(&values).expect("a key");
    assert_eq!(key.bytes(&mut [0; 8]), expected);
    // That of the stored tuple is the same.
    let mut row = Vec::new();
    encode_row(&layout, &values, &mut row).expect("a row");
    let key = InlineRow::new(&layout, Bytes::from(&row)).and_then(|row| row.key(0)).expect("a key");
    assert_eq!(key.bytes(&mut [0; 8]), expected);
}

#[test]
fn keys_of_small_numbers_are_one_word() {
    let table = TableSchema::new("t")
        .column("b", ColumnType::Bool)
        .column("n", ColumnType::I16)
        .column("u", ColumnType::U32)
        .key(&["b", "n", "u"])
        .index("by_u", &["u"]);
    let layout = layout(table);
    let key = layout.primary_key(&[Value::Bool(true), Value::I64(-1), Value::U64(0x0a0b_0c0d)]);
    assert_eq!(key.expect("a key").bytes(&mut [0; 8]), [1, 0x7f, 0xff, 0xa, 0xb, 0xc, 0xd, 0]);
    // With the primary key after its own four bytes it has eleven.
    assert_eq!(layout.key_bytes(1), 16);
}

#[test]
fn rows() {
    let table = TableSchema::new("t")
        .column("id", ColumnType::U8)
        .column("done", ColumnType::Bool)
        .column("at", ColumnType::Timestamp)
        .column("who", ColumnType::Uuid)
        .key(&["id"]);
    let uuid = *b"0123456789abcdef";
    let values = [Value::U64(3), Value::Bool(true), Value::I64(-2), Value::Bytes(&uuid)];
    let mut row = Vec::new();
    encode_row(&layout(table), &values, &mut row).expect("a row");
    let words: [&[u8]; 5] = [
        &[3, 0, 0, 0, 0, 0, 0, 0],
        &[1, 0, 0, 0, 0, 0, 0, 0],
        &[0xfe, 255, 255, 255, 255, 255, 255, 255],
        // Where in the row it lies, and how many bytes it has.
        &[32, 0, 0, 0, 16, 0, 0, 0],
        &uuid,
    ];
    assert_eq!(row, words.concat());
}

#[test]
fn keys_and_rows_with_null() {
    let table = TableSchema::new("t")
        .column("id", ColumnType::U8)
        .column("n", ColumnType::I16)
        .nullable()
        .column("s", ColumnType::Text { max: 3 })
        .nullable()
        .column("m", ColumnType::U8)
        .key(&["id"])
        .index("by_n_s", &["n", "s"]);
    let layout = layout(table);
    let row_of = |n, s, m| {
        let (mut stored, mut row) = (Vec::new(), Vec::new());
        layout.stored_tuple(&[Value::U64(9), n, s, Value::U64(m)], &mut stored).expect("a tuple");
        encode_row(&layout, &stored, &mut row).expect("a row");
        let key =
            InlineRow::new(&layout, Bytes::from(&row)).and_then(|row| row.key(1)).expect("a key");
        (row.clone(), key.bytes(&mut [0; 8]).to_vec())
    };
    let (row, key) = row_of(Value::I64(5), Value::Null, 7);
    let words: [u64; 5] = [9, 5, 5 * 8, 7, 0b10];
    assert_eq!(row, words.map(u64::to_le_bytes).concat());
    assert_eq!(key, [1, 0x80, 5, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0]);
    let (row, key) = row_of(Value::Null, Value::Text("a"), 7);
    let words: [u64; 5] = [9, 0, (5 * 8) | (1 << 32), 7, 0b01];
    assert_eq!(row, [&words.map(u64::to_le_bytes).concat()[..], b"a"].concat());
    assert_eq!(key, [0, 0, 0, 1, b'a', 0, 0, 0, 1, 9, 0, 0, 0, 0, 0, 0]);
}

/// The form in which version 3 has stored it.
#[test]
fn a_table_without_nulls_has_no_null_word() {
    let table = TableSchema::new("t")
        .column("id", ColumnType::U8)
        .column("n", ColumnType::I16)
        .key(&["id"])
        .index("by_n", &["n"]);
    let layout = layout(table);
    let tuple_bytes = SlotLayout::new(&layout).tuple_bytes();
    assert_eq!((tuple_bytes, layout.key_bytes(0), layout.key_bytes(1)), (16, 8, 8));
    let mut row = Vec::new();
    encode_row(&layout, &[Value::U64(9), Value::I64(-1)], &mut row).expect("a row");
    assert_eq!(row, [9, u64::MAX].map(u64::to_le_bytes).concat());
}
