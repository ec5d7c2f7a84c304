//! Opens the bytes of a file and reads all of it, in every way.
//!
//! The first byte of the input says whether its checksums are mended before: without that nothing
//! but the checksums is ever tested. The rest is the file. There is no panic, and an end.

use std::io::Read;
use std::ops::Bound;
use std::sync::Arc;

use heap::{Heap, HeapOptions};
use index::Direction;
use index::bloom::hash;
use pm::{Dram, Memory, Range};
use sim::RecordingFiles;
use storage::checkpoint::{self, CheckpointError, open_latest};
use storage::lsm::block;
use storage::lsm::cache::BlockCache;
use storage::lsm::manifest::Manifest;
use storage::lsm::record::Record;
use storage::lsm::sstable::{
    Cursor, FOOTER_BYTES, Sequence, SsCursor, SsInfo, SsTable, sstable_name,
};
use storage::operation::Operations;
use storage::wal::{LogStart, Wal, WalError, WalOptions};
use storage::{Catalog, ColumnType, Schema, TableSchema};

/// Bytes of an input that are looked at.
const MOST_BYTES: usize = 1 << 16;

fn parts(input: &[u8]) -> Option<(bool, Vec<u8>)> {
    let (first, rest) = input.split_first()?;
    Some((first & 1 == 1, rest[..rest.len().min(MOST_BYTES)].to_vec()))
}

fn directory(name: &str, bytes: &[u8]) -> RecordingFiles {
    RecordingFiles::from_image([(name.to_owned(), bytes.to_vec())].into())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}

/// Mends a header or footer whose checksum stands `at` within it and counts as zero.
fn mend(header: &mut [u8], at: usize) {
    put(header, at, 0);
    let sum = crc32c::crc32c(header);
    put(header, at, sum);
}

fn catalog() -> Catalog {
    let table = |name: &str| {
        TableSchema::new(name)
            .column("id", ColumnType::U64)
            .column("text", ColumnType::Text { max: 20 })
            .column("bytes", ColumnType::Bytes { max: 300 })
            .column("number", ColumnType::I64)
            .key(&["id"])
            .index("by_text", &["text"])
    };
    Catalog::new(&Schema::new().table(table("one")).table(table("two"))).expect("a schema")
}

/// Bytes of a segment's header, and of a frame's.
const SEGMENT_HEADER: usize = 32;
const FRAME_HEADER: usize = 16;
const WAL_START: LogStart = LogStart { sequence: 3, txn: 100 };

/// A segment of the write-ahead log.
pub(crate) fn wal(input: &[u8]) {
    let Some((mended, mut bytes)) = parts(input) else { return };
    if mended && bytes.len() >= SEGMENT_HEADER {
        mend(&mut bytes[..SEGMENT_HEADER], 12);
        let mut at = SEGMENT_HEADER;
        while let (Some(frame), Some(txn)) = (u32_at(&bytes, at), u64_at(&bytes, at + 8)) {
            let end = at + frame as usize;
            if (frame as usize) < FRAME_HEADER || end > bytes.len() {
                break;
            }
            let mut sum = crc32c::crc32c(&bytes[at + FRAME_HEADER..end]);
            sum = crc32c::crc32c_append(sum, &WAL_START.sequence.to_le_bytes());
            sum = crc32c::crc32c_append(sum, &txn.to_le_bytes());
            sum = crc32c::crc32c_append(sum, &frame.to_le_bytes());
            put(&mut bytes, at + 4, sum);
            at = end;
        }
    }
    let (files, catalog) = (directory("w0000000000000003", &bytes), catalog());
    let memory = || {
        let memory = Dram::new(1 << 16).expect("addresses");
        memory.grow(1 << 16).expect("memory");
        memory
    };
    let options = WalOptions { reserve_bytes: 4096, group: 1, ..WalOptions::default() };
    let recover = || {
        let mut records = Vec::new();
        let visit = |txn, payload: &[u8]| {
            records.push((txn, payload.to_vec()));
            Operations::new(&catalog, payload).for_each(drop);
            Ok::<(), WalError>(())
        };
        let buffer = Range::new(64, 4096);
        let found = Wal::recover(files.clone(), "w", WAL_START, memory(), buffer, options, visit);
        found.map(|(wal, _)| (wal, records))
    };
    let Ok((mut wal, records)) = recover() else { return };
    let appended = wal.begin(wal.next_txn()).and_then(|()| wal.put(b"more"));
    if appended.is_ok() && wal.end().is_ok() && wal.flush().is_ok() {
        drop(wal);
        let (_, again) = recover().expect("it was mended by the first recovery");
        assert_eq!(again[..records.len()], records, "what was read once stays");
        assert_eq!(again.last().map(|last| &last.1[..]), Some(&b"more"[..]));
    }
}

