//! Tables as the column store has them: a column each, words for numbers and bytes for the rest;
//! and the keys of their indexes.

use std::borrow::Cow;
use std::sync::Arc;

use column::{ColumnError, Field, IndexKey, Keys, Kind, Part, Structure, Value};
use pm::{Bad, Bytes};
use storage::{Catalog, ColumnType, PrimaryBytes, StoredRow, TableLayout, did_you_mean};

use crate::error::EngineError;
use crate::shadow::TreeMap;

/// The tables of a partition.
#[derive(Debug)]
pub(super) struct ColumnTables {
    pub(super) map: TreeMap<Arc<TableLayout>>,
    /// The columns of each index, table by table.
    columns: Vec<Vec<usize>>,
}

impl ColumnTables {
    pub(super) fn new(catalog: &Catalog) -> Self {
        let map = TreeMap::new(catalog.tables.iter().cloned());
        let columns = map.trees().map(|(layout, _, index)| {
            layout.index_columns(index).into_iter().map(usize::from).collect()
        });
        Self { columns: columns.collect(), map }
    }

    pub(super) fn layout(&self, table: u16) -> &TableLayout {
        self.map.layout(table)
    }

    /// The number of tables.
    pub(super) fn count(&self) -> u16 {
        self.map.layouts().len() as u16
    }

    /// The kinds of all columns.
    pub(super) fn kinds(&self) -> Vec<Vec<Kind>> {
        let kind = |column: &storage::Column| match column.kind.max_bytes() {
            Some(_) => Kind::Bytes,
            None => Kind::Word,
        };
        let of = |table: &Arc<TableLayout>| table.schema.columns().iter().map(kind).collect();
        self.map.layouts().iter().map(of).collect()
    }

    /// The name of a structure, as [`crate::StructureStats`] has it.
    pub(super) fn structure_name(&self, structure: Structure) -> String {
        let declared = &self.layout(structure.table as u16).schema;
        let table = declared.name();
        match structure.part {
            Part::Keys(0) => format!("{table}.key"),
            Part::Keys(index) => format!("{table}.index.{}", declared.indexes()[index - 1].name),
            Part::Dictionary(column) => {
                format!("{table}.dictionary.{}", declared.columns()[column].name)
            }
        }
    }

    /// All structures, in the order of the tables; of each those of keys first.
    fn structures(&self) -> Vec<Structure> {
        let of_table = |table: usize| {
            let layout = self.layout(table as u16);
            let keys = (0..layout.index_count()).map(Part::Keys);
            let dictionaries = (0..layout.schema.columns().len()).map(Part::Dictionary);
            keys.chain(dictionaries).map(move |part| Structure { table, part })
        };
        (0..usize::from(self.count())).flat_map(of_table).collect()
    }

    /// The structures with these names. Two may have one name, of tables whose names have dots:
    /// both are meant.
    ///
    /// # Errors
    /// There is none of a name.
    pub(super) fn structures_named(&self, names: &[String]) -> Result<Vec<Structure>, EngineError> {
        let all = self.structures();
        let known: Vec<String> = all.iter().map(|it| self.structure_name(*it)).collect();
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let before = found.len();
            found.extend(
                all.iter().zip(&known).filter(|(_, known)| *known == name).map(|(it, _)| *it),
            );
            if found.len() == before {
                return Err(EngineError::NoStructure {
                    name: name.clone(),
                    near: did_you_mean(name, known.iter().map(String::as_str)),
                    known: known.join(", "),
                });
            }
        }
        Ok(found)
    }
}

impl Keys for ColumnTables {
    fn count(&self, table: usize) -> usize {
        self.layout(table as u16).index_count()
    }

    fn columns(&self, table: usize, index: usize) -> &[usize] {
        &self.columns[self.map.tree(table as u16, index)]
    }

    fn key(&self, table: usize, index: usize, row: &[Field]) -> Result<IndexKey, ColumnError> {
        let layout = self.layout(table as u16);
        let key = Fields { layout, fields: row }.key(index)?;
        let bytes = key.bytes(&mut [0; 8]).to_vec();
        let unique = layout.unique_part(index, &bytes);
        Ok(IndexKey { bytes, unique })
    }

    fn primary<'k>(&self, table: usize, index: usize, key: &'k [u8]) -> Cow<'k, [u8]> {
        let mut out = PrimaryBytes::default();
        self.layout(table as u16).primary_of(index, Bytes::from(key), &mut out).to_vec().into()
    }

    /// Both zeros are one key, and so is every NaN.
    fn is_exact(&self, table: usize) -> bool {
        let layout = self.layout(table as u16);
        let kind = |column: usize| layout.schema.columns()[column].kind;
        layout.key_columns().all(|column| kind(column) != ColumnType::F64)
    }
}

/// A row of the store as storage reads it.
pub(super) struct Fields<'a> {
    pub(super) layout: &'a TableLayout,
    pub(super) fields: &'a [Field],
}

impl<'a> StoredRow<'a> for Fields<'a> {
    fn layout(&self) -> &'a TableLayout {
        self.layout
    }

    fn word(&self, column: usize) -> u64 {
        match self.fields.get(column) {
            Some(Field::Word(word)) => *word,
            _ => 0,
        }
    }

    fn part(&self, column: usize) -> Result<Bytes<'a>, Bad> {
        match self.fields.get(column) {
            Some(Field::Bytes(bytes)) => Ok(Bytes::from(bytes)),
            _ => Err(Bad::Damaged { what: "bytes of a column", at: 0 }),
        }
    }
}

/// A value as the store has it.
pub(super) fn value<'v>(value: &storage::Value<'v>) -> Value<'v> {
    use storage::Value as Given;
    match value {
        Given::U64(word) => Value::Word(*word),
        Given::I64(word) => Value::Word(word.cast_unsigned()),
        Given::F64(number) => Value::Word(number.to_bits()),
        Given::Bool(truth) => Value::Word(u64::from(*truth)),
        Given::Text(text) => Value::Bytes(text.as_bytes()),
        Given::Bytes(bytes) => Value::Bytes(bytes),
        Given::Null => Value::Null,
    }
}
