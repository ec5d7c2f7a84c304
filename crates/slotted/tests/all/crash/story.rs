//! Random transactions on a recording, what they left, and the verdict on what a crash leaves of
//! them.

use std::collections::BTreeSet;

use heap::Heap;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{Event, Killed, Recording, Replay, Trace};
use slotted::{Scheme, Store, flaw};

use crate::work::{Mix, Model, agrees, heap_over, run, small};

pub(super) const LIMIT: u64 = 1 << 20;
pub(super) const NAME: &str = "slotted";

pub(super) const MIX: Mix =
    Mix { keys: 120, operations: 3, deletions: 20, long: 8, value_bytes: 70 };

/// Transactions, what they left, and what the crash finds.
pub(super) struct Story {
    pub(super) trace: Trace,
    /// The contents that each note acknowledges.
    pub(super) acknowledged: Vec<Model>,
}

pub(super) fn open<S: Scheme<Recording>>(memory: Recording) -> Result<Store<Recording, S>, String> {
    let heap = Heap::open(memory).map_err(|error| error.to_string())?;
    let at = heap.root(NAME).map_err(|error| error.to_string())?.ok_or("no name")?;
    Store::open(heap.lane(0), at).map_err(|error| error.to_string())
}

pub(super) fn from_image(image: &[u8]) -> Result<Recording, String> {
    let memory = Recording::pool_from_image(image, LIMIT).map_err(|error| error.to_string())?;
    memory.mark_open().map_err(|error| error.to_string())?;
    Ok(memory)
}

/// A store with some rows, and the trace of random transactions on it: one in four is aborted.
pub(super) fn story<S: Scheme<Recording>>(seed: u64, steps: u64) -> Story {
    story_after::<S>(400, seed, steps)
}

/// The same, after at most so many transactions, of which some lead to a store whose next segment
/// is not far.
pub(super) fn story_after<S: Scheme<Recording>>(most: u64, seed: u64, steps: u64) -> Story {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let heap = heap_over(memory.clone());
    let mut store = Store::<Recording, S>::create(heap.lane(0), small(512)).unwrap();
    heap.set_root(NAME, store.at()).unwrap();
    let (mut model, mut random) = (Model::new(), SmallRng::seed_from_u64(seed));
    for _ in 0..most {
        run(&mut store, &mut model, &mut random, Mix { deletions: 10, ..MIX });
        store.commit().unwrap();
        // Soon there is a new segment.
        if model.len() > 80 && store.unused_pages() < 3 {
            break;
        }
    }
    let mut acknowledged = vec![model];
    memory.start();
    transactions(&mut store, &memory, &mut random, steps, None, &mut acknowledged);
    Story { trace: memory.stop(), acknowledged }
}

/// Random transactions, each second one a put of one key, where there is one that is put often.
fn transactions<S: Scheme<Recording>>(
    store: &mut Store<Recording, S>,
    memory: &Recording,
    random: &mut SmallRng,
    steps: u64,
    often: Option<&(u32, Vec<u8>)>,
    acknowledged: &mut Vec<Model>,
) {
    for step in 0..steps {
        // Half of them can commit in place.
        let mix = Mix { operations: if step % 2 == 0 { 1 } else { MIX.operations }, ..MIX };
        let mut after = acknowledged[acknowledged.len() - 1].clone();
        // Each in a thread of its own: no fence may be relied on that another one makes.
        let wrong = flaw::get();
        let committed = std::thread::scope(|scope| {
            let transaction = scope.spawn(|| {
                flaw::set(wrong);
                match often.filter(|_| step % 2 == 0) {
                    Some((tree, key)) => {
                        let value = vec![step as u8; random.random_range(0..40)];
                        store.put(*tree, key, &value).unwrap();
                        after.insert((*tree, key.clone()), value);
                    }
                    None => run(store, &mut after, random, mix),
                }
                if step % 4 == 3 {
                    store.abort();
                    return false;
                }
                store.commit().unwrap();
                true
            });
            transaction.join().unwrap()
        });
        if committed {
            memory.note(acknowledged.len() as u64);
            acknowledged.push(after);
        }
    }
}

/// Returns what is wrong with the state that a crash has left, if anything; else the store.
fn verdict_of<S: Scheme<Recording>>(
    memory: Recording,
    acknowledged: &[Model],
    noted: u64,
) -> Result<(Store<Recording, S>, &Model), String> {
    let mut store = open::<S>(memory)?;
    let possible = acknowledged[noted as usize..].iter().take(2);
    let mut found = None;
    for model in possible {
        if agrees(&store, model).map_err(|error| error.to_string())? {
            found = Some(model);
            break;
        }
    }
    let found = found.ok_or_else(|| format!("neither transaction {noted} nor the next one"))?;
    let census = store.check().map_err(|error| error.to_string())?;
    if census.records != found.len() as u64 {
        return Err("the check counts other records".into());
    }
    // The master, the log and the segments: every object that the heap keeps belongs to the store.
    let mut persisted = 0;
    let heap = store.lane().heap().clone();
    heap.for_each_persisted(|_, _| persisted += 1).map_err(|bad| bad.to_string())?;
    if persisted != 1 + census.log_objects + census.segments {
        return Err(format!("{persisted} objects, {census:?}"));
    }
    Ok((store, found))
}

