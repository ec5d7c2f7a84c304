//! Tables, columns, keys and indexes: what the user declares, and what follows from it.

use std::collections::HashSet;
use std::sync::Arc;

use index::{MAX_KEY_BYTES, WIDE_KEY_BYTES};
use serde::{Deserialize, Serialize};

use crate::by_hand::{did_you_mean, json_error, without_mark};
use crate::constant::Constant;
use crate::error::StorageError;
use crate::key::{check_value, wrong_uuid};
use crate::nulls::{NullBit, with_null_words};
use crate::value::{ColumnType, UUID_BYTES, Value};

/// The longest text or bytes value of a column, in bytes.
pub const MAX_VALUE_BYTES: u32 = 16 << 20;
/// The longest tuple, by the declaration of its columns, in bytes.
pub const MAX_TUPLE_BYTES: u64 = 128 << 20;
/// The most bytes that a primary key has, and the columns of a secondary index, whose keys have the
/// primary key behind them; encoded.
pub const MAX_OWN_KEY_BYTES: usize = 1024;
const _: () = assert!(2 * MAX_OWN_KEY_BYTES <= MAX_KEY_BYTES);
/// The most columns that a table can have.
pub const MAX_COLUMNS: usize = 1024;
/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ColumnType,
    /// True if it may be NULL.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nullable: bool,
    /// The value that it gets where an insert does not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Constant>,
}

impl Column {
    /// The same, its default written as [`TableSchema::default`] writes it, if it is possible.
    fn normalized(&self) -> Self {
        let default = self.default.as_ref();
        let resolved = default.and_then(|constant| constant.resolved(self.kind));
        let written = resolved.and_then(|constant| Constant::of(self.kind, &constant.value()));
        Self { default: written.or_else(|| self.default.clone()), ..self.clone() }
    }
}

/// A secondary index: finds tuples by other columns than the primary key. Several tuples may have
/// the same values there, unless it is unique.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexSchema {
    /// Its name.
    pub name: String,
    /// The names of its columns, most significant first.
    pub columns: Vec<String>,
    /// True if no two tuples may have the same values there; see [`TableSchema::unique_index`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unique: bool,
}

/// A table as the user declares it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSchema {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) key: Vec<String>,
    #[serde(default)]
    pub(crate) indexes: Vec<IndexSchema>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) inline: bool,
}

impl TableSchema {
    /// A table without columns.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            columns: Vec::new(),
            key: Vec::new(),
            indexes: Vec::new(),
            inline: false,
        }
    }

    /// Adds a column behind those that there are.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, kind: ColumnType) -> Self {
        self.columns.push(Column { name: name.into(), kind, nullable: false, default: None });
        self
    }

    /// Lets the column that was added last be NULL ([`crate::Value::Null`]). It cannot belong to the
    /// primary key. In an index NULL comes before every value.
    ///
    /// # Panics
    /// There is no column yet.
    #[must_use]
    pub fn nullable(mut self) -> Self {
        self.columns.last_mut().expect("`nullable` follows upon a column").nullable = true;
        self
    }

    /// Gives the column that was added last this value where an insert does not name it:
    /// `Tx::insert_columns`, and JSON lines. Without a default it is NULL there, if it may be.
    ///
    /// # Panics
    /// There is no column yet.
    #[must_use]
    pub fn default(mut self, value: Value<'_>) -> Self {
        let column = self.columns.last_mut().expect("`default` follows upon a column");
        column.default = Constant::of(column.kind, &value);
        self
    }

    /// Sets the primary key, most significant column first.
    #[must_use]
    pub fn key(mut self, columns: &[&str]) -> Self {
        self.key = columns.iter().map(ToString::to_string).collect();
        self
    }

    /// Adds a secondary index.
    #[must_use]
    pub fn index(mut self, name: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(ToString::to_string).collect();
        self.indexes.push(IndexSchema { name: name.into(), columns, unique: false });
        self
    }

    /// Adds a secondary index in which no two tuples of a partition have the same values: a second
    /// one is refused, and nothing has changed then. As in SQL, NULL is not the same as NULL: tuples
    /// with a NULL in one of these columns are never the same.
    #[must_use]
    pub fn unique_index(mut self, name: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(ToString::to_string).collect();
        self.indexes.push(IndexSchema { name: name.into(), columns, unique: true });
        self
    }

    /// Keeps text and bytes within the tuple instead of in slots of their own, in engines that can
    /// do so (`nvm-inp`; the others do as without it). A tuple is then read from one place, and its
    /// columns need no bits and no pointers of their own; in turn each tuple takes as much as its
    /// columns may hold. Inlined are, in their order, the columns of at most
    /// [`crate::MAX_INLINE_BYTES`] that neither the key nor an index has, as long as the tuple has at
    /// most [`crate::MAX_INLINE_TUPLE`] bytes.
    #[must_use]
    pub fn inline_columns(mut self) -> Self {
        self.inline = true;
        self
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The table's columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The names of the primary key's columns.
    pub fn key_columns(&self) -> &[String] {
        &self.key
    }

    /// The secondary indexes.
    pub fn indexes(&self) -> &[IndexSchema] {
        &self.indexes
    }

    /// Returns whether [`Self::inline_columns`] has been asked for.
    pub fn has_inline_columns(&self) -> bool {
        self.inline
    }
}

