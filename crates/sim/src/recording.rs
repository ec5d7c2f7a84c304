//! A memory that remembers every store, flush and fence.
//!
//! Structures and engines under test run on it unchanged. What it recorded is a [`Trace`], from
//! which [`crate::Replay`] builds every state that a crash could leave. Faults are put into
//! the trace, never into the code: the engine that is tested is the one that ships.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pm::{
    Bad, Counters, Domain, Dram, Epoch, GrowError, Header, LINE_BYTES, Line, Memory, Off, Range,
    Site, Step,
};

use crate::delegate::reads_of;
use crate::files::RecordingFiles;
use crate::hook::{Hook, Numbers};
use crate::image::Image;

const LINE: usize = LINE_BYTES as usize;
/// Bytes that the kernel maps at a time.
const PAGE: usize = 4096;
/// A page of fresh memory: compared as a whole, many bytes at a time.
static ZEROS: [u8; PAGE] = [0; PAGE];

/// A thing that was done to a memory.
#[derive(Clone, Debug)]
pub enum Event {
    /// An ordered 8-byte store.
    Store {
        /// The place.
        at: u64,
        /// The new value.
        value: u64,
    },
    /// A bulk copy.
    Copy {
        /// The place where it starts.
        at: u64,
        /// The bytes.
        bytes: Box<[u8]>,
    },
    /// A store of a whole line.
    Line {
        /// The number of the line.
        line: u64,
        /// The bytes.
        bytes: Box<[u8; LINE]>,
    },
    /// A flush of the lines `first..end`.
    Flush {
        /// Number of the first line.
        first: u64,
        /// The number of the last line, plus one.
        end: u64,
    },
    /// A fence.
    Fence,
    /// The memory grew.
    Grow {
        /// The new size in bytes.
        to: u64,
    },
    /// A step of an engine.
    Mark(Step),
    /// Something that the test wants to find again, such as an acknowledged commit.
    Note(u64),
}

/// An [`Event`] with the thread that did it and the place in the source that asked for it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The thing that was done.
    pub event: Event,
    /// A small number for the thread.
    pub thread: u32,
    /// The caller that asked for it.
    pub site: Site,
    /// The place in the order of all events, those of [files](Recording::files) that share the
    /// counter included.
    pub number: u64,
}

/// The record of what a [`Recording`] has seen since it was started.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The durable contents when recording began.
    pub image: Vec<u8>,
    /// Everything since, in order.
    pub events: Vec<Recorded>,
}

impl Trace {
    /// Flushed lines, those that were stored whole among them, fences and bytes of the whole trace.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        for recorded in &self.events {
            match recorded.event {
                Event::Flush { first, end } => {
                    counters.flushed_lines += end - first;
                    counters.bytes_persisted += (end - first) * LINE_BYTES;
                }
                Event::Line { .. } => {
                    counters.flushed_lines += 1;
                    counters.bytes_persisted += LINE_BYTES;
                }
                Event::Fence => counters.fences += 1,
                _ => {}
            }
        }
        counters
    }

    /// Calls `visit` with every state that a kill of the process could leave: all stores
    /// up to some point, and none after it. A bulk copy is cut at each of its 8-byte atoms, of
    /// which it may move the first first or the last.
    pub fn process_states(&self, mut visit: impl FnMut(usize, &[u8])) {
        self.numbered_process_states(|events, image, _| visit(events, image));
    }

    /// As [`Self::process_states`], with a number for each image that two have in common only if
    /// they are alike, or by a chance of 2^-64.
    pub fn numbered_process_states(&self, mut visit: impl FnMut(usize, &[u8], u64)) {
        let mut image = Image::new(self.image.clone());
        let mut visit = |events, image: &Image| visit(events, image.bytes(), image.fingerprint());
        visit(0, &image);
        for (index, recorded) in self.events.iter().enumerate() {
            match &recorded.event {
                Event::Store { at, value } => {
                    image.put(*at, &value.to_le_bytes());
                    visit(index + 1, &image);
                }
                Event::Copy { at, bytes } => {
                    let range = *at as usize..*at as usize + bytes.len();
                    let before = image.bytes()[range].to_vec();
                    let all: Vec<_> = atoms(*at, bytes).collect();
                    for (start, atom) in all.iter().skip(1).rev() {
                        image.put(*start, atom);
                        visit(index + 1, &image);
                    }
                    image.put(*at, &before);
                    for (start, atom) in all {
                        image.put(start, atom);
                        visit(index + 1, &image);
                    }
                }
                Event::Line { line, bytes } => {
                    image.put(line * LINE_BYTES, &bytes[..]);
                    visit(index + 1, &image);
                }
                Event::Grow { to } => image.grow(*to),
                _ => {}
            }
        }
    }
}

