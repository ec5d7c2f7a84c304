//! Findings in a record without any crash: lines that are not flushed when their transaction is
//! acknowledged, lines that are flushed twice, fences that order nothing.

use std::collections::BTreeMap;

use pm::Site;
use sim::{DiskEvent, DiskTrace, Event, Trace};

/// Findings by the place in the source, each with how often it was so.
#[derive(Clone, Default, Debug)]
pub struct Lints {
    /// Places of stores whose line was not flushed and fenced at the next acknowledgement.
    pub unflushed: BTreeMap<String, u64>,
    /// The flush found all its lines without a store since their last flush by the same thread.
    pub flushed_twice: BTreeMap<String, u64>,
    /// No flush of the thread since its last fence.
    pub idle_fences: BTreeMap<String, u64>,
}

#[derive(Clone, Copy)]
struct Line {
    stored_by: Site,
    /// The thread that has flushed it since the last store.
    flushed: Option<u32>,
    /// An acknowledgement has found it so.
    reported: bool,
}

impl Line {
    fn stored_by(stored_by: Site) -> Self {
        Self { stored_by, flushed: None, reported: false }
    }
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
                lines.insert(at / pm::LINE_BYTES, Line::stored_by(one.site));
            }
            Event::Copy { at, bytes } => {
                let end = (at + bytes.len() as u64).div_ceil(pm::LINE_BYTES);
                for line in at / pm::LINE_BYTES..end {
                    lines.insert(line, Line::stored_by(one.site));
                }
            }
            Event::Flush { first, end } => {
                *flushes.entry(one.thread).or_default() += 1;
                let mut news = false;
                for (_, line) in lines.range_mut(first..end) {
                    // What another thread has flushed, this one's fence does not wait for.
                    news |= line.flushed != Some(one.thread);
                    line.flushed = Some(one.thread);
                }
                if !news {
                    *found.flushed_twice.entry(name(one.site)).or_default() += 1;
                }
            }
            Event::Line { line, .. } => {
                // The next fence waits for it.
                *flushes.entry(one.thread).or_default() += 1;
                let stored = Line { flushed: Some(one.thread), ..Line::stored_by(one.site) };
                lines.insert(*line, stored);
            }
            Event::Fence => {
                if flushes.remove(&one.thread).is_none() {
                    *found.idle_fences.entry(name(one.site)).or_default() += 1;
                }
                lines.retain(|_, line| line.flushed != Some(one.thread));
            }
            Event::Note(_) => {
                for line in lines.values_mut().filter(|line| !line.reported) {
                    line.reported = true;
                    *found.unflushed.entry(name(line.stored_by)).or_default() += 1;
                }
            }
            Event::Grow { .. } | Event::Mark(_) => {}
        }
    }
    found
}

/// The same for files: findings by the place in the source, each with how often it was so.
#[derive(Clone, Default, Debug)]
pub struct DiskLints {
    /// Places of writes and changes of the directory that were not synced at the next
    /// acknowledgement.
    pub unsynced: BTreeMap<String, u64>,
    /// The sync found nothing that had changed since the last one.
    pub idle_syncs: BTreeMap<String, u64>,
}

/// Looks through a record of files. A file that was removed need not be synced.
pub fn disk_lints(trace: &DiskTrace) -> DiskLints {
    let mut found = DiskLints::default();
    let mut names = trace.numbers.clone();
    // Where something was changed last, unless an acknowledgement has reported it.
    let mut written: BTreeMap<u64, Option<Site>> = BTreeMap::new();
    let mut directory: Option<Vec<Site>> = None;
    let name = |site: Site| format!("{}:{}", site.file(), site.line());
    for one in &trace.events {
        match &one.event {
            DiskEvent::Create { name, file } => {
                names.insert(name.clone(), *file);
                directory.get_or_insert_default().push(one.site);
            }
            DiskEvent::Rename { from, to } => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
                directory.get_or_insert_default().push(one.site);
            }
            DiskEvent::Remove { name } => {
                if let Some(file) = names.remove(name) {
                    written.remove(&file);
                }
                directory.get_or_insert_default().push(one.site);
            }
            DiskEvent::Write { file, .. }
            | DiskEvent::SetLen { file, .. }
            | DiskEvent::Reserve { file, .. } => {
                written.insert(*file, Some(one.site));
            }
            DiskEvent::Sync { file } => {
                if written.remove(file).is_none() {
                    *found.idle_syncs.entry(name(one.site)).or_default() += 1;
                }
            }
            DiskEvent::SyncDirectory => {
                if directory.take().is_none() {
                    *found.idle_syncs.entry(name(one.site)).or_default() += 1;
                }
            }
            DiskEvent::FailedSync { .. } => {}
            DiskEvent::Note(_) => {
                let files = written.values_mut().filter_map(Option::take);
                for site in files.chain(directory.iter_mut().flat_map(std::mem::take)) {
                    *found.unsynced.entry(name(site)).or_default() += 1;
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use pm::{File, Files, Memory, Off, Range};
    use sim::{Recording, RecordingFiles};

    use super::*;

    fn count(found: &BTreeMap<String, u64>) -> u64 {
        found.values().sum()
    }

    #[test]
    fn each_lint_of_a_memory_is_found() {
        let memory = Recording::new(4096).expect("address space");
        memory.grow(256).expect("room");
        memory.start();
        memory.store(Off::new(0), 1);
        memory.note(1);
        memory.note(2);
        memory.store(Off::new(0), 2);
        memory.flush(Range::new(0, 8));
        memory.note(3);
        memory.fence();
        memory.note(4);
        memory.flush(Range::new(0, 8));
        memory.fence();
        memory.fence();
        let found = lints(&memory.stop());
        assert_eq!(count(&found.unflushed), 2);
        assert_eq!(count(&found.flushed_twice), 1);
        assert_eq!(count(&found.idle_fences), 1);
    }

    #[test]
    fn what_another_thread_has_flushed_is_flushed_once_more() {
        let memory = Recording::new(4096).expect("address space");
        memory.grow(256).expect("room");
        memory.start();
        memory.store(Off::new(0), 1);
        std::thread::scope(|scope| scope.spawn(|| memory.flush(Range::new(0, 8))).join())
            .expect("a thread");
        memory.flush(Range::new(0, 8));
        memory.fence();
        memory.note(1);
        let found = lints(&memory.stop());
        assert_eq!(count(&found.flushed_twice) + count(&found.unflushed), 0, "{found:?}");
    }

    #[test]
    fn each_lint_of_files_is_found() {
        let files = RecordingFiles::new();
        files.start();
        let file = files.create("a").expect("a file");
        file.write_at(0, &[1]).expect("a write");
        files.note(1);
        file.sync().expect("a sync");
        files.note(2);
        files.sync_directory().expect("a sync");
        files.note(3);
        file.sync().expect("a sync");
        files.sync_directory().expect("a sync");
        let found = disk_lints(&files.stop());
        assert_eq!(count(&found.unsynced), 2);
        assert_eq!(count(&found.idle_syncs), 2);
    }
}
