//! The catalog, which follows from a schema alone: tables, keys, their encodings, the bits for
//! NULL.

use std::collections::HashSet;
use std::sync::Arc;

use index::WIDE_KEY_BYTES;

use crate::error::StorageError;
use crate::limits::{MAX_COLUMNS, MAX_OWN_KEY_BYTES, MAX_TUPLE_BYTES, MAX_VALUE_BYTES};
use crate::rows::by_hand::did_you_mean;
use crate::rows::constant::Constant;
use crate::rows::fits::{check_value, wrong_uuid};
use crate::rows::null_words::{NullBit, with_null_words};
use crate::rows::schema::{Column, Schema, TableSchema};
use crate::rows::value::{ColumnType, UUID_BYTES, Value};

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
    /// The table as engines store it: the columns of the declaration, then the null words, if any
    /// column may be NULL.
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
            let (name, hint) = (&table.name, constant.hint(column.kind));
            let why = "a default that its column cannot hold";
            StorageError::Schema(format!("table `{name}` has {why}: {error}{hint}"))
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

/// A schema that has been found to make sense, with all that follows from it alone: tables,
/// columns, keys and their encodings. How tuples and indexes lie in a memory or a file belongs to
/// the engine, which derives it from this; [`crate::SlotLayout`] is one way.
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
    /// The schema is wrong; the error says how.
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
