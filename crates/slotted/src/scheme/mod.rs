//! The ways in which a transaction commits: policies of a [`Store`](crate::Store).

/// The methods of a scheme that has nothing but its log and counts its commits.
macro_rules! delegate_to_log {
    () => {
        fn pages(&self) -> &M {
            self.log.memory()
        }

        fn log_places(&self) -> Result<Vec<u64>> {
            Ok(vec![self.log.at()])
        }

        fn recovered(&self) -> $crate::recovered::Recovered {
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
    };
}

mod cached;
mod fash;
mod fash1;
mod fast;
mod fast1;
mod journal;
mod nvwal;
mod wal;
mod word;

use std::collections::BTreeSet;
use std::fmt::Debug;

use heap::Lane;
use pm::{LineSet, Memory, Off, Range, fence_for, observe};

pub use cached::CHECKPOINT_FRAMES;
pub use fash::Fash;
pub use fash1::Fash1;
pub use fast::{Fast, FencedTwin, HeaderForm, Line, Twin, WholeLine};
pub use fast1::Fast1;
pub use journal::Journal;
pub use nvwal::Nvwal;
pub use wal::Wal;
pub use word::Word;

use crate::Result;
use crate::cache::Cache;
use crate::flaw::{self, Flaw};
use crate::header::Kind;
use crate::layout::{FREE_AT, LOG_AT, ROOTS_AT};
use crate::log::{Frames, Log};
use crate::part::Part;
use crate::phases::{CHECKPOINT, HEAP, LOG_FLUSH, SLOT_HEADER};
use crate::recovered::Recovered;

/// A header that a transaction changes: the page, where in it the header goes, its bytes.
pub type NewHeader = (u64, usize, Vec<u8>);

/// The changes of a transaction that its commit makes count.
#[derive(Default, Debug)]
pub struct Change {
    /// Lines of records and of fresh pages, which nothing committed leads to.
    pub lines: LineSet,
    /// Headers of committed pages.
    pub headers: Vec<NewHeader>,
    /// Single words of pages: children, first words of pages that come or go. The page, where in
    /// it, and the value.
    pub words: Vec<(u64, usize, u64)>,
    /// Words of the master: their places and values.
    pub master: Vec<(u64, u64)>,
    /// The bytes of pages that were written, in schemes that log them: page, where in it, and how
    /// many.
    pub written: Vec<(u64, usize, usize)>,
    /// True if every offset of a committed header that counts stays where it is: offsets are added
    /// after them, or removed from their end.
    pub offsets_stay: bool,
    /// Pages that no transaction had used before.
    pub unused: BTreeSet<u64>,
}

impl Change {
    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.words.is_empty() && self.master.is_empty()
    }

    /// The pages that change.
    pub fn pages(&self) -> BTreeSet<u64> {
        let headers = self.headers.iter().map(|header| header.0);
        let words = self.words.iter().map(|word| word.0);
        headers.chain(words).chain(self.written.iter().map(|run| run.0)).collect()
    }

    /// Puts headers and words into cached pages.
    ///
    /// # Errors
    /// As [`Cache::place`].
    pub fn put_into<M: Memory>(&self, cache: &Cache<M>) -> Result<()> {
        for (page, at, bytes) in &self.headers {
            cache.put(*page, *at, bytes)?;
        }
        for (page, at, value) in &self.words {
            cache.put(*page, *at, &value.to_le_bytes())?;
        }
        Ok(())
    }

    /// The change as frames of a log.
    pub fn frames(&self) -> Frames {
        let mut frames = Frames::default();
        for (page, at, bytes) in &self.headers {
            frames.add(*page, *at, bytes);
        }
        for (page, at, value) in &self.words {
            frames.add(*page, *at, &value.to_le_bytes());
        }
        for (at, value) in &self.master {
            frames.add_word(*at, *value);
        }
        frames
    }

    /// The same, and a frame with the checksum of each run of bytes that was written.
    ///
    /// # Errors
    /// A run does not lie within the memory.
    pub fn checked_frames<M: Memory>(&self, memory: &M) -> Result<Frames> {
        let mut frames = self.frames();
        for (page, at, len) in self.written.iter().filter(|run| run.2 > 0) {
            let mut bytes = vec![0; *len];
            memory.read_into(Off::new(page + *at as u64), &mut bytes)?;
            frames.add_check(*page, *at, &bytes);
        }
        Ok(frames)
    }
}

