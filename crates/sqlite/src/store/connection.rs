//! The store: stages what SQLite writes and commits it with one fence.
//!
//! A commit, by a connection with exclusive access:
//!
//! 1. Lay out each changed page for its frame (`store::adr::placing`); make room. `lean` and `full` leave each page as
//!    SQLite wrote it (`store::lean`, `store::pages`).
//! 2. Store *directly* what goes to unused space. Write the rest into the next slot, with a checksum over both. Flush
//!    this, and the stores of the previous commit's step 3; **fence**. *Committed.*
//! 3. Store the rest in place, including the table's entries of moved pages. The next commit flushes these lines, or
//!    logs their bytes again ([`crate::store::deferred_flush`]).
//!
//! Opening replays the slot with the smaller number, then the other (`store::recovery`).
//!
//! *Several processes:* a word says which commit has begun, another which has been applied. If they differ while a
//! connection has exclusive access, the committing process is dead, and the connection replays. A commit begins before
//! the files grow, so the replay can make their lengths durable.
//!
//! *Page 1's change counter* is stored in step 3 and not logged: only caches of live connections compare it. Some
//! former value is durable, and a replay raises it.
//!
//! *A transaction too large for a slot* is logged after the table. There is one such place, so its previous contents
//! are checkpointed first, and no slot counts any more.
//!
//! *A large transaction* is committed page by page (`store::stream`).
//!
//! *A part of a transaction over several databases* becomes durable in step 2, and is applied later or never
//! (`store::prepared`).
//!
//! The mode `fash` follows P3, with a fence for each step (`store::adr::ordered`). In the mode `fast`, a header that is
//! all that changes may be stored in place (`store::adr::in_place`). The mode `nvwal` has its own log
//! (`store::adr::nvwal`).
//!
//! *A transaction that changes the page size*, or leaves no page 1, is logged as bytes: all pages return to their own
//! frames first.

use pm::{LineSet, Memory};

use crate::store::announced_counter::AnnouncedCounter;
use crate::store::committed::Committed;
use crate::store::error::{APPLIED_COMMIT_DAMAGED, Result, StoreError};
use crate::store::frame_map::Table;
use crate::store::frames::Frames;
use crate::store::last_commit::{LastCommit, Lines};
use crate::store::layout::{HEADER_BYTES, VERSIONS_AT};
use crate::store::lean_record::LeanRecord;
use crate::store::mode::Mode;
use crate::store::nvwal_log::cache::Cache;
use crate::store::page1;
use crate::store::plan::{Counters, PreparedCommit};
use crate::store::region::Region;
use crate::store::room;
use crate::store::side::Side;
use crate::store::slot::Body;
use crate::store::stage::Stage;
use crate::store::stats::Stats;
use crate::store::verdict::{Decide, undecided};

/// The most memory that flushing an unflushed line takes.
pub(super) const UNFLUSHED_LINE_BYTES: usize = 96;

/// The memories of a store.
#[derive(Clone, Debug)]
pub struct Media<M> {
    /// The database.
    pub data: Region<M>,
    /// The side file.
    pub side: Region<M>,
    /// The two need separate fences, as two files on a disk do.
    pub separate_fences: bool,
    /// Stores have to be flushed to be durable.
    pub needs_flush: bool,
}

/// The store under one connection: parts with fields of their own, and the way in which it commits.
#[derive(Debug)]
pub struct Store<M> {
    pub(super) data: Region<M>,
    pub(super) side: Side<M>,
    /// The committed database.
    pub(super) view: Committed,
    /// The bytes that the transaction has written.
    pub(super) stage: Stage,
    pub(super) lean: LeanRecord,
    /// A prepared commit, which waits for other databases.
    pub(super) prepared: Option<PreparedCommit>,
    pub(super) last: LastCommit,
    pub(super) counter: AnnouncedCounter,
    /// The content of NVWAL's log.
    pub(super) cache: Cache,
    pub(super) stats: Stats,
    separate_fences: bool,
    needs_flush: bool,
    mode: Mode,
    /// Unused bytes of a page are zeroed when it is laid out.
    erases: bool,
    /// Each page stays in its own frame.
    keeps_layout: bool,
    /// A transaction may enter SQLite's WAL mode.
    allows_wal: bool,
}

impl<M: Memory> Store<M> {
    /// Opens the store of a database that no other connection has open: recovers it, or creates a side file. `size`
    /// is the database file's; without the marker the side file may be empty or stale. `tag` is random.
    ///
    /// # Errors
    /// The side file is missing, damaged or another database's, or there is no room.
    pub fn open(media: Media<M>, size: u64, tag: u64, slot_bytes: u64) -> Result<Self> {
        Self::open_and_decide(media, size, tag, slot_bytes, &undecided)
    }

