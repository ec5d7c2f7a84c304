//! A program of its own: its allocator counts.
//!
//! In steady state a transaction makes no global allocation: what it needs lives in a `Memory`,
//! where the emulator and the footprint see it, or in buffers that are used again.
//!
//! Reads and updates allocate nothing at all. Deletes and inserts that split or merge a node may.

use perdura::{
    ColumnType, Database, Domain, EngineKind, Options, Row, Schema, Table, TableSchema, Value,
};

use crate::allocator::allocations;

const TUPLES: u64 = 2000;

/// Keys that neither ascend nor cluster.
fn key(number: u64) -> u64 {
    (number % TUPLES).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn schema() -> Schema {
    Schema::new().table(
        TableSchema::new("t")
            .column("id", ColumnType::U64)
            .column("name", ColumnType::Text { max: 40 })
            .column("payload", ColumnType::Bytes { max: 100 })
            .column("count", ColumnType::I64)
            .key(&["id"]),
    )
}

struct Store {
    db: Database,
    table: Table,
    _directory: tempfile::TempDir,
}

impl Store {
    fn new(engine: EngineKind) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options::new()
            .engine(engine)
            .domain(Domain::Process)
            .pool_limit(1 << 30)
            .volatile_limit(1 << 30)
            .tune("wal_reserve_bytes", 64 << 20);
        let db = Database::create(directory.path().join("db"), &schema(), &options).unwrap();
        let table = db.table("t").unwrap();
        let store = Self { db, table, _directory: directory };
        (0..TUPLES).for_each(|number| store.insert(number));
        store
    }

    fn insert(&self, number: u64) {
        let values = [
            Value::U64(key(number)),
            Value::Text("a name"),
            Value::Bytes(&[1; 100]),
            Value::I64(0),
        ];
        self.db.write(|tx| tx.insert(&self.table, &values)).unwrap();
    }

    fn update(&self, number: u64) {
        let changes = [(2, Value::Bytes(&[number as u8; 100][..])), (3, Value::I64(7))];
        let key = [Value::U64(key(number))];
        self.db.write(|tx| tx.update(&self.table, &key, &changes)).unwrap();
    }

    fn delete(&self, number: u64) {
        self.db.write(|tx| tx.delete(&self.table, &[Value::U64(key(number))])).unwrap();
    }

    fn get(&self, number: u64, row: &mut Row) {
        let key = [Value::U64(key(number))];
        assert!(self.db.read(|tx| tx.get_into(&self.table, &key, row)).unwrap());
        assert!(self.db.write(|tx| tx.get_columns_into(&self.table, &key, &[1, 3], row)).unwrap());
    }

    /// Deletes a tuple and inserts it again, in one transaction and in two.
    fn replace(&self, number: u64) {
        self.delete(number);
        self.insert(number);
        let id = Value::U64(key(number + 1));
        let values = [id, Value::Text("another"), Value::Bytes(&[2; 100]), Value::I64(1)];
        self.db
            .write(|tx| {
                tx.delete(&self.table, &[id])?;
                tx.insert(&self.table, &values)
            })
            .unwrap();
    }

    /// After this every buffer has the size that it needs.
    fn warm_up(&self) {
        let mut row = Row::new();
        for number in 0..TUPLES {
            self.update(number);
            self.get(number, &mut row);
            self.replace(number * 7);
        }
    }
}

fn updates_and_reads(engine: EngineKind) {
    let store = Store::new(engine);
    store.warm_up();
    let mut row = Row::new();
    store.get(0, &mut row);
    for number in 0..TUPLES {
        assert_eq!(allocations(|| store.update(number)), 0, "{engine}: update {number}");
        assert_eq!(allocations(|| store.get(number, &mut row)), 0, "{engine}: get {number}");
        let empty = allocations(|| store.db.write(|_| Ok(())).unwrap());
        assert_eq!(empty, 0, "{engine}: empty transaction {number}");
    }
}

