//! The parts of the time that opening takes, and what reads cost after it.

use std::time::{Duration, Instant};

use perdura::OpeningTimes;
use serde::{Deserialize, Serialize};
use workloads::{RowBuffer, Session};

use crate::failure::Failure;

/// Microseconds of each part of an open call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    /// File, lock, header, mapping.
    pub map: f64,
    /// Mini-transactions, description, schema.
    pub describe: f64,
    /// The mark that the pool is open.
    pub mark: f64,
    /// Recovery.
    pub recovery: f64,
}

impl From<OpeningTimes> for Opening {
    fn from(times: OpeningTimes) -> Self {
        let us = |part: Duration| part.as_secs_f64() * 1e6;
        Self {
            map: us(times.map),
            describe: us(times.describe),
            mark: us(times.mark),
            recovery: us(times.recovery),
        }
    }
}

/// Mean microseconds of a read of a whole tuple, by how many came before it since the store was
/// opened. The first one was timed for [`super::Found::first_read_ms`] and is not among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Reads {
    /// Reads 2 to 10.
    pub ten: f64,
    /// Reads 11 to 100.
    pub hundred: f64,
    /// Reads 101 to 1,000.
    pub thousand: f64,
    /// 1,000 more, of tuples that have been read before.
    pub again: f64,
}

impl Reads {
    /// Reads 1,000 tuples at random, and those again.
    pub(super) fn measure<S: Session>(
        session: &mut S,
        mut key: impl FnMut() -> u64,
    ) -> Result<Self, Failure> {
        let keys: Vec<u64> = (0..1000).map(|_| key()).collect();
        let mut row = RowBuffer::new();
        let mut mean = |keys: &[u64]| -> Result<f64, Failure> {
            let start = Instant::now();
            for &key in keys {
                session.read(key, &mut row)?;
            }
            Ok(start.elapsed().as_secs_f64() * 1e6 / keys.len() as f64)
        };
        Ok(Self {
            ten: mean(&keys[1..10])?,
            hundred: mean(&keys[10..100])?,
            thousand: mean(&keys[100..])?,
            again: mean(&keys)?,
        })
    }
}
