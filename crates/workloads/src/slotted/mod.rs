//! P3's workloads on slotted pages, without tables and SQL above them (P3 5): inserts of one record each, or
//! of several in a transaction, updates, deletes, and reads with inserts among them.
//!
//! All schemes of [`slotted`] do the same work, in one loop that is compiled for each of them. The store
//! lies in any [`Memory`], so that the same run can be timed, counted and emulated. Afterwards its pages are
//! checked, and what it holds has a [digest](Ran::digest), which is the same for every scheme.

mod inputs;
mod kind;

use std::ops::ControlFlow;
use std::time::Instant;

use heap::{Heap, HeapOptions};
use pm::{Memory, Step, observe};
use slotted::{Census, Commits, Moves, Options, Scheme, SlottedError, Store};

pub use inputs::{Keys, Mix, Spec, SpecError, Workload};
pub use kind::{ParseKindError, SchemeKind};

use crate::measure::{Measurement, Observer, latency_histogram};
use inputs::{Operation, Transaction};
use kind::{Job, with_scheme};

/// The time that no phase of a store has: making values, and looking at the clock.
pub const OUTSIDE: Step = Step("outside");

/// The only tree.
const TREE: u32 = 0;
/// Records that are loaded in a transaction.
const LOADED_TOGETHER: usize = 100;
/// The operations between two reports of progress.
const REPORT_EVERY: u64 = 1024;

/// The reason why a run stopped.
#[derive(Debug, thiserror::Error)]
#[error("{scheme}, transaction {transaction}: {source}")]
pub struct RunError {
    /// The scheme.
    pub scheme: &'static str,
    /// The number of the transaction; of the record, while loading.
    pub transaction: u64,
    /// The store's error.
    pub source: SlottedError,
}

/// The moments at which a caller begins and ends to measure: loading and checking are not part of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// Everything is loaded; the first transaction comes next.
    Begins,
    /// The last transaction is durable.
    Ended,
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Time, transactions and latencies.
    pub measured: Measurement,
    /// The commits of the run.
    pub commits: Commits,
    /// The pages that were split and copied in it.
    pub moves: Moves,
    /// The pages and records after it.
    pub census: Census,
    /// A number of all keys and values, in their order.
    pub digest: u64,
    /// Bytes of keys and values.
    pub user_bytes: u64,
    /// Bytes that the log has on the medium.
    pub log_bytes: u64,
}

/// Creates a store with a scheme in an empty memory, loads it and runs a workload. One in `sample_every`
/// transactions has its latency taken; 0: none.
///
/// # Errors
/// The store failed, or its pages do not agree afterwards.
pub fn run<M: Memory>(
    kind: SchemeKind,
    memory: M,
    workload: &Workload,
    sample_every: u64,
    progress: &impl Observer,
    around: &mut dyn FnMut(Moment),
) -> Result<Ran, RunError> {
    with_scheme(kind, Run { memory, workload, sample_every, progress, around })
}

/// The things that a run needs, whichever the scheme.
struct Run<'a, M, P> {
    memory: M,
    workload: &'a Workload,
    sample_every: u64,
    progress: &'a P,
    around: &'a mut dyn FnMut(Moment),
}

