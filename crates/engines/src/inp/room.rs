//! The space of the next checkpoint: set aside in a file, so that a checkpoint can be taken on a full
//! medium.
//!
//! Invariants:
//! - Where a tuple has been inserted or become longer, the file has space for a checkpoint of all tuples:
//!   for as many bytes as they have, or for as many as the last checkpoint's file and what was logged
//!   since, whichever is less.
//! - A checkpoint is written into the file. Until it counts the file keeps its name, so whatever ends
//!   the checkpoint leaves the space.
//! - When it counts, the checkpoint before is that file.

use pm::Files;
use storage::checkpoint::{CheckpointError, most_bytes};
use storage::segments::{LEAST_STEP_BYTES, Spare};

/// The bytes by which operations change a checkpoint, uncompressed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Change {
    /// Bytes by which it becomes longer.
    pub(super) added: u64,
    /// Bytes by which it becomes shorter.
    pub(super) removed: u64,
    /// Bytes in it that no checkpoint has had.
    pub(super) new: u64,
}

impl Change {
    /// Values of so many bytes take the place of others.
    pub(super) fn replaced(before: u64, after: u64) -> Self {
        let (added, removed) = (after.saturating_sub(before), before.saturating_sub(after));
        Self { added, removed, new: after }
    }

    /// A tuple is inserted.
    pub(super) fn inserted(bytes: u64) -> Self {
        Self { added: bytes, removed: 0, new: bytes }
    }

    /// A tuple is deleted.
    pub(super) fn deleted(bytes: u64) -> Self {
        Self { added: 0, removed: bytes, new: 0 }
    }

    /// Returns whether it is more than a deletion.
    pub(super) fn needs_space(self) -> bool {
        self.added > 0 || self.new > 0
    }

    /// Both.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            added: self.added + other.added,
            removed: self.removed + other.removed,
            new: self.new + other.new,
        }
    }
}

/// The space of the next checkpoint, and how much it needs.
#[derive(Debug)]
pub(super) struct Room<F: Files> {
    spare: Spare<F>,
    /// Bytes in which space is reserved ahead, at most.
    step: u64,
    /// Bytes that a checkpoint of the committed tuples would hold, uncompressed.
    state: u64,
    /// The open transaction changes it so.
    open: Change,
    /// Bytes of the last checkpoint's file, and those that are new since it began.
    last_file: u64,
    since_last: u64,
    /// The state when the checkpoint began that is being written, and what was changed since.
    begun: Option<(u64, Change)>,
}

/// The part of the last checkpoint by which the same tuples may take more in the next one.
const TOLERANCE: u64 = 8;

impl<F: Files> Room<F> {
    /// The space of the file of a prefix, as it was left.
    pub(super) fn open(files: F, prefix: &str, step: u64) -> Result<Self, CheckpointError> {
        let name = format!("spare-{}", prefix.trim_end_matches('-'));
        let io = |source| CheckpointError::Io { doing: "open", name: name.clone(), source };
        let spare = Spare::open(files, name.clone()).map_err(io)?;
        let (state, open) = (0, Change::default());
        Ok(Self { spare, step, state, open, last_file: 0, since_last: 0, begun: None })
    }

    /// The file, for a checkpoint to be written into it.
    pub(super) fn spare(&self) -> &Spare<F> {
        &self.spare
    }

    /// Bytes that are set aside.
    pub(super) fn bytes(&self) -> u64 {
        self.spare.reserved()
    }

    /// The changes of the open transaction.
    pub(super) fn open_change(&self) -> Change {
        self.open
    }

    /// An operation was refused; the open transaction has these changes, as before.
    pub(super) fn refused(&mut self, before: Change) {
        self.open = before;
    }

    /// Bytes that the next checkpoint needs after a change, if the same tuples take `more` than in the
    /// last one.
    fn needed_with(&self, change: Change, more: u64) -> u64 {
        let Change { added, new, .. } = self.open.and(change);
        // One that is being written holds also what has been deleted since its turn came. And when it
        // counts it holds what is new, whose log stays: the one after it has so much less to take from.
        let (begun, since) = self.begun.unwrap_or_default();
        let all = most_bytes(self.state.max(begun + since.added) + added) + since.new;
        match self.last_file {
            0 => all,
            last => all.min(last + more + most_bytes(self.since_last + new) + 2 * since.new),
        }
    }

    fn needed(&self, change: Change) -> u64 {
        self.needed_with(change, self.last_file / TOLERANCE)
    }

    /// The open transaction changes the state so: sees to it that the next checkpoint has space for it.
    ///
    /// # Errors
    /// The medium refuses; nothing has changed.
    pub(super) fn change(&mut self, change: Change) -> Result<(), CheckpointError> {
        if change.needs_space() {
            self.reserve(change)?;
        }
        self.open = self.open.and(change);
        Ok(())
    }