pub(crate) fn put(image: &mut [u8], at: u64, bytes: &[u8]) {
    image[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
}

/// The 8-byte atoms of a bulk copy: pieces that cross no 8-byte boundary.
pub(crate) fn atoms(at: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut done = 0usize;
    std::iter::from_fn(move || {
        if done == bytes.len() {
            return None;
        }
        let start = at + done as u64;
        let len = ((8 - start % 8) as usize).min(bytes.len() - done);
        let atom = &bytes[done..done + len];
        done += len;
        Some((start, atom))
    })
}

#[derive(Debug)]
struct Shared {
    memory: Dram,
    log: Mutex<Log>,
    hook: OnceLock<Hook>,
    numbers: Numbers,
}

#[derive(Debug)]
struct Log {
    recording: bool,
    trace: Trace,
    grow_budget: Option<u64>,
}

/// Memories that recordings have left, for those that begin with an image: the pages are there, and
/// most have the bytes that are wanted, where a fresh page costs a fault.
static LEFT: Mutex<Vec<Dram>> = Mutex::new(Vec::new());
/// At most so many are kept, of at most so many bytes each.
const MOST_LEFT: usize = 8;
const MOST_LEFT_BYTES: usize = 16 << 20;

/// A memory that can grow to `limit` bytes and that a recording has left.
fn take_left(limit: u64) -> Option<Dram> {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    let place = left.iter().rposition(|memory| limit_of(memory) == limit)?;
    Some(left.remove(place))
}

fn limit_of(memory: &Dram) -> u64 {
    memory.len() + memory.headroom()
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Miri looks for accesses to what has gone.
        if cfg!(miri) || self.memory.addresses().len() > MOST_LEFT_BYTES {
            return;
        }
        let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
        left.push(self.memory.clone());
        if left.len() > MOST_LEFT {
            drop(left.remove(0));
        }
    }
}

/// Private zero pages that record what is done to them. Clones share them.
#[derive(Clone, Debug)]
pub struct Recording(Arc<Shared>);

impl Recording {
    /// An empty memory that can grow to `limit` bytes and does not record yet.
    ///
    /// # Errors
    /// The kernel has no room for the reservation.
    pub fn new(limit: u64) -> io::Result<Self> {
        Ok(Self::on(Dram::new(limit)?))
    }

    fn on(memory: Dram) -> Self {
        let log = Log { recording: false, trace: Trace::default(), grow_budget: None };
        let (log, hook) = (Mutex::new(log), OnceLock::new());
        Self(Arc::new(Shared { memory, log, hook, numbers: Numbers::default() }))
    }

    /// Returns files with these contents. Their events and those of the memory are numbered from
    /// one counter, so that a crash cuts both off at the same moment ([`crate::CombinedReplay`]).
    pub fn files(&self, image: BTreeMap<String, Vec<u8>>) -> RecordingFiles {
        RecordingFiles::numbered(image, Arc::clone(&self.0.numbers))
    }

