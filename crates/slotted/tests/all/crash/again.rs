//! A transaction that was cut off, and whose records are put once more: what it had logged, or the
//! line of a header that it had stored, must not count then.

use pm::{Memory, Off};
use sim::{Recording, Replay};
use slotted::{Fash1, Fast1, Scheme, Store};

use super::story::{LIMIT, NAME, from_image, open};
use crate::work::{contents, heap_over, key, small};

/// A transaction of `puts` records.
fn put<S: Scheme<Recording>>(store: &mut Store<Recording, S>, puts: u32) {
    for number in 0..puts {
        store.put(0, &key(number), &[7; 40]).unwrap();
    }
}

/// The power is cut in the transaction; it is run again and not committed, and the power is cut
/// again.
fn is_not_committed_by_its_repetition<S: Scheme<Recording>>(puts: u32) {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let heap = heap_over(memory.clone());
    let mut store = Store::<Recording, S>::create(heap.lane(0), small(512)).unwrap();
    heap.set_root(NAME, store.at()).unwrap();
    store.put(0, &key(100), b"before").unwrap();
    store.commit().unwrap();
    memory.start();
    put(&mut store, puts);
    store.commit().unwrap();
    let (mut cut_off, mut committed) = (0, 0);
    let trace = memory.stop();
    let explored = Replay::new(&trace).explore(400, 3, |image, _| {
        let memory = from_image(image)?;
        let mut store = open::<S>(memory.clone())?;
        let found = contents(&store).map_err(|error| error.to_string())?;
        if found.len() > 1 {
            committed += 1;
            return Ok(());
        }
        cut_off += 1;
        put(&mut store, puts);
        let again = open::<S>(from_image(&memory.contents())?)?;
        let found = contents(&again).map_err(|error| error.to_string())?;
        if found.len() == 1 { Ok(()) } else { Err(format!("{} records", found.len())) }
    });
    assert_eq!(explored.failed, None, "{}, {puts} records", S::NAME);
    assert!(cut_off > 3 && committed > 0, "{cut_off} {committed}");
}

#[test]
fn repetition_does_not_commit_a_cut_off_transaction() {
    for puts in [1, 3, 20] {
        is_not_committed_by_its_repetition::<Fast1<Recording>>(puts);
        is_not_committed_by_its_repetition::<Fash1<Recording>>(puts);
    }
}

/// An opening has a number that no line has that was cut off: it is durable before the first
/// commit.
#[test]
fn the_number_of_an_opening_is_durable_before_its_lines() {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let heap = heap_over(memory.clone());
    let mut store = Store::<Recording, Fast1<Recording>>::create(heap.lane(0), small(512)).unwrap();
    heap.set_root(NAME, store.at()).unwrap();
    store.put(0, &key(1), b"before").unwrap();
    store.commit().unwrap();
    drop((store, heap));
    memory.start();
    let mut store = open::<Fast1<Recording>>(memory.clone()).unwrap();
    store.put(0, &key(2), &[7; 40]).unwrap();
    store.commit().unwrap();
    let trace = memory.stop();
    let check = |image: &[u8], _| {
        let store = open::<Fast1<Recording>>(from_image(image)?)?;
        let found = store.get(0, &key(2)).map_err(|error| error.to_string())?;
        let one = store.get(0, &key(1)).map_err(|error| error.to_string())?;
        if one.is_some() && found.is_none_or(|found| found == [7; 40]) {
            Ok(())
        } else {
            Err("half a record".into())
        }
    };
    assert_eq!(Replay::new(&trace).explore(200, 1, check).failed, None);
    for one in trace.instructions() {
        if one.site.file().ends_with("epoch.rs") {
            let without = trace.without(one);
            assert!(Replay::new(&without).explore(200, 1, check).failed.is_some(), "{one}");
        }
    }
}

/// When the numbers of openings wrap around, lines are still checked, or need none.
#[test]
fn the_numbers_of_openings_go_round() {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let heap = heap_over(memory.clone());
    let mut store = Store::<Recording, Fast1<Recording>>::create(heap.lane(0), small(512)).unwrap();
    let at = store.at();
    for number in 0..100 {
        store.put(0, &key(number), &[7; 40]).unwrap();
        store.commit().unwrap();
    }
    let before = contents(&store).unwrap();
    let last = Off::<u64>::new(at + 88);
    assert_eq!(memory.read(last).unwrap(), 1);
    let mut lane = store.into_lane();
    for opening in [2, 65_534, 65_535, 1, 2] {
        if opening == 65_534 {
            memory.store(last, 65_533);
        }
        let mut store = Store::<Recording, Fast1<Recording>>::open(lane, at).unwrap();
        assert_eq!(memory.read(last).unwrap(), opening);
        assert!(contents(&store).unwrap() == before);
        store.put(0, &key(7), &[7; 40]).unwrap();
        store.commit().unwrap();
        store.check().unwrap();
        lane = store.into_lane();
    }
}
