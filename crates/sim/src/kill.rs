//! A kill of the process, and a power cut after another process has gone on.
//!
//! What a killed process has stored is visible to the next one, whether it is durable or not: that
//! opens a memory whose contents differ from what power would leave of it. So whatever recovery
//! reads and acts upon it has to make durable before what follows from it.
//!
//! 1. [`Trace::kills`] stops after stores and copies; [`Killed::visible`] is what the next
//!    process finds.
//! 2. That one runs on a [`Recording`] of these bytes ([`Recording::from_image`]).
//! 3. [`Killed::replay`] goes through its trace, from a memory in which what the killed process had
//!    not made durable is pending still. What that had flushed and not fenced stays pending: no
//!    other thread's fence covers it.

use std::collections::BTreeMap;

use pm::LINE_BYTES;

use crate::crash::{Pending, Replay};
use crate::recording::{Event, Recording, Trace, put};

/// A memory when the process that used it was killed.
#[derive(Clone, Debug)]
pub struct Killed {
    visible: Vec<u8>,
    persisted: Vec<u8>,
    pending: BTreeMap<u64, Pending>,
    last_note: Option<u64>,
    position: usize,
}

impl Killed {
    /// Returns what every process sees from then on.
    pub fn visible(&self) -> &[u8] {
        &self.visible
    }

    /// The notes before the kill end with this one.
    pub fn last_note(&self) -> Option<u64> {
        self.last_note
    }

    /// Returns the number of events before the kill.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns what the next process opens: the visible contents up to the size that the pool's
    /// header has, marked as open, as [`pm::Pool`] does it. It records from before that mark.
    ///
    /// # Errors
    /// The kernel has no room for the reservation, or there is no header.
    pub fn reopened(&self, limit: u64) -> std::io::Result<Recording> {
        let damaged = |bad: pm::Bad| std::io::Error::other(bad.to_string());
        let whole = Recording::from_image(&self.visible, limit)?;
        let (mut header, _) = pm::read_header(&whole).map_err(damaged)?;
        let memory = Recording::from_image(&self.visible[..header.size as usize], limit)?;
        memory.start();
        header.sequence += 1;
        header.write_first(&memory);
        Ok(memory)
    }

    /// Goes through the trace of the next process, which found [`Self::visible`].
    pub fn replay<'a>(&self, next: &'a Trace) -> Replay<'a> {
        let mut pending = self.pending.clone();
        pending.values_mut().for_each(Pending::forget_flushes);
        Replay::resume(next, self.persisted.clone(), pending)
    }
}

impl Trace {
    /// Calls `visit` with what a kill leaves, after one in `every` stores and copies.
    pub fn kills(&self, every: usize, mut visit: impl FnMut(&Killed)) {
        let mut durable = Replay::new(self);
        let mut visible = self.image.clone();
        let mut stores = 0;
        for (index, recorded) in self.events.iter().enumerate() {
            durable.step(recorded);
            match &recorded.event {
                Event::Store { at, value } => put(&mut visible, *at, &value.to_le_bytes()),
                Event::Copy { at, bytes } => put(&mut visible, *at, bytes),
                Event::Line { line, bytes } => put(&mut visible, line * LINE_BYTES, &bytes[..]),
                Event::Grow { to } => {
                    visible.resize(*to as usize, 0);
                    continue;
                }
                _ => continue,
            }
            stores += 1;
            if stores % every != 0 {
                continue;
            }
            let (persisted, pending) = durable.state();
            visit(&Killed {
                visible: visible.clone(),
                persisted,
                pending,
                last_note: durable.last_note(),
                position: index + 1,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use pm::{Memory, Off, Range};

    /// The first bytes of two lines after a kill at the end of `first`, and a power cut at the end of `next`.
    fn states(first: impl Fn(&Recording), next: impl Fn(&Recording)) -> HashSet<(u8, u8)> {
        let memory = Recording::new(4096).unwrap();
        memory.grow(256).unwrap();
        memory.start();
        first(&memory);
        let trace = memory.stop();
        let mut found = HashSet::new();
        trace.kills(1, |killed| {
            if killed.position() < trace.events.len() {
                return;
            }
            let memory = Recording::from_image(killed.visible(), 4096).unwrap();
            assert_eq!(memory.read::<u8>(Off::new(0)), Ok(1), "what was stored is seen");
            memory.start();
            next(&memory);
            // After its last fence there is a point only if something follows.
            memory.store(Off::new(192), 3);
            let trace = memory.stop();
            let mut replay = killed.replay(&trace);
            while let Some(point) = replay.next_point() {
                found.clear();
                point.for_each_state(1000, 1, |image| {
                    found.insert((image[0], image[64]));
                });
            }
        });
        found
    }

    #[test]
    fn the_next_process_does_not_persist_what_it_read() {
        let first = |memory: &Recording| memory.store(Off::new(0), 1);
        let second = |memory: &Recording| {
            memory.store(Off::new(64), 2);
            memory.flush(Range::new(64, 8));
            memory.fence();
        };
        assert_eq!(states(first, second), HashSet::from([(0, 2), (1, 2)]));
        let careful = |memory: &Recording| {
            memory.flush(Range::new(0, 8));
            memory.fence();
            memory.store(Off::new(64), 2);
        };
        assert_eq!(states(first, careful), HashSet::from([(1, 0), (1, 2)]));
    }

    #[test]
    fn a_later_fence_covers_no_flush_of_a_killed_process() {
        // A flush is no store: the kill is after the second store, and the flush before it.
        let first = |memory: &Recording| {
            memory.store(Off::new(0), 1);
            memory.flush(Range::new(0, 8));
            memory.store(Off::new(64), 2);
        };
        let found = states(first, |memory| memory.fence());
        assert_eq!(found.len(), 4, "{found:?}");
    }
}