/// All tables of a database.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    pub(crate) tables: Vec<TableSchema>,
}

impl Schema {
    /// A schema without tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a table.
    #[must_use]
    pub fn table(mut self, table: TableSchema) -> Self {
        self.tables.push(table);
        self
    }

    /// Reads a schema as people write it, in JSON; `perdura pool create --help` shows one. A byte
    /// order mark before it is passed over.
    ///
    /// # Errors
    /// It is no JSON, or has a field that a schema does not have; the text says where, and what was
    /// probably meant. Whether the schema makes sense is seen when a database is created.
    pub fn from_json(text: &[u8]) -> Result<Self, StorageError> {
        let wrong = |why: String| StorageError::Schema(format!("is no schema: {why}"));
        let text = without_mark(text).map_err(|why| wrong(why.into()))?;
        let schema: Self = serde_json::from_slice(text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            wrong(format!("line {line}, column {column}: {}", json_error(&error)))
        })?;
        Ok(schema.normalized())
    }

    /// The same, with all that can be written in several ways written in one: two schemas are the same
    /// if these are equal.
    #[must_use]
    pub fn normalized(&self) -> Self {
        let table = |table: &TableSchema| {
            let columns = table.columns.iter().map(Column::normalized).collect();
            TableSchema { columns, ..table.clone() }
        };
        Self { tables: self.tables.iter().map(table).collect() }
    }

    /// The tables.
    pub fn tables(&self) -> &[TableSchema] {
        &self.tables
    }
}

/// The key of the primary or of a secondary index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyLayout {
    /// The name of the key in errors.
    pub(crate) what: String,
    /// The columns, most significant first; for a secondary index the primary key's follow.
    pub(crate) columns: Vec<u16>,
    /// The bit that says whether a column is NULL, for each of them, if it can be. Empty if none
    /// can.
    pub(crate) nulls: Vec<Option<NullBit>>,
    /// The number of them that the user gave.
    pub(crate) own_columns: usize,
    /// Their types.
    pub(crate) kinds: Vec<ColumnType>,
    /// Bytes of the encoding of the columns that the user gave: where the primary key's start.
    pub(crate) own_bytes: usize,
    /// Bytes of the encoding.
    pub(crate) bytes: usize,
    /// The same with the padding: a multiple of 8.
    pub(crate) width: usize,
    /// True if it is made of numbers that fit together into eight bytes, for which the tree has a
    /// fast path.
    pub(crate) narrow: bool,
}

