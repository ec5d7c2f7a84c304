//! The bytes that are written and synced together.

use super::layout;
use crate::ids::Lsn;

/// Consecutive bytes of one partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) number: u32,
    /// The index of the partition's file.
    pub(super) file: usize,
    /// Their place in the partition.
    pub(super) offset: u64,
    /// Their place in the group.
    pub(super) at: usize,
}

/// The records that were appended since the last group was taken.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) bytes: Vec<u8>,
    pub(super) runs: Vec<Run>,
    /// Its newest record.
    pub(super) last: Lsn,
}

impl Group {
    /// Empties it, and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.runs.clear();
        self.last = Lsn::NONE;
    }

    /// Lets what follows belong to this place.
    pub(super) fn begin_run(&mut self, number: u32, file: usize, offset: u64) {
        self.runs.push(Run { number, file, offset, at: self.bytes.len() });
    }

    /// The bytes before `offset` in the newest run: they are written with a record there.
    /// Everything before them is durable by then, since groups and their runs are synced one after
    /// the other.
    pub(super) fn unsynced_before(&self, offset: u64) -> u64 {
        offset - self.runs.last().expect("a record is in a run").offset
    }

    /// Each run with its bytes.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Run, &[u8])> {
        self.runs.iter().enumerate().map(|(number, run)| {
            let end = self.runs.get(number + 1).map_or(self.bytes.len(), |next| next.at);
            (*run, &self.bytes[run.at..end])
        })
    }

    /// The bytes from a place on, if it is in the group.
    pub(super) fn from(&self, lsn: Lsn) -> Option<&[u8]> {
        let (number, offset) = layout::place_of(lsn);
        self.parts().find_map(|(run, bytes)| {
            let inside = run.number == number && offset >= run.offset;
            let rest = bytes.get(usize::try_from(offset.checked_sub(run.offset)?).ok()?..)?;
            (inside && !rest.is_empty()).then_some(rest)
        })
    }
}
