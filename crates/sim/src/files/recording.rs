//! Files in memory that remember every write, sync and directory operation.
//!
//! The counterpart of [`crate::Recording`]: engines under test run on it unchanged, what it
//! recorded is a [`DiskTrace`], and [`super::DiskReplay`] builds from it every state that a power
//! cut could leave. Faults are put into the trace, never into the code.
//!
//! A file is known by a number that it keeps when it is renamed, as an inode.

use std::collections::BTreeMap;
use std::io;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pm::{Counters, File, Files, Site, check_name, failed_sync};

use crate::hook::{Hook, Numbers};

/// A thing that was done to a directory or to a file in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiskEvent {
    /// An empty file was created.
    Create {
        /// Its name.
        name: String,
        /// Its number.
        file: u64,
    },
    /// A file got another name.
    Rename {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// A file was removed.
    Remove {
        /// Its name.
        name: String,
    },
    /// The directory was synced.
    SyncDirectory,
    /// Bytes were written.
    Write {
        /// The file's number.
        file: u64,
        /// The place.
        at: u64,
        /// The bytes.
        bytes: Box<[u8]>,
    },
    /// The length was set.
    SetLen {
        /// The file's number.
        file: u64,
        /// The new length in bytes.
        bytes: u64,
    },
    /// Space was reserved; the file is at least so long now.
    Reserve {
        /// The file's number.
        file: u64,
        /// Bytes reserved.
        bytes: u64,
    },
    /// A file was synced.
    Sync {
        /// The file's number.
        file: u64,
    },
    /// A sync of a file failed: what was to be written by it is not written by later ones.
    FailedSync {
        /// The file's number.
        file: u64,
    },
    /// Something that the test wants to find again, such as an acknowledged commit.
    Note(u64),
}

impl DiskEvent {
    fn is_sync(&self) -> bool {
        matches!(self, Self::Sync { .. } | Self::SyncDirectory)
    }
}

/// A [`DiskEvent`] with the place in the source that asked for it.
#[derive(Clone, Debug)]
pub struct DiskRecord {
    /// The thing that was done.
    pub event: DiskEvent,
    /// The caller that asked for it.
    pub site: Site,
    /// The place in the order of all events, those of a memory that shares the counter included.
    pub number: u64,
}

/// The record of what [`RecordingFiles`] have seen since they were started.
#[derive(Clone, Debug, Default)]
pub struct DiskTrace {
    /// The durable files when recording began.
    pub image: BTreeMap<String, Vec<u8>>,
    /// The numbers of these files.
    pub numbers: BTreeMap<String, u64>,
    /// Everything since, in order.
    pub events: Vec<DiskRecord>,
}

impl DiskTrace {
    /// The places in the source that synced a file or the directory, in the order of their first
    /// sync.
    pub fn sync_sites(&self) -> Vec<Site> {
        let mut sites: Vec<Site> = Vec::new();
        for record in &self.events {
            if record.event.is_sync() && !sites.contains(&record.site) {
                sites.push(record.site);
            }
        }
        sites
    }

    /// The same trace as if the syncs of `site` were not in the code.
    pub fn without_syncs_of(&self, site: Site) -> Self {
        self.without(|record| record.event.is_sync() && record.site == site)
    }

    /// The same trace as if the code had not done what `dropped` picks.
    pub fn without(&self, dropped: impl Fn(&DiskRecord) -> bool) -> Self {
        Self {
            image: self.image.clone(),
            numbers: self.numbers.clone(),
            events: self.events.iter().filter(|record| !dropped(record)).cloned().collect(),
        }
    }
}

impl DiskTrace {
    /// Calls `visit` with every state that a kill of the process could leave: all calls up to some
    /// point, and none after it. A write is also cut in half. With it goes the number of events
    /// before the kill, and the last note among them.
    pub fn process_states(
        &self,
        mut visit: impl FnMut(usize, Option<u64>, &BTreeMap<String, Vec<u8>>),
    ) {
        let files = self.beginning();
        let mut last_note = None;
        visit(0, None, &files.image());
        for (index, record) in self.events.iter().enumerate() {
            if files.redo_half(&record.event) {
                visit(index, last_note, &files.image());
            }
            if let DiskEvent::Note(note) = record.event {
                last_note = Some(note);
            }
            if files.redo(&record.event) {
                visit(index + 1, last_note, &files.image());
            }
        }
    }

