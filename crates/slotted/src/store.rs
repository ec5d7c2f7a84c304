//! A store: trees of slotted pages in one memory, with one writer and one open transaction.
//!
//! The transaction is what was put and deleted since the last commit or abort; reads see it.

use std::fmt::Debug;
use std::sync::atomic::Ordering::Acquire;

use heap::{Lane, Purpose};
use pm::{Bad, LineSet, Memory, Off, Range};
use zerocopy::IntoBytes;

use crate::Result;
use crate::draft::Draft;
use crate::error::SlottedError;
use crate::flaw::{self, Flaw};
use crate::header::Kind;
use crate::layout::{
    Constants, EPOCH_AT, FIRST_EPOCH, FREE_AT, HIGH_AT, IN_PLACE_AT, LINE, LOG_AT, MAGIC,
    NEWEST_SEGMENT_AT, Options, ROOTS_AT, SEGMENT_AT, SEGMENT_HEADER,
};
use crate::log::Log;
use crate::page::{Node, committed};
use crate::record::In;
use crate::recovered::Recovered;
use crate::scheme::{Commits, Parts, Records, Scheme};
use crate::work::{Master, Work};

/// The pages that were split and copied since a store was opened, aborted transactions included.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Moves {
    /// Pages that had too many records.
    pub splits: u64,
    /// Pages whose records were copied to a fresh one, to have their free bytes in one piece.
    pub defragmentations: u64,
    /// Lines of these fresh pages that their records lie in.
    pub defragmented_lines: u64,
}

impl Moves {
    /// The moves since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            splits: self.splits - before.splits,
            defragmentations: self.defragmentations - before.defragmentations,
            defragmented_lines: self.defragmented_lines - before.defragmented_lines,
        }
    }
}

/// A store; see the module's comment.
#[derive(Debug)]
pub struct Store<M: Memory, S: Scheme<M>> {
    pub(crate) lane: Lane<M>,
    pub(crate) memory: M,
    pub(crate) scheme: S,
    pub(crate) at: u64,
    pub(crate) options: Options,
    /// The newest segment: that of the high-water mark, or a later one.
    pub(crate) newest: u64,
    pub(crate) master: Master,
    pub(crate) work: Work,
    /// The number of the next savepoint.
    pub(crate) next_savepoint: u64,
    /// Trees that the deletion of a row concerns.
    pub(crate) trees_of_a_row: u64,
    /// The number of this opening, in schemes whose headers have it.
    pub(crate) epoch: u16,
    pub(crate) moves: Moves,
}

impl<M: Memory, S: Scheme<M>> Store<M, S> {
    /// Makes a store with empty trees, durably. Who makes it gives [`Self::at`] a name; until then
    /// a crash leaves objects that nothing leads to.
    ///
    /// # Errors
    /// The options are impossible, or the memory is full.
    pub fn create(mut lane: Lane<M>, options: Options) -> Result<Self> {
        options.validate()?;
        S::check(lane.memory())?;
        let memory = lane.memory().clone();
        let bytes = (ROOTS_AT + u64::from(options.trees) * 8).next_multiple_of(64);
        let at = lane.allocate(bytes, Purpose::Log)?;
        let log_bytes = S::LOG_BYTES.unwrap_or(options.log_bytes);
        let options = Options { log_bytes, ..options };
        let log = lane.allocate(log_bytes, Purpose::Log)?;
        let segment = lane.allocate(options.segment_bytes, Purpose::Table)?;
        let mut lines = LineSet::new();
        let mut words = vec![0u64; bytes as usize / 8];
        let fixed: [u64; 8] = zerocopy::transmute!(constants(options, S::NUMBER));
        words[..8].copy_from_slice(&fixed);
        words[LOG_AT as usize / 8] = log;
        words[EPOCH_AT as usize / 8] = u64::from(FIRST_EPOCH);
        words[NEWEST_SEGMENT_AT as usize / 8] = segment;
        let high = segment + SEGMENT_HEADER;
        let master = Master { free: 0, high, segment, roots: vec![0; options.trees as usize] };
        words[HIGH_AT as usize / 8] = high;
        words[SEGMENT_AT as usize / 8] = segment;
        memory.copy(Off::new(at), words.as_bytes());
        memory.copy(Off::new(log), [0, options.log_bytes, 0, 0, 0, 0, 0, 0].as_bytes());
        memory.copy(Off::new(segment), &[0; 64]);
        lines.add(Range::new(at, bytes));
        lines.add(Range::new(log, 64));
        lines.add(Range::new(segment, 64));
        for object in [at, log, segment] {
            lane.mini_persist(object)?;
        }
        lane.mini_commit(&mut lines);
        lane.fence_flushed();
        let parts = Parts {
            log: Log::new(memory.clone(), log, log_bytes, at + LOG_AT)?,
            in_place: (at + IN_PLACE_AT, 0),
            page_bytes: options.page_bytes,
            created: true,
        };
        let mut store = Self {
            scheme: S::open(parts)?,
            memory,
            lane,
            at,
            options,
            newest: segment,
            work: Work::new(master.clone()),
            master,
            next_savepoint: 0,
            trees_of_a_row: 1,
            epoch: FIRST_EPOCH,
            moves: Moves::default(),
        };
        store.scheme.begin(FIRST_EPOCH);
        for tree in 0..options.trees as usize {
            let root = store.allocate_page()?;
            let leaf = Draft::fresh(S::LEAF, store.page_bytes());
            store.work.drafts.insert(root, leaf);
            store.work.master.roots[tree] = root;
        }
        store.commit()?;
        Ok(store)
    }

