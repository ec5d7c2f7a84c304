//! Memory that a pool lies in.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use perdura::{Database, Error, Media, Options};
use pm::{LINE_BYTES, Site};
use sim::{Event, Recorded, Recording, RecordingFiles, Replay, Trace};

use crate::medium::{CrashPoints, InPool, Medium, State, Visit};
use crate::mutation::Mutation;

/// The most that a pool of a crash test may grow to.
pub const LIMIT: u64 = 8 << 20;

/// A pool in recording memory.
#[derive(Clone, Debug)]
pub struct PoolMedium {
    /// The options with which it is opened.
    pub options: Options,
    /// Kept, so that its address is taken: what recovers lies elsewhere.
    pub before: Recording,
}

impl Medium for PoolMedium {
    type Image = [u8];
    type Trace = Trace;
    type Handle = Recording;
    type Replay<'a> = Replay<'a>;
    const WHOLE: bool = true;

    fn open(&self, image: &[u8], record: bool) -> Result<(Database<Recorded>, Recording), Error> {
        let io = |source| Error::Io { path: "recording".into(), source };
        let memory = Recording::pool_from_image(image, LIMIT).map_err(io)?;
        assert!(!memory.is_mapped_like(&self.before), "it recovers at another address");
        if record {
            memory.start();
        }
        memory.mark_open()?;
        let media = crate::recorded(memory.clone(), RecordingFiles::new());
        Ok((Database::open_on(media, &self.options)?, memory))
    }

    fn away_from(&self, handle: Recording) -> Self {
        Self { before: handle, ..self.clone() }
    }

    fn note(memory: &Recording, note: u64) {
        memory.note(note);
    }

    fn stop(memory: &Recording) -> Trace {
        memory.stop()
    }

    fn now(memory: &Recording) -> Vec<u8> {
        memory.contents()
    }

    fn has_no_rest(_: &Database<Recorded>, _: &Recording) -> Result<(), String> {
        // The database's own check has compared the allocator with what the data lead to.
        Ok(())
    }

    fn replay(trace: &Trace) -> Replay<'_> {
        Replay::new(trace)
    }

    fn kills(trace: &Trace, visit: &mut dyn FnMut(State<'_, [u8]>) -> ControlFlow<()>) {
        // A kill loses no store, so the trace's notes say what was acknowledged at each event.
        let mut acknowledged = vec![None];
        for recorded in &trace.events {
            let last = acknowledged[acknowledged.len() - 1];
            let note = if let Event::Note(note) = recorded.event { Some(note) } else { last };
            acknowledged.push(note);
        }
        let mut states = Visit::new(visit);
        trace.numbered_process_states(|position, image, fingerprint| {
            states.show((position, acknowledged[position]), image, |_| fingerprint);
        });
    }

    fn events(trace: &Trace) -> usize {
        trace.events.len()
    }

    fn mutate(trace: &Trace, mutation: &Mutation) -> (Trace, u64) {
        mutation.of_memory(trace)
    }

    fn explain(trace: &Trace, position: usize, image: &[u8]) -> Vec<String> {
        let mut whole = trace.image.clone();
        // The thread that stored to a line last, and the number of stores to it.
        let mut stores: BTreeMap<u64, (Site, u64)> = BTreeMap::new();
        let mut step = None;
        let mut last = None;
        for recorded in &trace.events[..position] {
            let (at, bytes) = match &recorded.event {
                Event::Store { at, value } => (*at, value.to_le_bytes().to_vec()),
                Event::Copy { at, bytes } => (*at, bytes.to_vec()),
                Event::Grow { to } => {
                    whole.resize(whole.len().max(*to as usize), 0);
                    continue;
                }
                Event::Mark(mark) => {
                    step = Some(mark.0);
                    continue;
                }
                Event::Fence => {
                    last = Some(recorded.site);
                    continue;
                }
                _ => continue,
            };
            whole[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
            for line in at / LINE_BYTES..(at + bytes.len() as u64).div_ceil(LINE_BYTES) {
                let entry = stores.entry(line).or_insert((recorded.site, 0));
                *entry = (recorded.site, entry.1 + 1);
            }
        }
        let mut said = Vec::new();
        if let Some(step) = step {
            said.push(format!("the last step that was done: {step}"));
        }
        if let Some(next) = trace.events.get(position) {
            said.push(format!("the crash comes before {:?} of {}", kind(&next.event), next.site));
        }
        if let Some(site) = last {
            said.push(format!("the last fence: {site}"));
        }
        for (line, (site, count)) in stores {
            let start = (line * LINE_BYTES) as usize;
            let end = whole.len().min(start + LINE_BYTES as usize);
            if image.get(start..end.min(image.len())) != Some(&whole[start..end]) {
                said.push(format!("line {line:#x}, {count} stores, the last by {site}: lost"));
            }
        }
        said
    }
}

impl CrashPoints<[u8]> for Replay<'_> {
    fn pass_point(&mut self) -> bool {
        Replay::pass_point(self)
    }

    fn visit_point(
        &mut self,
        bound: u64,
        seed: u64,
        visit: &mut dyn FnMut(State<'_, [u8]>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        let point = self.next_point()?;
        let (place, mut states) = ((point.position, point.last_note), Visit::new(visit));
        point.for_each_numbered_state(bound, seed, |image, fingerprint| {
            states.show(place, image, |_| fingerprint);
        });
        Some(states.flow)
    }

    fn barriers(&self) -> u64 {
        self.fences()
    }
}

impl InPool for PoolMedium {
    fn fresh() -> Recording {
        Recording::pool(64 << 10, LIMIT).expect("address space")
    }

    fn media(memory: &Recording) -> Media<Recorded> {
        crate::recorded(memory.clone(), RecordingFiles::new())
    }

    fn start(memory: &Recording) {
        memory.start();
    }

    fn of(options: Options, before: Recording) -> Self {
        Self { options, before }
    }
}

fn kind(event: &Event) -> &'static str {
    match event {
        Event::Store { .. } => "a store",
        Event::Copy { .. } => "a copy",
        Event::Line { .. } => "a store of a line",
        Event::Flush { .. } => "a flush",
        Event::Fence => "the fence",
        Event::Grow { .. } => "growth",
        Event::Mark(_) => "a step's end",
        Event::Note(_) => "an acknowledgement",
    }
}
