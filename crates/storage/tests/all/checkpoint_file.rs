//! Checkpoints without crashes: what is written is read, and damage is named.

use std::io::{Read, Write};

use pm::Files;
use sim::RecordingFiles;
use storage::checkpoint::{self, CheckpointError, CheckpointWriter, most_bytes, open_latest};
use storage::segments::Spare;
use storage::wal::LogStart;

const START: LogStart = LogStart { sequence: 5, txn: 77 };

fn write(files: &RecordingFiles, start: LogStart, bytes: &[u8]) -> u64 {
    checkpoint::write(files, "c-", start, |out| {
        for part in bytes.chunks(1000) {
            out.write_all(part).unwrap();
        }
        Ok::<(), CheckpointError>(())
    })
    .unwrap()
}

fn read(files: &RecordingFiles) -> Result<(LogStart, Vec<u8>), CheckpointError> {
    let mut reader = open_latest(files, "c-")?.expect("there is a checkpoint");
    let mut bytes = Vec::new();
    if let Err(error) = reader.read_to_end(&mut bytes) {
        return Err(reader.explain(error));
    }
    let start = reader.log_start();
    reader.finish()?;
    Ok((start, bytes))
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut word = 1u64;
    let next = |_| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (word >> 56) as u8
    };
    (0..bytes).map(next).collect()
}

#[test]
fn a_state_of_any_size_comes_back() {
    for bytes in [0, 1, 65_535, 65_536, 1_000_000] {
        let files = RecordingFiles::new();
        let state = noise(bytes);
        let written = write(&files, START, &state);
        let reader = open_latest(&files, "c-").unwrap().unwrap();
        assert_eq!((reader.file_bytes(), reader.plain_bytes()), (written, bytes as u64));
        assert_eq!(files.image()["c-0000000000000005"].len() as u64, written);
        assert_eq!(read(&files).unwrap(), (START, state));
    }
}

#[test]
fn a_checkpoint_is_compressed() {
    let files = RecordingFiles::new();
    assert!(write(&files, START, &[7; 1_000_000]) < 20_000);
}

/// A checkpoint in a file with space set aside needs no other space, and the one before is that file
/// then.
#[test]
fn a_checkpoint_on_a_full_medium_takes_what_was_set_aside() {
    let files = RecordingFiles::new();
    let state = noise(30_000);
    let mut spare = Spare::open(files.clone(), "spare-c".into()).unwrap();
    for sequence in 1..5 {
        files.limit(None);
        let most = most_bytes(state.len() as u64);
        spare.reserve(most, most).unwrap();
        files.limit(Some(files.image().values().map(|bytes| bytes.len() as u64).sum()));
        let start = LogStart { sequence, txn: 10 * sequence };
        let begin = || CheckpointWriter::create_in(&files, "c-", start, &spare).unwrap();
        let mut given_up = begin();
        given_up.write_all(&noise(20_000)).unwrap();
        drop(given_up);
        let mut writer = begin();
        writer.write_all(&state).unwrap();
        let bytes = writer.finish(start.txn).unwrap();
        spare.reopen().unwrap();
        assert!(bytes <= most && bytes > state.len() as u64, "{bytes} of {most}");
        let name = format!("c-{sequence:016x}");
        assert_eq!(files.image()[&name].len() as u64, bytes);
        assert_eq!(read(&files).unwrap(), (start, state.clone()));
        let all: Vec<String> = files.list().unwrap();
        let expected = if sequence == 1 { vec![name] } else { vec![name, "spare-c".into()] };
        assert_eq!(all, expected);
    }
}

#[test]
fn the_newest_counts_and_the_others_go() {
    let files = RecordingFiles::new();
    assert!(open_latest(&files, "c-").unwrap().is_none());
    write(&files, START, b"old");
    let old = files.image();
    let newer = LogStart { sequence: 0x10, txn: 80 };
    write(&files, newer, b"new");
    assert_eq!(files.list().unwrap(), ["c-0000000000000010"]);
    // As a crash leaves it before the older one is removed, with a half-written third.
    let mut image = files.image();
    image.extend(old);
    image.insert("c-0000000000000011.tmp".into(), vec![1; 9]);
    image.insert("c-other".into(), vec![]);
    let files = RecordingFiles::from_image(image);
    assert_eq!(read(&files).unwrap(), (newer, b"new".to_vec()));
    assert_eq!(files.list().unwrap(), ["c-0000000000000005", "c-0000000000000010", "c-other"]);
}

#[test]
fn damage_is_reported_and_no_older_checkpoint_is_used() {
    let files = RecordingFiles::new();
    write(&files, START, b"the state before");
    let older = files.image();
    let name = "c-0000000000000006";
    write(&files, LogStart { sequence: 6, txn: 80 }, &noise(300));
    let whole = files.image()[name].clone();
    let broken = |bytes: Vec<u8>, what: String| {
        let mut image = older.clone();
        image.insert(name.into(), bytes);
        let files = RecordingFiles::from_image(image);
        match read(&files) {
            Ok((start, state)) => {
                // The gzip header has fields that say nothing about the state.
                panic!("{what} unnoticed: {start:?}, {} bytes", state.len())
            }
            Err(error) => assert!(error.to_string().contains(name), "{what}: {error}"),
        }
    };
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        broken(damaged, format!("bit {bit}"));
    }
    for length in 0..whole.len() {
        broken(whole[..length].to_vec(), format!("length {length}"));
    }
    broken([&whole[..], b"x"].concat(), "a longer file".into());
}

#[test]
fn bytes_left_unread_are_reported() {
    let files = RecordingFiles::new();
    write(&files, START, b"abc");
    let mut reader = open_latest(&files, "c-").unwrap().unwrap();
    reader.read_exact(&mut [0; 2]).unwrap();
    let error = reader.finish().unwrap_err();
    assert!(error.to_string().contains("more than its reader expects"), "{error}");
}

#[test]
fn an_error_of_the_engine_is_passed_on_and_leaves_nothing() {
    #[derive(Debug, thiserror::Error)]
    enum Error {
        #[error("mine")]
        Mine,
        #[error(transparent)]
        Checkpoint(#[from] CheckpointError),
    }
    let files = RecordingFiles::new();
    let result = checkpoint::write(&files, "c-", START, |out: &mut dyn Write| {
        out.write_all(&noise(200_000)).unwrap();
        Err(Error::Mine)
    });
    assert!(matches!(result, Err(Error::Mine)));
    assert_eq!(files.list().unwrap(), [""; 0]);
}

#[test]
fn a_number_that_could_not_be_counted_on_from_is_damage() {
    for start in [(u64::MAX, 1), (1, u64::MAX), (1 << 63 | 1, 1)] {
        let (files, start) = (RecordingFiles::new(), LogStart { sequence: start.0, txn: start.1 });
        write(&files, start, b"state");
        let error = read(&files).unwrap_err().to_string();
        assert!(error.contains("out of range"), "{start:?}: {error}");
    }
}
