//! Random transactions that run on a database and on its model.

use perdura::{Database, Environment, Error, Partition, Ticket, Tx, Value};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::items::{Item, Model, Tables, insert_item, null, update_item};

/// Lengths that fall into few size classes, so that small pools suffice.
const LENGTHS: [usize; 5] = [0, 7, 20, 100, 300];

/// One in so many values is followed by one that is too long.
const TOO_LONG: u64 = 31;

/// The share of transactions that abort.
const ABORTS: f64 = 0.15;

/// One operation.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Inserts an item.
    Insert {
        /// Its key.
        key: u64,
        /// The rest of it.
        item: Item,
    },
    /// Updates an item.
    Update {
        /// Its key.
        key: u64,
        /// The item with the new values.
        item: Item,
        /// The set of columns that are taken, as in [`update_item`].
        columns: u8,
    },
    /// Deletes an item.
    Delete {
        /// Its key.
        key: u64,
    },
    /// Inserts a pair.
    InsertPair {
        /// The first part of its key.
        left: String,
        /// The second part.
        right: i64,
        /// Its value.
        value: Vec<u8>,
    },
    /// Updates a pair.
    UpdatePair {
        /// The first part of its key.
        left: String,
        /// The second part.
        right: i64,
        /// The new value.
        value: Vec<u8>,
    },
    /// Deletes a pair.
    DeletePair {
        /// The first part of its key.
        left: String,
        /// The second part.
        right: i64,
    },
}

impl Operation {
    /// Does it.
    ///
    /// # Errors
    /// As the operation of the transaction.
    pub fn run<E: Environment>(&self, tx: &mut Tx<'_, E>, tables: &Tables) -> Result<(), Error> {
        match self {
            Self::Insert { key, item } => insert_item(tx, tables, *key, item),
            Self::Update { key, item, columns } => update_item(tx, tables, *key, item, *columns),
            Self::Delete { key } => tx.delete(&tables.item, &[Value::U64(*key)]),
            Self::InsertPair { left, right, value } => {
                let value = null(&tables.pair, 2, Value::Bytes(value));
                tx.insert(&tables.pair, &[Value::Text(left), Value::I64(*right), value])
            }
            Self::UpdatePair { left, right, value } => {
                let key = [Value::Text(left), Value::I64(*right)];
                tx.update(&tables.pair, &key, &[(2, null(&tables.pair, 2, Value::Bytes(value)))])
            }
            Self::DeletePair { left, right } => {
                tx.delete(&tables.pair, &[Value::Text(left), Value::I64(*right)])
            }
        }
    }

    /// Does it on the model; returns whether it could be done.
    pub fn apply(&self, model: &mut Model) -> bool {
        match self {
            Self::Insert { key, item } => {
                if item.name.len() > 20 {
                    return false;
                }
                let is_new = !model.items.contains_key(key);
                model.items.entry(*key).or_insert_with(|| item.clone());
                is_new
            }
            Self::Update { key, item, columns } => {
                let Some(stored) = model.items.get_mut(key) else { return false };
                let Item { name, payload, count, flag, score } = item.clone();
                let taken = |bit: u8| columns & (1 << bit) != 0;
                if taken(0) {
                    stored.name = name;
                }
                if taken(1) {
                    stored.payload = payload;
                }
                if taken(2) {
                    stored.count = count;
                }
                if taken(3) {
                    stored.flag = flag;
                }
                if taken(4) {
                    stored.score = score;
                }
                true
            }
            Self::Delete { key } => model.items.remove(key).is_some(),
            Self::InsertPair { left, right, value } => {
                model.pairs.insert((left.clone(), *right), value.clone()).is_none()
            }
            Self::UpdatePair { left, right, value } => {
                model.pairs.insert((left.clone(), *right), value.clone()).is_some()
            }
            Self::DeletePair { left, right } => {
                model.pairs.remove(&(left.clone(), *right)).is_some()
            }
        }
    }
}

/// Random operations on items and pairs. The same seed gives the same operations.
#[derive(Debug)]
pub struct Driver {
    /// The generator of all choices.
    pub random: SmallRng,
    /// The number of keys that there can be in a table.
    pub keys: u64,
    stamp: u64,
}

