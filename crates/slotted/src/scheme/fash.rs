//! FASH (P3 4.1): every transaction commits by slot-header logging, even one of a single record.

use pm::{LineSet, Memory};

use super::{Scheme, log_headers};
use crate::header::Kind;
use crate::log::{Frames, Log};

/// The scheme; see the module's comment.
#[derive(Debug)]
pub struct Fash<M> {
    memory: M,
    log: Log<M>,
}

impl<M: Memory> Scheme<M> for Fash<M> {
    const NAME: &'static str = "fash";
    const NUMBER: u32 = 1;
    const LEAF: Kind = Kind::Leaf;
    type Pages = M;

    fn new(memory: M, log: Log<M>, _in_place: u64) -> Self {
        Self { memory, log }
    }

    fn pages(&self) -> &M {
        &self.memory
    }

    fn log(&mut self) -> &mut Log<M> {
        &mut self.log
    }

    fn commit_logged(&mut self, frames: &Frames, lines: LineSet) {
        log_headers(&self.memory, &mut self.log, frames, lines);
    }
}
