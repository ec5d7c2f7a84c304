//! What `sofort` uses up levels off: each operation is repeated some hundred times, and then the
//! objects of the pool, its bytes, and what a fixed read looks at are as after the first hundred.
//! Values are among a few: dictionaries keep every value that a column ever had
//! (`docs/guarantees.md`), which has a test of its own.

use std::time::Duration;

use perdura::{
    ColumnType, Database, EngineKind, Error, Media, Options, OwnStats, Scan, Schema, SofortStats,
    Table, TableSchema, Tx, Value,
};
use sim::{Recorded, Recording, RecordingFiles};

const LIMIT: u64 = 64 << 20;
/// Rows that stay.
const ROWS: u64 = 40;
/// Rounds before the first look, and between two.
const ROUNDS: u64 = 150;
/// The most bytes that a kill loses.
const MOST_LOST_BYTES: u64 = 4 << 10;
/// Objects by which two looks may differ: nodes of keys that wait for the collection.
const SLACK: u64 = 300;

fn options() -> Options {
    let options = Options::new().engine(EngineKind::Sofort).chunk_bytes(64 << 10);
    options.retry_for(Duration::ZERO)
}

fn media(memory: &Recording) -> Media<Recorded> {
    faults::recorded(memory.clone(), RecordingFiles::new())
}

/// A value of the column of bytes, longer with each number up to 15.
fn bytes(number: u64) -> Vec<u8> {
    vec![7; (number % 16 * 50) as usize]
}

struct Fixture {
    memory: Recording,
    db: Option<Database<Recorded>>,
    table: Table,
}

/// What has to level off.
#[derive(Debug)]
struct Level {
    pool_bytes: u64,
    footprint: u64,
    objects: u64,
    garbage: u64,
    in_flight: u64,
    /// Entries and versions that a scan by each index looks at.
    scanned: u64,
}

impl Fixture {
    fn new(placement: u64) -> Self {
        let memory = Recording::pool(64 << 10, LIMIT).unwrap();
        let table = TableSchema::new("t")
            .column("key", ColumnType::U64)
            .column("group", ColumnType::U64)
            .column("rest", ColumnType::Bytes { max: 1_000 })
            .key(&["key"])
            .index("by_group", &["group"]);
        let options = options().set("placement", placement);
        let db = Database::create_on(media(&memory), &Schema::new().table(table), &options);
        let db = db.unwrap();
        let table = db.table("t").unwrap();
        let fixture = Self { memory, db: Some(db), table };
        fixture.write(|tx| (0..ROWS).try_for_each(|key| fixture.insert(tx, key)));
        fixture
    }

    fn db(&self) -> &Database<Recorded> {
        self.db.as_ref().unwrap()
    }