/// The same, of the contents of a memory.
pub(super) fn verdict<S: Scheme<Recording>>(
    image: &[u8],
    acknowledged: &[Model],
    noted: u64,
) -> Result<(), String> {
    verdict_of::<S>(from_image(image)?, acknowledged, noted).map(drop)
}

/// The same, and then some transactions, and what the next process finds of them.
pub(super) fn verdict_and_use<S: Scheme<Recording>>(
    image: &[u8],
    acknowledged: &[Model],
    noted: u64,
) -> Result<(), String> {
    let memory = from_image(image)?;
    let (mut store, found) = verdict_of::<S>(memory.clone(), acknowledged, noted)?;
    let mut model = found.clone();
    let mut random = SmallRng::seed_from_u64(noted);
    for _ in 0..3 {
        run(&mut store, &mut model, &mut random, MIX);
        store.commit().map_err(|error| error.to_string())?;
    }
    drop(store);
    verdict_of::<S>(memory, &[model], 0).map(drop)
}

/// The process that comes after a crash: it recovers and goes on.
pub(super) struct Next {
    /// The kill before it; a power cut has left the image of the trace.
    killed: Option<Killed>,
    pub(super) trace: Trace,
    pub(super) acknowledged: Vec<Model>,
}

impl Next {
    /// # Errors
    /// Returns the fault of what it finds.
    fn after<S: Scheme<Recording>>(
        memory: &Recording,
        killed: Option<Killed>,
        acknowledged: &[Model],
        noted: u64,
        seed: u64,
    ) -> Result<Self, String> {
        let (mut store, found) = verdict_of::<S>(memory.clone(), acknowledged, noted)?;
        // In the pages that the log has there will be commits in place.
        let before = &acknowledged[noted.saturating_sub(1) as usize];
        let often = found.iter().find(|(key, value)| before.get(*key) != Some(*value));
        let often = often.map(|(key, _)| key.clone());
        // The state that has been found and acted upon must stay.
        let mut acknowledged = vec![acknowledged[noted as usize].clone(), found.clone()];
        memory.note(1);
        let mut random = SmallRng::seed_from_u64(seed);
        transactions(&mut store, memory, &mut random, 5, often.as_ref(), &mut acknowledged);
        Ok(Self { killed, trace: memory.stop(), acknowledged })
    }

    /// Goes through this trace, or an edited one.
    pub(super) fn replay<'a>(&self, trace: &'a Trace) -> Replay<'a> {
        self.killed.as_ref().map_or_else(|| Replay::new(trace), |killed| killed.replay(trace))
    }
}

/// The processes that come after power cuts, in up to `bound` states at each fence of the story, of
/// which every second one is taken.
///
/// # Errors
/// Returns the fault of what one of them finds.
pub(super) fn after_power_cuts<S: Scheme<Recording>>(
    story: &Story,
    bound: u64,
) -> Result<Vec<Next>, String> {
    let (mut nexts, mut met) = (Vec::new(), 0);
    let explored = Replay::new(&story.trace).explore(bound, 11, |image, noted| {
        met += 1;
        if met % 2 == 0 {
            return Ok(());
        }
        let memory = from_image(image)?;
        memory.start();
        let seed = nexts.len() as u64;
        nexts.push(Next::after::<S>(&memory, None, &story.acknowledged, noted, seed)?);
        Ok(())
    });
    explored.failed.map_or(Ok(nexts), Err)
}

/// Runs the processes that come after a kill, at about so many of the stores of the story that a
/// flush follows.
///
/// # Errors
/// Returns the fault of what one of them finds.
pub(super) fn after_kills<S: Scheme<Recording>>(
    story: &Story,
    kills: usize,
) -> Result<Vec<Next>, String> {
    // The last stores are not flushed.
    let pairs = story.trace.events.windows(2).map(|two| (&two[0].event, &two[1].event));
    let unflushed = pairs.enumerate().filter(|(_, two)| {
        matches!(
            two,
            (Event::Store { .. } | Event::Copy { .. }, Event::Flush { .. })
                | (Event::Line { .. }, Event::Fence)
        )
    });
    let positions: Vec<usize> = unflushed.map(|(at, _)| at + 1).collect();
    let every = (positions.len() / kills).max(1);
    let chosen: BTreeSet<usize> = positions.into_iter().step_by(every).collect();
    let (mut nexts, mut failed) = (Vec::new(), None);
    story.trace.kills(1, |killed| {
        if !chosen.contains(&killed.position()) {
            return;
        }
        let memory = killed.reopened(LIMIT).unwrap();
        let (noted, seed) = (killed.last_note().unwrap_or(0), killed.position() as u64);
        let (killed, acknowledged) = (Some(killed.clone()), &story.acknowledged);
        match Next::after::<S>(&memory, killed, acknowledged, noted, seed) {
            Ok(next) => nexts.push(next),
            Err(why) => {
                failed = failed.take().or(Some(format!("killed after event {seed}: {why}")));
            }
        }
    });
    failed.map_or(Ok(nexts), Err)
}
