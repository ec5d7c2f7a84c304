//! A pool and files, for engines whose data lie in both. Both are cut off at the same moment, and
//! their events are numbered by one counter.

use std::ops::ControlFlow;

use perdura::{Database, Error, Media, Options};
use sim::{CombinedImage, CombinedReplay, CombinedTrace, Recorded, Recording, RecordingFiles};
use xxhash_rust::xxh3::Xxh3Default;

use crate::files::hash_files;
use crate::medium::{CrashPoints, InPool, Medium, State, Visit};
use crate::mutation::Mutation;

/// The most that the pool may grow to.
pub const LIMIT: u64 = 2 << 20;

/// A recording pool and recording files.
#[derive(Clone, Debug)]
pub struct CombinedMedium {
    /// The options with which a database is opened.
    pub options: Options,
    /// Kept, so that its address is taken: what recovers lies elsewhere.
    pub before: Recording,
}

/// The pool and the files under a database.
#[derive(Clone, Debug)]
pub struct CombinedHandle {
    memory: Recording,
    files: RecordingFiles,
}

impl Medium for CombinedMedium {
    type Image = CombinedImage;
    type Trace = CombinedTrace;
    type Handle = CombinedHandle;
    type Replay<'a> = CombinedReplay<'a>;
    const WHOLE: bool = true;

    fn open(
        &self,
        image: &CombinedImage,
        record: bool,
    ) -> Result<(Database<Recorded>, CombinedHandle), Error> {
        let io = |source| Error::Io { path: "recording".into(), source };
        let memory = Recording::pool_from_image(&image.memory, LIMIT).map_err(io)?;
        assert!(!memory.is_mapped_like(&self.before), "it recovers at another address");
        let files = memory.files(image.files.clone());
        let handle = CombinedHandle { memory, files };
        if record {
            Self::start(&handle);
        }
        handle.memory.mark_open()?;
        Ok((Database::open_on(Self::media(&handle), &self.options)?, handle))
    }

    fn away_from(&self, handle: CombinedHandle) -> Self {
        Self { before: handle.memory, ..self.clone() }
    }

    fn note(handle: &CombinedHandle, note: u64) {
        handle.memory.note(note);
    }

    fn stop(handle: &CombinedHandle) -> CombinedTrace {
        CombinedTrace { memory: handle.memory.stop(), files: handle.files.stop() }
    }

    fn now(handle: &CombinedHandle) -> CombinedImage {
        CombinedImage { memory: handle.memory.contents(), files: handle.files.image() }
    }

    fn has_no_rest(_: &Database<Recorded>, handle: &CombinedHandle) -> Result<(), String> {
        // The database's own check has compared the allocator with what the data lead to. Files are
        // those of pages, of pages on their way there, and of cold records of the log.
        let names: Vec<_> = handle.files.image().into_keys().collect();
        let known = |name: &String| {
            let part = name.strip_prefix("paged-0-");
            part.is_some_and(|part| {
                ["pages", "staging"].contains(&part) || part.starts_with("cold")
            })
        };
        if names.iter().all(known) {
            return Ok(());
        }
        Err(format!("has files that it does not need: {names:?}"))
    }

    fn replay(trace: &CombinedTrace) -> CombinedReplay<'_> {
        CombinedReplay::new(trace)
    }

    fn kills(
        trace: &CombinedTrace,
        visit: &mut dyn FnMut(State<'_, CombinedImage>) -> ControlFlow<()>,
    ) {
        let mut states = Visit::new(visit);
        trace.process_states(|position, acknowledged, image| {
            states.show((position, acknowledged), image, fingerprint);
        });
    }

    fn events(trace: &CombinedTrace) -> usize {
        trace.memory.events.len() + trace.files.events.len()
    }

    fn mutate(trace: &CombinedTrace, mutation: &Mutation) -> (CombinedTrace, u64) {
        mutation.of_combined(trace)
    }

    fn explain(trace: &CombinedTrace, position: usize, _: &CombinedImage) -> Vec<String> {
        explain(trace, position)
    }
}

impl CrashPoints<CombinedImage> for CombinedReplay<'_> {
    fn pass_point(&mut self) -> bool {
        CombinedReplay::pass_point(self)
    }

    fn visit_point(
        &mut self,
        bound: u64,
        seed: u64,
        visit: &mut dyn FnMut(State<'_, CombinedImage>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        let point = self.next_point()?;
        let (place, mut states) = ((point.position, point.last_note), Visit::new(visit));
        point.for_each_state(bound, seed, |image| states.show(place, image, fingerprint));
        Some(states.flow)
    }

    fn barriers(&self) -> u64 {
        CombinedReplay::barriers(self)
    }
}

impl InPool for CombinedMedium {
    fn fresh() -> CombinedHandle {
        let memory = Recording::pool(64 << 10, LIMIT).expect("address space");
        let files = memory.files(std::collections::BTreeMap::new());
        CombinedHandle { memory, files }
    }

    fn media(handle: &CombinedHandle) -> Media<Recorded> {
        crate::recorded(handle.memory.clone(), handle.files.clone())
    }

    fn start(handle: &CombinedHandle) {
        handle.memory.start();
        handle.files.start();
    }

    fn of(options: Options, handle: CombinedHandle) -> Self {
        Self { options, before: handle.memory }
    }
}

fn fingerprint(image: &CombinedImage) -> u64 {
    let mut hash = Xxh3Default::new();
    hash.update(&(image.memory.len() as u64).to_le_bytes());
    hash.update(&image.memory);
    hash_files(&mut hash, &image.files);
    hash.digest()
}

/// The events around a crash, for people.
pub(crate) fn explain(trace: &CombinedTrace, position: usize) -> Vec<String> {
    let memory = trace.memory.events.iter().map(|one| (one.number, one.site));
    let files = trace.files.events.iter().map(|one| (one.number, one.site));
    let mut events: Vec<_> = memory.chain(files).collect();
    events.sort_by_key(|(number, _)| *number);
    let mut said = Vec::new();
    if let Some((_, site)) = position.checked_sub(1).and_then(|before| events.get(before)) {
        said.push(format!("the crash comes after what {site} does"));
    }
    if let Some((_, site)) = events.get(position) {
        said.push(format!("the crash comes before what {site} does"));
    }
    said
}
