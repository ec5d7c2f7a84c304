//! SSTables against a map, and with every byte damaged: what a run says is right, or an error.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use heap::{Heap, HeapOptions};
use index::Direction;
use index::bloom::hash;
use pm::{Dram, File, Files};
use proptest::prelude::*;
use sim::RecordingFiles;
use storage::lsm::LsmError;
use storage::lsm::cache::{BlockCache, Found};
use storage::lsm::merge::Merge;
use storage::lsm::record::{Encoder, Record};
use storage::lsm::sstable::{
    Cursor, FOOTER_BYTES, Sequence, SsCursor, SsInfo, SsOptions, SsTable, SsWriter, sstable_name,
};
use storage::segments::Spare;

type Table = SsTable<sim::RecordedFile>;
type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type KeyAndValue = (Vec<u8>, Vec<u8>);

/// Kind of an entry with all columns, and its body for one column.
fn whole(value: &[u8]) -> (u8, Vec<u8>) {
    let mut encoder = Encoder::default();
    let kind = encoder.start(&storage::lsm::change::Change::Whole, 1, value.len());
    encoder.field(value.into());
    (kind, encoder.body().to_vec())
}

fn cache(bytes: u64) -> BlockCache<Dram> {
    let memory = Dram::new(64 << 20).unwrap();
    let heap = Heap::format(memory, HeapOptions { chunk_bytes: 256 << 10, lanes: 1 }).unwrap();
    BlockCache::new(heap.lane(0), bytes, 4096)
}

fn write(files: &RecordingFiles, number: u64, model: &Model, block_bytes: u32) -> SsInfo {
    let options = SsOptions { block_bytes, bits_per_key: 10 };
    let mut writer = SsWriter::create(files, 0, number, model.len() as u64, options).unwrap();
    for (key, value) in model {
        let (kind, body) = whole(value);
        writer.add(kind, key, &body).unwrap();
    }
    writer.finish().unwrap()
}

fn get(table: &Table, cache: &BlockCache<Dram>, key: &[u8]) -> Result<Option<Vec<u8>>, LsmError> {
    let value = |record: Record<Found<'_, Dram>>| record.column(0).map(|value| value.to_vec());
    let found = table.get(cache, key, value)?.flatten();
    let may = table.may_contain(cache, hash(key))?;
    assert!(may || found.is_none(), "the filter denies a key that is there");
    Ok(found)
}

/// Returns what a cursor gives from where it is to its end.
fn drain(mut cursor: impl Cursor) -> Result<Vec<KeyAndValue>, LsmError> {
    let mut all = Vec::new();
    while let Some(key) = cursor.key() {
        let (kind, body) = cursor.entry();
        let record = Record::parse(kind, body).unwrap();
        all.push((key.to_vec(), record.column(0).unwrap().to_vec()));
        cursor.advance()?;
    }
    Ok(all)
}

