//! A file that gets its name when it is whole: each crash while it is written, and each failure.

use std::io::{self, Write};

use pm::{File, Files, NewFile};
use sim::{DiskReplay, DiskTrace, RecordingFiles};

const WHOLE: [u8; 1300] = [7; 1300];

fn write(files: &RecordingFiles) -> io::Result<u64> {
    let mut file = NewFile::create(files, "new", b"")?;
    WHOLE.chunks(600).try_for_each(|part| file.write_all(part))?;
    file.finish()
}

/// Returns whether a file that has no name yet is known for what it is: by its mark, or by having no contents.
fn is_known(bytes: &[u8]) -> bool {
    let mark = RecordingFiles::new().mark("new.tmp").unwrap();
    let is_begun = bytes.len() <= mark.len() && bytes.iter().all(|byte| *byte == 0);
    is_begun || bytes.starts_with(&mark) || bytes.starts_with(&WHOLE[..32])
}

/// States after a power cut in which the file is missing although it was acknowledged, or is
/// there and not whole, or is not known for what it is before that.
fn wrong(trace: &DiskTrace) -> u64 {
    let (mut replay, mut wrong) = (DiskReplay::new(trace), 0);
    while let Some(point) = replay.next_point() {
        let acknowledged = point.last_note.is_some();
        point.for_each_state(10_000, 1, |image| {
            wrong += u64::from(match image.get("new") {
                Some(bytes) => bytes[..] != WHOLE,
                None => acknowledged,
            });
            wrong += u64::from(image.get("new.tmp").is_some_and(|bytes| !is_known(bytes)));
            assert_eq!(image["other"], [1, 2]);
        });
    }
    wrong
}

#[test]
fn a_power_cut_leaves_all_of_it_or_no_name() {
    let files = RecordingFiles::from_image([("other".into(), vec![1, 2])].into());
    files.start();
    assert_eq!(write(&files).unwrap(), 1300);
    files.note(1);
    let trace = files.stop();
    assert_eq!(wrong(&trace), 0);
    let sites = trace.sync_sites();
    assert_eq!(sites.len(), 3);
    for site in sites {
        assert!(wrong(&trace.without_syncs_of(site)) > 0, "{site}: no state shows that");
    }
    let mut names = 0;
    trace.process_states(|_, _, image| {
        if let Some(bytes) = image.get("new") {
            assert_eq!(bytes[..], WHOLE);
            names += 1;
        }
    });
    assert_eq!(names, 1);
}

#[test]
fn wherever_a_call_fails_nothing_is_left() {
    let before = [("other".to_owned(), vec![1, 2])];
    let mut calls = 0;
    loop {
        let files = RecordingFiles::from_image(before.clone().into());
        files.fail_once_after(calls);
        let done = write(&files);
        if files.will_fail() {
            assert_eq!(done.unwrap(), 1300);
            assert_eq!(files.image()["new"], WHOLE);
            break;
        }
        assert_eq!(done.unwrap_err().kind(), io::ErrorKind::StorageFull, "call {calls}");
        assert_eq!(files.image(), before.clone().into(), "call {calls}");
        calls += 1;
    }
    // Create, the mark, sync, three writes, the beginning, sync, rename, sync of the directory.
    assert_eq!(calls, 10);
}

#[test]
fn what_is_there_is_never_replaced() {
    let files = RecordingFiles::new();
    files.create("new").unwrap().write_at(0, b"old").unwrap();
    let error = write(&files).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(files.image(), [("new".to_owned(), b"old".to_vec())].into());
    // Nor what gets the name while it is written.
    files.remove("new").unwrap();
    let mut file = NewFile::create(&files, "new", b"").unwrap();
    file.write_all(b"late").unwrap();
    let error = NewFile::create(&files, "new", b"").unwrap_err();
    assert!(error.to_string().contains("`new.tmp` is in the way"), "{error}");
    files.create("new").unwrap().write_at(0, b"first").unwrap();
    assert_eq!(file.finish().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(files.image(), [("new".to_owned(), b"first".to_vec())].into());
}
