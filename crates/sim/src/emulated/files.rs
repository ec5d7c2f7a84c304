//! Files whose bytes lie in a memory: what a file system for non-volatile memory is (P1 2.2).
//!
//! Reading copies out of the memory, writing copies into it, and a sync writes the lines back that
//! were written through the handle, then fences once, as [`pm::HostFiles`] do in modelled `adr`.
//! What else the kernel does costs the lines of [`crate::MeterOptions::lines_per_sync`] and
//! nothing else; its time is in the native run that an emulated one is paired with.
//!
//! Bytes of a file lie in extents. What was not written in an extent since it was given out reads
//! as zeros without being there, so that nothing has to be cleared.
//!
//! These files end with the process.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pm::{Counters, File, Files, LINE_BYTES, Memory, Off, Range, check_name};

use super::meter::Meter;
use super::{Arena, Emulated, Traced};

/// Bytes of an extent.
const EXTENT_BYTES: u64 = 64 << 10;
/// The first extent holds the lines that stand for what the file system keeps of its files.
const OWN_LINES: u64 = EXTENT_BYTES / LINE_BYTES;

/// A directory of files in a memory. Clones share it.
#[derive(Clone, Debug)]
pub struct MemoryFiles<M>(Arc<Directory<M>>);

#[derive(Debug)]
struct Directory<M> {
    memory: M,
    lines_per_sync: u64,
    meter: Option<Meter>,
    state: Mutex<State>,
}

#[derive(Default, Debug)]
struct State {
    names: BTreeMap<String, u64>,
    files: BTreeMap<u64, Contents>,
    created: u64,
    /// Extents given out so far, the file system's own included.
    extents: u64,
    free: Vec<u64>,
    counting: bool,
    counters: Counters,
}

#[derive(Default, Debug)]
struct Contents {
    bytes: u64,
    extents: Vec<Extent>,
    handles: u64,
    /// True if it has a name.
    named: bool,
}

#[derive(Debug)]
struct Extent {
    /// The place in the memory where it starts.
    start: u64,
    /// The number of its bytes that were written; the others are zeros that are not there.
    filled: u64,
}

impl MemoryFiles<Emulated<Arena>> {
    /// An empty directory on emulated non-volatile memory, which can grow to `limit` bytes.
    ///
    /// # Errors
    /// The kernel has no room for the reservation.
    pub fn emulated(meter: &Meter, limit: u64) -> io::Result<Self> {
        let memory = Emulated::new(Arena::new(EXTENT_BYTES, limit)?, meter);
        Ok(Self::new(memory, meter.options().lines_per_sync, Some(meter.clone())))
    }
}

impl MemoryFiles<Traced<Arena>> {
    /// The same for a run under a tracer.
    pub fn traced(memory: Traced<Arena>, lines_per_sync: u32) -> Self {
        Self::new(memory, lines_per_sync, None)
    }
}

