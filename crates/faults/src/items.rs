//! The items that the scenarios of a crash test are about: a schema with every kind of column and
//! key, a model of its contents, and the comparison of a database with it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use perdura::{
    CheckReport, ColumnType, Database, Environment, Error, Partition, Read, Row, Scan, Schema,
    Table, TableSchema, Tx, Value,
};

/// The table with a single number as key and two secondary indexes.
pub const ITEM: &str = "item";
/// The table with a composite key, and a column that is inlined where the engine can do so.
pub const PAIR: &str = "pair";

/// One table with a single number as key and two secondary indexes, one with a composite key and an
/// inlined column.
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
                .key(&["left", "right"])
                .inline_columns(),
        )
}

/// The same with the columns of both tables inlined.
pub fn inlined_schema() -> Schema {
    let tables = schema().tables().to_vec().into_iter();
    tables.map(TableSchema::inline_columns).fold(Schema::new(), Schema::table)
}

/// The same with columns that may be NULL: whatever is `null` in the model. A count is a timestamp,
/// and an index is unique.
pub fn nullable_schema() -> Schema {
    Schema::new()
        .table(
            TableSchema::new(ITEM)
                .column("id", ColumnType::U64)
                .column("name", ColumnType::Text { max: 20 })
                .nullable()
                .column("payload", ColumnType::Bytes { max: 300 })
                .nullable()
                .column("count", ColumnType::Timestamp)
                .nullable()
                .column("flag", ColumnType::Bytes { max: 5 })
                .nullable()
                .column("score", ColumnType::F64)
                .nullable()
                .key(&["id"])
                .index("by_name", &["name"])
                .index("by_count_flag", &["count", "flag"])
                .unique_index("by_score", &["score", "id"]),
        )
        .table(
            TableSchema::new(PAIR)
                .column("left", ColumnType::Text { max: 8 })
                .column("right", ColumnType::I64)
                .column("value", ColumnType::Bytes { max: 300 })
                .nullable()
                .key(&["left", "right"])
                .inline_columns(),
        )
}

/// The same with keys of more than 240 bytes, whatever stands in them: the primary one of pairs,
/// and of items a secondary index that is, too, the longest that there can be.
pub fn long_schema() -> Schema {
    let of = |table: &TableSchema, wide: &[(&str, u32)]| {
        let mut long = TableSchema::new(table.name());
        for column in table.columns() {
            let max = wide.iter().find(|(name, _)| *name == column.name).map(|(_, max)| *max);
            let kind = match (column.kind, max) {
                (ColumnType::Text { .. }, Some(max)) => ColumnType::Text { max },
                (ColumnType::Bytes { .. }, Some(max)) => ColumnType::Bytes { max },
                (kind, _) => kind,
            };
            long = long.column(&column.name, kind);
        }
        long
    };
    let tables = schema();
    let [item, pair] = tables.tables() else { unreachable!("there are two") };
    let item = of(item, &[("name", 1_022), ("flag", 300)])
        .key(&["id"])
        .index("by_name", &["name"])
        .index("by_count_flag", &["count", "flag"]);
    Schema::new()
        .table(item)
        .table(of(pair, &[("left", 500)]).key(&["left", "right"]).inline_columns())
}

/// The values that stand for NULL in the model: the first one in the order of each index.
const NAME: &str = "n0";
const COUNT: i64 = -3;

/// Returns what is stored for a value of the model.
pub(crate) fn null<'v>(table: &Table, column: u16, value: Value<'v>) -> Value<'v> {
    let is_null = match value {
        Value::Text(text) => text == NAME,
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::I64(number) => number == COUNT,
        Value::F64(number) => number == 0.0,
        _ => false,
    };
    let nullable = table.schema().columns()[usize::from(column)].nullable;
    if is_null && nullable { Value::Null } else { value }
}

fn text(row: &Row, column: usize) -> &str {
    if row.is_null(column) { NAME } else { row.text(column) }
}

fn bytes(row: &Row, column: usize) -> &[u8] {
    if row.is_null(column) { &[] } else { row.bytes(column) }
}

fn integer(row: &Row, column: usize) -> i64 {
    if row.is_null(column) { COUNT } else { row.i64(column) }
}

fn float(row: &Row, column: usize) -> f64 {
    if row.is_null(column) { 0.0 } else { row.f64(column) }
}