    /// The files before the first event, under the numbers of the trace.
    pub(crate) fn beginning(&self) -> RecordingFiles {
        let files = RecordingFiles::from_image(self.image.clone());
        // The numbers of the trace, not those of a new directory.
        let mut state = State { names: self.numbers.clone(), ..State::default() };
        for (name, number) in &self.numbers {
            state.contents.insert(*number, self.image[name].clone());
        }
        *files.state() = state;
        files
    }
}

impl RecordingFiles {
    /// Does an event of a trace again, unrecorded. Returns whether it has changed anything.
    pub(crate) fn redo(&self, event: &DiskEvent) -> bool {
        self.state().redo(event)
    }

    /// The first half of it, if it is a write.
    pub(crate) fn redo_half(&self, event: &DiskEvent) -> bool {
        if let DiskEvent::Write { file, at, bytes } = event {
            self.state().write(*file, *at, &bytes[..bytes.len() / 2]);
        }
        matches!(event, DiskEvent::Write { .. })
    }
}

#[derive(Default, Debug)]
struct State {
    names: BTreeMap<String, u64>,
    /// The contents of the files by number. A file that was removed stays, for handles that still
    /// have it open.
    contents: BTreeMap<u64, Vec<u8>>,
    /// Bytes written since the last sync, by number.
    unsynced: BTreeMap<u64, u64>,
    recording: bool,
    trace: DiskTrace,
    numbers: Numbers,
    /// Mutating calls that still succeed, and whether only the one after them fails.
    budget: Option<u64>,
    /// Bytes that the files may take together.
    limit: Option<u64>,
    once: bool,
    /// The maker of the call that is looked at, and of the last one that failed.
    caller: Option<Site>,
    refused: Option<Site>,
    hook: Hook,
    counting: bool,
    counters: Counters,
}

impl State {
    /// Lets a mutating call happen, or not.
    fn spend(&mut self) -> io::Result<()> {
        match &mut self.budget {
            None => return Ok(()),
            Some(0) => {}
            Some(budget) => {
                *budget -= 1;
                return Ok(());
            }
        }
        if self.once {
            self.budget = None;
        }
        self.refused = self.caller;
        Err(io::ErrorKind::StorageFull.into())
    }

    /// Lets a file have so many bytes, if there is room.
    fn make_room(&mut self, file: u64, bytes: u64) -> io::Result<()> {
        let Some(limit) = self.limit else { return Ok(()) };
        let now = self.contents(file).len() as u64;
        let all: u64 = self.names.values().map(|file| self.contents[file].len() as u64).sum();
        let fits = bytes <= now || all - now.min(all) + bytes <= limit;
        if fits { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }

    fn record(&mut self, site: Site, event: DiskEvent) {
        if self.recording {
            let number = self.numbers.fetch_add(1, Ordering::SeqCst);
            self.trace.events.push(DiskRecord { event, site, number });
        }
    }

    fn number(&self, name: &str) -> io::Result<u64> {
        check_name(name)?;
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn contents(&mut self, file: u64) -> &mut Vec<u8> {
        self.contents.entry(file).or_default()
    }

    fn write(&mut self, file: u64, at: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            let contents = self.contents(file);
            let end = at as usize + bytes.len();
            contents.resize(contents.len().max(end), 0);
            contents[at as usize..end].copy_from_slice(bytes);
        }
    }

    /// Does once more what a trace says; returns whether that changes anything.
    fn redo(&mut self, event: &DiskEvent) -> bool {
        match event {
            DiskEvent::Create { name, file } => {
                self.names.insert(name.clone(), *file);
                self.contents.insert(*file, Vec::new());
            }
            DiskEvent::Rename { from, to } => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            DiskEvent::Remove { name } => drop(self.names.remove(name)),
            DiskEvent::Write { file, at, bytes } => self.write(*file, *at, bytes),
            DiskEvent::SetLen { file, bytes } => self.contents(*file).resize(*bytes as usize, 0),
            DiskEvent::Reserve { file, bytes } => {
                let contents = self.contents(*file);
                contents.resize(contents.len().max(*bytes as usize), 0);
            }
            DiskEvent::SyncDirectory
            | DiskEvent::Sync { .. }
            | DiskEvent::FailedSync { .. }
            | DiskEvent::Note(_) => return false,
        }
        true
    }

    fn image(&self) -> BTreeMap<String, Vec<u8>> {
        self.names.iter().map(|(name, file)| (name.clone(), self.contents[file].clone())).collect()
    }
}

/// A directory in memory that records what is done to it. Clones share it.
#[derive(Clone, Default, Debug)]
pub struct RecordingFiles(Arc<Mutex<State>>);

impl RecordingFiles {
    /// An empty directory that does not record yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A directory with these files, as a crash left it.
    pub fn from_image(image: BTreeMap<String, Vec<u8>>) -> Self {
        Self::numbered(image, Numbers::default())
    }

