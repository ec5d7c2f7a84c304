//! FASH with one fence: the log's checksum covers the records, too, and a checkpoint is flushed by
//! the commit that comes next. An option in addition to the faithful form; `alternate.rs` has the
//! steps.

use heap::Lane;
use pm::Memory;

use super::{Change, Commits, Parts, Records, Scheme};
use crate::Result;
use crate::alternate::Alternate;
use crate::header::Kind;
use crate::recovered::Recovered;

/// The scheme; see the module's comment.
#[derive(Debug)]
pub struct Fash1<M> {
    logs: Alternate<M>,
    commits: Commits,
}

impl<M: Memory> Scheme<M> for Fash1<M> {
    const NAME: &'static str = "fash1";
    const NUMBER: u32 = 6;
    const LEAF: Kind = Kind::Leaf;
    const WHOLE_HEADERS: bool = false;
    const RECORDS: Records = Records::Checked;
    type Pages = M;

    fn open(parts: Parts<M>) -> Result<Self> {
        let (log, memory) = (&parts.log, parts.log.memory().clone());
        let open = |memory| match parts.created {
            true => Alternate::create(memory, log.at(), log.bytes(), log.link()),
            false => Alternate::open(memory, log.at(), log.bytes(), log.link()),
        };
        Ok(Self { logs: open(memory)?, commits: Commits::default() })
    }

    fn pages(&self) -> &M {
        self.logs.memory()
    }

    fn log_places(&self) -> Result<Vec<u64>> {
        Ok(vec![self.logs.at()])
    }

    fn recovered(&self) -> Recovered {
        self.logs.recovered()
    }

    fn counts(&self) -> Commits {
        self.commits
    }

    fn reserve(&mut self, lane: &mut Lane<M>, now: u64, empty: u64) -> Result<()> {
        self.logs.reserve(lane, now, empty)
    }

    fn commit(&mut self, lane: &mut Lane<M>, change: Change) -> Result<()> {
        let frames = change.checked_frames(self.logs.memory())?;
        self.logs.commit(lane, &frames, change.lines)?;
        self.commits.log(&frames);
        Ok(())
    }

    fn settle(&mut self, lane: &mut Lane<M>) -> Result<()> {
        self.logs.settle();
        self.logs.give_back(lane)
    }
}