    /// Sees to it that there is space for the next checkpoint, after a change, and takes some ahead.
    ///
    /// # Errors
    /// The medium refuses.
    fn reserve(&mut self, change: Change) -> Result<(), CheckpointError> {
        let ahead = self.spare.reserved().clamp(LEAST_STEP_BYTES.min(self.step), self.step);
        self.take(self.needed(change), ahead)
    }

    fn take(&mut self, needed: u64, ahead: u64) -> Result<(), CheckpointError> {
        if self.spare.reserved() >= needed {
            return Ok(());
        }
        self.spare.reserve(needed, needed + ahead).map_err(|source| {
            let name = self.spare.name().into();
            CheckpointError::Io { doing: "reserve space for", name, source }
        })
    }

    /// The open transaction has committed.
    pub(super) fn committed(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.state = (self.state + open.added).saturating_sub(open.removed);
        self.since_last += open.new;
        if let Some((_, since)) = &mut self.begun {
            *since = since.and(open);
        }
    }

    /// A logged transaction has been done again.
    pub(super) fn redone(&mut self, change: Change) {
        self.open = change;
        self.committed();
    }

    /// The open transaction has been undone.
    pub(super) fn aborted(&mut self) {
        self.open = Change::default();
    }

    /// A checkpoint begins.
    pub(super) fn begin(&mut self) {
        self.begun = Some((self.state, Change::default()));
    }

    /// A checkpoint failed, or was given up. Its file is what it was.
    pub(super) fn given_up(&mut self) {
        self.begun = None;
        // Where it cannot be opened it counts as missing, and is looked for when it is needed.
        let _ = self.spare.reopen();
    }

    /// There is a checkpoint of so many bytes, of a state of so many bytes.
    pub(super) fn last(&mut self, file_bytes: u64, state_bytes: u64) {
        let (_, since) = self.begun.take().unwrap_or_default();
        self.last_file = file_bytes;
        self.since_last = since.new;
        let most = state_bytes + since.added;
        self.state = if self.state == 0 { most } else { self.state.min(most) };
        let _ = self.spare.reopen();
    }

    /// The partition has been opened: the file may be there now.
    pub(super) fn opened(&mut self) {
        let _ = self.spare.reopen();
        self.replenish();
    }

    /// Space has been freed: takes what the next checkpoint needs. Where that fails, the next insertion
    /// tries it.
    pub(super) fn replenish(&mut self) {
        let _ = self.provide();
    }

    /// Sees to it that there is space for a checkpoint now, or at least for one that compresses as well as
    /// the last.
    ///
    /// # Errors
    /// The medium refuses.
    pub(super) fn provide(&mut self) -> Result<(), CheckpointError> {
        let none = Change::default();
        let (all, least) = (self.needed(none), self.needed_with(none, 0));
        self.take(all, 0).or_else(|_| self.take(least, 0))
    }
}

#[cfg(test)]
mod tests {
    use pm::File;
    use sim::RecordingFiles;

    use super::*;

    fn room(files: &RecordingFiles) -> Room<RecordingFiles> {
        Room::open(files.clone(), "c-", 100).expect("there is none")
    }

    const NOTHING: Change = Change { added: 0, removed: 0, new: 0 };

    #[test]
    fn what_is_set_aside_follows_the_state_and_the_log() {
        let files = RecordingFiles::new();
        let mut room = room(&files);
        room.change(Change::inserted(10_000)).expect("there is room");
        assert!(room.bytes() >= most_bytes(10_000));
        room.aborted();
        assert_eq!(room.needed(NOTHING), most_bytes(0));
        room.change(Change::inserted(10_000)).expect("there is room");
        room.committed();
        // The same bytes again and again.
        let replaced = Change::replaced(9000, 9000);
        for _ in 0..10 {
            room.change(replaced).expect("there is room");
            room.committed();
        }
        assert_eq!(room.needed(NOTHING), most_bytes(10_000));
        // A checkpoint that is being written may hold what has been deleted.
        room.begin();
        for change in [Change::deleted(9000), Change::inserted(9000)] {
            room.change(change).expect("there is room");
            room.committed();
        }
        assert_eq!(room.needed(NOTHING), most_bytes(19_000) + 9000);
        room.last(500, 10_000);
        assert_eq!(room.needed(NOTHING), 500 + 500 / TOLERANCE + most_bytes(9000));
        room.begin();
        room.last(800, 10_000);
        assert_eq!(room.needed(Change::inserted(7)), 900 + most_bytes(7));
    }

    #[test]
    fn a_full_medium_refuses_what_a_checkpoint_would_not_hold() {
        let files = RecordingFiles::new();
        files.limit(Some(5000));
        let mut room = room(&files);
        room.change(Change::inserted(4000)).expect("there is room");
        room.committed();
        assert!(room.change(Change::inserted(2000)).is_err());
        room.change(Change::deleted(1000)).expect("a deletion needs none");
        room.committed();
        room.change(Change::inserted(900)).expect("there is room");
        let file = room.spare().file().expect("it is made");
        assert_eq!(file.len().expect("it is there"), room.bytes());
    }
}