    /// A memory with the contents of `image`, as a crash left it.
    ///
    /// # Errors
    /// The kernel has no room for the reservation.
    pub fn from_image(image: &[u8], limit: u64) -> io::Result<Self> {
        let (limit, bytes) = (limit.max(image.len() as u64), image.len() as u64);
        if let Some(memory) = take_left(limit) {
            let len = memory.len();
            memory.grow(bytes.max(len)).map_err(io::Error::other)?;
            memory.copy_changed(0, image);
            memory.shrink(bytes);
            return Ok(Self::on(memory));
        }
        let memory = Dram::new(limit)?;
        memory.grow(bytes).map_err(io::Error::other)?;
        // Fresh memory is zero: a page that is touched costs a fault.
        for (at, page) in (0..).step_by(PAGE).zip(image.chunks(PAGE)) {
            if *page != ZEROS[..page.len()] {
                memory.copy(Off::new(at), page);
            }
        }
        Ok(Self::on(memory))
    }

    /// A memory that holds an empty pool of `size` bytes, in modelled `adr`.
    ///
    /// # Errors
    /// The kernel has no room for the reservation.
    pub fn pool(size: u64, limit: u64) -> io::Result<Self> {
        let memory = Self::new(limit)?;
        memory.0.memory.grow(size).map_err(io::Error::other)?;
        Header {
            uuid: [1; 16],
            boot_id: [1; 16],
            sequence: 1,
            size,
            limit,
            domain: Domain::Adr,
            modelled: true,
            clean: false,
            epoch: Epoch::default(),
        }
        .write(&memory);
        Ok(memory)
    }

    /// The pool that a crash left in `image`, as [`pm::Pool::open`] finds it: what lies
    /// beyond the size in its header is not there. Before anything in it is changed,
    /// [`Self::mark_open`] is to be called, as with a pool.
    ///
    /// # Errors
    /// No copy of the header can be used, or the kernel has no room for the reservation.
    pub fn pool_from_image(image: &[u8], limit: u64) -> io::Result<Self> {
        let header = Header::of_image(image).map_err(|damage| io::Error::other(damage.what()))?;
        Self::from_image(&image[..image.len().min(header.size as usize)], limit)
    }

    /// Marks the pool as open, as [`pm::Pool::mark_open`] does: both copies of the header are
    /// written, one after the other, so that both are whole and alike, whatever a crash made of
    /// them. The next change of the header may be torn.
    ///
    /// # Errors
    /// No copy of the header can be used.
    #[track_caller]
    pub fn mark_open(&self) -> Result<(), Bad> {
        let (mut header, _) = pm::read_header(self)?;
        header.clean = false;
        header.sequence += 1;
        header.write_first(self);
        Ok(())
    }

    /// Starts a new trace. Everything that is in the memory now counts as durable.
    pub fn start(&self) {
        // With the lock, so that a store of another thread is either in the image or in the trace.
        let mut log = self.log();
        log.trace = Trace { image: self.contents(), events: Vec::new() };
        log.recording = true;
    }

    /// Stops recording and gives the trace out.
    pub fn stop(&self) -> Trace {
        let mut log = self.log();
        log.recording = false;
        std::mem::take(&mut log.trace)
    }

    /// Puts a note into the trace.
    #[track_caller]
    pub fn note(&self, note: u64) {
        self.record(|| Event::Note(note));
    }

    /// Returns whether the two memories begin at the same address: nothing could be said then about
    /// pointers that should be offsets.
    pub fn is_mapped_like(&self, other: &Self) -> bool {
        self.0.memory.addresses().start == other.0.memory.addresses().start
    }

    /// Calls `work` before each store, copy, flush and fence from now on, in the thread that is
    /// about to do it, with the place in the source that asks for it.
    ///
    /// # Panics
    /// It is called a second time.
    pub fn call_before_each(&self, work: impl Fn(Site) + Send + Sync + 'static) {
        self.0.hook.set(Hook::new(work)).expect("a recording is watched by one");
    }

    #[track_caller]
    fn before(&self) {
        if let Some(hook) = self.0.hook.get() {
            hook.call(Location::caller());
        }
    }

    /// All bytes of the memory as the program sees them.
    pub fn contents(&self) -> Vec<u8> {
        let mut image = vec![0; self.len() as usize];
        self.read_into(Off::new(0), &mut image).expect("within its own length");
        image
    }

    /// Lets the memory grow `times` more times; after that growing fails as on a full medium.
    pub fn fail_growth_after(&self, times: Option<u64>) {
        self.log().grow_budget = times;
    }