#[test]
fn updates_and_reads_of_nvm_inp_allocate_nothing() {
    updates_and_reads(EngineKind::NvmInp);
}

#[test]
fn durable_updates_and_reads_of_inp_allocate_nothing() {
    updates_and_reads(EngineKind::Inp);
}

#[test]
fn updates_and_reads_of_nvm_cow_allocate_nothing() {
    updates_and_reads(EngineKind::NvmCow);
}

#[test]
fn updates_and_reads_of_cow_allocate_nothing() {
    updates_and_reads(EngineKind::Cow);
}

#[test]
fn updates_and_reads_of_nvm_log_allocate_nothing() {
    updates_and_reads(EngineKind::NvmLog);
}

/// A read looks at pages that are in frames, and takes neither a lock nor a latch.
#[test]
fn reads_of_nv_disk_take_no_lock_and_no_memory() {
    let store = Store::new(EngineKind::NvDisk);
    store.warm_up();
    let counts = || {
        let buffer = *store.db.stats().unwrap().own.buffer().expect("a paged engine");
        (buffer.hits, buffer.reads, buffer.lock_requests)
    };
    let (mut row, mut out) = (Row::new(), [0; 200]);
    let mut read = |number| {
        let key = [Value::U64(key(number))];
        let found = store.db.read(|tx| tx.get_into(&store.table, &key, &mut row));
        assert!(found.unwrap());
        let bytes = store.db.read(|tx| tx.get_bytes(&store.table, &key, &[1, 2], &mut out));
        assert!(bytes.unwrap().is_some_and(|bytes| bytes > 100));
    };
    read(0);
    let before = counts();
    for number in 0..TUPLES {
        assert_eq!(allocations(|| read(number)), 0, "{number}");
    }
    assert_eq!(counts(), before, "hits, reads and lock requests");
}

/// An update finds its leaf by loads alone and latches that page, and the lock of the table stays with the session.
#[test]
fn updates_of_nv_disk_take_no_memory() {
    let store = Store::new(EngineKind::NvDisk);
    store.warm_up();
    let counts = || {
        let buffer = *store.db.stats().unwrap().own.buffer().expect("a paged engine");
        (buffer.hits, buffer.reads, buffer.lock_requests)
    };
    for number in 0..TUPLES {
        let before = counts();
        assert_eq!(allocations(|| store.update(number)), 0, "{number}");
        let after = counts();
        let taken = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
        assert_eq!(taken, (1, 0, 1), "{number}: latched pages, reads, and lock requests");
    }
}

#[test]
fn deletes_and_inserts_of_nvm_log_allocate_nothing() {
    deletes_and_inserts(EngineKind::NvmLog);
}

fn deletes_and_inserts(engine: EngineKind) {
    let store = Store::new(engine);
    store.warm_up();
    let mut total = 0;
    for number in 0..TUPLES {
        let made = allocations(|| store.replace(number * 3));
        total += made;
    }
    println!("{engine}: {total} allocations in {TUPLES} rounds of two deletes and two inserts");
    // The keys come back to the leaves that they left, so nothing splits or merges.
    assert_eq!(total, 0, "{engine}");
}

#[test]
fn deletes_and_inserts_of_nvm_inp_allocate_nothing() {
    deletes_and_inserts(EngineKind::NvmInp);
}

#[test]
fn deletes_and_inserts_of_inp_allocate_nothing() {
    deletes_and_inserts(EngineKind::Inp);
}

#[test]
fn durable_updates_and_reads_of_log_allocate_nothing() {
    updates_and_reads(EngineKind::Log);
}

#[test]
fn deletes_and_inserts_of_log_allocate_nothing() {
    deletes_and_inserts(EngineKind::Log);
}

#[test]
fn deletes_and_inserts_of_nvm_cow_allocate_nothing() {
    deletes_and_inserts(EngineKind::NvmCow);
}

#[test]
fn deletes_and_inserts_of_cow_allocate_nothing() {
    deletes_and_inserts(EngineKind::Cow);
}
