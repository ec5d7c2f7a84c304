//! What the stories of a crash test are about: a schema with every kind of column and key, a model of
//! its contents, and the comparison of a database with it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use perdura::{
    CheckReport, ColumnType, Database, Environment, Error, Partition, Row, Scan, Schema, Table,
    TableSchema, Tx, Value,
};

/// The table with a single number as key and two secondary indexes.
pub const ITEM: &str = "item";
/// The table with a composite key.
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

/// A tuple of [`ITEM`] but for its key.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// The key of an index.
    pub name: String,
    /// Of many lengths.
    pub payload: Vec<u8>,
    /// The first part of the key of another index.
    pub count: i64,
    /// The second part.
    pub flag: Vec<u8>,
    /// In no index.
    pub score: f64,
}

/// What a database of [`schema`] holds.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Model {
    /// The tuples of [`ITEM`].
    pub items: BTreeMap<u64, Item>,
    /// The tuples of [`PAIR`].
    pub pairs: BTreeMap<(String, i64), Vec<u8>>,
}

/// The tables of [`schema`] in an open database.
#[derive(Debug)]
pub struct Tables {
    /// [`ITEM`].
    pub item: Table,
    /// [`PAIR`].
    pub pair: Table,
}

impl Tables {
    /// The tables of `db`.
    ///
    /// # Panics
    /// It has another schema.
    pub fn of<E: Environment>(db: &Database<E>) -> Self {
        let table = |name| db.table(name).expect("a database of this schema");
        Self { item: table(ITEM), pair: table(PAIR) }
    }
}

/// Inserts a tuple.
///
/// # Errors
/// As [`Tx::insert`].
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

/// Updates those columns of a tuple whose bits are set in `columns`, the lowest for the name.
///
/// # Errors
/// As [`Tx::update`].
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

/// A whole row of [`ITEM`].
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
///
/// # Errors
/// It cannot be read, or a scan shows a key twice.
pub fn contents<E: Environment>(db: &Database<E>) -> Result<Model, Error> {
    contents_in(&db.try_partition(0)?, &Tables::of(db))
}

/// Everything that one of several partitions holds.
///
/// # Errors
/// As [`contents`].
pub fn contents_in<E: Environment>(
    partition: &Partition<'_, E>,
    tables: &Tables,
) -> Result<Model, Error> {
    let (mut model, mut twice) = (Model::default(), false);
    partition.read(|tx| {
        tx.scan(&tables.item, &Scan::all(), |row| {
            let (key, item) = item_of(row);
            twice |= model.items.insert(key, item).is_some();
            ControlFlow::Continue(())
        })?;
        tx.scan(&tables.pair, &Scan::all(), |row| {
            let key = (row.text(0).to_owned(), row.i64(1));
            twice |= model.pairs.insert(key, row.bytes(2).to_vec()).is_some();
            ControlFlow::Continue(())
        })
    })?;
    if twice { Err(Error::user("a scan shows a key twice")) } else { Ok(model) }
}

/// What differs between the database and the model, in whatever way it is read; and what the
/// allocator says otherwise.
///
/// # Errors
/// The first difference.
pub fn differs<E: Environment>(db: &Database<E>, model: &Model) -> Result<(), String> {
    if contents(db).map_err(|error| unreadable(&error))? != *model {
        return Err("holds something else".into());
    }
    reads_differ(db, model)
}

/// As [`differs`], but for a forward scan of the tables.
///
/// # Errors
/// The first difference.
pub fn reads_differ<E: Environment>(db: &Database<E>, model: &Model) -> Result<(), String> {
    reads_differ_in(&db.partition(0), &Tables::of(db), model)?;
    let report = checks(db)?;
    let tuples = (model.items.len() + model.pairs.len()) as u64;
    if report.tuples != tuples {
        return Err(format!("counts {} tuples, not {tuples}", report.tuples));
    }
    Ok(())
}

