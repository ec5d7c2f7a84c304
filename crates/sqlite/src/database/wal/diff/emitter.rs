//! A connection's part in the differential log: it begins generations, and logs commits.
//!
//! Connections share where the last commit ends, and the one before: one that dies after its commit is durable, and before
//! SQLite shows it, leaves a commit that SQLite overwrites. The next writer's first frame shows that: before that frame is
//! stored, the commit before is the last one again. Only the connection with SQLite's lock for writing changes these words,
//! and one that dies in between leaves those of the commit that it went on from.

use std::ops::RangeInclusive;
use std::thread::yield_now;

use pm::Range;

use crate::database::contract::Failure;
use crate::database::wal::diff::images::{Image, Images};
use crate::database::wal::diff::layout::{
    FRAME_HEADER_BYTES, FrameHeader, GENERATION_BYTES, Generation, HEADER_BYTES, RECORDS_AT,
    pages_of, to_media,
};
use crate::database::wal::diff::record::{Base, END_BYTES, FRAMES_MAX, Records, differing_words};
use crate::database::wal::media::{WalFile, WalShared, WalWord, count};

/// Records of so many bytes are stored before others are made.
const STORED_TOGETHER: usize = 256 << 10;
/// Frames of a commit, at most, in which pages are compared with each other: SQLite spreads rows over a few pages.
const COMPARED: u32 = 16;
/// How often a connection that copies pages looks whether another one has logged its commit, which the index shows: that is
/// between the two for a moment.
const LOOKS: u32 = 200;
/// Bytes by which the file grows, at least and at most.
const GROWTH: (u64, u64) = (64 << 10, 16 << 20);

/// The end of a commit in the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tail {
    /// Frames of SQLite's log.
    frames: u32,
    /// The checksum.
    check: u32,
    /// The offset after it.
    at: u64,
}

/// The generation, and how often the shared words have changed: the lowest bit says which of the two ends is the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Turn {
    generation: u32,
    turns: u32,
}

impl Turn {
    fn of_word(word: u64) -> Self {
        Self { generation: (word >> 32) as u32, turns: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.turns)
    }

    fn last(self) -> usize {
        (self.turns % 2) as usize
    }

    /// The turn after which the end with a number is the last one.
    fn to(self, end: usize) -> Self {
        let more = if end == self.last() { 2 } else { 1 };
        Self { turns: self.turns.wrapping_add(more), ..self }
    }
}

/// The frames that this connection has written since it last logged, or got the lock for writing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Written {
    first: Option<u32>,
    /// The last frame of a transaction.
    end: Option<u32>,
}

/// The pages in work.
#[derive(Debug, Default)]
struct Pages {
    /// The one that is logged, before and now.
    old: Vec<u8>,
    new: Vec<u8>,
    /// Complete pages of its commit, as they were before.
    others: Vec<(u32, Vec<u8>)>,
}

impl Pages {
    /// Chooses the page that the one in work is logged as a difference from. When SQLite spreads rows over some pages anew,
    /// it gives these other numbers, too: most of a page may have been in another one.
    fn choose(&self, page: u32, has_old: bool, is_complete: bool) -> (Base, Option<&[u8]>) {
        let mut base = if has_old { Base::Own } else { Base::Zeros };
        let mut old = has_old.then_some(&self.old[..]);
        let mut words = differing_words(old, &self.new);
        if words * 4 * size_of::<u64>() < self.new.len() {
            return (base, old);
        }
        for (other, bytes) in self.others.iter().filter(|(other, _)| *other != page) {
            let differing = differing_words(Some(bytes), &self.new);
            if differing < words {
                (base, old, words) = (Base::Other(*other), Some(&bytes[..]), differing);
            }
        }
        // One that is nearly new is complete from now on.
        let is_new = words * 5 > differing_words(None, &self.new) * 3;
        if base == Base::Own && !is_complete && is_new { (Base::Zeros, None) } else { (base, old) }
    }
}

