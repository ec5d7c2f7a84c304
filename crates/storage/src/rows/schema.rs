//! Tables, columns, keys and indexes as the user declares them.

use serde::{Deserialize, Serialize};

use crate::error::StorageError;
use crate::rows::by_hand::{json_error, without_mark};
use crate::rows::constant::Constant;
use crate::rows::value::{ColumnType, Value};

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

    /// Adds a column after the existing ones.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, kind: ColumnType) -> Self {
        self.columns.push(Column { name: name.into(), kind, nullable: false, default: None });
        self
    }

    /// Lets the column that was added last be NULL ([`crate::Value::Null`]). It cannot belong to
    /// the primary key. In an index NULL comes before every value.
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
    /// one is refused, and nothing has changed then. As in SQL, NULL is not the same as NULL:
    /// tuples with a NULL in one of these columns are never the same.
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
    /// [`crate::MAX_INLINE_BYTES`] that neither the key nor an index has, as long as the tuple has
    /// at most [`crate::MAX_INLINE_TUPLE`] bytes.
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

    /// The same, with all that can be written in several ways written in one: two schemas are the
    /// same if these are equal.
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
