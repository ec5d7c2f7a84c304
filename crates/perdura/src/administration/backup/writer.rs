//! Writing a backup, from front to back.

use std::io::Write;

use engines::below::{Catalog, Environment, Row, TableLayout, random_uuid};
use zerocopy::IntoBytes;

use super::layout::{
    BLOCK_BYTES, BlockHeader, DESCRIPTION, Description, Header, TABLE_END, TRAILER, TUPLES,
    TableEnd, Trailer,
};
use crate::administration::progress::{CopyProgress, CopyStep, CopySummary, WATCH_EVERY, Watch};
use crate::administration::tuple_code::{Tally, encode};
use crate::database::Database;
use crate::error::Error;
use crate::point_in_time::Part;

/// A stream of blocks to the output, with the sums over it.
pub(super) struct Writer<'a> {
    out: &'a mut dyn Write,
    /// The output's name in errors.
    name: &'a str,
    uuid: [u8; 16],
    at: u64,
    checksum: u32,
    blocks: u64,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut dyn Write, name: &'a str) -> Self {
        Self { out, name, uuid: random_uuid(), at: 0, checksum: 0, blocks: 0 }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let error = |source| Error::Io { path: self.name.into(), source };
        self.out.write_all(bytes).map_err(error)?;
        self.checksum = crc32c::crc32c_append(self.checksum, bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn block(
        &mut self,
        kind: u32,
        place: (u32, u32),
        tuples: u32,
        contents: &[u8],
    ) -> Result<(), Error> {
        let mut header = BlockHeader {
            checksum: 0.into(),
            // A tuple has 128 MiB at most.
            bytes: (contents.len() as u32).into(),
            number: self.blocks.into(),
            kind: kind.into(),
            partition: place.0.into(),
            table: place.1.into(),
            tuples: tuples.into(),
        };
        header.checksum = header.sum(&self.uuid, contents).into();
        self.blocks += 1;
        self.put(header.as_bytes())?;
        self.put(contents)
    }

    /// Writes everything. The parts are given back one by one, as they have been copied.
    pub(super) fn write<E: Environment>(
        mut self,
        (description, catalog): (&Description, &Catalog),
        parts: Vec<Part<'_, E>>,
        watch: Watch<'_>,
    ) -> Result<CopySummary, Error> {
        let tables = description.schema.tables();
        let mut summary = CopySummary::default();
        summary.tables.extend(tables.iter().map(|table| (table.name().to_owned(), 0)));
        self.begin(description)?;
        let mut buffers = Buffers::default();
        let mut done = 0;
        for (partition, part) in (0..).zip(parts) {
            for (table, (_, tuples)) in (0..).zip(&mut summary.tables) {
                let (place, layout) = ((partition, table), &catalog.tables[table as usize]);
                let tally = self.table(&part, (place, layout), done, &mut buffers, watch)?;
                *tuples += tally.tuples;
                done += tally.tuples;
            }
        }
        summary.bytes = self.end(done)?;
        watch(CopyProgress { step: CopyStep::Write, done, total: Some(done) });
        Ok(summary)
    }

    /// Writes what a backup begins with.
    pub(super) fn begin(&mut self, description: &Description) -> Result<(), Error> {
        let header = Header::new(self.uuid);
        self.put(header.as_bytes())?;
        let json = serde_json::to_vec(description).map_err(Error::user)?;
        self.block(DESCRIPTION, (0, 0), 0, &json)
    }

    /// Writes what a backup of so many tuples, or pages, ends with; returns its bytes.
    pub(super) fn end(&mut self, count: u64) -> Result<u64, Error> {
        let end = Trailer {
            tuples: count.into(),
            bytes: (self.at + (size_of::<BlockHeader>() + size_of::<Trailer>()) as u64).into(),
            checksum: self.checksum.into(),
            zero: 0.into(),
        };
        self.block(TRAILER, (0, 0), 0, end.as_bytes())?;
        self.out.flush().map_err(|source| Error::Io { path: self.name.into(), source })?;
        Ok(self.at)
    }

    /// Writes a table of a partition; `done` tuples of the backup are written already.
    fn table<E: Environment>(
        &mut self,
        part: &Part<'_, E>,
        (place, layout): ((u32, u32), &TableLayout),
        done: u64,
        buffers: &mut Buffers,
        watch: Watch<'_>,
    ) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        let (mut tuples, Buffers { row, block }) = (0, buffers);
        block.clear();
        part.each((place.1 as u16, layout), row, |row| {
            if block.len() >= BLOCK_BYTES {
                self.block(TUPLES, place, tuples, block)?;
                tuples = 0;
                block.clear();
            }
            let start = block.len();
            encode(&layout.declared, row.values(), block);
            tally.add(&block[start..]);
            tuples += 1;
            if (done + tally.tuples).is_multiple_of(WATCH_EVERY) {
                watch(CopyProgress {
                    step: CopyStep::Write,
                    done: done + tally.tuples,
                    total: None,
                });
            }
            Ok(())
        })?;
        if tuples > 0 {
            self.block(TUPLES, place, tuples, block)?;
        }
        let end = TableEnd { tuples: tally.tuples.into(), sum: tally.sum.into() };
        self.block(TABLE_END, place, 0, end.as_bytes())?;
        Ok(tally)
    }
}

/// Used again for every table.
#[derive(Default)]
struct Buffers {
    row: Row,
    block: Vec<u8>,
}

/// Returns the description of the database that its backup has.
pub(super) fn describe<E: Environment>(database: &Database<E>) -> Result<Description, Error> {
    let described = database.description()?;
    Ok(Description {
        perdura: env!("CARGO_PKG_VERSION").into(),
        engine: described.engine,
        partitions: described.partitions,
        node_bytes: described.node_bytes,
        chunk_bytes: database.heap.chunk_bytes(),
        schema: described.schema,
        base: false,
    })
}
