//! What the tests of whole databases share: a schema with every kind of column and key, a model,
//! random transactions that run on both, and the comparison of the two.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "shared; binaries beside this folder use a part of it"
)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use perdura::{
    ColumnType, Database, Environment, Error, Row, Scan, Schema, Table, TableSchema, Ticket, Tx,
    Value,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

pub const ITEM: &str = "item";
pub const PAIR: &str = "pair";

/// One table with a single number as key and two secondary indexes, one with a composite key.
pub fn schema() -> Schema {
    Schema::new()
        .table(
            TableSchema::new(ITEM)
                .column("id", ColumnType::U64)
                .column("name", ColumnType::Text { max: 20 })
                .column("payload", ColumnType::Bytes { max: 300 })
                .column("count", ColumnType::I64)
                .column("flag", ColumnType::Bytes { max: 5 })
                .column("score", ColumnType::F64)
                .key(&["id"])
                .index("by_name", &["name"])
                .index("by_count_flag", &["count", "flag"]),
        )
        .table(
            TableSchema::new(PAIR)
                .column("left", ColumnType::Text { max: 8 })
                .column("right", ColumnType::I64)
                .column("value", ColumnType::Bytes { max: 300 })
                .key(&["left", "right"]),
        )
}

#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    pub name: String,
    pub payload: Vec<u8>,
    pub count: i64,
    pub flag: Vec<u8>,
    pub score: f64,
}

#[derive(Clone, PartialEq, Default, Debug)]
pub struct Model {
    pub items: BTreeMap<u64, Item>,
    pub pairs: BTreeMap<(String, i64), Vec<u8>>,
}

pub struct Tables {
    pub item: Table,
    pub pair: Table,
}

impl Tables {
    pub fn of<E: Environment>(db: &Database<E>) -> Self {
        Self { item: db.table(ITEM).unwrap(), pair: db.table(PAIR).unwrap() }
    }
}

/// Lengths that fall into few size classes, so that small pools suffice.
const LENGTHS: [usize; 5] = [0, 7, 20, 100, 300];

pub struct Driver {
    pub random: SmallRng,
    pub keys: u64,
    stamp: u64,
}

impl Driver {
    pub fn new(seed: u64, keys: u64) -> Self {
        Self { random: SmallRng::seed_from_u64(seed), keys, stamp: 0 }
    }

    fn bytes(&mut self) -> Vec<u8> {
        // Unique contents: no two versions of a field are alike.
        self.stamp += 1;
        let len = LENGTHS[self.random.random_range(0..LENGTHS.len())];
        let mut bytes = vec![(self.stamp % 251) as u8; len];
        let stamp = self.stamp.to_le_bytes();
        let many = len.min(8);
        bytes[..many].copy_from_slice(&stamp[..many]);
        bytes
    }

    fn name(&mut self) -> String {
        format!("n{}", self.random.random_range(0..self.keys / 3 + 1))
    }

    fn item(&mut self) -> Item {
        Item {
            name: self.name(),
            payload: self.bytes(),
            count: self.random.random_range(-3..3),
            flag: vec![b'f'; self.random.random_range(0..6)],
            score: f64::from(self.random.random::<i16>()) / 8.0,
        }
    }

    /// Runs one random operation on the transaction and on the model; both must agree on whether
    /// it succeeds.
    pub fn operation<E: Environment>(
        &mut self,
        tx: &mut Tx<'_, E>,
        tables: &Tables,
        model: &mut Model,
    ) -> Result<(), Error> {
        let key = self.random.random_range(0..self.keys);
        match self.random.random_range(0..10) {
            0..3 => {
                let item = self.item();
                let done = insert_item(tx, tables, key, &item);
                expect(&done, !model.items.contains_key(&key))?;
                if done.is_ok() {
                    model.items.insert(key, item);
                }
            }
            3..6 => {
                let item = self.item();
                let columns = self.random.random_range(1..32u8);
                let done = update_item(tx, tables, key, &item, columns);
                expect(&done, model.items.contains_key(&key))?;
                if done.is_ok() {
                    let stored = model.items.get_mut(&key).unwrap();
                    if columns & 1 != 0 {
                        stored.name = item.name;
                    }
                    if columns & 2 != 0 {
                        stored.payload = item.payload;
                    }
                    if columns & 4 != 0 {
                        stored.count = item.count;
                    }
                    if columns & 8 != 0 {
                        stored.flag = item.flag;
                    }
                    if columns & 16 != 0 {
                        stored.score = item.score;
                    }
                }
            }
            6..8 => {
                let done = tx.delete(&tables.item, &[Value::U64(key)]);
                expect(&done, model.items.contains_key(&key))?;
                if done.is_ok() {
                    model.items.remove(&key);
                }
            }
            _ => {
                let left = format!("l{}", key % 7);
                let right = (key as i64) - (self.keys as i64) / 2;
                let value = self.bytes();
                let place = (left.clone(), right);
                let key = [Value::Text(&left), Value::I64(right)];
                if model.pairs.contains_key(&place) && self.random.random_bool(0.5) {
                    tx.delete(&tables.pair, &key)?;
                    model.pairs.remove(&place);
                } else if let Some(stored) = model.pairs.get_mut(&place) {
                    tx.update(&tables.pair, &key, &[(2, Value::Bytes(&value))])?;
                    *stored = value;
                } else {
                    tx.insert(&tables.pair, &[key[0], key[1], Value::Bytes(&value)])?;
                    model.pairs.insert(place, value);
                }
            }
        }
        Ok(())
    }

