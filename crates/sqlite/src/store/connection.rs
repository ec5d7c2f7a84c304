//! The store: what SQLite writes is staged, and committed with one fence.
//!
//! A commit, by whoever has the database to himself:
//!
//! 1. Find the runs of bytes that differ from what is in place; make room.
//! 2. Write them as frames into the slot whose turn it is. Flush it, and what the commit before has stored
//!    in 3; **fence**. *Committed.*
//! 3. Store the frames where they belong. The next commit flushes that.
//!
//! Opening replays the slot with the smaller number, then the other one: what the first had put in place may
//! not be durable while the second is being written. A slot that does not match its checksum is that of a
//! commit that was cut off, and is emptied.
//!
//! *Several processes:* who begins a commit says so, and who has put it in place. Whoever finds one that was
//! begun and is not in place has the database to himself, since its owner is dead, and replays.
//!
//! *Page 1's change counter* is stored with 3 and not logged: only caches of live connections compare it.
//! Some value that it had is durable. Who replays raises it.
//!
//! *A transaction that fits into no slot* is logged behind both. There is one such place, so what is there
//! is made durable where it belongs first, and no slot counts any more.

use pm::{LineSet, Memory};

use crate::store::error::{Result, StoreError};
use crate::store::frames::{Frames, changed};
use crate::store::layout::{COUNTERS, GRANULE, HEADER_BYTES, VERSIONS_AT, WRITE_VERSION};
use crate::store::mode::Mode;
use crate::store::page1;
use crate::store::region::Region;
use crate::store::side::{Logged, Side};
use crate::store::stage::{Granule, Stage};
use crate::store::stats::Stats;

/// Where a store keeps things.
#[derive(Clone, Debug)]
pub struct Media<M> {
    /// The database.
    pub data: Region<M>,
    /// The side file.
    pub side: Region<M>,
    /// Each needs a fence of its own, as two files on a disk do.
    pub fenced_apart: bool,
}

/// The store under one connection.
#[derive(Debug)]
pub struct Store<M> {
    data: Region<M>,
    side: Side<M>,
    fenced_apart: bool,
    mode: Mode,
    /// Bytes of the database, as committed.
    size: u64,
    marked: bool,
    /// This connection has made the marker durable: who has set it may have died before that.
    marker_is_durable: bool,
    stage: Stage,
    /// The commit whose lines are in `stored` and may not be durable.
    last: u64,
    stored: Lines,
    stats: Stats,
}

/// Lines of both media.
#[derive(Debug, Default)]
struct Lines {
    data: LineSet,
    side: LineSet,
}

impl<M: Memory> Store<M> {
    /// Opens the store of a database that nobody else has open: recovers, or makes a side file. `size` is that
    /// of the database's file; the side file may be empty or stale if the marker is not set. `tag` is random.
    ///
    /// # Errors
    /// The side file is missing, that of another database or damaged, or there is no room.
    pub fn open(media: Media<M>, size: u64, tag: u64, slot_bytes: u64) -> Result<Self> {
        let marked = page1::is_marked(&page1::header(&media.data, size)?);
        if marked {
            let mut store = Self::attach(media, size)?;
            store.recover()?;
            return Ok(store);
        }
        let Media { data, side, fenced_apart } = media;
        if size > 0 {
            // Its last owner may have died before that was durable; the marker would name the old side file.
            let mut lines = LineSet::new();
            data.note(&mut lines, 0, size.min(HEADER_BYTES));
            lines.flush(data.memory());
            data.memory().fence();
        }
        let size = page1::plain_size(&data, size)?;
        let side = Side::format(side, tag, slot_bytes)?;
        Ok(Self::on(data, side, fenced_apart, size))
    }