/// What differs between one of several partitions and the model, in whatever way it is read.
///
/// # Errors
/// The first difference.
pub fn differs_in<E: Environment>(
    partition: &Partition<'_, E>,
    tables: &Tables,
    model: &Model,
) -> Result<(), String> {
    if contents_in(partition, tables).map_err(|error| unreadable(&error))? != *model {
        return Err("holds something else".into());
    }
    reads_differ_in(partition, tables, model)
}

fn unreadable(error: &Error) -> String {
    format!("cannot be read: {error}")
}

fn reads_differ_in<E: Environment>(
    partition: &Partition<'_, E>,
    tables: &Tables,
    model: &Model,
) -> Result<(), String> {
    let wrong = partition.read(|tx| {
        let (mut row, mut by_name, mut by_count_flag) = (Row::new(), Vec::new(), Vec::new());
        let (mut items, mut pairs) = (Vec::new(), Vec::new());
        tx.scan(&tables.item, &Scan::all().backward().columns(&[0]), |row| {
            items.push(row.u64(0));
            ControlFlow::Continue(())
        })?;
        if !items.iter().rev().eq(model.items.keys()) {
            return Ok(Some("shows other items backward"));
        }
        tx.scan(&tables.pair, &Scan::all().backward().columns(&[0, 1]), |row| {
            pairs.push((row.text(0).to_owned(), row.i64(1)));
            ControlFlow::Continue(())
        })?;
        if !pairs.iter().rev().eq(model.pairs.keys()) {
            return Ok(Some("shows other pairs backward"));
        }
        tx.scan(&tables.item, &Scan::all().by("by_name").columns(&[1, 0]), |row| {
            by_name.push((row.text(0).to_owned(), row.u64(1)));
            ControlFlow::Continue(())
        })?;
        let items = &model.items;
        let mut names: Vec<_> = items.iter().map(|(key, item)| (item.name.clone(), *key)).collect();
        names.sort();
        if by_name != names {
            return Ok(Some("has other names in their index"));
        }
        tx.scan(&tables.item, &Scan::all().by("by_count_flag").columns(&[3, 4, 0]), |row| {
            by_count_flag.push((row.i64(0), row.bytes(1).to_vec(), row.u64(2)));
            ControlFlow::Continue(())
        })?;
        let mut counts: Vec<_> =
            items.iter().map(|(key, item)| (item.count, item.flag.clone(), *key)).collect();
        counts.sort();
        if by_count_flag != counts {
            return Ok(Some("has other tuples of a count and a flag in their index"));
        }
        for (key, item) in items.iter().take(5) {
            if !tx.get(&tables.item, &[Value::U64(*key)], &mut row)?
                || item_of(&row) != (*key, item.clone())
            {
                return Ok(Some("has another item when asked for it"));
            }
        }
        for ((left, right), value) in model.pairs.iter().take(5) {
            let key = [Value::Text(left), Value::I64(*right)];
            if !tx.get(&tables.pair, &key, &mut row)? || row.bytes(2) != value {
                return Ok(Some("has another pair when asked for it"));
            }
        }
        Ok(None)
    });
    if let Some(wrong) = wrong.map_err(|error| unreadable(&error))? {
        return Err(wrong.into());
    }
    Ok(())
}

/// The database's own check, which has to find neither damage nor space that leaked or is missing.
///
/// # Errors
/// What it found.
pub fn checks<E: Environment>(db: &Database<E>) -> Result<CheckReport, String> {
    let report = db.check().map_err(|error| format!("is damaged: {error}"))?;
    if report.leaked != 0 || report.dangling != 0 {
        return Err(format!("has an allocator that disagrees: {report:?}"));
    }
    Ok(report)
}

/// [`differs`], for tests.
///
/// # Panics
/// They differ.
#[track_caller]
pub fn compare<E: Environment>(db: &Database<E>, model: &Model) {
    if let Err(difference) = differs(db, model) {
        panic!("the database {difference}");
    }
}