    /// Runs a transaction of `operations` operations and commits it, or aborts it; returns whether
    /// it committed, durably.
    pub fn transaction<E: Environment>(
        &mut self,
        db: &Database<E>,
        tables: &Tables,
        model: &mut Model,
        operations: usize,
    ) -> Result<bool, Error> {
        let ticket = self.grouped(db, tables, model, operations)?;
        assert!(ticket.is_none_or(|ticket| ticket.is_durable()));
        Ok(ticket.is_some())
    }

    /// The same, for commits that may be grouped; returns the ticket, if it committed.
    pub fn grouped<E: Environment>(
        &mut self,
        db: &Database<E>,
        tables: &Tables,
        model: &mut Model,
        operations: usize,
    ) -> Result<Option<Ticket>, Error> {
        let mut tx = db.begin()?;
        let mut after = model.clone();
        for _ in 0..operations {
            if let Err(error) = self.operation(&mut tx, tables, &mut after) {
                tx.abort()?;
                return Err(error);
            }
        }
        if self.random.random_bool(0.15) {
            tx.abort()?;
            return Ok(None);
        }
        let ticket = tx.commit()?;
        *model = after;
        Ok(Some(ticket))
    }
}

fn expect(done: &Result<(), Error>, should: bool) -> Result<(), Error> {
    match done {
        Ok(()) => assert!(should, "an operation succeeded that must fail"),
        Err(Error::DuplicateKey { .. } | Error::MissingKey { .. }) => {
            assert!(!should, "an operation failed that must succeed");
        }
        Err(Error::Full(_)) => {
            return Err(Error::user("full"));
        }
        Err(other) => panic!("{other}"),
    }
    Ok(())
}

pub fn insert_item<E: Environment>(
    tx: &mut Tx<'_, E>,
    tables: &Tables,
    key: u64,
    item: &Item,
) -> Result<(), Error> {
    tx.insert(
        &tables.item,
        &[
            Value::U64(key),
            Value::Text(&item.name),
            Value::Bytes(&item.payload),
            Value::I64(item.count),
            Value::Bytes(&item.flag),
            Value::F64(item.score),
        ],
    )
}

pub fn update_item<E: Environment>(
    tx: &mut Tx<'_, E>,
    tables: &Tables,
    key: u64,
    item: &Item,
    columns: u8,
) -> Result<(), Error> {
    let all = [
        (1, Value::Text(&item.name)),
        (2, Value::Bytes(&item.payload)),
        (3, Value::I64(item.count)),
        (4, Value::Bytes(&item.flag)),
        (5, Value::F64(item.score)),
    ];
    let chosen: Vec<_> =
        (0..5).filter(|bit| columns & (1 << bit) != 0).map(|bit| all[bit]).collect();
    tx.update(&tables.item, &[Value::U64(key)], &chosen)
}

pub fn item_of(row: &Row) -> (u64, Item) {
    let item = Item {
        name: row.text(1).into(),
        payload: row.bytes(2).into(),
        count: row.i64(3),
        flag: row.bytes(4).into(),
        score: row.f64(5),
    };
    (row.u64(0), item)
}

/// Everything that the database holds.
pub fn contents<E: Environment>(db: &Database<E>) -> Result<Model, Error> {
    let tables = Tables::of(db);
    let mut model = Model::default();
    db.read(|tx| {
        tx.scan(&tables.item, &Scan::all(), |row| {
            let (key, item) = item_of(row);
            assert!(model.items.insert(key, item).is_none());
            ControlFlow::Continue(())
        })?;
        tx.scan(&tables.pair, &Scan::all(), |row| {
            let key = (row.text(0).to_owned(), row.i64(1));
            assert!(model.pairs.insert(key, row.bytes(2).to_vec()).is_none());
            ControlFlow::Continue(())
        })
    })?;
    Ok(model)
}

/// Compares the database with the model in every way in which it can be read.
pub fn compare<E: Environment>(db: &Database<E>, model: &Model) {
    assert_eq!(contents(db).unwrap(), *model, "contents in the order of the primary key");
    let tables = Tables::of(db);
    let mut backward = Vec::new();
    let mut by_name = Vec::new();
    db.read(|tx| {
        tx.scan(&tables.item, &Scan::all().backward().columns(&[0]), |row| {
            backward.push(row.u64(0));
            ControlFlow::Continue(())
        })?;
        tx.scan(&tables.item, &Scan::all().by("by_name").columns(&[1, 0]), |row| {
            by_name.push((row.text(0).to_owned(), row.u64(1)));
            ControlFlow::Continue(())
        })?;
        let mut row = Row::new();
        for (key, item) in model.items.iter().take(5) {
            assert!(tx.get(&tables.item, &[Value::U64(*key)], &mut row)?);
            assert_eq!(item_of(&row), (*key, item.clone()));
            let mut found = Vec::new();
            let same = [Value::I64(item.count), Value::Bytes(&item.flag)];
            tx.scan(&tables.item, &Scan::prefix(&same).by("by_count_flag"), |row| {
                found.push(row.u64(0));
                ControlFlow::Continue(())
            })?;
            let expected: Vec<u64> = model
                .items
                .iter()
                .filter(|(_, other)| other.count == item.count && other.flag == item.flag)
                .map(|(key, _)| *key)
                .collect();
            assert_eq!(found, expected, "tuples with the same count and flag");
        }
        Ok(())
    })
    .unwrap();
    assert!(backward.iter().rev().eq(model.items.keys()), "backward");
    let mut expected: Vec<_> =
        model.items.iter().map(|(key, item)| (item.name.clone(), *key)).collect();
    expected.sort();
    assert_eq!(by_name, expected, "in the order of the names");
    let report = db.check().unwrap();
    assert_eq!((report.leaked, report.dangling), (0, 0), "the allocator's view: {report:?}");
    assert_eq!(report.tuples, (model.items.len() + model.pairs.len()) as u64);
}
