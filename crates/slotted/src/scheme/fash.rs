//! FASH (P3 4.1): every transaction commits by slot-header logging, even one of a single record.

use heap::Lane;
use pm::Memory;

use super::{Change, Commits, Parts, Scheme, log_headers};
use crate::Result;
use crate::header::Kind;
use crate::log::Log;

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

    delegate_to_log!();

    fn commit(&mut self, lane: &mut Lane<M>, change: Change) -> Result<()> {
        log_headers(&mut self.log, lane, change, &mut self.commits)
    }
}
