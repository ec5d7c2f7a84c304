//! What a record shows without any crash: lines that nobody has flushed when their transaction is
//! acknowledged, lines that are flushed twice, fences that order nothing.

use std::collections::BTreeMap;

use pm::{Event, Site, Trace};

/// Findings by the place in the source, each with how often it was so.
#[derive(Clone, Default, Debug)]
pub struct Lints {
    /// Somebody stored there, and at an acknowledgement the line was not flushed and fenced.
    pub unflushed: BTreeMap<String, u64>,
    /// The flush found all its lines without a store since their last flush.
    pub flushed_twice: BTreeMap<String, u64>,
    /// No flush of the thread since its last fence.
    pub idle_fences: BTreeMap<String, u64>,
}

#[derive(Clone, Copy)]
struct Line {
    stored_by: Site,
    /// The thread that has flushed it since the last store.
    flushed: Option<u32>,
}

/// Looks through a record.
pub fn lints(trace: &Trace) -> Lints {
    let mut found = Lints::default();
    let mut lines: BTreeMap<u64, Line> = BTreeMap::new();
    let mut flushes: BTreeMap<u32, u64> = BTreeMap::new();
    let name = |site: Site| format!("{}:{}", site.file(), site.line());
    for one in &trace.events {
        match &one.event {
            Event::Store { at, .. } => {
                lines.insert(at / pm::LINE_BYTES, Line { stored_by: one.site, flushed: None });
            }
            Event::Copy { at, bytes } => {
                for line in at / pm::LINE_BYTES..(at + bytes.len() as u64).div_ceil(pm::LINE_BYTES)
                {
                    lines.insert(line, Line { stored_by: one.site, flushed: None });
                }
            }
            Event::Flush { first, end } => {
                *flushes.entry(one.thread).or_default() += 1;
                let mut news = false;
                for (_, line) in lines.range_mut(first..end) {
                    news |= line.flushed.is_none();
                    line.flushed = Some(one.thread);
                }
                if !news {
                    *found.flushed_twice.entry(name(one.site)).or_default() += 1;
                }
            }
            Event::Fence => {
                if flushes.remove(&one.thread).is_none() {
                    *found.idle_fences.entry(name(one.site)).or_default() += 1;
                }
                lines.retain(|_, line| line.flushed != Some(one.thread));
            }
            Event::Note(_) => {
                for line in lines.values() {
                    *found.unflushed.entry(name(line.stored_by)).or_default() += 1;
                }
            }
            Event::Grow { .. } | Event::Mark(_) => {}
        }
    }
    found
}