fn bound(keys: &[Vec<u8>], pick: usize, kind: u8) -> Bound<Vec<u8>> {
    // Now and then a key that is not there.
    let mut key = keys[pick % keys.len()].clone();
    if kind & 4 != 0 {
        key.push(0);
    }
    match kind & 3 {
        0 => Bound::Unbounded,
        1 => Bound::Excluded(key),
        _ => Bound::Included(key),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn a_run_says_what_was_written(
        model in prop::collection::btree_map(
            prop::collection::vec(any::<u8>(), 1..20),
            prop::collection::vec(any::<u8>(), 0..300),
            1..300,
        ),
        block_bytes in 256u32..3000, cache_bytes in 0u64..200_000,
        ranges in prop::collection::vec((any::<usize>(), 0u8..8, any::<usize>(), 0u8..8), 8),
        strange in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..21), 20),
    ) {
        let files = RecordingFiles::new();
        let info = write(&files, 3, &model, block_bytes);
        prop_assert_eq!(info.entries, model.len() as u64);
        let table = Arc::new(SsTable::open(&files, 0, info).unwrap());
        let cache = cache(cache_bytes);
        let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
        for key in keys.iter().chain(&strange) {
            prop_assert_eq!(get(&table, &cache, key).unwrap(), model.get(key).cloned());
        }
        let all: Vec<_> = model.clone().into_iter().collect();
        prop_assert_eq!(drain(Sequence::new(table.clone()).unwrap()).unwrap(), all);
        for (low, low_kind, high, high_kind) in ranges {
            let (low, high) = (bound(&keys, low, low_kind), bound(&keys, high, high_kind));
            let mut expected: Vec<_> = model
                .iter()
                .filter(|(key, _)| (Bound::as_ref(&low), Bound::as_ref(&high)).contains(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            let range = (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
            for direction in [Direction::Forward, Direction::Backward] {
                let cursor = SsCursor::new(&table, &cache, range, direction).unwrap();
                prop_assert_eq!(drain(cursor).unwrap(), expected.clone());
                expected.reverse();
            }
        }
    }
}

fn small() -> Model {
    (0..60u32).map(|number| (number.to_be_bytes().to_vec(), vec![number as u8; 20])).collect()
}

/// Returns all contents of the file, through each way of reading it.
fn read_all(files: &RecordingFiles, info: SsInfo) -> Result<Model, LsmError> {
    let table = Arc::new(SsTable::open(files, 0, info)?);
    let cache = cache(1 << 20);
    let mut found = Model::new();
    for key in 0..61u32 {
        let key = key.to_be_bytes();
        if let Some(value) = get(&table, &cache, &key)? {
            found.insert(key.to_vec(), value);
        }
    }
    let all = Bound::Unbounded;
    for direction in [Direction::Forward, Direction::Backward] {
        let cursor = SsCursor::new(&table, &cache, (all, all), direction)?;
        assert!(drain(cursor)?.into_iter().collect::<Model>() == found);
    }
    assert!(drain(Sequence::new(table)?)?.into_iter().collect::<Model>() == found);
    Ok(found)
}

fn with_bytes(name: &str, bytes: Vec<u8>) -> RecordingFiles {
    RecordingFiles::from_image([(name.to_owned(), bytes)].into())
}

#[test]
fn every_damaged_byte_is_noticed() {
    let (files, model) = (RecordingFiles::new(), small());
    let info = write(&files, 3, &model, 256);
    let name = sstable_name(0, 3);
    let bytes = files.image()[&name].clone();
    assert_eq!(read_all(&files, info).unwrap(), model);
    assert!(bytes.len() > 2000, "several blocks, an index, a filter: {}", bytes.len());
    for at in 0..bytes.len() {
        for bit in [0, 7] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let error = read_all(&with_bytes(&name, damaged), info).unwrap_err();
            assert!(error.to_string().contains(&name), "byte {at}: {error}");
        }
    }
    for len in 0..bytes.len() {
        let error = read_all(&with_bytes(&name, bytes[..len].to_vec()), info).unwrap_err();
        assert!(error.to_string().contains(&name), "length {len}: {error}");
    }
    let mut longer = bytes.clone();
    longer.extend([0; 7]);
    assert!(read_all(&with_bytes(&name, longer), info).is_err());
}

#[test]
fn missing_foreign_and_newer_files_are_refused_by_name() {
    let (files, model) = (RecordingFiles::new(), small());
    let info = write(&files, 3, &model, 256);
    let mut other = model.clone();
    other.insert(vec![1], vec![2]);
    let image = files.image();
    let name = sstable_name(0, 3);
    let explain = |files: &RecordingFiles| SsTable::open(files, 0, info).unwrap_err().to_string();

    let missing = explain(&RecordingFiles::new());
    assert!(missing.contains(&name) && missing.contains("is missing"), "{missing}");
    // Another database's file of this number; another file of this database.
    let foreign = RecordingFiles::new();
    write(&foreign, 3, &other, 256);
    let error = explain(&foreign);
    assert!(error.contains("is not the file that the manifest names"), "{error}");
    let moved = RecordingFiles::new();
    write(&moved, 4, &model, 256);
    moved.rename(&sstable_name(0, 4), &name).unwrap();
    assert!(explain(&moved).contains("is not the file"), "{}", explain(&moved));
    let partition = SsTable::open(
        &RecordingFiles::from_image([(sstable_name(1, 3), image[&name].clone())].into()),
        1,
        info,
    );
    assert!(partition.unwrap_err().to_string().contains("another partition"));
    // A newer version says so, whatever its checksum means.
    let mut newer = image[&name].clone();
    let at = newer.len() - FOOTER_BYTES as usize + 8;
    newer[at] = 2;
    let error = explain(&with_bytes(&name, newer));
    assert!(error.contains("format version 2; this build reads version 1"), "{error}");
    let file = files.open(&name).unwrap();
    file.set_len(0).unwrap();
    assert!(explain(&files).contains("shorter than its footer"));
}

#[test]
fn a_tuple_larger_than_a_block_has_one_of_its_own() {
    let mut model = small();
    model.insert(vec![0, 0, 0, 7, 1], vec![9; 300_000]);
    let files = RecordingFiles::new();
    let info = write(&files, 3, &model, 4096);
    let table = Arc::new(SsTable::open(&files, 0, info).unwrap());
    let cache = cache(1 << 20);
    assert_eq!(get(&table, &cache, &[0, 0, 0, 7, 1]).unwrap(), Some(vec![9; 300_000]));
    assert_eq!(drain(Sequence::new(table).unwrap()).unwrap().len(), 61);
}

/// Two of the widest keys do not fit into the smallest block: an index of them still ends.
#[test]
fn keys_as_wide_as_a_block_have_an_index_of_few_levels() {
    let mut model = Model::new();
    for number in 0..500u32 {
        let mut key = vec![7; 240];
        key[200..204].copy_from_slice(&number.to_be_bytes());
        model.insert(key, number.to_le_bytes().into());
    }
    let files = RecordingFiles::new();
    let info = write(&files, 3, &model, 256);
    let table = Arc::new(SsTable::open(&files, 0, info).unwrap());
    let cache = cache(1 << 20);
    for (key, value) in &model {
        assert_eq!(get(&table, &cache, key).unwrap().as_ref(), Some(value));
    }
    assert_eq!(drain(Sequence::new(table).unwrap()).unwrap().len(), 500);
}

#[test]
fn runs_come_together_newest_first() {
    let files = RecordingFiles::new();
    let mut all = Model::new();
    let mut tables = Vec::new();
    // Number 0 is the oldest.
    for number in 0..20u64 {
        let keys = (0..200u32).filter(|key| key % (number as u32 + 1) == 0);
        let model: Model =
            keys.map(|key| (key.to_be_bytes().to_vec(), vec![number as u8; 3])).collect();
        all.extend(model.clone());
        let info = write(&files, number, &model, 512);
        tables.insert(0, Arc::new(SsTable::open(&files, 0, info).unwrap()));
    }
    let sequences = tables.iter().map(|table| Sequence::new(table.clone()).unwrap()).collect();
    let mut merge = Merge::new(sequences, Direction::Forward);
    let (mut found, mut out) = (Model::new(), Encoder::default());
    while let Some(key) = merge.key() {
        let kind = merge.combine(true, &mut out).unwrap().unwrap();
        let value = Record::parse(kind, out.body()).unwrap().column(0).unwrap().to_vec();
        found.insert(key.to_vec(), value);
        merge.advance().unwrap();
    }
    assert_eq!(found, all);
}

#[test]
fn a_run_that_is_ended_in_steps_is_the_same() {
    let model: Model =
        (0..5_000u32).map(|number| (number.to_be_bytes().to_vec(), vec![7; 8])).collect();
    let (at_once, in_steps) = (RecordingFiles::new(), RecordingFiles::new());
    let info = write(&at_once, 7, &model, 512);
    let options = SsOptions { block_bytes: 512, bits_per_key: 10 };
    let mut writer = SsWriter::create(&in_steps, 0, 7, model.len() as u64, options).unwrap();
    for (key, value) in &model {
        let (kind, body) = whole(value);
        writer.add(kind, key, &body).unwrap();
    }
    let (mut left, mut steps) = (writer.finish_step(0).unwrap(), 0);
    while left > 0 {
        let now = writer.finish_step(700).unwrap();
        assert!(now < left && left - now <= 700 + 512, "a bounded step: {left} {now}");
        (left, steps) = (now, steps + 1);
    }
    assert!(steps > 5, "{steps}");
    assert_eq!(writer.finish().unwrap(), info);
    assert_eq!(in_steps.image(), at_once.image());
}

/// A run in a file with space set aside needs no other space, whatever its entries are.
#[test]
fn a_run_on_a_full_medium_takes_what_was_set_aside() {
    for (keys, key_bytes, value_bytes) in
        [(1u32, 4, 5), (3000, 8, 8), (3000, 40, 0), (500, 100, 300), (40, 8, 5000)]
    {
        let key = |number: u32| {
            let mut key = number.to_be_bytes().to_vec();
            key.resize(key_bytes, 9);
            key
        };
        let model: Model =
            (0..keys).map(|number| (key(number), vec![number as u8; value_bytes])).collect();
        let bytes =
            model.iter().map(|(key, value)| (key.len() + whole(value).1.len()) as u64).sum();
        let options = SsOptions { block_bytes: 512, bits_per_key: 10 };
        let most = options.most_bytes(model.len() as u64, bytes, (key_bytes as u64, u64::MAX));
        let files = RecordingFiles::new();
        let mut spare = Spare::open(files.clone(), "spare".into()).unwrap();
        spare.reserve(most, most).unwrap();
        files.limit(Some(most));
        let mut writer =
            SsWriter::create_in((&mut spare, most), 0, 7, model.len() as u64, options).unwrap();
        for (key, value) in &model {
            let (kind, body) = whole(value);
            writer.add(kind, key, &body).unwrap();
        }
        let info = writer.finish().unwrap();
        assert!(info.bytes <= most, "{} of {most}", info.bytes);
        let elsewhere = RecordingFiles::new();
        assert_eq!(write(&elsewhere, 7, &model, 512), info);
        assert_eq!(files.image(), elsewhere.image());
    }
}