/// A table with all that follows from its declaration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableLayout {
    /// The declaration.
    pub declared: TableSchema,
    /// The table as engines store it: behind the columns of the declaration come the null words, if
    /// there are columns that may be NULL.
    pub schema: TableSchema,
    /// The bit that says whether a column is NULL, for each column, if it can be. Empty if none
    /// can.
    pub(crate) nulls: Vec<Option<NullBit>>,
    pub(crate) number: u16,
    pub(crate) primary: KeyLayout,
    pub(crate) secondary: Vec<KeyLayout>,
    /// True for each column that belongs to the primary key.
    pub(crate) in_key: Vec<bool>,
    /// True for each column that a secondary index has.
    pub(crate) indexed: Vec<bool>,
    pub(crate) has_text: bool,
    /// True if the table has no column that may be NULL, and no unique index.
    pub(crate) plain: bool,
    /// The default of each column, if it has one. Empty if none has.
    defaults: Vec<Option<Constant>>,
}

impl TableLayout {
    /// The places of the primary key's columns, in the key's order.
    pub fn key_columns(&self) -> impl Iterator<Item = usize> {
        self.primary.columns.iter().map(|column| usize::from(*column))
    }

    /// Returns the value that the column number `column` gets where an insert does not name it: its
    /// default, NULL if it may be, or nothing.
    pub fn default_of(&self, column: usize) -> Option<Value<'_>> {
        let default = self.defaults.get(column).and_then(Option::as_ref).map(Constant::value);
        let nullable = self.declared.columns.get(column).is_some_and(|column| column.nullable);
        default.or_else(|| nullable.then_some(Value::Null))
    }

    /// The number of the column `name`.
    pub fn column(&self, name: &str) -> Option<u16> {
        let found = self.declared.columns.iter().position(|column| column.name == name)?;
        Some(found as u16)
    }

    /// The number of the secondary index `name`.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.schema.indexes.iter().position(|index| index.name == name)
    }

    fn new(schema: &TableSchema, number: u16) -> Result<Self, StorageError> {
        let wrong = |why: String| StorageError::Schema(format!("table `{}`: {why}", schema.name));
        if schema.name.is_empty() || schema.name.len() > 255 {
            return Err(wrong("its name must have 1 to 255 bytes".into()));
        }
        if schema.columns.is_empty() || schema.columns.len() > MAX_COLUMNS {
            return Err(wrong(format!("it must have 1 to {MAX_COLUMNS} columns")));
        }
        let (declared, (schema, nulls)) = (schema, with_null_words(schema));
        if schema.columns.len() > MAX_COLUMNS {
            let most = MAX_COLUMNS - (schema.columns.len() - declared.columns.len());
            return Err(wrong(format!(
                "with as many that are nullable, it has {most} columns at most"
            )));
        }
        let mut names = HashSet::new();
        for column in &declared.columns {
            if column.name.is_empty() {
                return Err(wrong("a column has no name".into()));
            }
            if !names.insert(&column.name) {
                return Err(wrong(format!("two columns are called `{}`", column.name)));
            }
            if column.kind.max_bytes().is_some_and(|max| max > MAX_VALUE_BYTES) {
                return Err(wrong(format!(
                    "column `{}` may hold at most {MAX_VALUE_BYTES} bytes",
                    column.name
                )));
            }
        }
        let most = |column: &Column| u64::from(column.kind.max_bytes().unwrap_or(8));
        let tuple: u64 = schema.columns.iter().map(most).sum();
        if tuple > MAX_TUPLE_BYTES {
            return Err(wrong(format!(
                "a tuple may have {tuple} bytes, at most {MAX_TUPLE_BYTES} are possible; declare less"
            )));
        }
        let number_of = |name: &String| {
            let found = schema.columns.iter().position(|column| column.name == *name);
            found.map(|at| at as u16).ok_or_else(|| {
                let known = schema.columns.iter().map(|column| column.name.as_str());
                wrong(format!("there is no column `{name}`{}", did_you_mean(name, known)))
            })
        };
        let once = |what: &str, own: &[u16]| {
            let twice = (1..own.len()).find(|at| own[..*at].contains(&own[*at]));
            twice.map_or(Ok(()), |at| {
                let name = &schema.columns[usize::from(own[at])].name;
                Err(wrong(format!("{what} has column `{name}` twice")))
            })
        };
        let key: Vec<u16> = schema.key.iter().map(number_of).collect::<Result<_, _>>()?;
        if key.is_empty() {
            return Err(wrong("it has no primary key; name its columns with `.key(&[..])`".into()));
        }
        once("the primary key", &key)?;
        if let Some(column) = key
            .iter()
            .map(|column| &schema.columns[usize::from(*column)])
            .find(|column| column.nullable)
        {
            let why = "belongs to the primary key and cannot be nullable";
            return Err(wrong(format!("column `{}` {why}", column.name)));
        }
        let key_layout = |what: String, own: &[u16], more: &[u16]| {
            let columns: Vec<u16> = own.iter().chain(more).copied().collect();
            KeyLayout::new(&schema, &nulls, (what, columns, own.len()))
        };
        let primary = key_layout(format!("the primary key of table `{}`", schema.name), &key, &[])?;
        let mut indexed = vec![false; schema.columns.len()];
        let mut index_names = HashSet::new();
        let mut secondary = Vec::new();
        for index in &schema.indexes {
            if index.name.is_empty() {
                return Err(wrong("an index has no name".into()));
            }
            if !index_names.insert(&index.name) {
                return Err(wrong(format!("two indexes are called `{}`", index.name)));
            }
            let own: Vec<u16> = index.columns.iter().map(number_of).collect::<Result<_, _>>()?;
            if own.is_empty() {
                return Err(wrong(format!("index `{}` has no columns", index.name)));
            }
            once(&format!("index `{}`", index.name), &own)?;
            own.iter().for_each(|column| indexed[usize::from(*column)] = true);
            let key = key_layout(format!("index `{}`", index.name), &own, &key)?;
            key.null_words().for_each(|word| indexed[usize::from(word)] = true);
            secondary.push(key);
        }
        let mut in_key = vec![false; schema.columns.len()];
        key.iter().for_each(|column| in_key[usize::from(*column)] = true);
        let has_text =
            schema.columns.iter().any(|column| matches!(column.kind, ColumnType::Text { .. }));
        Ok(Self {
            plain: nulls.is_empty() && !schema.indexes.iter().any(|index| index.unique),
            defaults: defaults(declared)?,
            declared: declared.clone(),
            schema,
            nulls,
            number,
            primary,
            secondary,
            in_key,
            indexed,
            has_text,
        })
    }
}

