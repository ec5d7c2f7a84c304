//! The manifest: what it says survives reopening, damage and power cuts.
//!
//! Fault model (`docs/format/crash-model.md`), `disk` mode: of what was written since the last sync
//! each sector may or may not have persisted, and of the operations on the directory the first few.

use std::collections::BTreeMap;

use sim::{DiskReplay, DiskTrace, RecordingFiles};
use storage::lsm::manifest::{Manifest, Version, remove_leftovers};
use storage::lsm::sstable::SsInfo;
use storage::wal::LogStart;

const NAME: &str = "manifest-5";

/// A state that says by its numbers which edit made it.
fn version(edit: u64) -> Version {
    let run = |number: u64| {
        let info = SsInfo {
            file: number,
            bytes: edit * 1000 + number,
            entries: edit,
            tombstones: number,
            checksum: edit as u32,
        };
        (number as u32, info)
    };
    Version {
        runs: (0..edit % 9).map(run).collect(),
        log: LogStart { sequence: edit, txn: edit * 7 },
        next_file: edit + 100,
    }
}

#[test]
fn the_last_edit_counts_also_when_the_file_was_written_anew() {
    let files = RecordingFiles::new();
    let mut manifest = Manifest::create(files.clone(), 5, &version(0)).unwrap();
    let (mut longest, mut shorter) = (0, 0);
    for edit in 1..400 {
        let before = manifest.bytes();
        manifest.edit(&version(edit)).unwrap();
        shorter += u64::from(manifest.bytes() < before);
        longest = longest.max(manifest.bytes());
        if edit % 37 == 0 {
            drop(manifest);
            let (again, found) = Manifest::open(files.clone(), 5).unwrap();
            assert_eq!(found, version(edit));
            manifest = again;
        }
    }
    assert!(longest < 17 << 10 && shorter > 2, "{longest} bytes, {shorter} times");
    assert_eq!(files.image().len(), 1, "no other file stays");
}

fn with_bytes(bytes: &[u8]) -> RecordingFiles {
    RecordingFiles::from_image([(NAME.to_owned(), bytes.to_vec())].into())
}

/// The bytes of a manifest with edits 0 to 5, and where the last edit's frame starts.
fn sample() -> (Vec<u8>, usize) {
    let files = RecordingFiles::new();
    let mut manifest = Manifest::create(files.clone(), 5, &version(0)).unwrap();
    (1..5).for_each(|edit| manifest.edit(&version(edit)).unwrap());
    let last = manifest.bytes() as usize;
    manifest.edit(&version(5)).unwrap();
    (files.image()[NAME].clone(), last)
}

#[test]
fn damage_is_an_error_or_the_state_before_an_unfinished_edit() {
    let (bytes, last) = sample();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        match Manifest::open(with_bytes(&damaged), 5) {
            // The last edit may be one that a crash has torn.
            Ok((_, found)) => assert!(bit / 8 >= last && found == version(4), "bit {bit}"),
            Err(error) => {
                assert!(bit / 8 < last && error.to_string().contains(NAME), "bit {bit}: {error}");
            }
        }
    }
    let mut ends = 0;
    for len in 0..bytes.len() {
        if let Ok((mut manifest, found)) = Manifest::open(with_bytes(&bytes[..len]), 5) {
            ends += usize::from(found == version(4));
            assert!((0..5).any(|edit| found == version(edit)), "length {len}");
            manifest.edit(&version(9)).unwrap();
        }
    }
    assert!(ends > 40, "{ends}");
    let error = Manifest::open(RecordingFiles::new(), 5).unwrap_err().to_string();
    assert!(error.contains("manifest-5 is missing"), "{error}");
    let other = RecordingFiles::from_image([("manifest-6".to_owned(), bytes)].into());
    let error = Manifest::open(other, 6).unwrap_err().to_string();
    assert!(error.contains("another partition"), "{error}");
}

#[test]
fn an_edit_that_found_no_room_leaves_the_state_before_it() {
    let files = RecordingFiles::new();
    let mut manifest = Manifest::create(files.clone(), 5, &version(0)).unwrap();
    let mut edit = 0;
    for round in 0..600 {
        // An edit appends, or writes the file anew where the one before was torn.
        files.fail_after(Some(round % 11));
        let done = manifest.edit(&version(edit + 1));
        files.fail_after(None);
        if done.is_ok() {
            edit += 1;
            continue;
        }
        if manifest.is_poisoned() {
            assert!(manifest.edit(&version(1000)).is_err());
            drop(manifest);
            let (again, found) = Manifest::open(files.clone(), 5).unwrap();
            assert!(found == version(edit) || found == version(edit + 1), "round {round}");
            edit = found.log.sequence;
            manifest = again;
        }
    }
    assert!(edit > 200, "{edit}");
    let (_, found) = Manifest::open(files, 5).unwrap();
    assert_eq!(found, version(edit));
}

/// On a full medium edits go where space was set aside, also when the file has become long.
#[test]
fn a_full_medium_takes_edits_where_space_is_set_aside() {
    let files = RecordingFiles::new();
    let mut manifest = Manifest::create(files.clone(), 5, &version(0)).unwrap();
    for edit in 1..200 {
        files.limit(None);
        manifest.reserve(9).unwrap();
        files.limit(Some(files.image().values().map(|bytes| bytes.len() as u64).sum()));
        manifest.edit(&version(edit)).unwrap();
        if edit % 37 == 0 {
            drop(manifest);
            let (again, found) = Manifest::open(files.clone(), 5).unwrap();
            assert_eq!(found, version(edit));
            manifest = again;
        }
    }
    files.limit(None);
    manifest.edit(&version(200)).unwrap();
    assert_eq!(Manifest::open(files.clone(), 5).unwrap().1, version(200));
    assert!(manifest.bytes() < 17 << 10, "it is written anew");
}