/// A checkpoint.
pub(crate) fn checkpoint(input: &[u8]) {
    const HEADER: usize = 32;
    const TRAILER: usize = 40;
    let Some((mended, mut bytes)) = parts(input) else { return };
    if mended && bytes.len() >= HEADER + TRAILER {
        let stream = HEADER..bytes.len() - TRAILER;
        let (compressed, sum) = (stream.len() as u64, crc32c::crc32c(&bytes[stream.clone()]));
        mend(&mut bytes[..HEADER], 12);
        let trailer = &mut bytes[stream.end..];
        trailer[..8].copy_from_slice(&5u64.to_le_bytes());
        trailer[24..32].copy_from_slice(&compressed.to_le_bytes());
        put(trailer, 32, sum);
        let sum = crc32c::crc32c(&trailer[..36]);
        put(trailer, 36, sum);
    }
    let files = directory("c-0000000000000005", &bytes);
    let Ok(Some(mut reader)) = open_latest(&files, "c-") else { return };
    let mut part = [0; 4096];
    let mut left = 64 << 20;
    loop {
        match reader.read(&mut part) {
            Ok(0) => break,
            Ok(bytes) if bytes < left => left -= bytes,
            // Enough of a very long one.
            Ok(_) => return,
            Err(error) => return drop(reader.explain(error)),
        }
    }
    let _ = reader.finish();
}

/// An SSTable.
pub(crate) fn sstable(input: &[u8]) {
    let Some((mended, mut bytes)) = parts(input) else { return };
    let footer = FOOTER_BYTES as usize;
    let Some(footer_at) = bytes.len().checked_sub(footer) else { return };
    if mended {
        let blocks_end = u64_at(&bytes, footer_at + 48).unwrap_or(0).min(footer_at as u64) as usize;
        let mut at = 0;
        while at + block::BLOCK_HEADER_BYTES <= blocks_end {
            let announced = u32_at(&bytes, at + 4).unwrap_or(0) as usize;
            let len = announced.clamp(block::BLOCK_HEADER_BYTES, blocks_end - at);
            block::seal(&mut bytes[at..at + len], 7, at as u64);
            at += len;
        }
        if blocks_end + block::BLOCK_HEADER_BYTES <= footer_at {
            block::seal(&mut bytes[blocks_end..footer_at], 7, blocks_end as u64);
        }
        let all = bytes.len() as u64;
        bytes[footer_at + 104..footer_at + 112].copy_from_slice(&all.to_le_bytes());
        mend(&mut bytes[footer_at..], 12);
    }
    let word = |at: usize| u64_at(&bytes, footer_at + at).unwrap_or(0);
    let info = SsInfo {
        file: 7,
        bytes: bytes.len() as u64,
        entries: word(72),
        tombstones: word(80),
        checksum: u32_at(&bytes, footer_at + 12).unwrap_or(0),
    };
    let files = directory(&sstable_name(0, 7), &bytes);
    let Ok(table) = SsTable::open(&files, 0, info) else { return };
    let memory = Dram::new(64 << 20).expect("addresses");
    let heap = Heap::format(memory, HeapOptions { chunk_bytes: 256 << 10, lanes: 1 });
    let cache = BlockCache::new(heap.expect("memory").lane(0), 1 << 20, 4096);
    let table = Arc::new(table);
    let mut keys = Vec::new();
    for direction in [Direction::Forward, Direction::Backward] {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let Ok(mut cursor) = SsCursor::new(&table, &cache, all, direction) else { continue };
        let mut seen = 0;
        while let Some(key) = cursor.key() {
            let (kind, body) = cursor.entry();
            if let Some(record) = Record::parse(kind, body) {
                (0..=record.columns()).for_each(|column| {
                    record.column(column);
                });
            }
            if keys.len() < 50 {
                keys.push(key.to_vec());
            }
            seen += 1;
            assert!(seen <= 100 * bytes.len(), "a cursor without end");
            if cursor.advance().is_err() {
                break;
            }
        }
    }
    for key in &keys {
        let _ = table.may_contain(&cache, hash(key));
        let _ = table.get(&cache, key, |_| ());
    }
    if let Ok(mut sequence) = Sequence::new(table) {
        let mut seen = 0;
        while sequence.key().is_some() && sequence.advance().is_ok() {
            seen += 1;
            assert!(seen <= bytes.len(), "a sequence without end");
        }
    }
}