    /// The same if a commit may be prepared; `decide` says whether it counts.
    ///
    /// # Errors
    /// As [`Self::open`], and those of `decide`.
    pub fn open_and_decide(
        media: Media<M>,
        size: u64,
        tag: u64,
        slot_bytes: u64,
        decide: Decide<'_>,
    ) -> Result<Self> {
        let marked = page1::is_marked(&page1::header(&media.data, size)?);
        if marked {
            let mut store = Self::attach(media, size)?;
            store.recover_and_decide(decide)?;
            return Ok(store);
        }
        if size > 0 {
            // The last close may not be durable, and the marker would name the old side file.
            let mut lines = LineSet::new();
            media.data.note(&mut lines, 0, size.min(HEADER_BYTES));
            lines.flush(media.data.memory());
            media.data.memory().fence();
        }
        let size = page1::plain_size(&media.data, size)?;
        let side = Side::format(media.side.clone(), tag, slot_bytes)?;
        Ok(Self::on(media, side, size))
    }

    /// Opens the store of a database that others have open.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn attach(media: Media<M>, size: u64) -> Result<Self> {
        if page1::is_marked(&page1::header(&media.data, size)?) && media.side.is_empty() {
            return Err(StoreError::SideMissing);
        }
        let side = Side::open(media.side.clone())?;
        let mut store = Self::on(media, side, size);
        let marked = store.finds_marker(size)?;
        store.view.set_marked(marked);
        Ok(store)
    }

    fn on(media: Media<M>, side: Side<M>, size: u64) -> Self {
        let Media { data, separate_fences, needs_flush, .. } = media;
        Self {
            data,
            side,
            view: Committed::new(size),
            stage: Stage::default(),
            lean: LeanRecord::default(),
            prepared: None,
            last: LastCommit::default(),
            counter: AnnouncedCounter::default(),
            cache: Cache::default(),
            stats: Stats::default(),
            separate_fences,
            needs_flush,
            mode: Mode::default(),
            erases: false,
            keeps_layout: false,
            allows_wal: false,
        }
    }

    /// Flushes lines and waits until they are durable.
    #[track_caller]
    pub(super) fn fence(&mut self, lines: &mut Lines) {
        self.stats.lines += (lines.data.len() + lines.side.len()) as u64;
        self.stats.fences += 1;
        let apart = self.separate_fences && !lines.data.is_empty();
        lines.data.flush(self.data.memory());
        lines.side.flush(self.side.memory());
        if apart {
            self.data.memory().fence();
        }
        self.side.memory().fence();
    }

    /// Returns an error if the medium has failed, or the process was forked.
    ///
    /// # Errors
    /// As it says.
    pub fn healthy(&self) -> Result<()> {
        self.data.memory().healthy()?;
        Ok(self.side.memory().healthy()?)
    }

    /// Returns whether the marker, which keeps stock SQLite out, is set.
    pub fn is_marked(&self) -> bool {
        self.view.is_marked()
    }

    /// The word that is raised before the marker is cleared, while it is set; `None` if it is not.
    pub(crate) fn marked_after(&self) -> Option<u64> {
        self.view.cleared().filter(|_| self.view.is_marked())
    }

    /// The mode in which this connection commits.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Sets the mode in which this connection commits from now on.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Returns whether stores have to be flushed to be durable.
    #[inline]
    pub(super) fn needs_flush(&self) -> bool {
        self.needs_flush
    }

    /// Returns whether each page stays in its own frame.
    pub(super) fn keeps_layout(&self) -> bool {
        self.keeps_layout
    }

    /// Sets whether each page stays in its own frame, so that the file can be made plain after each commit.
    pub fn set_keeps_layout(&mut self, keeps_layout: bool) {
        self.keeps_layout = keeps_layout;
    }

    /// Returns whether a transaction may enter SQLite's WAL mode.
    #[inline]
    pub(super) fn allows_wal(&self) -> bool {
        self.allows_wal
    }

    /// Sets whether a transaction may enter SQLite's WAL mode. Otherwise it stays in rollback mode.
    pub fn set_allows_wal(&mut self, allows_wal: bool) {
        self.allows_wal = allows_wal;
    }

    /// Returns whether unused bytes of a page are zeroed when it is laid out.
    pub(super) fn erases(&self) -> bool {
        self.erases
    }

    /// Sets whether unused bytes are zeroed, as SQLite's `secure_delete` asks.
    pub fn set_erases(&mut self, erases: bool) {
        self.erases = erases;
    }

    /// Bytes of the side file that a reader needs, which may be more than at its last refresh.
    ///
    /// # Errors
    /// The medium fails, or a word is damaged.
    pub fn side_bytes(&self) -> Result<u64> {
        Ok(self.side.bytes_with_log(self.side.log_state()?.0))
    }

    /// This connection's counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Ends step 2: no replay may miss the commit any more. The next commit counts as begun until this one is
    /// applied, which says so.
    pub(super) fn acknowledge(&mut self, number: u64, lines: &mut Lines) -> Result<()> {
        if !self.view.marker_is_durable() {
            self.note_marker(lines);
        }
        self.fence(lines);
        // A failed sync has been noticed by now, and nothing has been promised.
        self.healthy()?;
        self.view.note_durable_marker();
        self.side.set_begun(number + 1);
        Ok(())
    }

    /// Ends step 3. `by_pages` says that the record is one of pages.
    pub(super) fn finish_apply(
        &mut self,
        number: u64,
        size: u64,
        by_pages: bool,
        counters: &Option<Counters>,
        mut lines: Lines,
    ) -> Result<()> {
        if size != self.view.size() {
            self.side.set_size(size, &mut lines.side);
        }
        // After the next store no replay comes, which would raise the counters.
        self.put_counters(counters)?;
        // If the database's medium has failed, the next connection replays.
        self.data.memory().healthy()?;
        self.side.set_applied(number);
        self.view.note_applied(size, number);
        self.last.note_applied(number, by_pages, lines);
        Ok(())
    }

    /// Returns whether this connection made or has read the last commit.
    ///
    /// # Errors
    /// The medium fails.
    pub fn knows_last(&self) -> Result<bool> {
        let (_, applied) = self.side.progress()?;
        Ok(self.view.is_marked() && applied == self.last.number())
    }

    /// Reads the last commit's lines, if another connection made it.
    pub(super) fn load_last_commit(&mut self) -> Result<()> {
        let (_, applied) = self.side.progress()?;
        // A commit that another one checkpointed is durable, and the page size may have changed since.
        if applied == self.last.number() && self.side.checkpointed()? < applied {
            return Ok(());
        }
        let logged = self.side.read(applied)?.filter(|logged| logged.number == applied);
        if logged.is_none() && self.side.checkpointed()? < applied {
            return Err(APPLIED_COMMIT_DAMAGED);
        }
        let kind = logged.as_ref().map(|logged| matches!(logged.body, Body::Pages(_)));
        self.last.note_found(applied, kind);
        let Some(logged) = logged else { return Ok(()) };
        match &logged.body {
            Body::Pages(parts) => self.note_parts(parts),
            Body::Bytes(frames) => {
                let Self { data, last, .. } = self;
                Frames::each(frames, |at, bytes| {
                    data.note(&mut last.stored().data, at, bytes.len() as u64);
                });
            }
        }
        if logged.size.is_some() {
            self.side.note_header(&mut self.last.stored().side);
        }
        Ok(())
    }

    /// Sets the marker durably, after what it stands for.
    pub(super) fn mark(&mut self, page_bytes: u32) -> Result<()> {
        let mut lines = Lines::default();
        self.side.set_size(self.view.size(), &mut lines.side);
        self.side.set_table(Table { entries: 0, page_bytes }, &mut lines.side);
        self.side.note_header(&mut lines.side);
        self.counter.announce();
        page1::announce(&self.data, self.side.tag(), self.view.size(), &mut lines.data)?;
        self.fence(&mut lines);
        page1::set_marker(&self.data, &mut lines.data)?;
        self.fence(&mut lines);
        self.view.note_marked();
        self.healthy()
    }

    pub(super) fn note_marker(&self, lines: &mut Lines) {
        self.data.note(&mut lines.data, VERSIONS_AT, 8);
    }

    /// Makes all commits durable in place: no slot counts any more. The caller has exclusive access.
    ///
    /// # Errors
    /// The medium fails.
    pub fn checkpoint_slots(&mut self) -> Result<()> {
        self.load_last_commit()?;
        room::ensure(self.last.unflushed_lines() * UNFLUSHED_LINE_BYTES)?;
        let mut lines = self.take_unflushed();
        if self.view.size() >= HEADER_BYTES {
            self.data.note(&mut lines.data, 0, HEADER_BYTES);
        }
        self.fence(&mut lines);
        self.healthy()?;
        self.side.set_checkpointed(self.last.number(), &mut lines.side);
        self.fence(&mut lines);
        self.last.note_checkpoint();
        self.healthy()
    }

    /// The last commit's lines that may not be durable.
    pub(super) fn take_unflushed(&mut self) -> Lines {
        let mut lines = self.last.take_stored();
        for line in self.last.unflushed().flush() {
            self.note_line(line, &mut lines.data);
        }
        lines
    }
}