    /// Opens the store whose master is at `at`, as a crash or its last process left it. No step
    /// depends on how much data there is.
    ///
    /// # Errors
    /// There is none, it has another scheme, or it is damaged.
    pub fn open(mut lane: Lane<M>, at: u64) -> Result<Self> {
        S::check(lane.memory())?;
        let memory = lane.memory().clone();
        let damaged = Bad::Damaged { what: "master of slotted pages", at };
        let fixed: Constants = memory.read(Off::new(at))?;
        let options = Options {
            page_bytes: fixed.page_bytes,
            segment_bytes: fixed.segment_bytes,
            trees: fixed.trees,
            log_bytes: 1024,
        };
        let made = constants(options, S::NUMBER);
        if fixed.as_bytes() != made.as_bytes() || options.validate().is_err() {
            return Err(damaged.into());
        }
        let word = |offset: u64| memory.load(Off::new(at + offset), Acquire);
        let (log, newest, in_place) = (word(LOG_AT)?, word(NEWEST_SEGMENT_AT)?, word(IN_PLACE_AT)?);
        lane.heap().has_room(log, 1024)?;
        let log_bytes = memory.load(Off::new(log + 8), Acquire)?;
        if log_bytes < 1024 {
            return Err(Bad::Damaged { what: "log of slotted pages", at: log }.into());
        }
        lane.heap().has_room(log, log_bytes)?;
        lane.heap().has_room(newest, options.segment_bytes)?;
        let options = Options { log_bytes, ..options };
        let scheme = S::open(Parts {
            log: Log::new(memory.clone(), log, log_bytes, at + LOG_AT)?,
            in_place: (at + IN_PLACE_AT, in_place),
            page_bytes: options.page_bytes,
            created: false,
        })?;
        let roots = (0..u64::from(options.trees)).map(|tree| word(ROOTS_AT + tree * 8));
        let roots = roots.collect::<std::result::Result<Vec<u64>, Bad>>()?;
        let master = Master {
            free: word(FREE_AT)?,
            high: word(HIGH_AT)?,
            segment: word(SEGMENT_AT)?,
            roots,
        };
        lane.recovered();
        let work = Work::new(master.clone());
        let mut store = Self {
            lane,
            memory,
            scheme,
            at,
            options,
            newest,
            master,
            work,
            next_savepoint: 0,
            trees_of_a_row: 1,
            epoch: 0,
            moves: Moves::default(),
        };
        let Master { high, segment, .. } = store.master;
        let start = segment.saturating_add(SEGMENT_HEADER);
        let in_segment =
            segment < store.memory.len() && (start..=store.end_of(segment)).contains(&high);
        if !in_segment || !(high - start).is_multiple_of(u64::from(options.page_bytes)) {
            return Err(Bad::Damaged { what: "high-water mark", at: at + HIGH_AT }.into());
        }
        if S::LEAF == Kind::Checked {
            store.begin_epoch()?;
        }
        Ok(store)
    }

    /// The place of the master, by which the store is opened.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The parameters of the store.
    pub fn options(&self) -> Options {
        self.options
    }

    /// The lane that the store allocates from.
    pub fn lane(&mut self) -> &mut Lane<M> {
        &mut self.lane
    }

    /// The work of the opening.
    pub fn recovered(&self) -> Recovered {
        self.scheme.recovered()
    }

    /// The commits since it was opened.
    pub fn commits(&self) -> Commits {
        self.scheme.counts()
    }

    /// The pages that were split and copied since it was opened.
    pub fn moves(&self) -> Moves {
        self.moves
    }

    /// Sets the number of frames from which on a commit makes a checkpoint, in schemes whose log
    /// grows: [`CHECKPOINT_FRAMES`](crate::scheme::CHECKPOINT_FRAMES) otherwise.
    pub fn checkpoint_after(&mut self, frames: usize) {
        self.scheme.checkpoint_after(frames);
    }

    /// Gives the lane back, and drops what was not committed.
    pub fn into_lane(self) -> Lane<M> {
        self.lane
    }

    /// Bytes of a page.
    pub(crate) fn page_bytes(&self) -> usize {
        self.options.page_bytes as usize
    }