    /// Returns how many more times the memory can grow, if [`Self::fail_growth_after`] has set a
    /// bound.
    pub fn growths_left(&self) -> Option<u64> {
        self.log().grow_budget
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn record(&self, event: impl FnOnce() -> Event) {
        let site = Location::caller();
        let mut log = self.log();
        self.push(&mut log, site, event);
    }

    fn push(&self, log: &mut Log, site: Site, event: impl FnOnce() -> Event) {
        if log.recording {
            let (thread, number) = (thread_number(), self.0.numbers.fetch_add(1, Ordering::SeqCst));
            log.trace.events.push(Recorded { event: event(), thread, site, number });
        }
    }

    /// Records a store and does it, as one step: the trace has the order of the stores.
    #[track_caller]
    fn record_and<R>(&self, event: impl FnOnce() -> Event, act: impl FnOnce(&Dram) -> R) -> R {
        let site = Location::caller();
        let mut log = self.log();
        let result = act(&self.0.memory);
        self.push(&mut log, site, event);
        result
    }
}

thread_local!(static NAMED: Cell<Option<u32>> = const { Cell::new(None) });

/// Records what this thread does as done by the thread with this number from now on: for a
/// scheduler that runs several threads of a test in one of the system's. `None`: as its own.
pub fn record_as(thread: Option<u32>) {
    NAMED.set(thread);
}

fn thread_number() -> u32 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local!(static MINE: u64 = NEXT.fetch_add(1, Ordering::Relaxed));
    NAMED.get().unwrap_or_else(|| MINE.with(|mine| *mine as u32))
}

impl Memory for Recording {
    const DURABLE: bool = true;
    const OBSERVED: bool = true;
    type View<'a> = <Dram as Memory>::View<'a>;

    reads_of!(self => self.0.memory);

    fn grow(&self, to: u64) -> Result<(), GrowError> {
        let limit = limit_of(&self.0.memory);
        if to <= self.len() {
            return Ok(());
        }
        if to > limit {
            return Err(GrowError::Limit { limit });
        }
        if let Some(budget) = &mut self.log().grow_budget {
            *budget = budget.checked_sub(1).ok_or_else(|| GrowError::Medium {
                wanted: to,
                source: io::ErrorKind::StorageFull.into(),
            })?;
        }
        self.0.memory.grow(to)?;
        self.record_and(|| Event::Grow { to }, |_| ());
        // As a pool: the header says the new size before anything is put there.
        if let Ok((mut header, _)) = pm::read_header(self) {
            header.size = to;
            header.sequence += 1;
            header.write(self);
        }
        Ok(())
    }

    fn headroom(&self) -> u64 {
        // How much the growths that are left will be is unknown.
        if self.log().grow_budget.is_some() {
            return 0;
        }
        self.0.memory.headroom()
    }

    #[track_caller]
    fn store(&self, at: Off<u64>, value: u64) {
        self.before();
        self.record_and(|| Event::Store { at: at.get(), value }, |memory| memory.store(at, value));
    }

    #[track_caller]
    fn cas(&self, at: Off<u64>, old: u64, new: u64) -> Result<u64, u64> {
        self.before();
        let site = Location::caller();
        let mut log = self.log();
        let result = self.0.memory.cas(at, old, new);
        if result.is_ok() {
            self.push(&mut log, site, || Event::Store { at: at.get(), value: new });
        }
        result
    }

    #[track_caller]
    fn copy(&self, at: Off<u8>, src: &[u8]) {
        self.before();
        self.record_and(
            || Event::Copy { at: at.get(), bytes: src.into() },
            |memory| memory.copy(at, src),
        );
    }

    #[track_caller]
    fn flush(&self, at: Range) {
        let (first, end) = at.lines();
        if first < end {
            self.before();
            self.record(|| Event::Flush { first, end });
        }
    }

    #[track_caller]
    fn fence(&self) {
        self.before();
        self.record(|| Event::Fence);
    }