impl<M: Memory> MemoryFiles<M> {
    fn new(memory: M, lines_per_sync: u32, meter: Option<Meter>) -> Self {
        let state = Mutex::new(State { extents: 1, ..State::default() });
        let lines_per_sync = u64::from(lines_per_sync);
        Self(Arc::new(Directory { memory, lines_per_sync, meter, state }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, state: &mut State, number: u64) -> MemoryFile<M> {
        state.file(number).handles += 1;
        MemoryFile { files: self.clone(), number, unsynced: Mutex::default() }
    }

    /// Gives the file at least so many bytes.
    fn lengthen(&self, state: &mut State, number: u64, bytes: u64) -> io::Result<()> {
        let wanted = bytes.div_ceil(EXTENT_BYTES);
        while (state.file(number).extents.len() as u64) < wanted {
            let start = match state.free.pop() {
                Some(start) => start,
                None => {
                    let start = state.extents * EXTENT_BYTES;
                    let grown = self.0.memory.grow(start + EXTENT_BYTES);
                    grown.map_err(|_| io::ErrorKind::StorageFull)?;
                    state.extents += 1;
                    start
                }
            };
            state.file(number).extents.push(Extent { start, filled: 0 });
        }
        let file = state.file(number);
        file.bytes = file.bytes.max(bytes);
        Ok(())
    }

    fn counted(&self, call: bool, bytes: u64, syncs: u64) {
        if let Some(meter) = &self.0.meter {
            let counts = &mut meter.state().counts;
            counts.file_calls += u64::from(call);
            counts.file_bytes += bytes;
            counts.syncs += syncs;
        }
    }

    /// Writes the file system's own lines for a file, and fences.
    fn sync_own(&self, number: u64) {
        let memory = &self.0.memory;
        for line in 0..self.0.lines_per_sync {
            let at = (number * self.0.lines_per_sync + line) % OWN_LINES * LINE_BYTES;
            let place = Off::new(at);
            memory.store(place, memory_word(memory, place).wrapping_add(1));
            memory.flush(Range::new(at, LINE_BYTES));
        }
        memory.fence();
    }
}

/// A word of the file system's own.
fn memory_word<M: Memory>(memory: &M, at: Off<u64>) -> u64 {
    let order = std::sync::atomic::Ordering::Relaxed;
    memory.load(at, order).expect("within the first extent")
}

impl State {
    fn file(&mut self, number: u64) -> &mut Contents {
        self.files.get_mut(&number).expect("a file lives as long as its name and its handles")
    }

    fn number(&self, name: &str) -> io::Result<u64> {
        check_name(name)?;
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The file has lost its name, or a handle.
    fn let_go(&mut self, number: u64) {
        let file = self.file(number);
        if !file.named && file.handles == 0 {
            let extents = std::mem::take(&mut file.extents);
            self.free.extend(extents.iter().rev().map(|extent| extent.start));
            self.files.remove(&number);
        }
    }

    fn unname(&mut self, name: &str) {
        if let Some(number) = self.names.remove(name) {
            self.file(number).named = false;
            self.let_go(number);
        }
    }
}

impl<M: Memory> Files for MemoryFiles<M> {
    type File = MemoryFile<M>;

    fn create(&self, name: &str) -> io::Result<MemoryFile<M>> {
        check_name(name)?;
        let mut state = self.state();
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.created += 1;
        let number = state.created;
        state.names.insert(name.into(), number);
        state.files.insert(number, Contents { named: true, ..Contents::default() });
        Ok(self.handle(&mut state, number))
    }

    fn open(&self, name: &str) -> io::Result<MemoryFile<M>> {
        let mut state = self.state();
        let number = state.number(name)?;
        Ok(self.handle(&mut state, number))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.number(name)?;
        state.unname(name);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        let mut state = self.state();
        let number = state.number(from)?;
        if from != to {
            state.unname(to);
            state.names.remove(from);
            state.names.insert(to.into(), number);
        }
        Ok(())
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        if self.state().names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.rename(from, to)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.sync_own(0);
        let mut state = self.state();
        state.counters.syncs += u64::from(state.counting);
        drop(state);
        self.counted(false, 0, 1);
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.memory.fence();
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.state().counters
    }

    fn count(&self, on: bool) {
        self.state().counting = on;
    }
}

/// An open file of [`MemoryFiles`].
#[derive(Debug)]
pub struct MemoryFile<M: Memory> {
    files: MemoryFiles<M>,
    number: u64,
    /// Written through this handle since the last sync, in order; neighbours are merged.
    unsynced: Mutex<Vec<Range>>,
}

impl<M: Memory> MemoryFile<M> {
    fn unsynced(&self) -> MutexGuard<'_, Vec<Range>> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parts of a range of a file by extent: number of the extent, first byte in it, how many.
fn parts(at: u64, len: u64) -> impl Iterator<Item = (usize, u64, u64)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let within = (at + done) % EXTENT_BYTES;
        let part = (len - done).min(EXTENT_BYTES - within);
        let extent = (at + done) / EXTENT_BYTES;
        done += part;
        (part > 0).then_some((extent as usize, within, part))
    })
}

impl<M: Memory> File for MemoryFile<M> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.files.state().file(self.number).bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.files.state();
        self.files.lengthen(&mut state, self.number, bytes)?;
        let file = state.file(self.number);
        file.bytes = bytes;
        let kept = bytes.div_ceil(EXTENT_BYTES) as usize;
        let gone = file.extents.split_off(kept.min(file.extents.len()));
        if let (Some(last), within) = (file.extents.last_mut(), bytes % EXTENT_BYTES)
            && within > 0
        {
            last.filled = last.filled.min(within);
        }
        state.free.extend(gone.iter().rev().map(|extent| extent.start));
        drop(state);
        self.unsynced().retain_mut(|range| {
            range.len = range.len.min(bytes.saturating_sub(range.start));
            range.len > 0
        });
        Ok(())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.files.lengthen(&mut self.files.state(), self.number, bytes)
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let mut state = self.files.state();
        let file = state.file(self.number);
        let len = file.bytes.saturating_sub(at).min(out.len() as u64);
        let mut rest = &mut out[..len as usize];
        for (extent, within, part) in parts(at, len) {
            let Extent { start, filled } = file.extents[extent];
            let there = filled.saturating_sub(within).min(part);
            let (piece, after) = rest.split_at_mut(part as usize);
            let (stored, zeros) = piece.split_at_mut(there as usize);
            let place = Off::new(start + within);
            self.files.0.memory.read_into(place, stored).map_err(io::Error::other)?;
            zeros.fill(0);
            rest = after;
        }
        self.files.counted(true, len, 0);
        Ok(len as usize)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (memory, len) = (&self.files.0.memory, bytes.len() as u64);
        if len == 0 {
            return Ok(());
        }
        let mut state = self.files.state();
        self.files.lengthen(&mut state, self.number, at + len)?;
        let file = state.file(self.number);
        let mut rest = bytes;
        for (extent, within, part) in parts(at, len) {
            let Extent { start, filled } = &mut file.extents[extent];
            while *filled < within {
                let zeros = [0; 4096];
                let gap = (within - *filled).min(4096);
                memory.copy(Off::new(*start + *filled), &zeros[..gap as usize]);
                *filled += gap;
            }
            let (piece, after) = rest.split_at(part as usize);
            memory.copy(Off::new(*start + within), piece);
            *filled = (*filled).max(within + part);
            rest = after;
        }
        if state.counting {
            state.counters.file_bytes += len;
        }
        drop(state);
        let mut unsynced = self.unsynced();
        match unsynced.last_mut() {
            Some(last) if last.end() == at => last.len += len,
            _ => unsynced.push(Range::new(at, len)),
        }
        self.files.counted(true, len, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut unsynced = self.unsynced();
        let mut state = self.files.state();
        let file = state.file(self.number);
        for range in unsynced.drain(..) {
            let len = range.len.min(file.bytes.saturating_sub(range.start));
            for (extent, within, part) in parts(range.start, len) {
                let start = file.extents[extent].start;
                self.files.0.memory.flush(Range::new(start + within, part));
            }
        }
        state.counters.syncs += u64::from(state.counting);
        drop(state);
        self.files.sync_own(self.number);
        self.files.counted(false, 0, 1);
        Ok(())
    }
}

