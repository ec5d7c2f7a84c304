//! The pair of a pool and its files at every crash of an opening.

use std::collections::BTreeMap;

use pm::{FilesOf, Header, IDENTITY, Pairing, read_header};
use sim::{CrashPoint, DiskEvent, DiskReplay, DiskTrace, Recording, RecordingFiles, Replay, Trace};

type Image = BTreeMap<String, Vec<u8>>;
const UUID: [u8; 16] = [1; 16];
/// The places of the two copies, and bytes of one: see `docs/format/identity.md`.
const COPIES: [u64; 2] = [0, 4096];
const BYTES: usize = 80;

/// The state that an opening found.
fn opens(image: &Image, header: &Header) -> Result<(), FilesOf> {
    let files = RecordingFiles::from_image(image.clone());
    Pairing::open(&files).unwrap()?.check(header.uuid, header.epoch)
}

/// The steps of an opening, in their order.
struct Opening {
    settled: Trace,
    /// The pool after it.
    header_before: Vec<u8>,
    begun: DiskTrace,
    /// The files after it.
    files_between: Image,
    marked: Trace,
    finished: DiskTrace,
}

/// A pool and its files.
struct Both {
    pool: Recording,
    files: RecordingFiles,
}

impl Both {
    fn new() -> Self {
        let (pool, files) = (Recording::pool(8 << 10, 1 << 20).unwrap(), RecordingFiles::new());
        Pairing::create(&files, UUID).unwrap();
        Self { pool, files }
    }

    fn of(image: &Image, pool: &[u8]) -> Self {
        let pool = Recording::pool_from_image(pool, 1 << 20).unwrap();
        Self { pool, files: RecordingFiles::from_image(image.clone()) }
    }

    fn header(&self) -> Header {
        read_header(&self.pool).unwrap().0
    }

    /// Carries out an opening, as [`pm::Pool`] and the files do it.
    fn open(&self) -> Opening {
        self.open_and(true)
    }

    /// An opening that settles the header of one that was cut off, or forgets to.
    fn open_and(&self, settles: bool) -> Opening {
        let mut header = self.header();
        let next = header.epoch.next();
        let mut pairing = Pairing::open(&self.files).unwrap().unwrap();
        pairing.check(header.uuid, header.epoch).unwrap();
        self.pool.start();
        if settles && pairing.was_cut_off() {
            header.sequence += 1;
            header.write_first(&self.pool);
        }
        let settled = self.pool.stop();
        let header_before = self.pool.contents();
        self.files.start();
        pairing.rewrite().unwrap();
        pairing.begin(header.epoch, next).unwrap();
        let begun = self.files.stop();
        let files_between = self.files.image();
        self.pool.start();
        header.epoch = next;
        header.sequence += 1;
        header.write_first(&self.pool);
        let marked = self.pool.stop();
        self.files.start();
        pairing.finish().unwrap();
        let finished = self.files.stop();
        Opening { settled, header_before, begun, files_between, marked, finished }
    }
}

fn each_disk_state(trace: &DiskTrace, visit: &mut dyn FnMut(&Image)) {
    let mut replay = DiskReplay::new(trace);
    while let Some(point) = replay.next_point() {
        point.for_each_state(1000, 1, |image| visit(image));
    }
    trace.process_states(|_, _, image| visit(image));
}

fn each_pool_state(trace: &Trace, visit: &mut dyn FnMut(&[u8])) {
    let mut replay = Replay::new(trace);
    while let Some(point) = replay.next_point() {
        let point: CrashPoint<'_> = point;
        point.for_each_state(300, 1, |image| visit(image));
    }
    trace.process_states(|_, image| visit(image));
}

fn header_in(pool: &[u8]) -> Header {
    Header::of_image(pool).unwrap()
}

/// The next opening finds a pair wherever a power cut ends an opening; and where another one
/// ends that, too.
#[test]
#[cfg_attr(miri, ignore = "thousands of states")]
fn every_crash_in_an_opening_leaves_a_pair() {
    let both = Both::new();
    both.open();
    let mut states = 0;
    let mut crashed = vec![(both.files.image(), both.pool.contents())];
    for depth in 0..4 {
        let mut next = std::collections::BTreeSet::new();
        for (image, pool) in std::mem::take(&mut crashed) {
            let both = Both::of(&image, &pool);
            let opening = both.open();
            let mut visit = |image: &Image, pool: &[u8]| {
                states += 1;
                let found = opens(image, &header_in(pool));
                assert_eq!(found, Ok(()), "depth {depth}, state {states}");
                next.insert((image.clone(), pool.to_vec()));
            };
            each_pool_state(&opening.settled, &mut |pool| visit(&image, pool));
            let before = &opening.header_before;
            each_disk_state(&opening.begun, &mut |image| visit(image, before));
            let between = &opening.files_between;
            each_pool_state(&opening.marked, &mut |pool| visit(between, pool));
            let after = both.pool.contents();
            each_disk_state(&opening.finished, &mut |image| visit(image, &after));
        }
        // Not all are followed further.
        let step = next.len() / 40 + 1;
        crashed = next.into_iter().step_by(step).collect();
    }
    assert!(states > 1000, "{states} states");
}