    #[track_caller]
    fn store_line(&self, line: Line, bytes: &[u8; LINE]) {
        self.before();
        self.record_and(
            || Event::Line { line: line.0, bytes: Box::new(*bytes) },
            |memory| memory.store_line(line, bytes),
        );
    }

    #[track_caller]
    fn mark(&self, step: Step) {
        self.record(|| Event::Mark(step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Replay;
    use pm::read_header;

    const LIMIT: u64 = 1 << 20;

    /// Each state that a power cut can leave while `act` runs on the pool in `image`.
    fn states(image: &[u8], act: impl Fn(&Recording)) -> Vec<Vec<u8>> {
        let memory = Recording::pool_from_image(image, LIMIT).unwrap();
        memory.start();
        act(&memory);
        let trace = memory.stop();
        let (mut replay, mut images) = (Replay::new(&trace), Vec::new());
        while let Some(point) = replay.next_point() {
            point.for_each_state(1000, 1, |image| images.push(image.to_vec()));
        }
        trace.process_states(|_, image| images.push(image.to_vec()));
        images
    }

    fn size(image: &[u8]) -> u64 {
        let memory = Recording::pool_from_image(image, LIMIT).unwrap();
        read_header(&memory).unwrap().0.size
    }

    /// The pool grows, is cut off at any point, opened, cut off at any point, grows again, and is
    /// cut off: one copy of the header is whole at every moment, and space that may be used stays.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of states")]
    fn crashes_in_a_row_leave_one_header_copy_whole() {
        let memory = Recording::pool(16 << 10, LIMIT).unwrap();
        let mut sizes = std::collections::BTreeSet::new();
        for first in states(&memory.contents(), |memory| memory.grow(32 << 10).unwrap()) {
            for second in states(&first, |memory| memory.mark_open().unwrap()) {
                // With the words of a torn growth, those of opening can make that growth whole.
                let possible = [size(&first), 32 << 10];
                assert!(possible.contains(&size(&second)), "opening changes no size");
                let opened = Recording::pool_from_image(&second, LIMIT).unwrap();
                opened.mark_open().unwrap();
                let before = size(&second);
                for third in states(&opened.contents(), |memory| memory.grow(64 << 10).unwrap()) {
                    let after = size(&third);
                    assert!(after == before || after == 64 << 10, "{before} {after}");
                    sizes.insert(after);
                }
            }
        }
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [16 << 10, 32 << 10, 64 << 10]);
    }

    #[test]
    fn a_trace_goes_on_where_its_image_ends() {
        let memory = Recording::new(1 << 20).unwrap();
        memory.grow(1 << 16).unwrap();
        let (at, ended) = (Off::new(64), std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for value in 1.. {
                    memory.store(at, value);
                    if ended.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            for round in 0..if cfg!(miri) { 2 } else { 1000 } {
                memory.start();
                std::thread::yield_now();
                let trace = memory.stop();
                let mut last = u64::from_le_bytes(trace.image[64..72].try_into().unwrap());
                for recorded in trace.events {
                    let Event::Store { value, .. } = recorded.event else { continue };
                    assert_eq!(value, last + 1, "round {round}: a store is in neither");
                    last = value;
                }
            }
            ended.store(true, Ordering::Relaxed);
        });
    }

    /// A crash between the two copies of a growth leaves the second one older. A change that began
    /// with the first one, and is torn, would take away what lies in the new space: opening repairs
    /// the second one, and so does the next change.
    #[test]
    fn the_older_copy_of_the_header_is_repaired_first() {
        let memory = Recording::pool(16 << 10, LIMIT).unwrap();
        let before = memory.contents();
        memory.grow(32 << 10).unwrap();
        let mut between = memory.contents();
        between[4096..8192].copy_from_slice(&before[4096..8192]);
        let opened = Recording::pool_from_image(&between, LIMIT).unwrap();
        opened.mark_open().unwrap();
        let copies = opened.contents();
        assert_eq!(copies[..128], copies[4096..4096 + 128], "both copies are alike");
        for image in states(&between, |memory| memory.grow(64 << 10).unwrap()) {
            assert!(size(&image) >= 32 << 10);
        }
    }
}