impl<M: Memory> Drop for MemoryFile<M> {
    fn drop(&mut self) {
        let mut state = self.files.state();
        state.file(self.number).handles -= 1;
        state.let_go(self.number);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::MeterOptions;

    fn files() -> MemoryFiles<Emulated<Arena>> {
        let usual = MeterOptions::default();
        // What a cache of this size is filled with takes an interpreter a minute.
        let cache_bytes = if cfg!(miri) { 1 << 16 } else { usual.cache_bytes };
        let meter = Meter::new(MeterOptions { cache_bytes, ..usual });
        MemoryFiles::emulated(&meter, 1 << 24).unwrap()
    }

    // An interpreter takes a minute for files of this size.
    const PLACES: u64 = if cfg!(miri) { 5000 } else { 200_000 };
    const LENGTHS: usize = if cfg!(miri) { 500 } else { 9000 };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]
        #[test]
        fn a_file_reads_as_what_was_written_to_it(
            steps in prop::collection::vec((0..PLACES, 0..LENGTHS, 0_u8..6), 1..60),
        ) {
            let files = files();
            // What is removed gives its extents to the file under test, with what was in them.
            files.create("old").unwrap().write_at(0, &vec![9; PLACES as usize * 3 / 2]).unwrap();
            files.remove("old").unwrap();
            let file = files.create("file").unwrap();
            let mut wanted: Vec<u8> = Vec::new();
            for (number, (at, len, what)) in steps.into_iter().enumerate() {
                match what {
                    0 => {
                        file.set_len(at).unwrap();
                        wanted.resize(at as usize, 0);
                    }
                    1 => {
                        file.reserve(at).unwrap();
                        wanted.resize(wanted.len().max(at as usize), 0);
                    }
                    2 => file.sync().unwrap(),
                    _ => {
                        let end = at as usize + len;
                        let bytes = vec![number as u8 + 1; len];
                        file.write_at(at, &bytes).unwrap();
                        if len > 0 {
                            wanted.resize(wanted.len().max(end), 0);
                            wanted[at as usize..end].copy_from_slice(&bytes);
                        }
                    }
                }
                let mut found = vec![7; PLACES as usize + LENGTHS + 100];
                let bytes = file.read_at(0, &mut found).unwrap();
                prop_assert_eq!(&found[..bytes], &wanted[..]);
            }
        }
    }

    #[test]
    fn a_sync_writes_back_the_file_and_one_line_of_metadata() {
        let files = files();
        let meter = files.0.meter.clone().unwrap();
        let file = files.create("log").unwrap();
        file.write_at(60, &[1; 8]).unwrap();
        meter.reset();
        file.sync().unwrap();
        let counts = meter.counts();
        assert_eq!((counts.flushed_lines, counts.fences, counts.syncs), (3, 1, 1));
        file.sync().unwrap();
        let counts = meter.counts().since(&counts);
        assert_eq!((counts.flushed_lines, counts.fences), (1, 1), "its own line changes each time");
    }

    #[test]
    fn names_lead_to_files_as_in_a_directory() {
        let files = files();
        let kind = |result: io::Result<()>| result.map_err(|error| error.kind());
        files.create("a").unwrap().write_at(0, b"a").unwrap();
        assert_eq!(files.create("a").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(files.open("b").unwrap_err().kind(), io::ErrorKind::NotFound);
        let b = files.create("b").unwrap();
        assert_eq!(kind(files.rename_new("a", "b")), Err(io::ErrorKind::AlreadyExists));
        files.rename("a", "b").unwrap();
        assert_eq!(files.list().unwrap(), ["b"]);
        b.write_at(0, b"still there, without a name").unwrap();
        let mut byte = [0];
        assert_eq!(files.open("b").unwrap().read_at(0, &mut byte).unwrap(), 1);
        assert_eq!(byte, *b"a");
        drop(b);
        files.remove("b").unwrap();
        let state = files.state();
        assert_eq!((state.files.len(), state.free.len()), (0, 2), "all extents are free");
    }
}