impl Driver {
    /// A driver over so many keys.
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

    /// The next operation; which it is may depend on what there is.
    pub fn next(&mut self, model: &Model) -> Operation {
        let key = self.random.random_range(0..self.keys);
        match self.random.random_range(0..10) {
            0..3 => {
                let mut item = self.item();
                if self.stamp.is_multiple_of(TOO_LONG) {
                    // More than there may be in any of the schemas.
                    item.name = "n".repeat(1_023);
                }
                Operation::Insert { key, item }
            }
            3..6 => {
                let item = self.item();
                Operation::Update { key, item, columns: self.random.random_range(1..32u8) }
            }
            6..8 => Operation::Delete { key },
            _ => {
                let left = format!("l{}", key % 7);
                let right = (key as i64) - (self.keys as i64) / 2;
                let value = self.bytes();
                let is_there = model.pairs.contains_key(&(left.clone(), right));
                if is_there && self.random.random_bool(0.5) {
                    Operation::DeletePair { left, right }
                } else if is_there {
                    Operation::UpdatePair { left, right, value }
                } else {
                    Operation::InsertPair { left, right, value }
                }
            }
        }
    }

    /// Runs one random operation on the transaction and on the model; both must agree on whether
    /// it succeeds.
    ///
    /// # Errors
    /// They do not agree, or the operation failed otherwise.
    pub fn operation<E: Environment>(
        &mut self,
        tx: &mut Tx<'_, E>,
        tables: &Tables,
        model: &mut Model,
    ) -> Result<(), Error> {
        let operation = self.next(model);
        let done = operation.run(tx, tables);
        expect(&done, operation.apply(model))
    }

    /// Updates what no index follows as a transaction of its own, on the database and on the model;
    /// both must agree on whether it succeeds.
    ///
    /// # Errors
    /// They do not agree, or the update failed otherwise.
    pub fn statement<E: Environment>(
        &mut self,
        db: &Database<E>,
        tables: &Tables,
        model: &mut Model,
    ) -> Result<(), Error> {
        self.statement_in(&db.try_partition(0)?, tables, model)
    }

    /// Works as [`Self::statement`], in this partition.
    ///
    /// # Errors
    /// As [`Self::statement`].
    pub fn statement_in<E: Environment>(
        &mut self,
        partition: &Partition<'_, E>,
        tables: &Tables,
        model: &mut Model,
    ) -> Result<(), Error> {
        let key = self.random.random_range(0..self.keys);
        if self.random.random_bool(0.4) {
            return self.pair_statement(partition, tables, model, key);
        }
        let (payload, score) = (self.bytes(), f64::from(self.random.random::<i16>()) / 8.0);
        let changes = [(2, Value::Bytes(&payload)), (5, Value::F64(score))];
        let changes = changes.map(|(column, value)| (column, null(&tables.item, column, value)));
        let changes = [&changes[..1], &changes[1..], &changes][self.random.random_range(0..3)];
        let done = partition.update(&tables.item, &[Value::U64(key)], changes);
        let stored = model.items.get_mut(&key);
        let should = stored.is_some();
        if let Some(item) = stored {
            for (column, _) in changes {
                match column {
                    2 => item.payload.clone_from(&payload),
                    _ => item.score = score,
                }
            }
        }
        expect(&done, should)
    }

    /// Runs one statement on a pair, whose value is inlined. The pair exists, if there is any, or
    /// may not exist.
    fn pair_statement<E: Environment>(
        &mut self,
        partition: &Partition<'_, E>,
        tables: &Tables,
        model: &mut Model,
        key: u64,
    ) -> Result<(), Error> {
        let stored = model.pairs.keys().cycle().nth(key as usize).cloned();
        let (left, right) = match stored {
            Some(pair) if self.random.random_bool(0.9) => pair,
            _ => (format!("l{}", key % 7), key as i64),
        };
        let value = self.bytes();
        let names = [Value::Text(&left), Value::I64(right)];
        let new = null(&tables.pair, 2, Value::Bytes(&value));
        let done = partition.update(&tables.pair, &names, &[(2, new)]);
        let stored = model.pairs.get_mut(&(left, right));
        let should = stored.is_some();
        if let Some(stored) = stored {
            *stored = value;
        }
        expect(&done, should)
    }

