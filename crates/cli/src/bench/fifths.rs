//! The course of a long run, fifth by fifth: whether it becomes slower, and what it takes of memory
//! and storage.
//!
//! 1. The operations are generated in pieces of [`PIECE`], off the clock, so that the command takes
//!    the same memory however long the run is. Of latencies there is a histogram.
//! 2. The store stays open over all pieces; a fifth is the sum of its pieces.
//! 3. After the last piece of a fifth, off the clock: the memory of this process that belongs to no
//!    file, and the blocks that the store's files and pool have on their medium.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use command::failure::Failure;
use command::figures::{fine, whole};
use command::output::table;
use command::progress::Bar;
use command::system::pool_path;
use serde::Serialize;
use workloads::Measurement;
use workloads::ycsb::{Pieces, Spec};

use crate::bench_thread::BenchThread;

/// Transactions that are held in memory at once.
const PIECE: u64 = 1 << 20;

/// A fifth of a run as programs read it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Fifth {
    throughput_txn_s: f64,
    /// Memory of the process that belongs to no file, at the end; `None` if the kernel did not say.
    resident_bytes: Option<u64>,
    /// Blocks of the files and the pool on their medium, at the end.
    stored_bytes: u64,
    /// The bytes of these that are the pool's; `None` for a peer.
    pool_bytes: Option<u64>,
}

/// Runs a workload on a loaded store in `directory`, fifth by fifth.
///
/// # Errors
/// The store's, or its files cannot be looked at.
pub(crate) fn run(
    thread: &BenchThread,
    spec: &Spec,
    directory: &Path,
    bar: &mut Bar,
) -> Result<(Measurement, Vec<Fifth>), Failure> {
    let mut pieces = Pieces::new(spec)?;
    let mut measured = Measurement::nothing();
    let mut fifths = Vec::new();
    for number in 1..=5 {
        let until = spec.transactions - spec.transactions * number / 5;
        let mut fifth = Measurement::nothing();
        while pieces.left() > until {
            let done = spec.transactions - pieces.left();
            let piece = Arc::new(pieces.take(PIECE.min(pieces.left() - until)));
            fifth.add(&thread.run_part(&piece, done, spec.transactions, bar)?);
        }
        measured.add(&fifth);
        let pool = thread.system().engine().map(|_| pool_path(directory));
        fifths.push(Fifth {
            throughput_txn_s: fifth.throughput_txn_s(),
            resident_bytes: resident_bytes(),
            stored_bytes: blocks(directory)?,
            pool_bytes: pool.map(|pool| blocks(&pool)).transpose()?,
        });
    }
    Ok((measured, fifths))
}

/// Bytes of a file, or of all files in a directory, on their medium.
pub(super) fn blocks(path: &Path) -> Result<u64, Failure> {
    let failed = |error| Failure::about(path.display(), error);
    let meta = fs::symlink_metadata(path).map_err(failed)?;
    if !meta.is_dir() {
        return Ok(meta.blocks() * 512);
    }
    let mut sum = 0;
    for entry in fs::read_dir(path).map_err(failed)? {
        sum += blocks(&entry.map_err(failed)?.path())?;
    }
    Ok(sum)
}

/// Memory of this process that belongs to no file. A mapped pool is not in it: it is counted where
/// it is stored.
pub(super) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The rows of a store: throughput, and what it takes.
fn rows(name: [&str; 3], fifths: &[Fifth]) -> Vec<Vec<String>> {
    type Of = fn(&Fifth) -> Option<f64>;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let of_files: Of = |fifth| Some((fifth.stored_bytes - fifth.pool_bytes.unwrap_or(0)) as f64);
    let whats: [(&str, Of); 4] = [
        ("txn/s", |fifth| Some(fifth.throughput_txn_s)),
        ("memory MiB", |fifth| fifth.resident_bytes.map(|bytes| bytes as f64)),
        ("files MiB", of_files),
        ("pool MiB", |fifth| fifth.pool_bytes.map(|bytes| bytes as f64)),
    ];
    let row = |(what, of): (&str, Of)| {
        let values: Vec<f64> = fifths.iter().filter_map(of).collect();
        if values.len() < 5 || values.iter().all(|value| *value == 0.0) {
            return None;
        }
        let cell = |value: &f64| match what {
            "txn/s" => whole(*value),
            _ => format!("{:.1}", mib(*value as u64)),
        };
        let mut cells: Vec<String> = name.iter().map(ToString::to_string).collect();
        cells.push(what.into());
        cells.extend(values.iter().map(cell));
        cells.push(fine((values[1] > 0.0).then(|| values[4] / values[1])));
        Some(cells)
    };
    whats.into_iter().filter_map(row).collect()
}

/// The table of all stores, each with its mix and skew.
pub(crate) fn human_text<'a>(all: impl Iterator<Item = ([&'a str; 3], &'a [Fifth])>) -> String {
    let head = ["store", "mix", "skew", "in fifth", "1", "2", "3", "4", "5", "5th / 2nd"];
    let rows: Vec<Vec<String>> = all.flat_map(|(name, fifths)| rows(name, fifths)).collect();
    let mut text = table(&head.map(str::to_owned), &rows, 4);
    text += "\nMemory is that of this process that belongs to no file; a pool that is mapped counts as pool only. All at the end of each fifth.\n";
    text
}