/// An opening that goes back belongs to the copies of before, and a crash on the way leaves a pair.
#[test]
#[cfg_attr(miri, ignore = "thousands of states")]
fn an_opening_that_is_taken_back_leaves_the_pair_of_before() {
    let both = Both::new();
    both.open();
    let (image_before, before) = (both.files.image(), both.header());
    both.open();
    let (mut header, between) = (both.header(), both.pool.contents());
    let mut pairing = Pairing::open(&both.files).unwrap().unwrap();
    both.files.start();
    pairing.begin_back(before.epoch).unwrap();
    let begun = both.files.stop();
    let image = both.files.image();
    both.pool.start();
    (header.epoch, header.clean, header.sequence) = (before.epoch, true, header.sequence + 1);
    header.write(&both.pool);
    let closed = both.pool.stop();
    both.files.start();
    pairing.finish().unwrap();
    let finished = both.files.stop();
    let visit = |image: &Image, pool: &[u8]| {
        assert_eq!(opens(image, &header_in(pool)), Ok(()));
    };
    each_disk_state(&begun, &mut |image| visit(image, &between));
    each_pool_state(&closed, &mut |pool| visit(&image, pool));
    let after = both.pool.contents();
    each_disk_state(&finished, &mut |image| visit(image, &after));
    assert_eq!(opens(&both.files.image(), &before), Ok(()));
    assert_eq!(opens(&image_before, &both.header()), Ok(()));
    assert!(opens(&both.files.image(), &header_in(&between)).is_err(), "what was taken back");
}

/// The rest of an epoch in a torn copy of the header, and the next opening's words over it, can
/// make that epoch whole after the files have forgotten it.
#[test]
#[cfg_attr(miri, ignore = "thousands of states")]
fn the_epoch_of_an_opening_that_was_cut_off_does_not_come_back() {
    let both = Both::new();
    both.open();
    let opening = both.open();
    let (before, after) = (&opening.header_before, both.pool.contents());
    let mut wrong = [0; 2];
    for (copy, settles) in [(0, true), (1, true), (0, false), (1, false)] {
        // All of the new copy but the words of its sequence and its epoch's number.
        let mut torn = before.clone();
        let at = copy * 4096;
        torn[at..at + 128].copy_from_slice(&after[at..at + 128]);
        for word in [at + 64, at + 96] {
            torn[word..word + 8].copy_from_slice(&before[word..word + 8]);
        }
        let both = Both::of(&opening.files_between, &torn);
        let next = both.open_and(settles);
        let mut visit = |image: &Image, pool: &[u8]| {
            wrong[usize::from(settles)] += u32::from(opens(image, &header_in(pool)).is_err());
        };
        each_pool_state(&next.settled, &mut |pool| visit(&opening.files_between, pool));
        each_pool_state(&next.marked, &mut |pool| visit(&next.files_between, pool));
    }
    assert_eq!(wrong[1], 0);
    assert!(wrong[0] > 0, "an opening that settles nothing is noticed");
}

/// A kill leaves what it wrote to be seen, and perhaps nothing of it on the medium: a power cut
/// in the next opening finds a pair nevertheless.
#[test]
#[cfg_attr(miri, ignore = "thousands of states")]
fn a_power_cut_after_a_kill_leaves_a_pair() {
    let start = Both::new();
    start.open();
    let (image, pool) = (start.files.image(), start.pool.contents());
    let mut kills = [0; 2];
    for (which, calls) in (0..2).flat_map(|which| (0..4).map(move |calls| (which, calls))) {
        let both = Both::of(&image, &pool);
        let mut header = both.header();
        let next = header.epoch.next();
        let mut pairing = Pairing::open(&both.files).unwrap().unwrap();
        if which == 1 {
            pairing.rewrite().unwrap();
            pairing.begin(header.epoch, next).unwrap();
            header.epoch = next;
            header.sequence += 1;
            header.write_first(&both.pool);
        }
        let pool = both.pool.contents();
        both.files.start();
        both.files.fail_after(Some(calls));
        let killed = match which {
            0 => pairing.rewrite().and_then(|()| pairing.begin(header.epoch, next)),
            _ => pairing.finish(),
        };
        both.files.fail_after(None);
        kills[which] += u32::from(killed.is_err());
        // The next opening, in the same trace.
        let mut pairing = Pairing::open(&both.files).unwrap().unwrap();
        pairing.check(header.uuid, header.epoch).unwrap();
        pairing.rewrite().unwrap();
        pairing.begin(header.epoch, header.epoch.next()).unwrap();
        each_disk_state(&both.files.stop(), &mut |image| {
            assert_eq!(opens(image, &header_in(&pool)), Ok(()), "{which}, {calls} calls");
        });
    }
    assert_eq!(kills, [4, 2]);
}

