//! Every engine in emulated memory: it does what it does natively, and the counts are a function of
//! the work alone.

use lab::emulation::{
    Breakdown, Emulation, Host, LineCounts, Meter, MeterOptions, NativeTimes, Nvm, NvmParameters,
    emulate, in_child,
};
use perdura::{Database, Domain, EngineKind, Options};
use workloads::ycsb::{self, Mix, Skew, Spec, Workload};
use workloads::{PerduraStore, RunOptions, contents, tpcc};

use crate::common::{alone, not_forked};

const PARTITIONS: u32 = 2;

fn workload() -> Workload {
    let spec = Spec {
        tuples: 600,
        transactions: 900,
        mix: Mix::Balanced,
        skew: Skew::Low,
        partitions: PARTITIONS as usize,
        ..Spec::default()
    };
    Workload::generate(&spec).unwrap()
}

fn options(kind: EngineKind) -> Options {
    // Small enough that runs are frozen and written out, and that the log calls for a checkpoint.
    Options::new()
        .engine(kind)
        .partitions(PARTITIONS)
        .tune("memtable_bytes", 256 << 10)
        .tune("checkpoint_bytes", 128 << 10)
        .tune("wal_reserve_bytes", 64 << 10)
        .tune("cache_bytes", 256 << 10)
}

fn run_options() -> RunOptions {
    RunOptions { sample_every: 0, ..RunOptions::default() }
}

/// A loaded store in a cache of 128 KiB, with counts of zero.
fn loaded(kind: EngineKind, workload: &Workload) -> (Meter, Nvm, PerduraStore<Emulation>) {
    let cache = MeterOptions { cache_bytes: 128 << 10, ..MeterOptions::default() };
    let meter = Meter::new(cache);
    let nvm = Nvm::new(&meter, 1 << 30).unwrap();
    let database = nvm.create(&PerduraStore::schema(), &options(kind)).unwrap();
    let store = PerduraStore::in_memory(database, kind.name(), PARTITIONS as usize).unwrap();
    ycsb::load(&store, workload, 1, &()).unwrap();
    meter.reset();
    (meter, nvm, store)
}

fn counts_of_a_run(kind: EngineKind) -> (LineCounts, Breakdown) {
    let workload = workload();
    let (meter, _nvm, store) = loaded(kind, &workload);
    ycsb::run(&store, &workload, &run_options(), &()).unwrap();
    let found = (meter.counts(), Breakdown::of(&meter));
    store.into_database().abandon();
    found
}

#[test]
fn all_engines_hold_the_same_as_natively_also_after_recovery() {
    let _shared = not_forked();
    let (place, workload) = (tempfile::tempdir().unwrap(), workload());
    for kind in EngineKind::P1 {
        let path = place.path().join(kind.name());
        let native = options(kind).domain(Domain::Process);
        let database = Database::create(&path, &PerduraStore::schema(), &native).unwrap();
        let store = PerduraStore::new(database, "native", &path, PARTITIONS as usize).unwrap();
        ycsb::load(&store, &workload, 1, &()).unwrap();
        ycsb::run(&store, &workload, &run_options(), &()).unwrap();
        let wanted = contents(store.database()).unwrap();

        let (_meter, nvm, store) = loaded(kind, &workload);
        ycsb::run(&store, &workload, &run_options(), &()).unwrap();
        assert_eq!(contents(store.database()).unwrap(), wanted, "{kind}");
        let database = store.into_database();
        assert_eq!(database.check().unwrap().tuples, 600, "{kind}");
        database.abandon();
        let database = nvm.open(&options(kind)).unwrap();
        assert_eq!(contents(&database).unwrap(), wanted, "{kind} after recovery");
        database.abandon();
    }
}

#[test]
fn counts_repeat_also_in_a_copy_of_the_process() {
    let _alone = alone();
    let workload = workload();
    for kind in EngineKind::P1 {
        let (first, breakdown) = counts_of_a_run(kind);
        assert_eq!((first, breakdown), counts_of_a_run(kind), "{kind}");
        let (meter, _nvm, store) = loaded(kind, &workload);
        let run = || {
            in_child(|| {
                ycsb::run(&store, &workload, &run_options(), &()).unwrap();
                serde_json::to_vec(&meter.counts()).unwrap()
            })
        };
        // The second one finds the store as the first one did.
        for _ in 0..2 {
            let found: LineCounts = serde_json::from_slice(&run().unwrap()).unwrap();
            assert_eq!(found, first, "{kind}");
        }
        assert_eq!(meter.counts(), LineCounts::default(), "{kind}: only in the child");
        store.into_database().abandon();
    }
}

#[test]
fn parts_of_each_engines_memory_work_make_up_the_whole() {
    let _shared = not_forked();
    for kind in EngineKind::P1 {
        let (counts, breakdown) = counts_of_a_run(kind);
        assert!(counts.load_misses() > 0 && counts.nvm_stores() > 0, "{kind}: {counts:?}");
        // Each of about 450 updates is durable when it returns.
        assert!(counts.fences >= 400 && counts.flushed_lines >= 800, "{kind}: {counts:?}");
        assert_eq!(counts.syncs > 0, kind.traits().needs_files(), "{kind}: {counts:?}");
        let mut sum = LineCounts::default();
        for part in [breakdown.storage, breakdown.recovery, breakdown.index, breakdown.other] {
            sum += part;
        }
        assert_eq!(sum, counts, "{kind}");
        assert!(breakdown.storage.accesses > 0, "{kind}: {breakdown:?}");
        assert!(breakdown.recovery.flushed_lines > 0, "{kind}: {breakdown:?}");
        assert!(breakdown.index.accesses > 0, "{kind}: {breakdown:?}");
        assert!(breakdown.other.accesses * 4 < counts.accesses, "{kind}: {breakdown:?}");
    }
}

#[test]
fn tpcc_runs_in_emulated_memory() {
    let _shared = not_forked();
    let spec = tpcc::Spec { items: 100, customers: 30, transactions: 100, ..tpcc::Spec::default() };
    for kind in [EngineKind::Inp, EngineKind::NvmInp] {
        let meter = Meter::new(MeterOptions::default());
        let nvm = Nvm::new(&meter, 1 << 32).unwrap();
        let database = nvm.create(&tpcc::schema(), &Options::new().engine(kind)).unwrap();
        tpcc::load(&database, &spec, 1, &()).unwrap();
        meter.reset();
        let workload = tpcc::Workload::generate(&spec).unwrap();
        tpcc::run(&database, &workload, &run_options(), &()).unwrap();
        assert!(meter.counts().flushed_lines > 0, "{kind}");
        database.abandon();
    }
}

#[test]
fn a_higher_latency_takes_longer() {
    let _shared = not_forked();
    let host = Host {
        arena_bytes: 1 << 20,
        dependent_ns: 80.0,
        near_ns: 40.0,
        sequential_ns: 8.0,
        independent_ns: 10.0,
    };
    let native = NativeTimes { durable: 0.001, unflushed: 0.0008 };
    let (counts, _) = counts_of_a_run(EngineKind::NvmInp);
    let times = [160.0, 320.0, 1280.0].map(|latency_ns| {
        emulate(&counts, &native, &host, &NvmParameters { latency_ns, ..NvmParameters::p1() })
    });
    assert!(times[0].seconds < times[1].seconds && times[1].seconds < times[2].seconds);
}