/// The part of one connection.
#[derive(Debug)]
pub(super) struct Emitter<F, S> {
    /// The differential log, SQLite's log, and the database.
    records: F,
    log: F,
    database: F,
    shared: S,
    /// The count of changed lengths when the database's length was last seen.
    resized: Option<u64>,
    generation: Generation,
    images: Images,
    /// SQLite shows this connection's last commit. If it has failed to, other frames may be in the place of this one's.
    is_shown: bool,
    written: Written,
    /// The last frame of a transaction that SQLite has committed in exclusive mode, and that could not be logged; or 0.
    unlogged: u32,
    /// All that the checkpoint under way copies is logged.
    copies_logged: bool,
    made: Records,
    pages: Pages,
}

impl<F: WalFile, S: WalShared> Emitter<F, S> {
    pub(super) fn new(records: F, log: F, database: F, shared: S) -> Self {
        let (generation, images, made, pages) = Default::default();
        let (resized, is_shown, written) = (None, true, Written::default());
        Self {
            records,
            log,
            database,
            shared,
            resized,
            generation,
            images,
            is_shown,
            written,
            unlogged: 0,
            copies_logged: false,
            made,
            pages,
        }
    }

    fn turn(&self) -> Turn {
        Turn::of_word(self.shared.load(WalWord::RecordsTurn))
    }

    fn tail(&self, end: usize) -> Tail {
        let word = self.shared.load(WalWord::RecordsEnd(end));
        let at = self.shared.load(WalWord::RecordsAt(end));
        Tail { frames: (word >> 32) as u32, check: word as u32, at }
    }

    /// The end of the last commit.
    fn last(&self) -> Tail {
        self.tail(self.turn().last())
    }

    /// Shares an end, which becomes the last one.
    fn share(&self, turn: Turn, end: usize, tail: Tail) {
        let word = u64::from(tail.frames) << 32 | u64::from(tail.check);
        self.shared.store(WalWord::RecordsEnd(end), word);
        self.shared.store(WalWord::RecordsAt(end), tail.at);
        self.shared.store(WalWord::RecordsTurn, turn.to(end).word());
    }

    /// Returns whether SQLite's log is an image. Otherwise commits are made durable in it.
    pub(super) fn has_begun(&self) -> bool {
        self.turn().generation > 0
    }

    #[track_caller]
    fn fence(&self) {
        self.records.fence();
        count(&self.shared.counters().fences, 1);
    }

    fn count_lines(&self, range: Range) {
        let (first, end) = range.lines();
        count(&self.shared.counters().lines, end - first);
    }

    /// Begins a generation, before SQLite's log begins anew with this header: all of that log is in the database, durably.
    /// Returns the header for the medium.
    ///
    /// # Errors
    /// The header is none that SQLite writes, or the kernel refuses.
    pub(super) fn begin(
        &mut self,
        header: &[u8; HEADER_BYTES],
    ) -> Result<[u8; HEADER_BYTES], Failure> {
        self.records.healthy()?;
        self.sync_database()?;
        let turn = self.turn();
        let begun = turn
            .generation
            .checked_add(1)
            .and_then(|number| Generation::of(number, header, self.database.bytes()))
            .zip(to_media(header));
        let Some((generation, media)) = begun else {
            return Err(Failure::Io("a log of SQLite's of an unknown version".into()));
        };
        let line = Range::new(Generation::line_of(generation.number()), GENERATION_BYTES as u64);
        self.records.copy(line.start, &generation.encode());
        self.records.flush(line);
        self.count_lines(line);
        self.fence();
        let end = 1 - turn.last();
        let tail = Tail { frames: 0, check: generation.seed(), at: RECORDS_AT };
        self.share(Turn { generation: generation.number(), ..turn }, end, tail);
        self.generation = generation;
        self.images.begin(generation.pages());
        (self.written, self.unlogged) = (Written::default(), 0);
        Ok(media)
    }

