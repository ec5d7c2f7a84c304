//! The last transactions that a closed database has noted in its file `identity`.

use pm::{Epoch, File, Files, IDENTITY, LastTransactions, Pairing};
use sim::{DiskReplay, RecordingFiles};

/// The place of the ends, and the bytes up to their end: see `docs/format/identity.md`.
const ENDS_AT: usize = 4608;
const IDENTITY_BYTES: u64 = 8192;
/// The most partitions of which there is room for the ends: words without the four of the head and the
/// checksum.
const MOST: usize = (IDENTITY_BYTES as usize - ENDS_AT) / 8 - 5;

fn created() -> (RecordingFiles, Pairing<RecordingFiles>) {
    let files = RecordingFiles::new();
    let pairing = Pairing::create(&files, [1; 16]).unwrap();
    (files, pairing)
}

/// The pair goes on to another epoch, in which what is noted from now on was closed.
fn open_again(pairing: &mut Pairing<RecordingFiles>, next: Epoch) {
    pairing.begin(Epoch::default(), next).unwrap();
    pairing.finish().unwrap();
}

fn found(files: &RecordingFiles) -> Option<LastTransactions> {
    Pairing::open(files).unwrap().unwrap().last_transactions().unwrap()
}

#[test]
fn ends_are_read_as_written_and_a_flipped_bit_is_noticed() {
    let (files, mut pairing) = created();
    assert_eq!(found(&files), None);
    let written =
        LastTransactions { epoch: Epoch { number: 3, token: 7 }, last: vec![5, 0, u64::MAX] };
    open_again(&mut pairing, written.epoch);
    pairing.note_ends(written.last.clone()).unwrap();
    assert_eq!(found(&files), Some(written));
    let image = files.image();
    for bit in 0..8 * 8 * 8 {
        let mut damaged = image.clone();
        damaged.get_mut(IDENTITY).unwrap()[ENDS_AT + bit / 8] ^= 1 << (bit % 8);
        assert_eq!(found(&RecordingFiles::from_image(damaged)), None, "bit {bit}");
    }
}

#[test]
fn a_crash_while_ends_are_written_leaves_old_none_or_new() {
    let (files, mut pairing) = created();
    let many: Vec<u64> = (0..256).collect();
    let old = LastTransactions { epoch: Epoch::default(), last: many.clone() };
    let new = LastTransactions { epoch: Epoch { number: 1, token: 2 }, last: many };
    pairing.note_ends(old.last.clone()).unwrap();
    open_again(&mut pairing, new.epoch);
    files.start();
    pairing.note_ends(new.last.clone()).unwrap();
    let trace = files.stop();
    let (mut replay, mut seen) = (DiskReplay::new(&trace), [0; 3]);
    while let Some(point) = replay.next_point() {
        point.for_each_state(1000, 1, |image| {
            let found = found(&RecordingFiles::from_image(image.clone()));
            let known = [Some(&old), None, Some(&new)];
            seen[known.iter().position(|one| *one == found.as_ref()).unwrap()] += 1;
        });
    }
    assert!(seen.iter().all(|times| *times > 0), "{seen:?}");
}

#[test]
fn there_is_room_for_the_ends_of_all_partitions() {
    let (files, pairing) = created();
    pairing.note_ends(vec![1; MOST]).unwrap();
    assert!(files.open(IDENTITY).unwrap().len().unwrap() <= IDENTITY_BYTES);
    assert!(pairing.note_ends(vec![1; MOST + 1]).is_err());
}