    fn write(&self, act: impl FnMut(&mut Tx<'_, Recorded>) -> Result<(), Error>) {
        self.db().write(act).unwrap();
    }

    fn insert(&self, tx: &mut Tx<'_, Recorded>, key: u64) -> Result<(), Error> {
        let bytes = bytes(key);
        tx.insert(&self.table, &[Value::U64(key), Value::U64(key % 10), Value::Bytes(&bytes)])
    }

    fn delete(&self, tx: &mut Tx<'_, Recorded>, key: u64) -> Result<(), Error> {
        tx.delete(&self.table, &[Value::U64(key)])
    }

    /// Gives a row another group and other bytes.
    fn update(&self, tx: &mut Tx<'_, Recorded>, number: u64) -> Result<(), Error> {
        let bytes = bytes(number / ROWS);
        let changes = [("group", Value::U64(number / ROWS % 10)), ("rest", Value::Bytes(&bytes))];
        tx.update(&self.table, &[Value::U64(number % ROWS)], &changes)
    }

    fn open(&mut self, memory: Recording) {
        self.memory = memory;
        let db = Database::open_on(media(&self.memory), &options()).unwrap();
        self.table = db.table("t").unwrap();
        self.db = Some(db);
    }

    fn reopen(&mut self) {
        self.db.take().unwrap().close().unwrap();
        self.open(self.memory.clone());
    }

    /// Goes on with what a kill has left.
    fn killed(&mut self, image: &[u8]) {
        self.db = None;
        self.open(Recording::pool_from_image(image, LIMIT).unwrap());
    }

    /// The reads and writes of a process.
    fn lives(&self, number: u64) {
        for more in 0..10 {
            assert!(self.read() > 0);
            self.write(|tx| self.update(tx, number + more));
            self.write(|tx| self.insert(tx, ROWS + 2));
            self.write(|tx| self.delete(tx, ROWS + 2));
        }
    }

    fn own(&self) -> SofortStats {
        match self.db().stats().unwrap().own {
            OwnStats::Sofort(own) => own,
            other => panic!("{other:?}"),
        }
    }

    /// Reads the same in each round.
    fn read(&self) -> u64 {
        let before = self.own();
        for scan in [Scan::all(), Scan::all().by("by_group"), Scan::all().limit(1)] {
            let rows = self.db().read(|tx| Ok(tx.rows(&self.table, scan.clone()).count()));
            assert!(rows.unwrap() > 0);
        }
        let after = self.own();
        after.scanned + after.versions - before.scanned - before.versions
    }

    fn level(&self) -> Level {
        // As in an application that goes on.
        while self.own().unbuilt > 0 {
            self.read();
        }
        let report = self.db().check().unwrap();
        assert_eq!((report.leaked, report.dangling), (0, 0));
        let (own, scanned) = (self.own(), self.read());
        Level {
            pool_bytes: self.memory.contents().len() as u64,
            footprint: self.db().footprint().unwrap().total(),
            objects: report.objects,
            garbage: own.garbage,
            in_flight: self.db().in_flight().unwrap().len() as u64,
            scanned,
        }
    }

    /// Runs rounds of an operation; returns the levels after each third of them.
    fn rounds(&mut self, mut round: impl FnMut(&mut Self, u64)) -> [Level; 3] {
        [0, ROUNDS, 2 * ROUNDS].map(|first| {
            (first..first + ROUNDS).for_each(|number| round(self, number));
            self.level()
        })
    }

    /// Runs rounds of an operation, and checks that the later ones use nothing up.
    fn levels_off(&mut self, what: &str, round: impl FnMut(&mut Self, u64)) {
        let [first, second, third] = self.rounds(round);
        println!("{what}: {third:?}");
        let context = format!("{what}: {first:?}, {second:?}, {third:?}");
        assert_eq!(third.in_flight, 0, "{context}");
        assert!(third.garbage <= first.garbage + 128, "{context}");
        assert_eq!((third.pool_bytes, third.footprint), (second.pool_bytes, second.footprint));
        assert!(third.objects <= first.objects + SLACK, "{context}");
        assert!(third.scanned <= 4 * ROWS + 4 * 128, "{context}");
    }
}

/// Checks what was lost by the kills of two thirds of the rounds.
fn assert_kills_lose_little(first: &Level, third: &Level) {
    let lost = third.footprint.saturating_sub(first.footprint);
    assert!(lost <= 2 * ROUNDS * MOST_LOST_BYTES, "{first:?}, {third:?}");
    assert!(third.garbage <= first.garbage + 128, "{first:?}, {third:?}");
}

/// Both placements of indexes: in ordinary memory and in persistent memory.
fn each(mut test: impl FnMut(&mut Fixture)) {
    for placement in [0, 100] {
        test(&mut Fixture::new(placement));
    }
}

#[test]
fn small_transactions_level_off() {
    each(|fixture| {
        fixture.levels_off("insert, update, delete", |fixture, number| {
            fixture.write(|tx| fixture.insert(tx, ROWS + number % 7));
            fixture.write(|tx| fixture.update(tx, number));
            fixture.write(|tx| fixture.delete(tx, ROWS + number % 7));
        });
        fixture.levels_off("insert and delete in one", |fixture, number| {
            fixture.write(|tx| {
                fixture.insert(tx, ROWS + number % 7)?;
                fixture.delete(tx, ROWS + number % 7)
            });
        });
        fixture.levels_off("a transaction that grows a row", |fixture, number| {
            fixture.write(|tx| {
                (0..16).try_for_each(|length| fixture.update(tx, length * ROWS + number % ROWS))
            });
        });
        fixture.levels_off("a row that is changed by itself", |fixture, number| {
            let group = [("group", Value::U64(number % 10))];
            fixture.db().update(&fixture.table, &[Value::U64(number % ROWS)], &group).unwrap();
        });
    });
}

#[test]
fn large_transactions_level_off() {
    each(|fixture| {
        fixture.levels_off("large ones", |fixture, _| {
            let keys = || ROWS..ROWS + 300;
            fixture.write(|tx| keys().try_for_each(|key| fixture.insert(tx, key)));
            fixture.write(|tx| {
                keys().try_for_each(|key| {
                    let group = [("group", Value::U64((key + 1) % 10))];
                    tx.update(&fixture.table, &[Value::U64(key)], &group)
                })
            });
            fixture.write(|tx| keys().try_for_each(|key| fixture.delete(tx, key)));
        });
    });
}

#[test]
fn aborts_and_conflicts_level_off() {
    each(|fixture| {
        fixture.levels_off("aborts", |fixture, number| {
            let mut tx = fixture.db().begin().unwrap();
            fixture.insert(&mut tx, ROWS + number % 7).unwrap();
            fixture.update(&mut tx, number).unwrap();
            fixture.delete(&mut tx, number % ROWS).unwrap();
            tx.abort().unwrap();
            drop(fixture.db().begin().unwrap());
        });
        fixture.levels_off("large aborts", |fixture, number| {
            let mut tx = fixture.db().begin().unwrap();
            let keys = ROWS..ROWS + 200;
            keys.for_each(|key| fixture.insert(&mut tx, key).unwrap());
            (0..100).for_each(|_| fixture.update(&mut tx, number).unwrap());
            tx.abort().unwrap();
        });
        fixture.levels_off("conflicts", |fixture, number| {
            let [mut one, mut other] = [(), ()].map(|()| fixture.db().begin().unwrap());
            fixture.update(&mut one, number).unwrap();
            fixture.insert(&mut other, ROWS + 1).unwrap();
            let refused = fixture.update(&mut other, number);
            assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
            drop(other);
            let _ticket = one.commit().unwrap();
            let again = fixture.db().write(|tx| fixture.insert(tx, number % ROWS));
            assert!(matches!(again, Err(Error::DuplicateKey { .. })), "{again:?}");
        });
        fixture.levels_off("savepoints, which are refused", |fixture, number| {
            let mut tx = fixture.db().begin().unwrap();
            fixture.update(&mut tx, number).unwrap();
            assert!(matches!(tx.savepoint(), Err(Error::Unsupported { .. })));
            let _ticket = tx.commit().unwrap();
        });
    });
}

#[test]
fn snapshots_that_are_dropped_level_off() {
    each(|fixture| {
        fixture.levels_off("snapshots", |fixture, number| {
            let reader = fixture.db().begin().unwrap();
            let key = [Value::U64(number % ROWS)];
            let before = reader.get(&fixture.table, &key).unwrap();
            (0..20).for_each(|more| fixture.write(|tx| fixture.update(tx, number + more * 7)));
            fixture.write(|tx| (0..ROWS).try_for_each(|key| fixture.update(tx, key)));
            assert_eq!(reader.get(&fixture.table, &key).unwrap(), before);
            drop(reader);
        });
    });
}

#[test]
fn named_transactions_level_off() {
    each(|fixture| {
        fixture.levels_off("named ones", |fixture, number| {
            let db = fixture.db();
            let mut tx = db.begin_named(b"goes on").unwrap();
            fixture.update(&mut tx, number).unwrap();
            let id = tx.detach().unwrap();
            let mut tx = db.resume(id).unwrap();
            fixture.update(&mut tx, number + 1).unwrap();
            let _ticket = tx.commit().unwrap();
            let mut tx = db.begin_named(b"is abandoned").unwrap();
            fixture.insert(&mut tx, ROWS + 1).unwrap();
            let id = tx.detach().unwrap();
            match number % 2 {
                0 => drop(db.resume(id).unwrap()),
                _ => db.resume(id).unwrap().abort().unwrap(),
            }
            db.write_named(b"closure", |tx| fixture.update(tx, number)).unwrap();
        });
        let [first, _, third] = fixture.rounds(|fixture, number| {
            let image = {
                let mut tx = fixture.db().begin_named(b"is killed").unwrap();
                fixture.update(&mut tx, number).unwrap();
                fixture.insert(&mut tx, ROWS + 1).unwrap();
                fixture.memory.contents()
            };
            fixture.killed(&image);
            let found = fixture.db().in_flight().unwrap();
            let tx = fixture.db().resume(found[0].id).unwrap();
            if number % 2 == 0 {
                drop(tx);
            } else {
                let mut tx = tx;
                fixture.delete(&mut tx, ROWS + 1).unwrap();
                let _ticket = tx.commit().unwrap();
            }
            fixture.lives(number);
        });
        assert_eq!(third.in_flight, 0);
        assert_kills_lose_little(&first, &third);
    });
}

/// A process frees rows once it has looked at all of them, a part with each transaction: it has to
/// live that long.
#[test]
fn openings_level_off() {
    each(|fixture| {
        fixture.levels_off("closing and opening", |fixture, number| {
            fixture.lives(number);
            fixture.reopen();
        });
        // A kill loses the ids that its process had reserved, at least 16 of each array.
        let [first, _, third] = fixture.rounds(|fixture, number| {
            fixture.lives(number);
            let image = {
                let mut tx = fixture.db().begin().unwrap();
                fixture.update(&mut tx, number).unwrap();
                fixture.memory.contents()
            };
            fixture.killed(&image);
        });
        assert_kills_lose_little(&first, &third);
    });
}

/// A dictionary keeps every value that its column ever had, until the merge of a static part comes
/// to be: the bytes of distinct values, and some words for each. Closing and opening adds nothing
/// to that.
#[test]
fn dictionaries_grow_by_new_values_alone() {
    const VALUES: u64 = 3_000;
    for is_reopened in [false, true] {
        let mut fixture = Fixture::new(0);
        let table_bytes = |fixture: &Fixture| fixture.db().footprint().unwrap().table;
        let before = table_bytes(&fixture);
        for number in 0..VALUES {
            let group = [("group", Value::U64(1_000 + number))];
            fixture.write(|tx| tx.update(&fixture.table, &[Value::U64(number % ROWS)], &group));
            if is_reopened && number % 10 == 0 {
                fixture.reopen();
                fixture.read();
            }
        }
        let grown = table_bytes(&fixture) - before;
        // Eight bytes each, in segments of up to twice as many, in chunks of the heap.
        assert!(grown <= 2 * 8 * VALUES + 6 * (64 << 10), "{grown}, reopened: {is_reopened}");
        let after = table_bytes(&fixture);
        for number in 0..VALUES {
            let group = [("group", Value::U64(1_000 + number))];
            fixture.write(|tx| tx.update(&fixture.table, &[Value::U64(number % ROWS)], &group));
        }
        assert_eq!(table_bytes(&fixture), after, "values that were there");
    }
}
