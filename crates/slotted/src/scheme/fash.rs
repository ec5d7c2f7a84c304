//! FASH (P3 4.1): every transaction commits by slot-header logging, even one of a single record.

use heap::Lane;
use pm::Memory;

use super::{Change, Commits, Parts, Scheme, log_headers};
use crate::Result;
use crate::header::Kind;
use crate::log::Log;
use crate::recovered::Recovered;

/// The scheme; see the module's comment.
#[derive(Debug)]
pub struct Fash<M> {
    log: Log<M>,
    commits: Commits,
}

impl<M: Memory> Scheme<M> for Fash<M> {
    const NAME: &'static str = "fash";
    const NUMBER: u32 = 1;
    const LEAF: Kind = Kind::Leaf;
    type Pages = M;

    fn open(parts: Parts<M>) -> Result<Self> {
        let mut log = parts.log;
        log.recover()?;
        Ok(Self { log, commits: Commits::default() })
    }

    fn pages(&self) -> &M {
        self.log.memory()
    }

    fn log_places(&self) -> Result<Vec<u64>> {
        Ok(vec![self.log.at()])
    }

    fn recovered(&self) -> Recovered {
        self.log.recovered()
    }

    fn counts(&self) -> Commits {
        self.commits
    }

    fn reserve(&mut self, lane: &mut Lane<M>, now: u64, empty: u64) -> Result<()> {
        self.log.reserve(lane, now, empty)
    }

    fn settle(&mut self, lane: &mut Lane<M>) -> Result<()> {
        self.log.give_back(lane)
    }

    fn commit(&mut self, lane: &mut Lane<M>, change: Change) -> Result<()> {
        log_headers(&mut self.log, lane, change, &mut self.commits)
    }
}
