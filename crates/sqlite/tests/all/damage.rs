//! Damage to slots and to direct stores after a kill: a side file is refused unless it yields a correct state.

use perdura_sqlite::store::connection::Store;
use perdura_sqlite::store::error::StoreError;
use perdura_sqlite::store::mode::Mode;
use sim::{Event, Recording, Replay};

use crate::explore::{DATA, Reader, SIDE, SLOT, media};
use crate::store_kills::{PAGE, commit, files_of_inserts, image, new, open, page, trace, whole};

/// The first slot.
const SLOTS: usize = 8192;

/// The database recovered from an image, or the refusal.
fn recovered(image: &[u8]) -> Result<Vec<u8>, String> {
    let memory = Recording::from_image(image, SIDE + DATA).unwrap();
    let bytes = media(&memory).data.len();
    let store = Store::open(media(&memory), bytes, 1, SLOT).map_err(|error| error.to_string())?;
    Ok(whole(&store))
}

/// Returns how often damage to one bit was refused. Otherwise the database has to be `right`.
fn refusals(
    killed: &[u8],
    places: impl Iterator<Item = usize>,
    mut right: impl FnMut(Vec<u8>) -> bool,
) -> usize {
    let mut damaged = killed.to_vec();
    places
        .filter(|at| {
            damaged[*at] ^= 1 << (at % 8);
            let found = recovered(&damaged);
            damaged[*at] = killed[*at];
            let is_refused = found.is_err();
            match found {
                Ok(found) => assert!(right(found), "{at}: neither right nor refused"),
                Err(why) => assert!(why.contains("a commit that was in place"), "{at}: {why}"),
            }
            is_refused
        })
        .count()
}

/// The bytes of the database stored before the first fence of a record, which are the direct ones.
fn direct_bytes(events: &[sim::RecordedEvent]) -> Vec<usize> {
    let before = events.iter().map(|one| &one.event).take_while(|one| !matches!(one, Event::Fence));
    let runs = before.filter_map(|event| match event {
        Event::Copy { at, bytes } if *at >= SIDE => Some(*at as usize..*at as usize + bytes.len()),
        _ => None,
    });
    runs.flatten().collect()
}

#[test]
fn damage_to_an_applied_commit_is_refused() {
    let files = files_of_inserts();
    let memory = new();
    let mut one = open(&memory, 1);
    // An even and an odd number of commits without a checkpoint: each slot is the newer one once.
    for commits in [40, 41] {
        let done = if commits == 40 { 0 } else { 40 };
        files[done..commits - 1].iter().for_each(|file| commit(&mut one, file));
        let before = one.stats().direct;
        let trace = trace(&memory, || commit(&mut one, &files[commits - 1]));
        let direct = direct_bytes(&trace.events);
        assert_eq!(direct.len() as u64, one.stats().direct - before);
        let killed = image(&memory);
        let whole = recovered(&killed).unwrap();
        // Recovery raises the header's counters.
        let right = |found: Vec<u8>| found[100..] == whole[100..];
        let slots = SLOTS..SLOTS + 2 * SLOT as usize;
        let refused = refusals(&killed, slots, right);
        assert!(refused > 16, "{refused}");
        assert_eq!(refusals(&killed, direct.iter().copied(), right), direct.len());
    }
}

#[test]
fn damage_to_an_interrupted_commit_never_mixes_states() {
    let files = files_of_inserts();
    let memory = new();
    let mut one = open(&memory, 1);
    files[..40].iter().for_each(|file| commit(&mut one, file));
    let mut reader = Reader::new();
    let trace = trace(&memory, || {
        for (number, file) in (1..).zip(&files[40..43]) {
            commit(&mut one, file);
            memory.note(number);
        }
    });
    let (mut refused, mut states) = (0, 0);
    trace.process_states(|events, killed| {
        let notes = trace.events[..events].iter().filter(|one| matches!(one.event, Event::Note(_)));
        let noted = notes.count();
        states += 1;
        let heads = [0, SLOT as usize]
            .into_iter()
            .flat_map(|slot| [0, 4, 8, 12, 17, 20, 26, 31, 37].map(|at| SLOTS + slot + at));
        refused += refusals(killed, heads, |found| {
            let rows = reader.read(found).unwrap().len();
            rows == 40 + noted || rows == 41 + noted
        });
    });
    assert!(states > 30 && refused > states, "{states}, {refused}");
}