/// The defaults of a table's columns, as values of their types.
fn defaults(table: &TableSchema) -> Result<Vec<Option<Constant>>, StorageError> {
    let mut found = Vec::new();
    for (number, column) in table.columns.iter().enumerate() {
        let Some(constant) = &column.default else { continue };
        let resolved = constant.resolved(column.kind);
        let value = resolved.as_ref().unwrap_or(constant).value();
        let mut checked = check_value(table, number as u16, &value);
        if column.kind == ColumnType::Uuid && matches!(value, Value::Bytes([])) {
            checked = Err(wrong_uuid(column, 0));
        }
        checked.map_err(|error| {
            let why = format!("table `{}`: the default is none: {error}", table.name);
            StorageError::Schema(why)
        })?;
        found.resize(table.columns.len(), None);
        found[number] = resolved;
    }
    Ok(found)
}

impl KeyLayout {
    fn new(
        schema: &TableSchema,
        nulls: &[Option<NullBit>],
        (what, columns, own_columns): (String, Vec<u16>, usize),
    ) -> Result<Self, StorageError> {
        let declared = || columns.iter().map(|column| &schema.columns[usize::from(*column)]);
        let kinds: Vec<ColumnType> = declared().map(|column| column.kind).collect();
        let sum = |columns: usize| {
            let each = declared().take(columns);
            each.map(|column| usize::from(column.nullable) + encoded_bytes(column.kind)).sum()
        };
        let (own_bytes, bytes): (usize, usize) = (sum(own_columns), sum(columns.len()));
        let mut nulls: Vec<_> = columns
            .iter()
            .map(|column| nulls.get(usize::from(*column)).copied().flatten())
            .collect();
        if nulls.iter().all(Option::is_none) {
            nulls.clear();
        }
        // The primary key at the end of a secondary one has been found to be short enough.
        if own_bytes > MAX_OWN_KEY_BYTES {
            return Err(StorageError::Schema(format!(
                "{what}: its columns take {own_bytes} bytes, a key has at most {MAX_OWN_KEY_BYTES}"
            )));
        }
        let width = bytes.next_multiple_of(8);
        let numbers = kinds.iter().all(|kind| kind.number_bytes().is_some());
        let narrow = width == 8 && numbers && nulls.is_empty();
        Ok(Self { what, columns, nulls, own_columns, kinds, own_bytes, bytes, width, narrow })
    }