    /// The same, whose events get their numbers from this counter.
    pub(crate) fn numbered(image: BTreeMap<String, Vec<u8>>, numbers: Numbers) -> Self {
        let files = Self::default();
        let mut state = files.state();
        state.numbers = numbers;
        for (number, (name, bytes)) in (0..).zip(image) {
            state.names.insert(name, number);
            state.contents.insert(number, bytes);
        }
        drop(state);
        files
    }

    /// Starts a new trace. Everything that is in the files now counts as durable.
    pub fn start(&self) {
        let mut state = self.state();
        state.trace =
            DiskTrace { image: state.image(), numbers: state.names.clone(), events: Vec::new() };
        state.recording = true;
    }

    /// Stops recording and gives the trace out.
    pub fn stop(&self) -> DiskTrace {
        let mut state = self.state();
        state.recording = false;
        std::mem::take(&mut state.trace)
    }

    /// Puts a note into the trace.
    #[track_caller]
    pub fn note(&self, note: u64) {
        self.state().record(Location::caller(), DiskEvent::Note(note));
    }

    /// All files as the program sees them.
    pub fn image(&self) -> BTreeMap<String, Vec<u8>> {
        self.state().image()
    }

    /// Lets `calls` more mutating calls succeed (create, rename, remove, write, set the length,
    /// reserve, sync); after that each fails as on a full medium, until this is called again. A
    /// write that fails has written the first half of its bytes. `None`: none fails.
    pub fn fail_after(&self, calls: Option<u64>) {
        let mut state = self.state();
        (state.budget, state.once) = (calls, false);
    }

    /// As [`Self::fail_after`], but only one call fails, and those after it succeed again.
    pub fn fail_once_after(&self, calls: u64) {
        let mut state = self.state();
        (state.budget, state.once) = (Some(calls), true);
    }

    /// Returns whether the call that [`Self::fail_once_after`] has picked is still to come.
    pub fn will_fail(&self) -> bool {
        self.state().budget.is_some()
    }

    /// Calls `work` before each mutating call from now on, in the thread that makes it, with the
    /// place in the source that asks for it.
    pub fn call_before_each(&self, work: impl Fn(Site) + Send + Sync + 'static) {
        self.state().hook = Hook::new(work);
    }

    #[track_caller]
    fn before(&self) {
        let site = Location::caller();
        let mut state = self.state();
        state.caller = Some(site);
        let hook = state.hook.clone();
        drop(state);
        hook.call(site);
    }

    /// The place in the source whose call was the last to fail, by [`Self::fail_after`] or
    /// [`Self::fail_once_after`].
    pub fn refused(&self) -> Option<Site> {
        self.state().refused
    }

    /// Returns how many more mutating calls succeed, if [`Self::fail_after`] or
    /// [`Self::fail_once_after`] has set a bound and has not struck.
    pub fn calls_left(&self) -> Option<u64> {
        self.state().budget
    }

    /// Lets the files take so many bytes together; what would take more fails as on a full medium.
    pub fn limit(&self, bytes: Option<u64>) {
        self.state().limit = bytes;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, number: u64) -> RecordedFile {
        RecordedFile { files: self.clone(), number, poisoned: AtomicBool::new(false) }
    }
}

impl Files for RecordingFiles {
    type File = RecordedFile;

