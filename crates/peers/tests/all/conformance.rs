//! One test that every peer passes: what is written is read back, and what is durable is there
//! after reopening.

use std::path::Path;

use peers::{Access, AcknowledgedFile, PeerKind, Visitor, with_store};
use tempfile::TempDir;
use workloads::ycsb::{self, Mix, Spec, Verification, Workload};
use workloads::{Commit, RowBuffer, RunOptions, Session, Store, StoreError};

const PARTITIONS: usize = 3;

fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a temporary directory")
}

fn workload(update_columns: usize) -> Workload {
    let spec = Spec {
        tuples: 2_000,
        transactions: 20_000,
        mix: Mix::WriteHeavy,
        update_columns,
        partitions: PARTITIONS,
        ..Spec::default()
    };
    Workload::generate(&spec).expect("valid")
}

fn completed(workload: &Workload) -> Vec<u64> {
    (0..PARTITIONS).map(|partition| workload.spec().transactions_of(partition)).collect()
}

/// The store holds exactly the outcome of the whole workload.
struct Check<'a>(&'a Workload);

impl Visitor for Check<'_> {
    type Output = ();

    fn visit<S: Store>(self, store: &S) {
        let tuples = self.0.spec().tuples;
        let found = ycsb::verify(store, self.0, &completed(self.0), 0).expect("reads");
        assert_eq!(found, Verification { tuples, ..Verification::default() }, "{}", store.name());
    }
}

/// Loads, runs, checks.
struct Exercise<'a> {
    workload: &'a Workload,
    acknowledged: &'a AcknowledgedFile,
    kind: PeerKind,
    commit: Commit,
}

impl Visitor for Exercise<'_> {
    type Output = ();

    fn visit<S: Store>(self, store: &S) {
        assert_eq!((store.name(), store.partitions()), (self.kind.name(), PARTITIONS));
        ycsb::load(store, self.workload, 2, &()).expect("loads");
        let untouched = ycsb::verify(store, self.workload, &[0; PARTITIONS], 0).expect("reads");
        assert!(untouched.is_clean(), "{}: {untouched:?}", self.kind);
        let options = RunOptions {
            workers: 2,
            commit: self.commit,
            pin: Some(peers::pin_to_core),
            ..RunOptions::default()
        };
        let measured = ycsb::run(store, self.workload, &options, self.acknowledged).expect("runs");
        assert_eq!((measured.transactions, measured.aborted), (20_000, 0));
        assert_eq!(self.acknowledged.counts(), completed(self.workload));
        Check(self.workload).visit(store);

        let mut session = store.session(0).expect("free");
        assert!(!session.read(1 << 40, &mut RowBuffer::new()).expect("reads"));
        let missing = session.update(1 << 40, 0, &[[b'x'; 100]]);
        assert!(matches!(missing, Err(StoreError::Missing { key }) if key == 1 << 40));
        let outside = store.session(PARTITIONS).err();
        assert!(matches!(outside, Some(StoreError::NoPartition { partition: PARTITIONS, .. })));

        let footprint = store.footprint_bytes().expect("its files are there");
        let expected = if self.kind.is_durable() { self.workload.spec().user_bytes() } else { 0 };
        // RocksDB reserves a log of 70 MiB for each partition.
        let reserved = PARTITIONS as u64 * (80 << 20);
        assert!(footprint >= expected && footprint < expected * 2 + reserved, "{footprint}");
    }
}

fn conforms(kind: PeerKind) {
    for (update_columns, commit) in
        [(1, Commit::Durable), (10, Commit::Durable), (3, Commit::Grouped(7))]
    {
        let (directory, workload) = (directory(), workload(update_columns));
        let path = directory.path();
        let acknowledged =
            AcknowledgedFile::create(&path.join("acknowledged"), PARTITIONS).expect("creates");
        let exercise = Exercise { workload: &workload, acknowledged: &acknowledged, kind, commit };
        with_store(kind, path, workload.spec(), commit, Access::Create, exercise).expect("creates");
        let check = Check(&workload);
        let again = with_store(kind, path, workload.spec(), commit, Access::OpenExisting, check);
        assert_eq!(again.is_ok(), kind.is_durable(), "{kind}: {again:?}");
    }
}

#[test]
fn lmdb_conforms() {
    conforms(PeerKind::Lmdb);
}

#[test]
fn sqlite_conforms() {
    conforms(PeerKind::Sqlite);
}

#[test]
fn redb_conforms() {
    conforms(PeerKind::Redb);
}

#[test]
fn fjall_conforms() {
    conforms(PeerKind::Fjall);
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_conforms() {
    conforms(PeerKind::RocksDb);
}

#[test]
fn hashmap_conforms() {
    conforms(PeerKind::HashMap);
}

#[test]
fn btreemap_conforms() {
    conforms(PeerKind::BTreeMap);
}

#[test]
fn floor_undo_conforms() {
    conforms(PeerKind::FloorUndo);
}

#[test]
fn floor_redo_conforms() {
    conforms(PeerKind::FloorRedo);
}

#[test]
fn floor_copy_conforms() {
    conforms(PeerKind::FloorCopy);
}

#[test]
fn names_are_those_of_the_command_line() {
    for kind in PeerKind::ALL.into_iter().chain(PeerKind::TPCB) {
        assert_eq!(kind.to_string().parse::<PeerKind>(), Ok(kind));
    }
    let error = "mysql".parse::<PeerKind>().expect_err("not a peer").to_string();
    assert!(error.starts_with("unknown peer 'mysql': use one of lmdb, sqlite"), "{error}");
    assert!(error.ends_with("or for TPC-B lmdb, sqlite, postgres"), "{error}");
}

#[test]
fn a_peer_that_is_not_in_this_build_says_how_to_get_it() {
    let (directory, workload) = (directory(), workload(1));
    for kind in PeerKind::ALL {
        let Some(why) = kind.unavailable() else { continue };
        let (spec, check) = (workload.spec(), Check(&workload));
        let error =
            with_store(kind, directory.path(), spec, Commit::Durable, Access::Create, check);
        assert_eq!(error.expect_err("not in this build").to_string(), why);
        assert!(why.contains(kind.name()) && why.contains("--features"), "{why}");
    }
}

#[test]
fn files_of_another_peer_and_missing_files_are_refused() {
    struct Nothing;
    impl Visitor for Nothing {
        type Output = ();
        fn visit<S: Store>(self, _: &S) {}
    }
    let spec = Spec { tuples: 10, ..Spec::default() };
    let directory = directory();
    let path = directory.path();
    let open = |kind, access| with_store(kind, path, &spec, Commit::Durable, access, Nothing);
    for kind in PeerKind::ALL {
        if !kind.is_durable() || kind.unavailable().is_some() {
            continue;
        }
        let missing = open(kind, Access::OpenExisting);
        assert!(matches!(missing, Err(StoreError::Io { .. })), "{kind}: {missing:?}");
        open(kind, Access::Create).expect("creates");
        let twice = open(kind, Access::Create);
        assert!(matches!(twice, Err(StoreError::Io { .. })), "{kind}: {twice:?}");
    }
    std::fs::rename(path.join("floor-undo.0"), path.join("floor-redo.0")).expect("renames");
    let other = open(PeerKind::FloorRedo, Access::OpenExisting);
    assert!(matches!(other, Err(StoreError::Damaged { .. })), "{other:?}");
}