/// The way in which the records that a transaction writes become durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Records {
    /// Their lines are flushed.
    Flushed,
    /// Their bytes go to the log.
    Logged,
    /// Their lines are flushed, and what leads to them has a checksum of them.
    Checked,
}

/// Commits since a store was opened.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Commits {
    /// Commits in place, by one header.
    pub in_place: u64,
    /// Commits by frames of the log.
    pub logged: u64,
    /// Bytes of these frames.
    pub logged_bytes: u64,
    /// Checkpoints of a log that is not emptied by each commit.
    pub checkpoints: u64,
    /// Bytes that these checkpoints have stored in pages; of the journal, bytes of pages that
    /// commits have overwritten.
    pub checkpoint_bytes: u64,
}

impl Commits {
    /// The commits since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            in_place: self.in_place - before.in_place,
            logged: self.logged - before.logged,
            logged_bytes: self.logged_bytes - before.logged_bytes,
            checkpoints: self.checkpoints - before.checkpoints,
            checkpoint_bytes: self.checkpoint_bytes - before.checkpoint_bytes,
        }
    }

    fn log(&mut self, frames: &Frames) {
        self.logged += 1;
        self.logged_bytes += frames.bytes.len() as u64;
    }
}

/// A way to commit.
pub trait Scheme<M: Memory>: Sized + Debug + Send + 'static {
    /// The name, as in P3.
    const NAME: &'static str;
    /// The number in the master of a store.
    const NUMBER: u32;
    /// The kind of the leaves.
    const LEAF: Kind;
    /// True if the log has headers as a whole, as in P3; else the words of them that change.
    const WHOLE_HEADERS: bool = true;
    /// Bytes of the first part of the log, where the scheme knows them.
    const LOG_BYTES: Option<u64> = None;
    /// The way in which records become durable.
    const RECORDS: Records = Records::Flushed;
    /// True if the log undoes a transaction that has not committed; else it does committed ones
    /// again.
    const ROLLS_BACK: bool = false;
    /// The memory in which pages are read and records are written.
    type Pages: Memory;

    /// Checks that the scheme can be used in a memory.
    ///
    /// # Errors
    /// The processor lacks an instruction that it needs.
    fn check(_: &M) -> Result<()> {
        Ok(())
    }

    /// The scheme of a store, which is recovered.
    ///
    /// # Errors
    /// The log is damaged.
    fn open(parts: Parts<M>) -> Result<Self>;
    /// Sets the number of frames from which on the log is brought home, in schemes that let it
    /// grow.
    fn checkpoint_after(&mut self, _frames: usize) {}
    /// Gives the number of this opening, before the first commit, to schemes whose headers have it.
    fn begin(&mut self, _epoch: u16) {}
    /// The memory of the pages.
    fn pages(&self) -> &Self::Pages;
    /// Returns where a page lies in the memory of the pages.
    ///
    /// # Errors
    /// There is no room for it, or it does not lie in the memory.
    fn place(&self, page: u64) -> Result<u64> {
        Ok(page)
    }

    /// The places of the objects of the heap that the log is.
    ///
    /// # Errors
    /// The log is damaged.
    fn log_places(&self) -> Result<Vec<u64>>;

    /// The work of the opening.
    fn recovered(&self) -> Recovered;

    /// The commits that it has made.
    fn counts(&self) -> Commits;

    /// Returns the most bytes of frames that the log gets of a page of which so much changes.
    fn logged_bytes(part: &Part) -> u64 {
        match Self::RECORDS {
            Records::Flushed => part.header_frames(),
            Records::Checked => part.checked_frames(),
            Records::Logged => part.run_frames(),
        }
    }

    /// Makes sure that the log has room for these many bytes of frames now, and for so many when it
    /// is empty.
    ///
    /// # Errors
    /// The memory is full; nothing has changed then.
    fn reserve(&mut self, lane: &mut Lane<M>, now: u64, empty: u64) -> Result<()>;

    /// Makes a change count, durably.
    ///
    /// # Errors
    /// The memory is full, and there was no [`reserve`](Self::reserve) for the change; nothing has
    /// changed then.
    fn commit(&mut self, lane: &mut Lane<M>, change: Change) -> Result<()>;

    /// Does what commits have put off, so that opening has nothing to do, and gives what the log
    /// has beyond [`KEPT_LOG_BYTES`](crate::KEPT_LOG_BYTES), and beyond what a deletion may need,
    /// back to the heap.
    ///
    /// # Errors
    /// Something is damaged.
    fn settle(&mut self, lane: &mut Lane<M>) -> Result<()>;
}