impl<M: Memory, P: Observer> Job<M> for Run<'_, M, P> {
    type Result = Result<Ran, RunError>;

    fn run<S: Scheme<M>>(self) -> Result<Ran, RunError> {
        let failed = |transaction: u64| {
            move |source: SlottedError| RunError { scheme: S::NAME, transaction, source }
        };
        let spec = self.workload.spec();
        let heap = Heap::format(self.memory.clone(), HeapOptions::default());
        let heap = heap.map_err(SlottedError::from).map_err(failed(0))?;
        let options = Options { page_bytes: spec.page_bytes, ..Options::default() };
        let mut store = Store::<M, S>::create(heap.lane(0), options).map_err(failed(0))?;
        let mut value = vec![0x5a; spec.record_bytes as usize];
        let mut loaded = 0;
        for keys in self.workload.loaded().chunks(LOADED_TOGETHER) {
            for key in keys {
                fill(&mut value, *key, 0);
                store.put(TREE, &key_bytes(*key), &value).map_err(failed(loaded))?;
                loaded += 1;
            }
            store.commit().map_err(failed(loaded))?;
            self.progress.completed(0, loaded);
        }
        store.settle().map_err(failed(loaded))?;
        let before = (store.commits(), store.moves());
        (self.around)(Moment::Begins);
        let mut latency_ns = latency_histogram();
        let begun = Instant::now();
        for (number, transaction) in (0u64..).zip(self.workload.transactions()) {
            let sampled = self.sample_every > 0 && number.is_multiple_of(self.sample_every);
            let started = sampled.then(Instant::now);
            one(&mut store, self.workload, transaction, number, &mut value)
                .map_err(failed(number))?;
            if let Some(started) = started {
                latency_ns.saturating_record(started.elapsed().as_nanos() as u64);
            }
            if number % REPORT_EVERY == REPORT_EVERY - 1 {
                self.progress.completed(0, loaded + number + 1);
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        (self.around)(Moment::Ended);
        let transactions = self.workload.transactions().len() as u64;
        let (commits, moves) = (store.commits().since(&before.0), store.moves().since(&before.1));
        let census = store.check().map_err(failed(transactions))?;
        let (digest, user_bytes) = digest(&store).map_err(failed(transactions))?;
        let log_bytes = log_bytes(&heap, &store, &census).map_err(failed(transactions))?;
        let measured = Measurement { seconds, transactions, latency_ns, aborted: 0 };
        Ok(Ran { measured, commits, moves, census, digest, user_bytes, log_bytes })
    }
}

/// Runs a transaction.
fn one<M: Memory, S: Scheme<M>>(
    store: &mut Store<M, S>,
    workload: &Workload,
    transaction: &Transaction,
    number: u64,
    value: &mut Vec<u8>,
) -> Result<(), SlottedError> {
    for (operation, key) in workload.operations(transaction) {
        let bytes = key_bytes(key);
        if operation == Operation::Put {
            value.resize(workload.spec().record_bytes as usize, 0x5a);
            fill(value, key, number + 1);
        }
        observe!(M: store.lane().memory().phase(OUTSIDE));
        match operation {
            Operation::Put => store.put(TREE, &bytes, value).map(|_| ())?,
            Operation::Delete => store.delete(TREE, &bytes).map(|_| ())?,
            Operation::Read => store.get_into(TREE, &bytes, value).map(|_| ())?,
        }
    }
    if transaction.changes { store.commit() } else { Ok(()) }
}

/// Bytes of the objects that the log is.
fn log_bytes<M: Memory, S: Scheme<M>>(
    heap: &Heap<M>,
    store: &Store<M, S>,
    census: &Census,
) -> Result<u64, SlottedError> {
    let (mut objects, mut bytes) = (Vec::new(), 0);
    store.objects(&mut |object| objects.push(object))?;
    // The master comes first, the segments last.
    let logs = &objects[1..objects.len() - census.segments as usize];
    heap.for_each_persisted(|object, size| {
        bytes += if logs.contains(&object) { size } else { 0 };
    })
    .map_err(SlottedError::from)?;
    Ok(bytes)
}

/// The bytes of a key of 40 bits, in the order of the numbers.
fn key_bytes(key: u64) -> [u8; 5] {
    let [_, _, _, bytes @ ..] = key.to_be_bytes();
    bytes
}

/// Makes the value of a key, as a transaction writes it.
fn fill(value: &mut [u8], key: u64, written: u64) {
    let mark = (key ^ written.rotate_left(40)).to_le_bytes();
    let len = value.len().min(8);
    value[..len].copy_from_slice(&mark[..len]);
}

/// A number of all keys and values (FNV-1a, of their lengths, too), and how many bytes they are.
fn digest<M: Memory, S: Scheme<M>>(store: &Store<M, S>) -> Result<(u64, u64), SlottedError> {
    let (mut digest, mut bytes) = (0xcbf2_9ce4_8422_2325_u64, 0);
    let mut add = |part: &[u8]| {
        for byte in (part.len() as u64).to_le_bytes().iter().chain(part) {
            digest = (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        bytes += part.len() as u64;
    };
    store.scan(TREE, &[], |key, value| {
        add(key);
        add(value);
        ControlFlow::Continue(())
    })?;
    Ok((digest, bytes))
}

#[cfg(test)]
mod tests {
    use pm::{Domain, Dram, Pool, PoolOptions};
    use sim::Timed;

    use super::*;

    fn memory() -> Dram {
        Dram::new(256 << 20).expect("addresses")
    }

    fn spec(mix: Mix) -> Spec {
        Spec { mix, loaded: 600, transactions: 400, per_txn: 3, ..Spec::default() }
    }

    #[test]
    fn all_schemes_end_with_the_same_contents_whatever_they_do() {
        for mix in [Mix::Insert, Mix::Update, Mix::Delete, Mix::Reads(60)] {
            let spec = Spec { per_txn: if mix == Mix::Delete { 1 } else { 3 }, ..spec(mix) };
            let workload = Workload::generate(&spec).expect("a workload");
            let mut digests = Vec::new();
            for kind in SchemeKind::ALL {
                let mut moments = Vec::new();
                let ran =
                    run(kind, memory(), &workload, 4, &(), &mut |moment| moments.push(moment));
                let ran = ran.unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(moments, [Moment::Begins, Moment::Ended]);
                assert_eq!(ran.measured.transactions, 400);
                assert_eq!(ran.measured.latency_ns.len(), 100);
                let more = match mix {
                    Mix::Insert => 1200,
                    Mix::Update => 0,
                    Mix::Delete => -400,
                    Mix::Reads(_) => ran.census.records.cast_signed() - 600,
                };
                assert_eq!(ran.census.records.cast_signed(), 600 + more, "{kind}, {mix:?}");
                assert_eq!(ran.commits.in_place + ran.commits.logged, workload.writers());
                digests.push(ran.digest);
            }
            digests.dedup();
            assert_eq!(digests.len(), 1, "{mix:?}");
        }
    }

    #[test]
    fn phases_are_reported_to_an_observing_memory() {
        let workload = Workload::generate(&Spec { per_txn: 1, ..spec(Mix::Insert) }).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let options = PoolOptions { domain: Some(Domain::Adr), model: true, ..Default::default() };
        for kind in [SchemeKind::Fast, SchemeKind::Fash, SchemeKind::Nvwal] {
            let pool = Pool::create(&folder.path().join(kind.name()), &options).unwrap();
            let memory = Timed::new(pool);
            let clock = memory.clone();
            let mut phases = Vec::new();
            run(kind, memory, &workload, 0, &(), &mut |moment| match moment {
                Moment::Begins => clock.reset(),
                Moment::Ended => phases = clock.phases(),
            })
            .unwrap();
            let times =
                |step: Step| phases.iter().find(|one| one.phase == step).map_or(0, |one| one.times);
            use slotted::phases::{CHECKPOINT, COMPUTATION, LOG_FLUSH, RECORD_FLUSH, SEARCH};
            assert_eq!(times(SEARCH), 400);
            assert_eq!(times(OUTSIDE), 400);
            match kind {
                SchemeKind::Fast => assert!((1..100).contains(&times(LOG_FLUSH))),
                _ => assert_eq!(times(LOG_FLUSH), 400),
            }
            match kind {
                SchemeKind::Nvwal => assert_eq!(times(COMPUTATION), 800),
                _ => assert_eq!((times(CHECKPOINT), times(RECORD_FLUSH)), (400, 400)),
            }
        }
    }
}
