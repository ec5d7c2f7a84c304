//! Durable writes of small chunks through the allocator's interface and through files (P1 2.3, F1).
//!
//! A write is durable before the next one starts. Through the allocator's interface that is a copy
//! into the pool, a flush of its lines and a fence; through files a write call and a sync, which in
//! `adr` writes back what was written and fences, as a file system of persistent memory would.

use std::time::Instant;

use pm::{Domain, File, Files, HostFiles, Memory, Off, POOL_DATA_START, Pool, PoolOptions, Range};
use serde_json::json;
use workloads::Random;

use super::{Cell, Done, Stage};
use crate::bench::Bench;
use crate::error::LabError;
use crate::point::Point;
use crate::room::Takes;
use crate::scale::Sizes;

const CHUNK_BYTES: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// The size of the area that random writes go to.
const AREA_BYTES: u64 = 64 << 20;
const INTERFACES: [&str; 2] = ["allocator", "filesystem"];
const ACCESSES: [&str; 2] = ["sequential", "random"];

struct BandwidthStage {
    cells: Vec<Cell>,
    of: Vec<(usize, usize)>,
    bytes: u64,
    writes: u64,
    repeat: u32,
}

/// One stage, a cell for each interface and access.
pub(super) fn stages(sizes: &Sizes) -> Vec<Box<dyn Stage>> {
    let (mut cells, mut of) = (Vec::new(), Vec::new());
    let (bytes, writes, repeat) = (sizes.bandwidth_bytes, sizes.bandwidth_writes, sizes.repeat);
    for (interface, name) in INTERFACES.into_iter().enumerate() {
        for (access, how) in ACCESSES.into_iter().enumerate() {
            let configuration = json!({
                "interface": name, "access": how, "bytes": bytes, "writes": writes,
                "repeat": repeat,
            });
            let label = format!("durable writes, {name}, {how}");
            let weight = (writes * 9 * u64::from(repeat)) as f64 * 1e-6;
            let takes = Takes::on_medium(AREA_BYTES + (16 << 20));
            cells.push(Cell::new(label, &configuration, "", weight, takes));
            of.push((interface, access));
        }
    }
    vec![Box::new(BandwidthStage { cells, of, bytes, writes, repeat })]
}

impl Stage for BandwidthStage {
    fn cells(&self) -> &[Cell] {
        &self.cells
    }

    fn measure(
        &self,
        bench: &Bench<'_>,
        missing: &[usize],
        done: &mut Done<'_>,
    ) -> Result<(), LabError> {
        let failed = LabError::measuring("durable writes");
        for &cell in missing {
            bench.watch.phase(&self.cells[cell].label);
            let (interface, access) = self.of[cell];
            let place = bench.place("bandwidth")?;
            let mut points = Vec::new();
            if interface == 0 {
                let options = PoolOptions {
                    domain: Some(Domain::Adr),
                    model: true,
                    initial_bytes: POOL_DATA_START + AREA_BYTES,
                    ..PoolOptions::default()
                };
                let pool = Pool::create(&place.path().join("pool"), &options);
                let pool = pool.map_err(|error| failed(&error))?;
                let write = |at: u64, bytes: &[u8]| {
                    let at = POOL_DATA_START + at;
                    pool.copy(Off::new(at), bytes);
                    pool.flush(Range::new(at, bytes.len() as u64));
                    pool.fence();
                    Ok(())
                };
                self.each_size(bench.seed, cell, access, write, &mut points)?;
            } else {
                let path = place.path().join("files");
                let files = HostFiles::create(&path, Domain::Adr, true);
                let files = files.map_err(|error| LabError::io(&path, error))?;
                let file = files.create("chunks").map_err(|error| LabError::io(&path, error))?;
                let zeroes = vec![0; 1 << 20];
                for at in (0..AREA_BYTES).step_by(1 << 20) {
                    file.write_at(at, &zeroes).map_err(|error| LabError::io(&path, error))?;
                }
                file.sync().map_err(|error| LabError::io(&path, error))?;
                let write = |at: u64, bytes: &[u8]| {
                    let written = file.write_at(at, bytes).and_then(|()| file.sync());
                    written.map_err(|error| LabError::io(&path, error))
                };
                self.each_size(bench.seed, cell, access, write, &mut points)?;
            }
            done(cell, &points)?;
        }
        Ok(())
    }
}

impl BandwidthStage {
    fn each_size(
        &self,
        seed: u64,
        cell: usize,
        access: usize,
        write: impl Fn(u64, &[u8]) -> Result<(), LabError>,
        points: &mut Vec<Point>,
    ) -> Result<(), LabError> {
        let contents = [0xa5; 256];
        for chunk in CHUNK_BYTES {
            let writes = (self.bytes / chunk).clamp(1, self.writes);
            let places = AREA_BYTES / chunk;
            let mut bandwidths = Vec::new();
            for round in 0..self.repeat {
                let mut random = Random::new(seed, u64::from(round));
                let order: Vec<u64> = (0..writes)
                    .map(|at| if access == 0 { at % places } else { random.below(places) } * chunk)
                    .collect();
                let started = Instant::now();
                for at in order {
                    write(at, &contents[..chunk as usize])?;
                }
                let seconds = started.elapsed().as_secs_f64().max(1e-9);
                bandwidths.push((writes * chunk) as f64 / seconds);
            }
            let (interface, access) = self.of[cell];
            let place = Point::of("P1-F1", INTERFACES[interface], chunk).panel(ACCESSES[access]);
            points.push(place.measured("bandwidth", "B/s", &bandwidths));
        }
        Ok(())
    }
}