    /// Opens the store of a database that others have open.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn attach(media: Media<M>, size: u64) -> Result<Self> {
        let Media { data, side, fenced_apart } = media;
        let marked = page1::is_marked(&page1::header(&data, size)?);
        if marked && side.is_empty() {
            return Err(StoreError::SideMissing);
        }
        let mut store = Self::on(data, Side::open(side)?, fenced_apart, size);
        if marked && page1::tag(&store.data)? != store.side.tag {
            return Err(StoreError::SideOfAnother);
        }
        store.marked = marked;
        Ok(store)
    }

    fn on(data: Region<M>, side: Side<M>, fenced_apart: bool, size: u64) -> Self {
        Self {
            data,
            side,
            fenced_apart,
            mode: Mode::default(),
            size,
            marked: false,
            marker_is_durable: false,
            stage: Stage::default(),
            last: 0,
            stored: Lines::default(),
            stats: Stats::default(),
        }
    }

    /// Flushes lines, and waits until they are durable.
    #[track_caller]
    fn fence(&mut self, lines: &mut Lines) {
        self.stats.lines += (lines.data.len() + lines.side.len()) as u64;
        self.stats.fences += 1;
        let apart = self.fenced_apart && !lines.data.is_empty();
        lines.data.flush(self.data.memory());
        lines.side.flush(self.side.region.memory());
        if apart {
            self.data.memory().fence();
        }
        self.side.region.memory().fence();
    }

    /// Replays what is committed. The caller has the database to himself.
    ///
    /// # Errors
    /// The medium fails, or the file is shorter than what is committed.
    pub fn recover(&mut self) -> Result<()> {
        let mut lines = Lines::default();
        self.note_marker(&mut lines);
        let mut found: Vec<Logged> = Vec::new();
        for number in 0..2 {
            match self.side.read(number)? {
                Some(logged) => {
                    self.side.note(&logged, &mut lines.side);
                    found.push(logged);
                }
                None => self.side.empty(number, &mut lines.side),
            }
        }
        found.sort_unstable_by_key(|logged| logged.number);
        if let [older, newer] = &found[..]
            && older.number + 1 != newer.number
        {
            return Err(StoreError::SideDamaged("the numbers of its slots do not follow"));
        }
        // A killed process may have stored all of it, and nothing of it be durable.
        self.fence(&mut lines);
        let size = found.last().map_or(self.side.size()?, |logged| logged.size);
        if size > self.data.len() {
            return Err(StoreError::Cut { found: self.data.len(), wanted: size });
        }
        for logged in &found {
            self.put(&logged.frames, &mut lines.data);
        }
        if !found.is_empty() && size >= HEADER_BYTES {
            page1::raise_counters(&self.data, &mut lines.data)?;
        }
        self.side.set_size(size, &mut lines.side);
        self.fence(&mut lines);
        // Numbers only grow: others remember the last one that they have seen.
        let (begun, _) = self.side.progress()?;
        let before = begun.max(self.side.settled()?);
        let last = found.last().map_or(before, |logged| logged.number);
        self.side.begin(last);
        self.side.applied(last);
        (self.last, self.size, self.marked) = (last, size, true);
        self.marker_is_durable = true;
        self.stored = Lines::default();
        self.stats.recoveries += 1;
        self.healthy()
    }

    /// Stores frames where they belong.
    #[track_caller]
    fn put(&self, frames: &[u8], lines: &mut LineSet) {
        let whole = Frames::each(frames, |at, bytes| {
            for part in page1::all_but_counters(at, bytes.len()) {
                self.data.copy(at + part.start as u64, &bytes[part]);
            }
            self.data.note(lines, at, bytes.len() as u64);
        });
        assert!(whole, "they have been checked, or made here");
    }

    /// Returns an error if the medium has failed, or the process was forked.
    ///
    /// # Errors
    /// As it says.
    pub fn healthy(&self) -> Result<()> {
        self.data.memory().healthy()?;
        Ok(self.side.region.memory().healthy()?)
    }

    /// Looks at what others have committed. `file_bytes` says how long the file is: it only grows, so it is asked
    /// behind what may be committed meanwhile. Returns false if somebody died at a commit: then [`Self::recover`]
    /// is to be called.
    ///
    /// # Errors
    /// The medium fails.
    pub fn refresh<E: From<StoreError>>(
        &mut self,
        mut file_bytes: impl FnMut() -> std::result::Result<u64, E>,
    ) -> std::result::Result<bool, E> {
        self.healthy()?;
        if !self.marked {
            let found = file_bytes()?;
            self.marked = page1::is_marked(&page1::header(&self.data, found)?);
            self.size = page1::plain_size(&self.data, found)?;
        }
        if !self.marked {
            return Ok(true);
        }
        let (begun, applied) = self.side.progress().map_err(E::from)?;
        self.size = self.side.size()?;
        let found = file_bytes()?;
        if begun == applied && self.size > found {
            return Err(StoreError::Cut { found, wanted: self.size }.into());
        }
        Ok(begun == applied)
    }

    /// Returns whether the marker is set, which keeps stock SQLite out.
    pub fn is_marked(&self) -> bool {
        self.marked
    }

    /// The part of a changed page that is logged.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Chooses what of a changed page is logged from now on.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// The counts of this connection.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Bytes of the database as SQLite, above this connection, sees it.
    pub fn size(&self) -> u64 {
        self.stage.size.unwrap_or(self.size)
    }

    /// Bytes of what is committed that this transaction has not cut off.
    fn kept(&self) -> u64 {
        self.size.min(self.stage.floor)
    }

    /// Copies bytes from `at` on, and returns how many there are; the rest of `out` is zero.
    ///
    /// # Errors
    /// The medium fails.
    pub fn read(&self, at: u64, out: &mut [u8]) -> Result<usize> {
        self.healthy()?;
        let there = self.size().saturating_sub(at).min(out.len() as u64) as usize;
        let (wanted, rest) = out.split_at_mut(there);
        rest.fill(0);
        self.committed(at, wanted)?;
        if !self.stage.granules.is_empty() {
            self.overlay(at, wanted);
        }
        if at < HEADER_BYTES && there > 0 && self.marked {
            let mut version = [0];
            self.committed(WRITE_VERSION as u64, &mut version)?;
            self.overlay(WRITE_VERSION as u64, &mut version);
            page1::show(at, wanted, version[0]);
        }
        self.healthy()?;
        Ok(there)
    }

    /// Copies bytes as committed, and zeros behind their end.
    fn committed(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let there = self.kept().saturating_sub(at).min(out.len() as u64) as usize;
        let (wanted, rest) = out.split_at_mut(there);
        rest.fill(0);
        if wanted.is_empty() { Ok(()) } else { Ok(self.data.read_into(at, wanted)?) }
    }

    /// Puts what is staged over bytes from `at` on.
    fn overlay(&self, at: u64, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let (number, within) = ((at + done as u64) / GRANULE, (at + done as u64) % GRANULE);
            let len = (GRANULE - within).min((out.len() - done) as u64) as usize;
            if let Some(granule) = self.stage.granules.get(&number) {
                let within = within as usize;
                out[done..done + len].copy_from_slice(&granule[within..within + len]);
            }
            done += len;
        }
    }

    /// Stages bytes at `at`.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.healthy()?;
        let size = self.size();
        let mut done = 0;
        while done < bytes.len() {
            let (number, within) = ((at + done as u64) / GRANULE, (at + done as u64) % GRANULE);
            let len = (GRANULE - within).min((bytes.len() - done) as u64) as usize;
            let within = within as usize;
            let granule = self.granule(number, len)?;
            granule[within..within + len].copy_from_slice(&bytes[done..done + len]);
            if number == 0 {
                page1::refuse_wal(granule);
            }
            done += len;
        }
        self.stage.size = Some(size.max(at + bytes.len() as u64));
        Ok(())
    }

    /// The staged granule of a number; one that is not staged yet has what is committed, if not all of it is
    /// to be written.
    fn granule(&mut self, number: u64, written: usize) -> Result<&mut Granule> {
        if !self.stage.granules.contains_key(&number) {
            let mut granule = self.stage.buffer().ok_or(StoreError::Memory)?;
            if written < GRANULE as usize {
                self.committed(number * GRANULE, &mut granule[..])?;
                if number == 0 && self.marked {
                    let version = granule[WRITE_VERSION];
                    page1::show(0, &mut granule[..], version);
                }
            }
            self.stage.granules.insert(number, granule);
        }
        Ok(self.stage.granules.get_mut(&number).expect("it was just put there"))
    }

    /// Stages another size: cuts the database off, or lets it end with zeros.
    pub fn truncate(&mut self, to: u64) {
        let size = self.size();
        if to < size {
            self.stage.cut(to);
        } else if to > size {
            self.stage.size = Some(to);
        }
    }

    /// Forgets what is staged.
    pub fn discard(&mut self) {
        self.stage.clear();
    }

    /// Returns whether all that is staged is another size.
    pub fn has_size_only(&self) -> bool {
        self.stage.granules.is_empty() && self.stage.size.is_some_and(|size| size != self.size)
    }

    /// Commits what is staged. The caller has the database to himself, stock SQLite included if the marker
    /// is not set.
    ///
    /// # Errors
    /// There is no room, or the medium fails. What is staged stays so, and nothing has changed.
    pub fn commit(&mut self) -> Result<()> {
        if self.stage.is_empty() {
            return Ok(());
        }
        self.healthy()?;
        let size = self.size();
        if !self.marked {
            // Before the file grows: stock SQLite may take its length for that of the database.
            self.data.grow(HEADER_BYTES)?;
            self.mark()?;
        }
        self.data.grow(size.max(HEADER_BYTES))?;
        self.cover(size)?;
        let (frames, counters) = self.frames(size)?;
        if frames.bytes.is_empty() && size == self.size {
            self.put_counters(&counters);
            self.stage.clear();
            return Ok(());
        }
        let bytes = frames.bytes.len() as u64;
        if !self.side.fits(bytes) {
            self.side.grow(bytes)?;
        }
        self.learn()?;
        if !self.side.fits(bytes) {
            self.settle()?;
        }
        self.log_and_put(size, &frames, &counters)?;
        self.stage.clear();
        self.stats.commits += 1;
        self.stats.frames += frames.count;
        self.stats.bytes += bytes;
        self.healthy()
    }

    /// Steps 2 and 3.
    fn log_and_put(
        &mut self,
        size: u64,
        frames: &Frames,
        counters: &Option<Counters>,
    ) -> Result<()> {
        let number = self.last + 1;
        self.side.begin(number);
        let mut lines = std::mem::take(&mut self.stored);
        self.side.log(number, size, frames, &mut lines.side);
        if !self.marker_is_durable {
            self.note_marker(&mut lines);
        }
        self.fence(&mut lines);
        // A sync that failed has been noticed by now: nothing is promised.
        self.healthy()?;
        self.marker_is_durable = true;
        self.put(&frames.bytes, &mut lines.data);
        if size != self.size {
            self.side.set_size(size, &mut lines.side);
        }
        // Once it says that it is in place, nobody replays it, and raises them.
        self.put_counters(counters);
        self.side.applied(number);
        (self.stored, self.last, self.size) = (lines, number, size);
        Ok(())
    }

    /// Finds the lines of the last commit, if somebody else made it.
    fn learn(&mut self) -> Result<()> {
        let (_, applied) = self.side.progress()?;
        if applied == self.last {
            return Ok(());
        }
        self.stored = Lines::default();
        // A slot that is empty has been settled.
        if let Some(logged) = self.side.read(applied)?
            && logged.number == applied
        {
            let Self { data, stored, side, .. } = self;
            Frames::each(&logged.frames, |at, bytes| {
                data.note(&mut stored.data, at, bytes.len() as u64);
            });
            let size = side.size()?;
            side.set_size(size, &mut stored.side);
        }
        self.last = applied;
        Ok(())
    }

    /// Sets the marker, durably, and before it what it stands for.
    fn mark(&mut self) -> Result<()> {
        let mut lines = Lines::default();
        self.side.set_size(self.size, &mut lines.side);
        self.side.note_header(&mut lines.side);
        page1::announce(&self.data, self.side.tag, self.size, &mut lines.data)?;
        self.fence(&mut lines);
        page1::set_marker(&self.data, &mut lines.data)?;
        self.fence(&mut lines);
        (self.marked, self.marker_is_durable) = (true, true);
        self.healthy()
    }

    fn note_marker(&self, lines: &mut Lines) {
        self.data.note(&mut lines.data, VERSIONS_AT, 8);
    }

    /// Makes durable where it belongs all that is committed: no slot counts any more. The caller has the
    /// database to himself.
    ///
    /// # Errors
    /// The medium fails.
    pub fn settle(&mut self) -> Result<()> {
        self.learn()?;
        let mut lines = std::mem::take(&mut self.stored);
        if self.size >= HEADER_BYTES {
            self.data.note(&mut lines.data, 0, HEADER_BYTES);
        }
        self.fence(&mut lines);
        self.healthy()?;
        self.side.set_settled(self.last, &mut lines.side);
        self.fence(&mut lines);
        self.healthy()
    }

    /// Clears the marker of a database that is settled and whose file has its size: it is a plain file again.
    /// The caller has the database to himself, and nobody opens it meanwhile.
    ///
    /// # Errors
    /// The medium fails.
    pub fn make_plain(&mut self) -> Result<()> {
        if self.size >= HEADER_BYTES {
            let mut lines = Lines::default();
            page1::clear_marker(&self.data, &mut lines.data)?;
            self.fence(&mut lines);
            page1::clear_tag(&self.data, &mut lines.data);
            self.fence(&mut lines);
        }
        self.marked = false;
        self.healthy()
    }

    /// Stages zeros where the database grows and nothing was written, and the file has other bytes.
    fn cover(&mut self, size: u64) -> Result<()> {
        let kept = self.kept();
        let mut there = Box::new([0; GRANULE as usize]);
        for number in kept / GRANULE..size.div_ceil(GRANULE) {
            if self.stage.granules.contains_key(&number) {
                continue;
            }
            let (start, len) = (number * GRANULE, (size - number * GRANULE).min(GRANULE) as usize);
            self.data.read_into(start, &mut there[..len])?;
            let from = kept.saturating_sub(start).min(len as u64) as usize;
            if there[from..len].iter().any(|byte| *byte != 0) {
                self.granule(number, 0)?;
            }
        }
        Ok(())
    }

    /// The frames of what is staged, and page 1's counters, which are not among them.
    fn frames(&self, size: u64) -> Result<(Frames, Option<Counters>)> {
        let (mut frames, mut counters) = (Frames::default(), None);
        let mut old = Box::new([0; GRANULE as usize]);
        let mut first = Box::new([0; GRANULE as usize]);
        for (number, granule) in &self.stage.granules {
            let start = number * GRANULE;
            let Some(len) = size.checked_sub(start).map(|len| len.min(GRANULE) as usize) else {
                continue;
            };
            self.data.read_into(start, &mut old[..len])?;
            let mut new = granule;
            if *number == 0 && len as u64 >= HEADER_BYTES {
                *first = **granule;
                page1::mark(&mut first, self.side.tag);
                page1::mark(&mut old, self.side.tag);
                counters = Some(COUNTERS.map(|range| {
                    let bytes = first[range.clone()].to_vec();
                    first[range.clone()].copy_from_slice(&old[range]);
                    bytes
                }));
                new = &first;
            }
            let runs = changed(&old[..len], &new[..len]);
            match self.mode {
                Mode::Full if !runs.is_empty() => frames.add(start, &new[..len]),
                _ => runs.iter().for_each(|(at, len)| {
                    frames.add(start + *at as u64, &new[*at..*at + *len]);
                }),
            }
        }
        Ok((frames, counters))
    }

    fn put_counters(&self, counters: &Option<Counters>) {
        for (range, bytes) in COUNTERS.iter().zip(counters.iter().flatten()) {
            self.data.copy(range.start as u64, bytes);
        }
    }
}

/// The bytes at [`COUNTERS`].
type Counters = [Vec<u8>; 2];