    /// Makes the length of the database durable, into which all of SQLite's log has been copied. With `synchronous=OFF`
    /// SQLite does not.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn sync_database(&mut self) -> Result<(), Failure> {
        let resized = Some(self.shared.load(WalWord::Resized));
        if self.resized != resized {
            self.database.see()?;
            self.resized = resized;
        }
        let bytes = self.database.bytes();
        if self.shared.load(WalWord::Synced) != bytes {
            self.database.sync_length()?;
            self.shared.store(WalWord::Synced, bytes);
        }
        Ok(())
    }

    /// Makes the log's header durable, with the log's name.
    ///
    /// # Errors
    /// The medium fails, or the kernel refuses.
    pub(super) fn sync_header(&self) -> Result<(), Failure> {
        let header = Range::new(0, HEADER_BYTES as u64);
        // Stock SQLite reads no header of a log that has nothing after it.
        let least = self.generation.image_at(1).end();
        if self.shared.load(WalWord::LogSynced) < least {
            self.log.see()?;
            if self.log.bytes() < least {
                self.log.write_at(least - 8, &[0; 8])?;
            }
            self.log.sync_length()?;
            self.log.sync_name()?;
            self.shared.store(WalWord::LogSynced, least);
        }
        self.log.flush(header);
        self.count_lines(header);
        self.fence();
        self.log.healthy()
    }

    /// Notes a write to SQLite's log that is about to be done. Reserves space for the records of its frame: when SQLite
    /// commits without a sync, there is no way back.
    ///
    /// # Errors
    /// The generation cannot be read; no room; SQLite goes on from an unknown commit.
    pub(super) fn note(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        if bytes.len() != FRAME_HEADER_BYTES {
            return Ok(());
        }
        self.learn_generation()?;
        let Some(frame) = self.generation.frame_at(at) else { return Ok(()) };
        let base = self.go_on_before(frame)?;
        if frame <= self.unlogged {
            self.unlogged = 0;
        }
        // The frames may end in two commits: those of another connection, and this one's.
        let most = Records::most_bytes(frame - base.frames, self.generation.page_bytes());
        self.make_room(base.at.saturating_add(most).saturating_add(END_BYTES as u64))?;
        let Written { first, end } = self.written;
        self.written.first = Some(first.map_or(frame, |first| first.min(frame)));
        // SQLite writes headers again, with other checksums, the one that ends the transaction last.
        self.written.end =
            if pages_of(bytes) > 0 { Some(frame) } else { end.filter(|end| *end < frame) };
        Ok(())
    }

    /// Returns the end of the commit that a frame, which is about to be stored, goes on from. If the frame replaces one of
    /// the last commit, SQLite never showed that: the commit before is the last one again.
    fn go_on_before(&self, frame: u32) -> Result<Tail, Failure> {
        let turn = self.turn();
        let last = self.tail(turn.last());
        if last.frames < frame {
            return Ok(last);
        }
        let other = 1 - turn.last();
        let before = self.tail(other);
        if before.frames >= frame {
            return Err(Failure::Io("SQLite's log goes on from an unknown frame".into()));
        }
        self.shared.store(WalWord::RecordsTurn, turn.to(other).word());
        Ok(before)
    }

    /// Forgets what this connection has written and not committed: it failed, or another one may write now.
    pub(super) fn forget(&mut self) {
        self.written = Written::default();
    }

    /// Begins to write: what this connection has noted in an earlier turn is shown by the index, or was given up.
    pub(super) fn begin_writing(&mut self) {
        (self.written, self.unlogged) = (Written::default(), 0);
        if !self.is_shown {
            self.images.begin(self.generation.pages());
            self.is_shown = true;
        }
    }

    /// Logs what a checkpoint is about to copy: SQLite has taken from the index how far that goes.
    ///
    /// # Errors
    /// As [`Self::log`].
    pub(super) fn before_checkpoint(&mut self) -> Result<(), Failure> {
        if !self.copies_logged {
            if self.shared.is_writer() {
                self.log_committed()?;
            } else {
                self.wait_until_logged()?;
            }
            self.copies_logged = true;
        }
        Ok(())
    }

    pub(super) fn end_checkpoint(&mut self) {
        self.copies_logged = false;
    }

    /// Logs all that SQLite has committed, or is about to show as committed.
    ///
    /// # Errors
    /// No room, or the medium fails. Another connection writes, and has not logged what the index shows already: busy.
    pub(super) fn log(&mut self) -> Result<(), Failure> {
        if !self.shared.is_writer() {
            return self.wait_until_logged();
        }
        // As a commit of its own: this connection's may be taken back.
        self.log_committed()?;
        self.written.end.map_or(Ok(()), |end| self.log_up_to(end))
    }

    /// Logs what is committed, as the writer.
    fn log_committed(&mut self) -> Result<(), Failure> {
        let committed = self.shared.published().max(self.unlogged);
        if committed > self.last().frames {
            let Written { first, end } = std::mem::take(&mut self.written);
            let logged = self.log_up_to(committed);
            let (first, end) =
                (first.map(|one| one.max(committed + 1)), end.filter(|one| *one > committed));
            self.written = Written { first, end };
            logged?;
            self.is_shown = true;
        }
        Ok(())
    }

    /// Waits for a moment until what the index shows is logged by the writer.
    fn wait_until_logged(&self) -> Result<(), Failure> {
        let shown = self.shared.published();
        for _ in 0..LOOKS {
            if shown <= self.last().frames {
                return Ok(());
            }
            yield_now();
        }
        Err(Failure::Busy)
    }

    /// Logs what the index shows as committed.
    ///
    /// # Errors
    /// As [`Self::log`].
    pub(super) fn log_shown(&mut self) -> Result<(), Failure> {
        let shown = self.shared.published();
        let logged = self.log_up_to(shown.max(self.unlogged));
        if shown < self.images.frames() {
            // Another connection may put other frames there.
            self.images.begin(self.generation.pages());
        }
        self.is_shown = true;
        logged
    }

    /// Logs this connection's last transaction, if SQLite has ended it without a sync.
    ///
    /// # Errors
    /// As [`Self::log`].
    pub(super) fn log_own(&mut self) -> Result<(), Failure> {
        if !self.shared.is_writer() {
            return Ok(());
        }
        let end = self.written.end.unwrap_or(0);
        let own = |emitter: &mut Self| if end > 0 { emitter.log_up_to(end) } else { Ok(()) };
        let logged = self.log_committed().and_then(|()| own(self));
        if logged.is_err() {
            // The transaction is committed all the same.
            self.unlogged = self.unlogged.max(end);
        } else {
            // SQLite may have its index in its own memory.
            let shown = self.shared.published();
            self.is_shown |= shown == 0 || shown >= self.images.frames();
        }
        logged
    }

    /// Logs the frames up to one that ends a transaction, as one commit. This connection has the lock for writing.
    fn log_up_to(&mut self, frames: u32) -> Result<(), Failure> {
        let turn = self.turn();
        let from = turn.last();
        let base = self.tail(from);
        if self.written.first.is_some_and(|first| first <= base.frames) || frames > FRAMES_MAX {
            return Err(Failure::Io("SQLite's log goes on from an unknown frame".into()));
        }
        if frames > base.frames {
            let logged = self.emit(base, frames);
            self.made.clear();
            if logged.is_err() {
                self.images.begin(self.generation.pages());
            }
            self.share(turn, 1 - from, logged?);
        }
        (self.written, self.unlogged) = (Written::default(), 0);
        Ok(())
    }

    fn emit(&mut self, base: Tail, frames: u32) -> Result<Tail, Failure> {
        self.records.healthy()?;
        self.learn_generation()?;
        if self.images.frames() > base.frames || !self.is_shown {
            self.images.begin(self.generation.pages());
        }
        self.is_shown = false;
        for frame in self.images.frames() + 1..=base.frames {
            let header = self.header(frame)?;
            self.images.note(header.page(), header.pages(), false)?;
        }
        self.see_others(base.frames + 1..=frames)?;
        let mut tail = Tail { frames, ..base };
        let mut pages = 0;
        for frame in base.frames + 1..=frames {
            pages = self.add(frame)?;
            if self.made.bytes().len() >= STORED_TOGETHER {
                tail.check = crc32c::crc32c_append(tail.check, self.made.bytes());
                self.store(&mut tail.at)?;
            }
        }
        if pages == 0 {
            return Err(Failure::Io("a frame that ends no transaction".into()));
        }
        // What was read counts: bytes of a medium that has failed are zeros.
        self.log.healthy()?;
        self.database.healthy()?;
        let check = crc32c::crc32c_append(tail.check, self.made.bytes());
        tail.check = self.made.add_end(frames, pages, check);
        self.store(&mut tail.at)?;
        let stored = Range::new(base.at, tail.at - base.at);
        self.records.flush(stored);
        self.count_lines(stored);
        count(&self.shared.counters().bytes, stored.len);
        self.fence();
        self.records.healthy()?;
        Ok(tail)
    }

    /// Adds the record of the next frame, and notes its image. Returns the database's pages if it ends a transaction.
    fn add(&mut self, frame: u32) -> Result<u32, Failure> {
        let header = self.header(frame)?;
        let image = self.generation.image_at(frame);
        read(&self.log, image, &mut self.pages.new)?;
        let before = match self.images.of(header.page()) {
            Image::Frame(before) => Some((&self.log, self.generation.image_at(before))),
            Image::Database => Some((&self.database, self.generation.page_at(header.page()))),
            Image::None => None,
        };
        if let Some((file, range)) = before {
            read(file, range, &mut self.pages.old)?;
        }
        let is_complete = self.images.complete(header.page()).is_some();
        let (base, old) = self.pages.choose(header.page(), before.is_some(), is_complete);
        self.made.add_frame((header.page(), frame), base, old, &self.pages.new)?;
        self.images.note(header.page(), header.pages(), base != Base::Own)?;
        Ok(header.pages())
    }

    /// Reads the complete pages of a commit, as they were before it.
    fn see_others(&mut self, frames: RangeInclusive<u32>) -> Result<(), Failure> {
        self.pages.others.clear();
        if frames.end() - frames.start() >= COMPARED {
            return Ok(());
        }
        for frame in frames {
            let page = self.header(frame)?.page();
            if let Some(before) = self.images.complete(page) {
                let mut bytes = Vec::new();
                self.pages.others.try_reserve(1).map_err(|_| Failure::Memory)?;
                read(&self.log, self.generation.image_at(before), &mut bytes)?;
                self.pages.others.push((page, bytes));
            }
        }
        Ok(())
    }

    fn header(&self, frame: u32) -> Result<FrameHeader, Failure> {
        let mut header = [0; FRAME_HEADER_BYTES];
        read_into(&self.log, self.generation.header_at(frame), &mut header)?;
        let found = self.generation.frame(&header);
        found.ok_or_else(|| Failure::Io("a frame of another log".into()))
    }

    /// Makes the file so long that records can be stored up to an offset, and does not make that length durable.
    fn make_room(&self, end: u64) -> Result<(), Failure> {
        if end > self.records.bytes() {
            self.records.see()?;
        }
        let before = self.records.bytes();
        if end > before {
            let least = before + (before / 4).clamp(GROWTH.0, GROWTH.1);
            let needed = end.next_multiple_of(RECORDS_AT);
            let to = needed.max(least.next_multiple_of(RECORDS_AT));
            let grown = match self.records.write_at(to - 8, &[0; 8]) {
                Err(Failure::Full(_)) => {
                    // Some file systems keep what they could reserve.
                    self.records.cut(before)?;
                    self.records.write_at(needed - 8, &[0; 8])
                }
                grown => grown,
            };
            grown?;
        }
        Ok(())
    }

    /// Stores the records that were made.
    fn store(&mut self, at: &mut u64) -> Result<(), Failure> {
        let end = *at + self.made.bytes().len() as u64;
        self.make_room(end)?;
        // A length that a dead connection has not synced is not durable, either.
        if end > self.shared.load(WalWord::RecordsSynced) {
            self.records.sync_length()?;
            self.shared.store(WalWord::RecordsSynced, self.records.bytes());
        }
        self.records.copy(*at, self.made.bytes());
        self.made.clear();
        *at = end;
        Ok(())
    }

    /// Reads the generation that another connection has begun.
    fn learn_generation(&mut self) -> Result<(), Failure> {
        let number = self.turn().generation;
        if number == self.generation.number() {
            return Ok(());
        }
        let mut line = [0; GENERATION_BYTES];
        self.records.read_into(Generation::line_of(number), &mut line)?;
        let found = Generation::decode(&line).filter(|found| found.number() == number);
        let Some(found) = found else {
            return Err(Failure::Io("the differential log has lost its generation".into()));
        };
        self.generation = found;
        self.images.begin(found.pages());
        Ok(())
    }
}

fn read<F: WalFile>(file: &F, range: Range, out: &mut Vec<u8>) -> Result<(), Failure> {
    let len = range.len as usize;
    out.try_reserve(len.saturating_sub(out.len())).map_err(|_| Failure::Memory)?;
    out.resize(len, 0);
    read_into(file, range, out)
}

fn read_into<F: WalFile>(file: &F, range: Range, out: &mut [u8]) -> Result<(), Failure> {
    if range.end() > file.bytes() {
        file.see()?;
    }
    file.read_into(range.start, out)
}
