//! The process that loads the rows, and the ones that write: what each transaction does follows from its number.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use perdura::{
    Background, ColumnType, Database, Domain, EngineKind, Error, Options, Schema, TableSchema, Tx,
    Value,
};

pub(crate) const THREADS: u64 = 4;
const PURSES: u64 = 16;
/// Buffer of the log.
pub(crate) const LOG_BUFFER: u64 = 1 << 20;

/// The work that is to be done.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) rows: u64,
    pub(crate) buffer: u64,
    pub(crate) directory: PathBuf,
}

impl Order {
    pub(crate) fn options(&self) -> Options {
        Options::new()
            .engine(EngineKind::NvDisk)
            .set("buffer_bytes", self.buffer)
            .set("log_buffer_bytes", LOG_BUFFER)
            .set("log_bytes", 64 << 20)
            .set("checkpoint_bytes", 1 << 20)
            .pool_initial(1 << 20)
            .domain(Domain::Process)
            .background(Background::Thread)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join("db")
    }

    pub(crate) fn numbers(&self) -> PathBuf {
        self.directory.join("numbers")
    }
}

fn schema() -> Schema {
    let table = |name: &str| TableSchema::new(name).column("id", ColumnType::U64);
    Schema::new()
        .table(
            table("row")
                .column("by", ColumnType::U64)
                .column("filler", ColumnType::Text { max: 400 })
                .key(&["id"]),
        )
        .table(table("journal").column("number", ColumnType::U64).key(&["id"]))
        .table(table("purse").column("cents", ColumnType::I64).key(&["id"]))
}

pub(crate) fn filler(id: u64, by: u64) -> String {
    let letter = char::from(b'a' + ((id ^ by) % 26) as u8);
    letter.to_string().repeat(150 + ((id + 7 * by) % 100) as usize)
}

/// Returns whether a transaction deletes a row of its thread. It writes the others.
pub(crate) fn goes(number: u64, place: u64, there: bool) -> bool {
    there && (number + place).is_multiple_of(5)
}

/// Numbers that follow from a seed (splitmix64): this program has no crate for them.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ number >> 31) % bound
    }
}

/// The rows that a transaction of a thread changes, and what it moves from one purse to another.
pub(crate) fn plan(order: &Order, thread: u64, number: u64) -> ([u64; 3], (u64, u64, i64)) {
    let mut numbers = Numbers(thread << 40 | number);
    let mut ids = [0; 3];
    for place in 0..3 {
        ids[place] = loop {
            let id = numbers.below(order.rows / THREADS) * THREADS + thread;
            if !ids[..place].contains(&id) {
                break id;
            }
        };
    }
    let from = numbers.below(PURSES);
    let to = (from + 1 + numbers.below(PURSES - 1)) % PURSES;
    (ids, (from, to, 1 + numbers.below(99) as i64))
}

pub(crate) fn load(order: &Order) -> Result<(), Error> {
    let db = Database::create(order.path(), &schema(), &order.options())?;
    let (row, journal, purse) = (db.table("row")?, db.table("journal")?, db.table("purse")?);
    db.write(|tx| {
        for id in 0..THREADS {
            tx.insert(&journal, &[Value::U64(id), Value::U64(0)])?;
        }
        for id in 0..PURSES {
            tx.insert(&purse, &[Value::U64(id), Value::I64(0)])?;
        }
        Ok(())
    })?;
    for first in (0..order.rows).step_by(500) {
        db.write(|tx| {
            for id in first..order.rows.min(first + 500) {
                let filler = filler(id, 0);
                tx.insert(&row, &[Value::U64(id), Value::U64(0), Value::Text(&filler)])?;
            }
            Ok(())
        })?;
    }
    db.close()
}

pub(crate) fn number_of(db: &Database, thread: u64) -> Result<u64, Error> {
    let journal = db.table("journal")?;
    db.read(|tx| Ok(tx.get(&journal, &[Value::U64(thread)])?.expect("a row").u64(1)))
}

/// A transaction of a thread.
fn transaction(db: &Database, order: &Order, thread: u64, number: u64) -> Result<(), Error> {
    let (row, journal, purse) = (db.table("row")?, db.table("journal")?, db.table("purse")?);
    let (ids, (from, to, cents)) = plan(order, thread, number);
    let add = |tx: &mut Tx<'_>, id: u64, cents: i64| {
        let there = tx.get(&purse, &[Value::U64(id)])?.expect("a row").i64(1);
        tx.update(&purse, &[Value::U64(id)], &[(1, Value::I64(there + cents))])
    };
    db.write(|tx| {
        for (place, id) in ids.into_iter().enumerate() {
            let key = [Value::U64(id)];
            let there = tx.get(&row, &key)?.is_some();
            let filler = filler(id, number);
            if goes(number, place as u64, there) {
                tx.delete(&row, &key)?;
            } else if there {
                let changes = [(1, Value::U64(number)), (2, Value::Text(&filler))];
                tx.update(&row, &key, &changes)?;
            } else {
                tx.insert(&row, &[Value::U64(id), Value::U64(number), Value::Text(&filler)])?;
            }
        }
        tx.update(&journal, &[Value::U64(thread)], &[(1, Value::U64(number))])?;
        add(tx, from, -cents)?;
        add(tx, to, cents)
    })
}

/// Writes until it is killed.
pub(crate) fn write(order: &Order) -> Result<(), Error> {
    let db = Database::open(order.path(), &order.options())?;
    let numbers = File::options().write(true).open(order.numbers()).expect("the file of numbers");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, numbers) = (&db, &numbers);
            scope.spawn(move || {
                let say = |number: u64| {
                    numbers.write_all_at(&number.to_le_bytes(), thread * 8).expect("a number");
                };
                let mut number = number_of(db, thread).expect("a number");
                loop {
                    say(number);
                    number += 1;
                    transaction(db, order, thread, number).expect("a transaction");
                }
            });
        }
    });
    Ok(())
}
