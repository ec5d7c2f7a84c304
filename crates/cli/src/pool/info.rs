//! `perdura pool info`: what a pool says of itself.

use std::fmt::Write as _;
use std::path::Path;

use command::failure::Failure;
use command::output::{JsonTarget, check_target, report};
use command::units::{bytes, grouped};
use perdura::{
    ColumnType, EngineKind, EngineOptions, Inspection, PagedFigures, TableSchema, inspect,
};
use pm::Escaped;
use serde::Serialize;

use super::damage_text;

/// The JSON of `pool info`.
#[derive(Debug, Serialize)]
struct Info<'a> {
    perdura: &'static str,
    file: String,
    uuid: String,
    engine: &'a str,
    domain: &'static str,
    modelled: bool,
    survives: &'static str,
    medium: &'a str,
    flush: Option<&'static str>,
    clean: bool,
    size_bytes: u64,
    limit_bytes: u64,
    stored_bytes: u64,
    /// The directory with the engine's files; `null` for an engine without files.
    files: Option<String>,
    /// The reason why they cannot be opened.
    files_missing: Option<&'a str>,
    /// Pages and log of each partition, in an engine with a buffer pool.
    paged: Vec<Paged>,
    tail_bytes: u64,
    header_damage: Option<&'static str>,
    partitions: u32,
    node_bytes: u32,
    chunk_bytes: u64,
    tables: &'a [TableSchema],
}

/// The JSON of a partition with a buffer pool.
#[derive(Debug, Serialize)]
struct Paged {
    page_bytes: u64,
    pages: u64,
    /// Frames of the buffer pool, unless another size is chosen at opening.
    frames: Option<u64>,
    log: Option<Log>,
}

/// The JSON of a log with partitions.
#[derive(Debug, Serialize)]
struct Log {
    partitions: u32,
    capacity_bytes: u64,
    /// `null` in persistent memory, where entries are counted.
    kept_bytes: Option<u64>,
    /// Entries of the ring, and those in use, in persistent memory.
    entries: Option<u64>,
    kept_entries: Option<u64>,
    checkpoint_lsn: u64,
}

impl Paged {
    fn new(engine: &str, found: &PagedFigures) -> Self {
        let page_bytes = found.page_bytes as u64;
        let kind = engine.parse::<EngineKind>().ok();
        let buffer = kind.and_then(|kind| EngineOptions::from(kind).get("buffer_bytes"));
        Self {
            page_bytes,
            pages: found.pages,
            frames: buffer.map(|buffer| buffer / page_bytes),
            log: found.log.map(|log| Log {
                partitions: log.partitions,
                capacity_bytes: log.capacity_bytes,
                kept_bytes: log.kept_bytes,
                entries: log.entries.map(|(all, _)| all),
                kept_entries: log.entries.map(|(_, kept)| kept),
                checkpoint_lsn: log.checkpoint_lsn,
            }),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("pages       {} of {}", grouped(self.pages), bytes(self.page_bytes));
        if let Some(frames) = self.frames {
            text += &format!("; a buffer pool has {} frames by default", grouped(frames));
        }
        text.push('\n');
        let Some(log) = &self.log else { return text };
        if let Some(kept) = log.kept_bytes {
            text += &format!(
                "log         {} of {} kept, in {} partitions; recovery begins at {}:{}\n",
                bytes(kept),
                bytes(log.capacity_bytes),
                log.partitions,
                log.checkpoint_lsn >> 32,
                log.checkpoint_lsn & u64::from(u32::MAX),
            );
        }
        if let (Some(all), Some(kept)) = (log.entries, log.kept_entries) {
            text += &format!(
                "log         {} of {} entries kept, {} in the pool; recovery begins at {}\n",
                grouped(kept),
                grouped(all),
                bytes(log.capacity_bytes),
                log.checkpoint_lsn,
            );
        }
        text
    }
}

impl<'a> Info<'a> {
    fn new(found: &'a Inspection) -> Self {
        let (pool, header) = (&found.pool, &found.pool.header);
        let paged = |figures: &PagedFigures| Paged::new(&found.engine, figures);
        Self {
            perdura: env!("CARGO_PKG_VERSION"),
            file: pool.path.display().to_string(),
            uuid: header.uuid.iter().fold(String::new(), |mut text, byte| {
                write!(text, "{byte:02x}").expect("a string takes everything");
                text
            }),
            engine: &found.engine,
            domain: header.domain.name(),
            modelled: header.modelled,
            survives: header.domain.survives(),
            medium: &pool.medium.name,
            flush: pool.flush.map(perdura::FlushInstruction::name),
            clean: header.clean,
            size_bytes: header.size,
            limit_bytes: header.limit,
            stored_bytes: found.stored_bytes,
            files: found.files.as_ref().map(|files| files.path.display().to_string()),
            files_missing: found.files.as_ref().and_then(|files| files.missing.as_deref()),
            paged: found.files.iter().flat_map(|files| &files.paged).map(paged).collect(),
            tail_bytes: pool.tail_bytes,
            header_damage: damage_text(pool),
            partitions: found.partitions,
            node_bytes: found.node_bytes,
            chunk_bytes: found.chunk_bytes,
            tables: found.schema.tables(),
        }
    }