/// On a full medium there is no room for the file to be written anew without an edit that a crash has torn.
/// The next edit takes its place, however much of it is there.
#[test]
fn a_torn_edit_on_a_full_medium_makes_way() {
    let files = RecordingFiles::new();
    let mut manifest = Manifest::create(files.clone(), 5, &version(0)).unwrap();
    (1..5).for_each(|edit| manifest.edit(&version(edit)).unwrap());
    manifest.reserve(9).unwrap();
    let start = manifest.bytes() as usize;
    manifest.edit(&version(8)).unwrap();
    let (end, image) = (manifest.bytes() as usize, files.image());
    // The last three bytes are zero.
    for torn in (start + 1..end - 3).step_by(13) {
        let mut image = image.clone();
        image.get_mut(NAME).unwrap()[torn..end].fill(0);
        let files = RecordingFiles::from_image(image);
        files.limit(Some(files.image()[NAME].len() as u64));
        let (mut manifest, found) = Manifest::open(files.clone(), 5).unwrap();
        assert_eq!(found, version(4));
        files.start();
        manifest.edit(&version(5)).unwrap();
        files.note(5);
        manifest.edit(&version(6)).unwrap();
        assert_eq!(files.image().len(), 1, "no other file stays");
        assert_eq!(Manifest::open(files.clone(), 5).unwrap().1, version(6));
        let trace = files.stop();
        let mut replay = DiskReplay::new(&trace);
        while let Some(point) = replay.next_point() {
            let acknowledged = point.last_note.unwrap_or(4);
            point.for_each_state(24, 7, |image| check(image, Some(acknowledged)).unwrap());
        }
    }
}

/// Edits enough to write the file anew several times, with a kill of the process among them.
fn standard_trace() -> DiskTrace {
    let files = RecordingFiles::new();
    files.start();
    let mut manifest = Manifest::create(files.clone(), 5, &version(0)).unwrap();
    files.note(0);
    for edit in 1..160 {
        manifest.edit(&version(edit)).unwrap();
        files.note(edit);
        if edit == 50 {
            (manifest, _) = Manifest::open(files.clone(), 5).unwrap();
        }
    }
    files.stop()
}

fn check(image: &BTreeMap<String, Vec<u8>>, acknowledged: Option<u64>) -> Result<(), String> {
    let files = RecordingFiles::from_image(image.clone());
    let (mut manifest, found) = match Manifest::open(files.clone(), 5) {
        Err(_) if acknowledged.is_none() => return Ok(()),
        opened => opened.map_err(|error| error.to_string())?,
    };
    remove_leftovers(&files, 5).map_err(|error| error.to_string())?;
    let edit = found.log.sequence;
    let least = acknowledged.unwrap_or(0);
    if found != version(edit) || edit < least || edit > least + 1 {
        return Err(format!("edit {edit} after {acknowledged:?} acknowledged ones"));
    }
    manifest.edit(&version(edit + 1)).map_err(|error| error.to_string())?;
    drop(manifest);
    let (_, again) = Manifest::open(files.clone(), 5).map_err(|error| error.to_string())?;
    if again != version(edit + 1) || files.image().len() != 1 {
        return Err("it cannot go on".into());
    }
    Ok(())
}

fn violation(trace: &DiskTrace) -> (u64, Option<String>) {
    let (mut replay, mut states) = (DiskReplay::new(trace), 0);
    while let Some(point) = replay.next_point() {
        let (position, acknowledged) = (point.position, point.last_note);
        let mut failed = None;
        let seen = point.for_each_state(24, 7, |image| {
            if failed.is_none() {
                failed = check(image, acknowledged).err();
            }
        });
        states += seen.visited;
        if let Some(why) = failed {
            return (states, Some(format!("event {position}: {why}")));
        }
    }
    (states, None)
}

#[test]
fn every_edit_is_whole_or_not_there_after_a_power_cut() {
    let (states, found) = violation(&standard_trace());
    println!("{states} states");
    assert_eq!(found, None);
    assert!(states > 500, "{states}");
}

/// Without one of its syncs the manifest must fail the test above.
#[test]
fn the_test_fails_without_one_sync() {
    let trace = standard_trace();
    let mut unseen = Vec::new();
    for site in trace.sync_sites() {
        if violation(&trace.without_syncs_of(site)).1.is_none() {
            unseen.push(format!("{}:{}", site.file(), site.line()));
        }
    }
    println!("{} places sync", trace.sync_sites().len());
    // That of `open` sees to what a killed process wrote: `crash/files.rs` of the whole engine
    // kills.
    assert_eq!(unseen.len(), 1, "{unseen:?}");
}

/// A sync fails, and the kernel takes what it could not write for written. What opening then says
/// is so stays so all the same.
#[test]
fn what_is_read_after_a_failed_sync_is_durable() {
    let (mut states, mut read) = (0, 0);
    for calls in 0..60 {
        let files = RecordingFiles::new();
        files.start();
        let mut manifest = Manifest::create(files.clone(), 5, &version(0)).unwrap();
        files.note(0);
        files.fail_once_after(calls);
        for edit in 1..30 {
            match manifest.edit(&version(edit)) {
                Ok(()) => files.note(edit),
                Err(_) => break,
            }
        }
        if !manifest.is_poisoned() {
            continue;
        }
        drop(manifest);
        let (_, found) = Manifest::open(files.clone(), 5).unwrap();
        let edit = found.log.sequence;
        files.note(edit);
        read += 1;
        let (seen, violation) = violation(&files.stop());
        assert_eq!(violation, None, "call {calls}, edit {edit}");
        states += seen;
    }
    println!("{states} states, read {read} times");
    assert!(read > 20 && states > 100, "{read} {states}");
}