    /// Returns what [`Self::grouped`] would make of the model, without any database: the model
    /// after the transaction, if it commits.
    pub fn imagine(&mut self, model: &Model, operations: usize) -> Option<Model> {
        let mut after = model.clone();
        for _ in 0..operations {
            self.next(&after).apply(&mut after);
        }
        if self.random.random_bool(ABORTS) { None } else { Some(after) }
    }

    /// Runs a transaction of `operations` operations and commits it, or aborts it; returns whether
    /// it committed.
    ///
    /// # Errors
    /// As [`Self::operation`]; it committed, but not durably.
    pub fn transaction<E: Environment>(
        &mut self,
        db: &Database<E>,
        tables: &Tables,
        model: &mut Model,
        operations: usize,
    ) -> Result<bool, Error> {
        let ticket = self.grouped(db, tables, model, operations)?;
        if ticket.is_some_and(|ticket| !ticket.is_durable()) {
            return Err(Error::user("a commit is not durable"));
        }
        Ok(ticket.is_some())
    }

    /// The same, with savepoints: about every fourth step is one, and every fourth one goes back to
    /// one of them, also to the beginning. What is left is what the model had there.
    ///
    /// # Errors
    /// As [`Self::operation`]; a failed commit.
    pub fn with_savepoints<E: Environment>(
        &mut self,
        db: &Database<E>,
        tables: &Tables,
        model: &mut Model,
        steps: usize,
    ) -> Result<bool, Error> {
        let mut tx = db.begin()?;
        let mut after = model.clone();
        let mut places = vec![(tx.savepoint()?, after.clone())];
        for _ in 0..steps {
            match self.random.random_range(0..8) {
                0 | 1 => places.push((tx.savepoint()?, after.clone())),
                2 | 3 => {
                    let at = self.random.random_range(0..places.len());
                    places.truncate(at + 1);
                    let (savepoint, before) = &places[at];
                    tx.rollback_to(*savepoint)?;
                    after.clone_from(before);
                }
                _ => self.operation(&mut tx, tables, &mut after)?,
            }
        }
        if self.random.random_bool(ABORTS) {
            tx.abort()?;
            return Ok(false);
        }
        let _ticket = tx.commit()?;
        *model = after;
        Ok(true)
    }

    /// The same, for commits that may be grouped; returns the ticket, if it committed.
    ///
    /// # Errors
    /// As [`Self::operation`]; a failed commit.
    pub fn grouped<E: Environment>(
        &mut self,
        db: &Database<E>,
        tables: &Tables,
        model: &mut Model,
        operations: usize,
    ) -> Result<Option<Ticket>, Error> {
        self.in_partition(&db.try_partition(0)?, tables, model, operations)
    }

    /// The same in one of several partitions.
    ///
    /// # Errors
    /// As [`Self::grouped`].
    pub fn in_partition<E: Environment>(
        &mut self,
        partition: &Partition<'_, E>,
        tables: &Tables,
        model: &mut Model,
        operations: usize,
    ) -> Result<Option<Ticket>, Error> {
        let mut tx = partition.begin()?;
        let mut after = model.clone();
        for _ in 0..operations {
            if let Err(error) = self.operation(&mut tx, tables, &mut after) {
                tx.abort()?;
                return Err(error);
            }
        }
        if self.random.random_bool(ABORTS) {
            tx.abort()?;
            return Ok(None);
        }
        let ticket = tx.commit()?;
        *model = after;
        Ok(Some(ticket))
    }
}

pub(crate) fn expect(done: &Result<(), Error>, should: bool) -> Result<(), Error> {
    match done {
        Ok(()) if should => Ok(()),
        Ok(()) => Err(Error::user("an operation succeeded that must fail")),
        Err(Error::DuplicateKey { .. } | Error::MissingKey { .. } | Error::Invalid(_)) => {
            if should { Err(Error::user("an operation failed that must succeed")) } else { Ok(()) }
        }
        Err(Error::Full(_)) => Err(Error::user("full")),
        Err(other) => Err(Error::user(other.to_string())),
    }
}