    fn text(&self, domain: &str) -> String {
        let survives = if self.modelled {
            format!("{}; only modelled: the medium does not keep this promise", self.survives)
        } else {
            self.survives.to_owned()
        };
        let closed = if self.clean { "yes" } else { "no; the next opening recovers" };
        let stored = match (&self.files, self.files_missing) {
            (Some(_), None) => format!("{}, files included", bytes(self.stored_bytes)),
            (Some(_), Some(_)) => format!("{}, without the files", bytes(self.stored_bytes)),
            (None, _) => bytes(self.stored_bytes),
        };
        let lines = [
            ("file", self.file.clone()),
            ("files", self.files.clone().unwrap_or_else(|| "none needed".to_owned())),
            ("uuid", self.uuid.clone()),
            ("engine", self.engine.to_owned()),
            ("domain", domain.to_owned()),
            ("survives", survives),
            ("medium", self.medium.to_owned()),
            ("flush", self.flush.unwrap_or("none needed").to_owned()),
            ("closed", closed.to_owned()),
            ("size", format!("{}, limit {}", bytes(self.size_bytes), bytes(self.limit_bytes))),
            ("on medium", stored),
            ("partitions", self.partitions.to_string()),
            ("index node", bytes(u64::from(self.node_bytes))),
            ("chunk", bytes(self.chunk_bytes)),
        ];
        let mut text = String::new();
        for (name, value) in lines {
            text += &format!("{name:<12}{}\n", Escaped(value));
        }
        for paged in &self.paged {
            text += &paged.text();
        }
        if self.tail_bytes > 0 {
            let tail = bytes(self.tail_bytes);
            text += &format!("tail        {tail} after the end of the pool belong to nothing\n");
        }
        if let Some(missing) = self.files_missing {
            text += &format!("MISSING     {}\n", Escaped(missing));
        }
        if let Some(damage) = self.header_damage {
            text +=
                &format!("DAMAGE      one copy of the header: {damage}; the other one is whole\n");
        }
        for table in self.tables {
            text += &table_text(table);
        }
        text
    }
}

fn table_text(table: &TableSchema) -> String {
    let mut text = format!("\ntable {}\n", Escaped(table.name()));
    for column in table.columns() {
        let name = Escaped(&column.name).to_string();
        text += &format!("  {name:<24}{}\n", type_text(column.kind));
    }
    text += &format!("  primary key ({})\n", Escaped(table.key_columns().join(", ")));
    for index in table.indexes() {
        let columns = index.columns.join(", ");
        text += &format!("  index {} ({})\n", Escaped(&index.name), Escaped(columns));
    }
    text
}

fn type_text(kind: ColumnType) -> String {
    match kind {
        ColumnType::Text { max } => format!("text, at most {max} bytes"),
        ColumnType::Bytes { max } => format!("bytes, at most {max}"),
        number => number.to_string(),
    }
}

pub(super) fn run(file: &Path, json: Option<&JsonTarget>) -> Result<(), Failure> {
    check_target(json, &[file])?;
    let found = inspect(file).map_err(|error| Failure::about(file.display(), error))?;
    let info = Info::new(&found);
    report(&info.text(&found.pool.domain_text()), &info, json)
}
