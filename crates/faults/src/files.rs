//! Files that an engine keeps. Its pool holds only the description, which is durable before the
//! first transaction, so its image is the same in every state.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use perdura::{Database, EngineKind, Error, Options};
use sim::{DiskEvent, DiskReplay, DiskTrace, Recorded, Recording, RecordingFiles};
use xxhash_rust::xxh3::Xxh3Default;

use crate::medium::{CrashPoints, Medium, State, Visit};
use crate::mutation::Mutation;

/// A directory as recovery will find it.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The largest size of the pool that belongs to the files.
pub const LIMIT: u64 = 1 << 20;

/// Recording files.
#[derive(Clone, Debug)]
pub struct FileMedium {
    /// The options with which the database is opened.
    pub options: Options,
    /// The pool that goes with the files.
    pub pool: Vec<u8>,
}

impl FileMedium {
    /// Opens the database in these files.
    ///
    /// # Errors
    /// It does not open.
    pub fn open_on(&self, files: &RecordingFiles) -> Result<Database<Recorded>, Error> {
        let io = |source| Error::Io { path: "recording".into(), source };
        let memory = Recording::from_image(&self.pool, LIMIT).map_err(io)?;
        Database::open_on(crate::recorded(memory, files.clone()), &self.options)
    }
}

impl Medium for FileMedium {
    type Image = Files;
    type Trace = DiskTrace;
    type Handle = RecordingFiles;
    type Replay<'a> = DiskReplay<'a>;
    /// The pool, and with it the description, is there from the start.
    const WHOLE: bool = false;

    fn open(
        &self,
        image: &Files,
        record: bool,
    ) -> Result<(Database<Recorded>, RecordingFiles), Error> {
        let files = RecordingFiles::from_image(image.clone());
        if record {
            files.start();
        }
        Ok((self.open_on(&files)?, files))
    }

    fn away_from(&self, _: RecordingFiles) -> Self {
        // Files have no address.
        self.clone()
    }

    fn note(files: &RecordingFiles, note: u64) {
        files.note(note);
    }

    fn stop(files: &RecordingFiles) -> DiskTrace {
        files.stop()
    }

    fn now(files: &RecordingFiles) -> Files {
        files.image()
    }

    fn has_no_rest(db: &Database<Recorded>, files: &RecordingFiles) -> Result<(), String> {
        let failed = |error: Error| format!("has work left: {error}");
        db.checkpoint().map_err(failed)?;
        while db.background(u64::MAX).map_err(failed)? > 0 {}
        let mut names: Vec<_> = files.image().into_keys().collect();
        // Set aside for a full medium: one for each thing that then needs space.
        names.retain(|name| !name.starts_with("spare-"));
        let of = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
        let stats = db.stats().expect("this thread has no transaction open");
        let runs = stats.own.runs().map_or(0, |levels| levels.runs.iter().sum::<u32>()) as usize;
        let (logs, others, needed) = match db.engine() {
            EngineKind::Inp => (of("wal-0-"), 1, of("checkpoint-0-") == 1),
            // A segment, and the next one, prepared ahead.
            EngineKind::Log => {
                let all = of("sstable-0-") == runs && of("manifest-0") == 1;
                (of("wal-0-"), runs + 1, all)
            }
            // Eight partitions and their head; pages; staging.
            EngineKind::NvDisk => (0, 11, of("paged-0-log-") == 9 && of("paged-0-") == 11),
            _ => (0, 1, true),
        };
        if needed && logs <= 2 && names.len() == logs + others {
            return Ok(());
        }
        Err(format!("has files that it does not need, or lacks some: {names:?}, {runs} runs"))
    }

    fn replay(trace: &DiskTrace) -> DiskReplay<'_> {
        DiskReplay::new(trace)
    }

    fn kills(trace: &DiskTrace, visit: &mut dyn FnMut(State<'_, Files>) -> ControlFlow<()>) {
        let mut states = Visit::new(visit);
        trace.process_states(|position, acknowledged, image| {
            states.show((position, acknowledged), image, fingerprint);
        });
    }

    fn events(trace: &DiskTrace) -> usize {
        trace.events.len()
    }

    fn mutate(trace: &DiskTrace, mutation: &Mutation) -> (DiskTrace, u64) {
        mutation.of_files(trace)
    }

    fn explain(trace: &DiskTrace, position: usize, image: &Files) -> Vec<String> {
        let mut said = Vec::new();
        if let Some(next) = trace.events.get(position) {
            said.push(format!("the crash comes before {} of {}", kind(&next.event), next.site));
        }
        let before = DiskTrace { events: trace.events[..position].to_vec(), ..trace.clone() };
        let mut whole = Files::new();
        before.process_states(|_, _, image| whole.clone_from(image));
        for (name, bytes) in &whole {
            match image.get(name) {
                None => said.push(format!("the file {name}: lost")),
                Some(left) if left.len() != bytes.len() => said.push(format!(
                    "the file {name} has {} bytes, {} before the crash",
                    left.len(),
                    bytes.len()
                )),
                Some(left) => {
                    let pairs = left.chunks(512).zip(bytes.chunks(512)).enumerate();
                    for (sector, _) in pairs.filter(|(_, (left, bytes))| left != bytes) {
                        said.push(format!("the file {name}, sector {sector}: lost"));
                    }
                }
            }
        }
        for name in image.keys().filter(|name| !whole.contains_key(*name)) {
            said.push(format!("the file {name}: there again"));
        }
        said
    }
}

impl CrashPoints<Files> for DiskReplay<'_> {
    fn pass_point(&mut self) -> bool {
        DiskReplay::pass_point(self)
    }

    fn visit_point(
        &mut self,
        bound: u64,
        seed: u64,
        visit: &mut dyn FnMut(State<'_, Files>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        let point = self.next_point()?;
        let (place, mut states) = ((point.position, point.last_note), Visit::new(visit));
        point.for_each_state(bound, seed, |image| states.show(place, image, fingerprint));
        Some(states.flow)
    }

    fn barriers(&self) -> u64 {
        self.syncs()
    }
}

/// A number that two images have in common only if they are alike, or by a chance of 2^-64.
fn fingerprint(image: &Files) -> u64 {
    let mut hash = Xxh3Default::new();
    hash_files(&mut hash, image);
    hash.digest()
}

/// Adds files to a number that two images have in common only if they are alike.
pub(crate) fn hash_files(hash: &mut Xxh3Default, image: &Files) {
    for (name, bytes) in image {
        hash.update(&(name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
}

fn kind(event: &DiskEvent) -> &'static str {
    match event {
        DiskEvent::Create { .. } => "the creation",
        DiskEvent::Rename { .. } => "the renaming",
        DiskEvent::Remove { .. } => "the removal",
        DiskEvent::SyncDirectory => "the sync of the directory",
        DiskEvent::Write { .. } => "a write",
        DiskEvent::SetLen { .. } => "a change of the length",
        DiskEvent::Reserve { .. } => "a reservation",
        DiskEvent::Sync { .. } => "the sync",
        DiskEvent::FailedSync { .. } => "a sync that failed",
        DiskEvent::Note(_) => "an acknowledgement",
    }
}