/// Persistent memory may tear a copy at any word. The other one is durable by then, although the
/// process that wrote it may have been killed before its sync.
#[test]
fn the_copy_that_counts_is_durable_before_a_tear() {
    let both = Both::new();
    both.open();
    let before = both.files.image();
    let opening = both.open();
    let events: Vec<_> = opening.begun.events.iter().map(|record| &record.event).collect();
    let [
        DiskEvent::Write { at: kept, bytes: same, .. },
        DiskEvent::Sync { .. },
        DiskEvent::Write { at, bytes, .. },
        DiskEvent::Sync { .. },
    ] = events[..]
    else {
        panic!("{events:?}")
    };
    assert_ne!(kept, at);
    assert!(before[IDENTITY][*kept as usize..].starts_with(same), "as it was");
    for words in 0..=BYTES / 8 {
        let mut torn = before.clone();
        let copy = &mut torn.get_mut(IDENTITY).unwrap()[*at as usize..];
        copy[..words * 8].copy_from_slice(&bytes[..words * 8]);
        assert_eq!(opens(&torn, &header_in(&opening.header_before)), Ok(()), "{words} words");
    }
}

/// The test above, but with the kill while the pool's header is written.
#[test]
#[cfg_attr(miri, ignore = "thousands of states")]
fn a_power_cut_after_a_kill_within_the_header_leaves_a_pair() {
    let both = Both::new();
    both.open();
    let first = both.open();
    let image = &first.files_between;
    for events in 0..=first.marked.events.len() {
        let mut killed = Vec::new();
        let mut seen = first.marked.image.clone();
        first.marked.process_states(|number, state| {
            if number <= events {
                seen = state.to_vec();
            }
        });
        killed.extend_from_slice(&first.marked.events[..events]);
        let next = Both::of(image, &seen).open();
        killed.extend_from_slice(&next.settled.events);
        let trace = Trace { image: first.marked.image.clone(), events: killed };
        each_pool_state(&trace, &mut |pool| {
            assert_eq!(opens(image, &header_in(pool)), Ok(()), "{events} events");
        });
        // After it nothing may be pending: the files are about to forget one of the epochs.
        let mut replay = Replay::new(&trace);
        let mut last = std::collections::BTreeSet::new();
        while let Some(point) = replay.next_point() {
            last.clear();
            let point: CrashPoint<'_> = point;
            point.for_each_state(300, 1, |pool| {
                last.insert(header_in(pool).epoch.token);
            });
        }
        assert_eq!(last.len(), 1, "{events} events");
    }
}

/// The pool could be ahead of its files without the sync of what begins an opening.
#[test]
fn the_sync_before_the_header_is_missed() {
    let both = Both::new();
    both.open();
    let image = both.files.image();
    let (begun, header) = (both.open().begun, both.header());
    // The first one matters after a kill only.
    let [_, site] = begun.sync_sites()[..] else { panic!("{:?}", begun.sync_sites()) };
    let mut wrong = 0;
    each_disk_state(&begun.without_syncs_of(site), &mut |image| {
        wrong += u32::from(opens(image, &header).is_err());
    });
    assert!(wrong > 0);
    assert!(matches!(opens(&image, &header), Err(FilesOf::OtherMoment { pool: 2, files: 1 })));
}

#[test]
fn only_a_pool_and_files_of_one_moment_go_together() {
    let (both, other) = (Both::new(), Both::new());
    let mut moments = vec![(both.header(), both.files.image())];
    for _ in 0..4 {
        both.open();
        moments.push((both.header(), both.files.image()));
    }
    // A copy of the first that goes its own way, as often opened.
    other.open();
    moments.push((other.header(), other.files.image()));
    for (one, (header, _)) in moments.iter().enumerate() {
        for (two, (_, image)) in moments.iter().enumerate() {
            assert_eq!(opens(image, header).is_ok(), one == two, "{one} and {two}");
        }
    }
    let (mut header, image) = moments[2].clone();
    header.uuid = [2; 16];
    assert_eq!(opens(&image, &header), Err(FilesOf::Another(UUID)));
    assert_eq!(opens(&Image::new(), &header), Err(FilesOf::NoIdentity));
    let text = opens(&moments[3].1, &moments[1].0).unwrap_err().to_string();
    assert!(text.contains("the pool must be of an older copy"), "{text}");
}

#[test]
fn a_copy_that_is_damaged_is_not_needed_and_both_are_an_error() {
    let both = Both::new();
    both.open();
    let (header, image) = (both.header(), both.files.image());
    for bit in 0..BYTES * 8 {
        let mut one = image.clone();
        let bytes = one.get_mut(IDENTITY).unwrap();
        for at in COPIES {
            let mut one = image.clone();
            one.get_mut(IDENTITY).unwrap()[at as usize + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opens(&one, &header), Ok(()), "bit {bit} of the copy at {at}");
            bytes[at as usize + bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(opens(&one, &header), Err(FilesOf::Damaged), "bit {bit}");
    }
}