/// A manifest.
pub(crate) fn manifest(input: &[u8]) {
    const HEADER: usize = 32;
    let Some((mended, mut bytes)) = parts(input) else { return };
    if mended && bytes.len() >= HEADER {
        mend(&mut bytes[..HEADER], 12);
        let mut at = HEADER;
        while let Some(frame) = u32_at(&bytes, at) {
            let end = at + frame as usize;
            if frame < 48 || end > bytes.len() {
                break;
            }
            let sum = crc32c::crc32c(&bytes[at + 8..end]);
            put(&mut bytes, at + 4, sum);
            at = end;
        }
    }
    let files = directory("manifest-5", &bytes);
    let Ok((mut manifest, version)) = Manifest::open(files.clone(), 5) else { return };
    if manifest.edit(&version).is_ok() {
        drop(manifest);
        let (_, again) = Manifest::open(files, 5).expect("it has just been written");
        assert_eq!(again, version);
    }
}

/// Sound inputs of each target, from which the corpus is made.
pub(crate) fn seeds() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let file = |files: &RecordingFiles, mended: u8| {
        let image = files.image();
        let bytes = image.values().next().expect("a file");
        [&[mended], &bytes[..]].concat()
    };
    let logs = [0usize, 1, 5, 20].map(|many| {
        let files = RecordingFiles::new();
        let memory = Dram::new(1 << 16).expect("addresses");
        memory.grow(1 << 16).expect("memory");
        let options = WalOptions { reserve_bytes: 512, group: 1, ..WalOptions::default() };
        let buffer = Range::new(64, 4096);
        let log = Wal::create(files.clone(), "w", WAL_START, memory, buffer, options);
        let mut log = log.expect("a log");
        for number in 0..many {
            let mut operation = Vec::new();
            let text = format!("tuple {number}");
            let values = [
                storage::Value::U64(number as u64),
                storage::Value::Text(&text),
                storage::Value::Bytes(&[7; 30]),
                storage::Value::I64(-1),
            ];
            storage::operation::insert(&mut operation, number as u16 % 2, &values);
            log.begin(log.next_txn()).and_then(|()| log.put(&operation)).expect("put");
            let _ = log.end().expect("ended");
            log.flush().expect("flushed");
        }
        file(&files, many as u8 & 1)
    });
    let checkpoints = [0usize, 10, 3000].map(|many| {
        let files = RecordingFiles::new();
        let start = LogStart { sequence: 5, txn: 77 };
        checkpoint::write(&files, "c-", start, |out| {
            (0..many).try_for_each(|n| out.write_all(&[(n * n % 251) as u8])).expect("written");
            Ok::<(), CheckpointError>(())
        })
        .expect("a checkpoint");
        file(&files, 1)
    });
    let tables = [1u32, 40, 200].map(|many| sound_table(many, &file));
    let manifests = [0u64, 3, 8].map(|many| {
        let files = RecordingFiles::new();
        let version = |edit: u64| {
            let info =
                |file| SsInfo { file, bytes: 100 * file, entries: 9, tombstones: 1, checksum: 7 };
            storage::lsm::manifest::Version {
                runs: (0..edit % 4).map(|run| (run as u32, info(run))).collect(),
                log: LogStart { sequence: edit, txn: edit * 9 },
                next_file: edit + 9,
            }
        };
        let mut manifest = Manifest::create(files.clone(), 5, &version(0)).expect("a manifest");
        (1..many).for_each(|edit| manifest.edit(&version(edit)).expect("an edit"));
        file(&files, 1)
    });
    vec![
        ("wal", logs.into()),
        ("checkpoint", checkpoints.into()),
        ("sstable", tables.into()),
        ("manifest", manifests.into()),
    ]
}

fn sound_table(many: u32, file: &dyn Fn(&RecordingFiles, u8) -> Vec<u8>) -> Vec<u8> {
    let files = RecordingFiles::new();
    let options = storage::lsm::sstable::SsOptions { block_bytes: 256, bits_per_key: 10 };
    let writer = storage::lsm::sstable::SsWriter::create(&files, 0, 7, u64::from(many), options);
    let mut writer = writer.expect("a run");
    for number in 0..many {
        let mut encoder = storage::lsm::record::Encoder::default();
        let kind = encoder.start(&storage::lsm::change::Change::Whole, 2, 11);
        encoder.field(number.to_le_bytes()[..].into());
        encoder.field(b"content"[..].into());
        writer.add(kind, format!("key {number:05}").as_bytes(), encoder.body()).expect("added");
    }
    writer.finish().expect("finished");
    file(&files, 1)
}