/// The parts that a scheme finds in a store that is opened.
#[derive(Debug)]
pub struct Parts<M> {
    /// The log, which is not recovered.
    pub log: Log<M>,
    /// The place of the word that names the page of a commit in place, and what it has.
    pub in_place: (u64, u64),
    /// Bytes of a page.
    pub page_bytes: u32,
    /// True if the store is being created: the contents of the log are meaningless.
    pub created: bool,
}

/// Makes a header durable that a killed process may have stored in place, if there is one.
#[track_caller]
fn flush_in_place<M: Memory>(memory: &M, header: Range) {
    if header.start != 0 && pm::checked_range(header, memory.len()).is_ok() {
        memory.flush(header);
        memory.fence();
    }
}

/// Slot-header logging (P3 3.3): three fences. The mark that empties the log is flushed by the next
/// commit.
fn log_headers<M: Memory>(
    log: &mut Log<M>,
    lane: &mut Lane<M>,
    mut change: Change,
    commits: &mut Commits,
) -> Result<()> {
    let frames = change.frames();
    let (memory, mut lines) = (log.memory().clone(), std::mem::take(&mut change.lines));
    observe!(M: memory.phase(SLOT_HEADER));
    log.grow(lane, frames.bytes())?;
    observe!(M: memory.phase(HEAP));
    let written = match unlogged::<M>(log, &change) {
        Some(fewer) => log.append(&fewer, &mut lines),
        None => log.append(&frames, &mut lines),
    };
    let marked = if flaw::has::<M>(Flaw::MarkUnfenced) {
        log.commit_unfenced(&written, &mut lines)
    } else {
        log.commit(fence_for(&memory, written), &mut lines)
    };
    let marked = fence_for(&memory, marked);
    observe!(M: memory.phase(LOG_FLUSH));
    log.checkpoint(marked, &frames, &mut lines);
    observe!(M: memory.phase(CHECKPOINT));
    commits.log(&frames);
    Ok(())
}

/// The frames that a flaw leaves of those of a change.
fn unlogged<M: Memory>(log: &Log<M>, change: &Change) -> Option<Frames> {
    let flaw = flaw::get().filter(|_| M::OBSERVED)?;
    let (master, inner) = (log.link() - LOG_AT, Kind::Inner as u8);
    let mut fewer = Change {
        headers: change.headers.clone(),
        words: change.words.clone(),
        master: change.master.clone(),
        ..Change::default()
    };
    match flaw {
        Flaw::ParentUnlogged => fewer.headers.retain(|(.., header)| header[0] != inner),
        Flaw::RootUnlogged => fewer.master.retain(|(at, _)| *at < master + ROOTS_AT),
        Flaw::FreeStackUnlogged => fewer.master.retain(|(at, _)| *at != master + FREE_AT),
        _ => return None,
    }
    Some(fewer.frames())
}
