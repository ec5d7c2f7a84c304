//! Writing JSON lines.

use std::io::Write;
use std::path::Path;

use engines::below::{AroundPath, ColumnType, Environment, NewFile, Row, Schema, visible_json};

use super::text::{put_text, put_value};
use super::{End, FORMAT, HEAD_BEGINS, Head};
use crate::administration::progress::{CopyProgress, CopyStep, CopySummary, WATCH_EVERY, Watch};
use crate::database::Database;
use crate::error::Error;
use crate::table::Table;
use crate::transaction::own_table;

/// Bytes that are put together before they are written.
const BUFFER_BYTES: usize = 64 << 10;

impl<E: Environment> Database<E> {
    /// Writes these tables as JSON lines to a new file, as [`Database::dump_to`] does. When this
    /// returns the file is durable, as far as its file system can make it so.
    ///
    /// # Errors
    /// As [`Database::dump_to`], or there is something at `path` already. Nothing is left at `path`
    /// then.
    pub fn dump(
        &self,
        path: impl AsRef<Path>,
        tables: &[Table],
        watch: Watch<'_>,
    ) -> Result<CopySummary, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let error = |source| Error::Io { path: name.clone(), source };
        let (directory, own) = AroundPath::of(path).map_err(error)?;
        let mut file = NewFile::create(&directory, &own, HEAD_BEGINS).map_err(error)?;
        let summary = self.dump_to(&mut file, &name, tables, watch)?;
        file.finish().map_err(error)?;
        Ok(summary)
    }

    /// Writes these tables as JSON lines to `out`, which errors call `name`; all tables if none is
    /// named. The tuples of every partition are written partition by partition, table by table, in
    /// the order of the primary key. The dump is what was committed at one moment, and writers wait
    /// as for [`Database::backup`].
    ///
    /// # Errors
    /// The output accepts no more, the database cannot be read, [`Error::ForeignTable`], or a table
    /// is named twice.
    pub fn dump_to(
        &self,
        out: &mut dyn Write,
        name: &str,
        tables: &[Table],
        watch: Watch<'_>,
    ) -> Result<CopySummary, Error> {
        let all: Vec<Table>;
        let tables = if tables.is_empty() {
            let names = self.catalog.schema.tables().iter().map(|table| self.table(table.name()));
            all = names.collect::<Result<_, _>>()?;
            &all
        } else {
            tables
        };
        for (number, table) in tables.iter().enumerate() {
            own_table(&self.catalog, table)?;
            if tables[..number].iter().any(|other| other.number == table.number) {
                let name = table.name();
                return Err(Error::Options(format!("table `{name}` is named twice; name it once")));
            }
        }
        let mut out = Out { out, name, buffer: Vec::with_capacity(2 * BUFFER_BYTES), bytes: 0 };
        out.line(&self.head(tables)?)?;
        let mut summary = CopySummary::default();
        summary.tables.extend(tables.iter().map(|table| (table.name().to_owned(), 0)));
        let (mut done, mut row) = (0, Row::new());
        let several = self.partitions.len() > 1;
        for (partition, part) in self.point_in_time()?.into_iter().enumerate() {
            for (table, (_, tuples)) in tables.iter().zip(&mut summary.tables) {
                let names = Names::new(table, several.then_some(partition));
                part.each((table.number, &table.layout), &mut row, |row| {
                    out.tuple(&names, row)?;
                    *tuples += 1;
                    done += 1;
                    if done % WATCH_EVERY == 0 {
                        watch(CopyProgress { step: CopyStep::Write, done, total: None });
                    }
                    Ok(())
                })?;
            }
        }
        out.line(&serde_json::json!({ "end": End { tuples: done } }))?;
        out.flush()?;
        watch(CopyProgress { step: CopyStep::Write, done, total: Some(done) });
        summary.bytes = out.bytes;
        Ok(summary)
    }

    fn head(&self, tables: &[Table]) -> Result<Head, Error> {
        let described = self.description()?;
        let schemas = tables.iter().map(|table| table.layout.declared.clone());
        Ok(Head {
            perdura_dump: FORMAT,
            perdura: env!("CARGO_PKG_VERSION").into(),
            engine: described.engine,
            partitions: described.partitions,
            node_bytes: described.node_bytes,
            schema: schemas.fold(Schema::new(), Schema::table),
        })
    }
}

/// The parts that are the same in every line of a table: all but the values.
struct Names {
    start: Vec<u8>,
    /// The bytes before each column's value, and its type.
    columns: Vec<(Vec<u8>, ColumnType)>,
}

impl Names {
    fn new(table: &Table, partition: Option<usize>) -> Self {
        let mut start = b"{\"table\":".to_vec();
        put_text(table.name(), &mut start);
        if let Some(partition) = partition {
            start.extend(format!(",\"partition\":{partition}").bytes());
        }
        start.extend(b",\"tuple\":{");
        let columns = table.schema().columns().iter().enumerate().map(|(number, column)| {
            let mut text = if number > 0 { b",".to_vec() } else { Vec::new() };
            put_text(&column.name, &mut text);
            text.push(b':');
            (text, column.kind)
        });
        Self { start, columns: columns.collect() }
    }
}

struct Out<'a> {
    out: &'a mut dyn Write,
    name: &'a str,
    buffer: Vec<u8>,
    bytes: u64,
}

impl Out<'_> {
    fn line(&mut self, value: &impl serde::Serialize) -> Result<(), Error> {
        let json = serde_json::to_string(value).map_err(Error::user)?;
        self.buffer.extend_from_slice(visible_json(&json).as_bytes());
        self.buffer.push(b'\n');
        Ok(())
    }

    fn tuple(&mut self, names: &Names, row: &Row) -> Result<(), Error> {
        self.buffer.extend_from_slice(&names.start);
        for ((before, kind), value) in names.columns.iter().zip(row.values()) {
            self.buffer.extend_from_slice(before);
            put_value(*kind, &value, &mut self.buffer);
        }
        self.buffer.extend_from_slice(b"}}\n");
        if self.buffer.len() >= BUFFER_BYTES {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Error> {
        let error = |source| Error::Io { path: self.name.into(), source };
        self.out.write_all(&self.buffer).map_err(error)?;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.write()?;
        self.out.flush().map_err(|source| Error::Io { path: self.name.into(), source })
    }
}