    #[track_caller]
    fn create(&self, name: &str) -> io::Result<RecordedFile> {
        self.before();
        check_name(name)?;
        let mut state = self.state();
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.spend()?;
        let file = state.contents.last_key_value().map_or(0, |(last, _)| last + 1);
        state.names.insert(name.into(), file);
        state.contents.insert(file, Vec::new());
        state.record(Location::caller(), DiskEvent::Create { name: name.into(), file });
        Ok(self.file(file))
    }

    fn open(&self, name: &str) -> io::Result<RecordedFile> {
        let number = self.state().number(name)?;
        Ok(self.file(number))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }

    #[track_caller]
    fn remove(&self, name: &str) -> io::Result<()> {
        self.before();
        let mut state = self.state();
        state.number(name)?;
        state.spend()?;
        state.names.remove(name);
        state.record(Location::caller(), DiskEvent::Remove { name: name.into() });
        Ok(())
    }

    #[track_caller]
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.before();
        check_name(to)?;
        let mut state = self.state();
        let file = state.number(from)?;
        state.spend()?;
        state.names.remove(from);
        state.names.insert(to.into(), file);
        let event = DiskEvent::Rename { from: from.into(), to: to.into() };
        state.record(Location::caller(), event);
        Ok(())
    }

    #[track_caller]
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        if self.state().names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.rename(from, to)
    }

    #[track_caller]
    fn sync_directory(&self) -> io::Result<()> {
        self.before();
        let mut state = self.state();
        state.spend()?;
        state.counters.syncs += u64::from(state.counting);
        state.record(Location::caller(), DiskEvent::SyncDirectory);
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        for name in self.list()? {
            self.open(&name)?.sync()?;
        }
        self.sync_directory()
    }

    fn counters(&self) -> Counters {
        self.state().counters
    }

    fn count(&self, on: bool) {
        self.state().counting = on;
    }
}

/// An open file of [`RecordingFiles`].
#[derive(Debug)]
pub struct RecordedFile {
    files: RecordingFiles,
    number: u64,
    poisoned: AtomicBool,
}

impl RecordedFile {
    /// The state, unless a sync of this handle has failed.
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        if self.poisoned.load(Ordering::Relaxed) {
            Err(failed_sync())
        } else {
            Ok(self.files.state())
        }
    }
}

impl File for RecordedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.files.state().contents(self.number).len() as u64)
    }

    #[track_caller]
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.files.before();
        let mut state = self.state()?;
        state.spend()?;
        state.make_room(self.number, bytes)?;
        state.contents(self.number).resize(bytes as usize, 0);
        state.record(Location::caller(), DiskEvent::SetLen { file: self.number, bytes });
        Ok(())
    }

    #[track_caller]
    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.files.before();
        let mut state = self.state()?;
        state.spend()?;
        state.make_room(self.number, bytes)?;
        let contents = state.contents(self.number);
        contents.resize(contents.len().max(bytes as usize), 0);
        state.record(Location::caller(), DiskEvent::Reserve { file: self.number, bytes });
        Ok(())
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let mut state = self.files.state();
        let contents = state.contents(self.number);
        let start = contents.len().min(at as usize);
        let bytes = out.len().min(contents.len() - start);
        out[..bytes].copy_from_slice(&contents[start..start + bytes]);
        Ok(bytes)
    }

    #[track_caller]
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.files.before();
        let mut state = self.state()?;
        let allowed = state.spend();
        let allowed = allowed.and_then(|()| state.make_room(self.number, at + bytes.len() as u64));
        let bytes = if allowed.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        state.write(self.number, at, bytes);
        if state.counting {
            state.counters.file_bytes += bytes.len() as u64;
            *state.unsynced.entry(self.number).or_default() += bytes.len() as u64;
        }
        let event = DiskEvent::Write { file: self.number, at, bytes: bytes.into() };
        state.record(Location::caller(), event);
        allowed
    }

    #[track_caller]
    fn sync(&self) -> io::Result<()> {
        self.files.before();
        let mut state = self.state()?;
        if let Err(error) = state.spend() {
            self.poisoned.store(true, Ordering::Relaxed);
            state.record(Location::caller(), DiskEvent::FailedSync { file: self.number });
            return Err(error);
        }
        if state.counting {
            state.counters.syncs += 1;
            state.counters.bytes_persisted += state.unsynced.remove(&self.number).unwrap_or(0);
        }
        state.record(Location::caller(), DiskEvent::Sync { file: self.number });
        Ok(())
    }
}