    /// Does what commits have put off, such as a checkpoint of the log, so that opening has nothing
    /// to do, and gives what the log has beyond [`KEPT_LOG_BYTES`](crate::KEPT_LOG_BYTES), and
    /// beyond what the deletion of a row may need, back to the heap. For the end of a process; does
    /// nothing in an open transaction.
    ///
    /// # Errors
    /// Something is damaged.
    pub fn settle(&mut self) -> Result<()> {
        // An open transaction has taken room in the log.
        if !self.is_changed() {
            self.scheme.settle(&mut self.lane)?;
        }
        Ok(self.memory.healthy()?)
    }

    /// Drops what was put and deleted since the last commit. What was stored lies in free space.
    pub fn abort(&mut self) {
        self.work = Work::new(self.master.clone());
    }

    /// Returns whether something waits for a commit.
    pub fn is_changed(&self) -> bool {
        !self.work.drafts.is_empty()
    }

    pub(crate) fn usable(&self) -> Result<()> {
        if self.work.failed { Err(SlottedError::Failed) } else { Ok(()) }
    }

    /// Does what may fail halfway; if it does, the transaction can only be aborted.
    pub(crate) fn whole<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.work.failed = true;
        let done = work(self)?;
        self.work.failed = false;
        Ok(done)
    }

    pub(crate) fn here(&self, page: u64) -> In {
        In { page, bytes: self.page_bytes(), epoch: self.epoch }
    }

    pub(crate) fn view(&self, page: u64) -> Result<<S::Pages as Memory>::View<'_>> {
        if !page.is_multiple_of(64) {
            return Err(Bad::Misaligned { at: page, align: 64 }.into());
        }
        let at = self.scheme.place(page)?;
        Ok(self.scheme.pages().view(Range::new(at, u64::from(self.options.page_bytes)))?)
    }

    /// A page as the transaction sees it.
    pub(crate) fn node(&self, page: u64) -> Result<Node<'_, <S::Pages as Memory>::View<'_>>> {
        let view = self.view(page)?;
        Ok(Node::new(view, self.here(page), self.work.drafts.get(&page))?)
    }

    /// The draft of a page, which is begun if there is none.
    pub(crate) fn edit(&mut self, page: u64) -> Result<&mut Draft> {
        if !self.work.drafts.contains_key(&page) {
            let view = self.view(page)?;
            let (header, at) = committed(&view, self.here(page))?;
            self.forget_line(&view, page, header, at);
            let slots = Node::new(view, self.here(page), None)?.slots();
            let mut draft = Draft::of(header, at, slots, self.page_bytes());
            if flaw::has::<M>(Flaw::PlacedOverCommitted) {
                draft.keep_nothing_committed();
            }
            self.work.remember(page);
            self.work.drafts.insert(page, draft);
        }
        self.work.remember(page);
        Ok(self.work.drafts.get_mut(&page).expect("it was just made"))
    }

    /// Writes bytes of a page that nothing committed leads to.
    #[track_caller]
    pub(crate) fn write(&mut self, page: u64, at: usize, bytes: &[u8]) -> Result<()> {
        let place = self.scheme.place(page)?;
        self.scheme.pages().copy(Off::new(place + at as u64), bytes);
        let committed = self.work.drafts.get(&page).is_some_and(|draft| !draft.fresh);
        let unflushed = if committed { Flaw::RecordUnflushed } else { Flaw::SiblingUnflushed };
        if flaw::has::<M>(unflushed) {
            return Ok(());
        }
        match S::RECORDS {
            Records::Logged => {
                self.work.room.wrote(page, bytes.len());
                self.work.written.push((page, at, bytes.len()));
            }
            Records::Flushed => {
                self.work.lines.add(Range::new(page + at as u64, bytes.len() as u64));
            }
            Records::Checked => {
                self.work.written.push((page, at, bytes.len()));
                self.work.lines.add(Range::new(page + at as u64, bytes.len() as u64));
            }
        }
        Ok(())
    }

    /// Makes a page with these records, to which nothing leads yet.
    pub(crate) fn make_page(&mut self, kind: Kind, records: &[Vec<u8>]) -> Result<u64> {
        let page = self.allocate_page()?;
        let mut draft = Draft::fresh(kind, self.page_bytes());
        let roomy = kind.packed_bytes(records) + records.len() * LINE <= self.page_bytes();
        for (index, record) in records.iter().enumerate() {
            let at = if roomy { draft.in_gap(record.len(), 1) } else { None };
            let at = at.or_else(|| draft.in_gap_plainly(record.len(), 1));
            let at = at.ok_or(Bad::Damaged { what: "sizes of the records for page", at: page })?;
            self.write(page, at, record)?;
            draft.add(index, at as u16, record.len());
        }
        self.work.remember(page);
        self.work.drafts.insert(page, draft);
        Ok(page)
    }
}

fn constants(options: Options, scheme: u32) -> Constants {
    let mut constants = Constants {
        magic: MAGIC,
        page_bytes: options.page_bytes,
        trees: options.trees,
        segment_bytes: options.segment_bytes,
        scheme,
        checksum: 0,
        reserved: [0; 4],
    };
    constants.checksum = crc32c::crc32c(constants.as_bytes());
    constants
}