/// A tuple of [`ITEM`] but for its key.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// The key of an index.
    pub name: String,
    /// A value of one of many lengths.
    pub payload: Vec<u8>,
    /// The first part of the key of another index.
    pub count: i64,
    /// The second part.
    pub flag: Vec<u8>,
    /// A number in no index.
    pub score: f64,
}

/// The contents of a database of [`schema`].
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
    let [name, payload, count, flag, score] = columns_of(tables, item).map(|(_, value)| value);
    tx.insert(&tables.item, &[Value::U64(key), name, payload, count, flag, score])
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
    let all = columns_of(tables, item);
    let chosen: Vec<_> =
        (0..5).filter(|bit| columns & (1 << bit) != 0).map(|bit| all[bit]).collect();
    tx.update(&tables.item, &[Value::U64(key)], &chosen)
}

/// All columns of an item but its key.
fn columns_of<'i>(tables: &Tables, item: &'i Item) -> [(u16, Value<'i>); 5] {
    let all = [
        (1, Value::Text(&item.name)),
        (2, Value::Bytes(&item.payload)),
        (3, Value::I64(item.count)),
        (4, Value::Bytes(&item.flag)),
        (5, Value::F64(item.score)),
    ];
    all.map(|(column, value)| (column, null(&tables.item, column, value)))
}

/// A whole row of [`ITEM`].
pub fn item_of(row: &Row) -> (u64, Item) {
    let item = Item {
        name: text(row, 1).into(),
        payload: bytes(row, 2).into(),
        count: integer(row, 3),
        flag: bytes(row, 4).into(),
        score: float(row, 5),
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
    partition.read(|tx| view(tx, tables))
}

/// Everything that a transaction sees.
///
/// # Errors
/// As [`contents`].
pub fn view(from: &impl Read, tables: &Tables) -> Result<Model, Error> {
    let (mut model, mut twice) = (Model::default(), false);
    from.scan(&tables.item, &Scan::all(), &mut |row| {
        let (key, item) = item_of(row);
        twice |= model.items.insert(key, item).is_some();
        ControlFlow::Continue(())
    })?;
    from.scan(&tables.pair, &Scan::all(), &mut |row| {
        let key = (row.text(0).to_owned(), row.i64(1));
        twice |= model.pairs.insert(key, bytes(row, 2).to_vec()).is_some();
        ControlFlow::Continue(())
    })?;
    if twice { Err(Error::user("a scan shows a key twice")) } else { Ok(model) }
}

/// Returns true if a partition holds what the model says: as [`contents_in`], without a copy of it.
///
/// # Errors
/// It cannot be read.
pub fn holds_in<E: Environment>(
    partition: &Partition<'_, E>,
    tables: &Tables,
    model: &Model,
) -> Result<bool, Error> {
    partition.read(|tx| view_is(tx, tables, model))
}

/// Returns true if a transaction sees what the model says.
///
/// # Errors
/// It cannot be read.
pub fn view_is(from: &impl Read, tables: &Tables, model: &Model) -> Result<bool, Error> {
    let all = Scan::all();
    let (items, pairs) = (model.items.iter(), model.pairs.iter());
    let same = shows(from, &tables.item, &all, items, |row, one| is_item(row, *one.0, one.1))?;
    Ok(same && shows(from, &tables.pair, &all, pairs, |row, one| is_pair(row, one.0, one.1))?)
}

/// The first of these models that a partition holds, if it holds one of them.
///
/// # Errors
/// It cannot be read.
pub fn which_in<E: Environment>(
    partition: &Partition<'_, E>,
    tables: &Tables,
    models: &[Model],
) -> Result<Option<usize>, Error> {
    for (number, model) in models.iter().enumerate() {
        if holds_in(partition, tables, model)? {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// Returns true if a scan shows these rows, in this order, and nothing else.
fn shows<T>(
    from: &impl Read,
    table: &Table,
    scan: &Scan<'_>,
    mut wanted: impl Iterator<Item = T>,
    is: impl Fn(&Row, &T) -> bool,
) -> Result<bool, Error> {
    let mut same = true;
    from.scan(table, scan, &mut |row| {
        same = same && wanted.next().is_some_and(|one| is(row, &one));
        if same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(same && wanted.next().is_none())
}

fn is_item(row: &Row, key: u64, item: &Item) -> bool {
    let Item { name, payload, count, flag, score } = item;
    let same_key = row.u64(0) == key && text(row, 1) == name && integer(row, 3) == *count;
    same_key && bytes(row, 2) == payload && bytes(row, 4) == flag && float(row, 5) == *score
}

fn is_pair(row: &Row, (left, right): &(String, i64), value: &[u8]) -> bool {
    row.text(0) == left && row.i64(1) == *right && bytes(row, 2) == value
}

/// Returns what differs between the database and the model, in whatever way it is read; and what
/// the allocator says otherwise.
///
/// # Errors
/// The first difference.
pub fn differs<E: Environment>(db: &Database<E>, model: &Model) -> Result<(), String> {
    let held = holds_in(&db.partition(0), &Tables::of(db), model);
    if !held.map_err(|error| unreadable(&error))? {
        return Err("holds something else".into());
    }
    reads_differ(db, model)
}

/// Works as [`differs`], but for a forward scan of the tables.
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

/// Returns what differs between one of several partitions and the model, in whatever way it is
/// read.
///
/// # Errors
/// The first difference.
pub fn differs_in<E: Environment>(
    partition: &Partition<'_, E>,
    tables: &Tables,
    model: &Model,
) -> Result<(), String> {
    if !holds_in(partition, tables, model).map_err(|error| unreadable(&error))? {
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
    let wrong = partition.read(|tx| view_differs(tx, tables, model));
    match wrong.map_err(|error| unreadable(&error))? {
        Some(wrong) => Err(wrong.into()),
        None => Ok(()),
    }
}

/// Returns what differs between the model and what a transaction sees by its indexes, backward and
/// by keys, if anything does.
///
/// # Errors
/// It cannot be read.
pub fn view_differs(
    from: &impl Read,
    tables: &Tables,
    model: &Model,
) -> Result<Option<&'static str>, Error> {
    let (items, pairs) = (&model.items, &model.pairs);
    let mut names: Vec<_> = items.iter().map(|(key, item)| (item.name.as_str(), *key)).collect();
    names.sort_unstable();
    let mut counts: Vec<_> =
        items.iter().map(|(key, item)| (item.count, item.flag.as_slice(), *key)).collect();
    counts.sort_unstable();
    let mut row = Row::new();
    let backward = || Scan::all().backward();
    let (item, pair) = (&tables.item, &tables.pair);
    let keys = items.keys().rev();
    if !shows(from, item, &backward().columns(&[0]), keys, |row, key| row.u64(0) == **key)? {
        return Ok(Some("shows other items backward"));
    }
    let keys = pairs.keys().rev();
    let is = |row: &Row, key: &&(String, i64)| (row.text(0), row.i64(1)) == (&*key.0, key.1);
    if !shows(from, pair, &backward().columns(&[0, 1]), keys, is)? {
        return Ok(Some("shows other pairs backward"));
    }
    let by_name = Scan::all().by("by_name").columns(&[1, 0]);
    if !shows(from, item, &by_name, names.iter(), |row, one| (text(row, 0), row.u64(1)) == **one)? {
        return Ok(Some("has other names in their index"));
    }
    let by_count_flag = Scan::all().by("by_count_flag").columns(&[3, 4, 0]);
    let is =
        |row: &Row, one: &&(i64, &[u8], u64)| (integer(row, 0), bytes(row, 1), row.u64(2)) == **one;
    if !shows(from, item, &by_count_flag, counts.iter(), is)? {
        return Ok(Some("has other tuples of a count and a flag in their index"));
    }
    for (key, one) in items.iter().take(5) {
        if !from.get_into(item, &[Value::U64(*key)], &mut row)? || !is_item(&row, *key, one) {
            return Ok(Some("has another item when asked for it"));
        }
    }
    for (key, value) in pairs.iter().take(5) {
        let (left, right) = (Value::Text(&key.0), Value::I64(key.1));
        if !from.get_into(pair, &[left, right], &mut row)? || !is_pair(&row, key, value) {
            return Ok(Some("has another pair when asked for it"));
        }
    }
    Ok(None)
}

/// The database's own check, which has to find neither damage nor space that leaked or is missing.
///
/// # Errors
/// The damage, or the leak, that it found.
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