#[test]
fn live_connection_does_not_commit_over_damage() {
    let files = files_of_inserts();
    let memory = new();
    let mut one = open(&memory, 1);
    files[..40].iter().for_each(|file| commit(&mut one, file));
    let mut damaged = image(&memory);
    damaged[SLOTS] ^= 1;
    let memory = Recording::from_image(&damaged, SIDE + DATA).unwrap();
    let bytes = media(&memory).data.len();
    let mut other = Store::attach(media(&memory), bytes).unwrap();
    assert!(other.refresh(|| Ok::<_, perdura_sqlite::store::error::StoreError>(bytes)).unwrap());
    other.write(0, &files[40]).unwrap();
    let refused = other.commit().unwrap_err().to_string();
    assert!(refused.contains("a commit that was in place"), "{refused}");
    assert!(image(&memory) == damaged, "nothing is changed");
}

/// The mark of an ordered commit becomes durable after all the rest, so what it logged is missing only by damage.
#[test]
fn marked_commit_without_its_log_is_refused() {
    let files = files_of_inserts();
    let memory = new();
    let mut one = open(&memory, 1);
    one.set_mode(Mode::Fash);
    files[..40].iter().for_each(|file| commit(&mut one, file));
    let trace = trace(&memory, || commit(&mut one, &files[40]));
    let mut reader = Reader::new();
    let mut rows = |image: &[u8]| recovered(image).map(|found| reader.read(found).unwrap().len());
    let mut refused = 0;
    trace.process_states(|events, killed| {
        let right = rows(killed).unwrap();
        for slot in [0, SLOT as usize] {
            // After the mark and the number.
            for at in [16, 21, 30].map(|at| SLOTS + slot + at) {
                let mut damaged = killed.to_vec();
                damaged[at] ^= 1;
                match rows(&damaged) {
                    Ok(found) => assert_eq!(found, right, "{at}, after event {events}"),
                    Err(why) => refused += u32::from(why.contains("has lost what it logged")),
                }
            }
        }
    });
    assert!(refused > 10, "{refused}");
}

/// That the newer commit is in its slot proves that the older one was durable, whether the newer one counts or not.
#[test]
fn older_commit_with_damaged_direct_bytes_never_counts() {
    let files = files_of_inserts();
    let memory = new();
    let mut one = open(&memory, 1);
    files[..40].iter().for_each(|file| commit(&mut one, file));
    let direct = direct_bytes(&trace(&memory, || commit(&mut one, &files[40])).events);
    assert!(!direct.is_empty());
    let newer = trace(&memory, || commit(&mut one, &files[41]));
    let mut reader = Reader::new();
    let [without, with] = [39, 40].map(|number| reader.read(files[number].clone()).unwrap());
    let mut refused = 0;
    let explored = Replay::new(&newer).explore(40, 1, |image, _| {
        // Otherwise the newer one counts, and may have stored over those bytes.
        if reader.read(recovered(image)?)? != with {
            return Ok(());
        }
        for at in direct.iter().step_by(5) {
            let mut damaged = image.to_vec();
            damaged[*at] ^= 1;
            match recovered(&damaged) {
                Err(_) => refused += 1,
                Ok(found) if reader.read(found.clone()).as_ref() == Ok(&without) => {}
                Ok(_) => return Err(format!("damage at {at} is taken")),
            }
        }
        Ok(())
    });
    assert_eq!(explored.failed, None);
    assert!(refused > 10, "{refused}");
}

/// Also if no commit in a slot or in the log of frames reaches as far.
#[test]
fn file_shorter_than_the_database_is_refused() {
    for mode in Mode::ALL {
        let memory = new();
        let mut one = open(&memory, 1);
        one.set_mode(mode);
        one.set_frames_per_checkpoint(1);
        commit(&mut one, &[page(1, 7), vec![8; 11 * PAGE]].concat());
        one.set_frames_per_checkpoint(1_000);
        one.checkpoint_slots().unwrap();
        one.write(0, &page(2, 9)).unwrap();
        one.commit().unwrap();
        let mut cut = image(&memory);
        cut.truncate(SIDE as usize + 9 * PAGE);
        let memory = Recording::from_image(&cut, SIDE + DATA).unwrap();
        let bytes = media(&memory).data.len();
        let log = || media(&memory).side.load(112).unwrap();
        let before = log();
        let refused = Store::open(media(&memory), bytes, 2, SLOT).unwrap_err();
        assert!(matches!(refused, StoreError::Cut { .. }), "{mode:?}: {refused}");
        assert_eq!(log(), before, "{mode:?}: the log of frames stays");
    }
}