    /// Returns whether keys are too wide for [`index::WideKey`].
    #[inline]
    pub(crate) fn is_long(&self) -> bool {
        self.width > WIDE_KEY_BYTES
    }

    /// The bytes of the primary key in those of a key of a secondary index, which ends with them;
    /// without padding. `None`: there are not so many.
    pub(crate) fn primary_part<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.get(self.own_bytes..self.bytes)
    }
}

/// Bytes that a column takes in a key.
pub(crate) fn encoded_bytes(kind: ColumnType) -> usize {
    match (kind.number_bytes(), kind.max_bytes()) {
        (Some(bytes), _) => bytes as usize,
        _ if kind == ColumnType::Uuid => UUID_BYTES as usize,
        (None, max) => max.map_or(0, |max| max as usize + 2),
    }
}

/// A schema that has been found to make sense, with all that follows from it alone: tables, columns,
/// keys and their encodings. How tuples and indexes lie in a memory or a file belongs to the engine,
/// which derives it from this; [`crate::SlotLayout`] is one way.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// The tables, in the order in which they were declared.
    pub tables: Vec<Arc<TableLayout>>,
    /// The declaration.
    pub schema: Schema,
}

impl Catalog {
    /// Checks a schema.
    ///
    /// # Errors
    /// What is wrong with the schema.
    pub fn new(schema: &Schema) -> Result<Self, StorageError> {
        if schema.tables.is_empty() || schema.tables.len() > 1024 {
            return Err(StorageError::Schema("a schema has 1 to 1024 tables".into()));
        }
        let schema = &schema.normalized();
        let mut names = HashSet::new();
        let mut tables = Vec::new();
        for (number, table) in schema.tables.iter().enumerate() {
            if !names.insert(&table.name) {
                return Err(StorageError::Schema(format!(
                    "two tables are called `{}`",
                    table.name
                )));
            }
            tables.push(Arc::new(TableLayout::new(table, number as u16)?));
        }
        Ok(Self { tables, schema: schema.clone() })
    }

    /// A number that differs between schemas, to tell files of one database from those of another.
    pub fn fingerprint(&self) -> u32 {
        let json = serde_json::to_vec(&self.schema).unwrap_or_default();
        crc32c::crc32c(&json)
    }

    /// Returns how many indexes there are, primary and secondary.
    pub fn index_count(&self) -> usize {
        self.tables.iter().map(|table| 1 + table.secondary.len()).sum()
    }

    /// The number of the table `name`.
    pub fn table(&self, name: &str) -> Option<usize> {
        self.tables.iter().position(|table| table.schema.name == name)
    }
}
