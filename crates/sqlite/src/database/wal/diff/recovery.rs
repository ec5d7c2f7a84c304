//! Recovery from the differential log, by a connection that opens SQLite's log while no other one has it open.
//!
//! 1. *Which records count*: those of the last whole generation, if it is that of SQLite's log, up to the last end whose
//!    checksum matches.
//! 2. *Replay* them into the database, in order: absolute words, so that a replay may be repeated. Another page that a
//!    page differs from is complete: the replay has made it as it was, whatever the database had. Cut the database to its
//!    pages. Flush; sync the length; fence.
//! 3. *Empty* SQLite's log, durably. What it has is older than the database now, or was never acknowledged. Without its
//!    header no record counts.
//!
//! SQLite's log without a differential one next to it is SQLite's to recover, and is left alone.

use pm::Range;
use rustc_hash::FxHashMap;

use crate::database::contract::Failure;
use crate::database::wal::diff::layout::{
    GENERATION_BYTES, Generation, HEADER_BYTES, MAGIC, MAGIC_AT, NAMED_BYTES, RECORDS_AT, VERSION,
    from_media,
};
use crate::database::wal::diff::record::{Base, Record, Source};
use crate::database::wal::media::WalFile;

/// Bytes of the records that are read together.
const READ_TOGETHER: u64 = 1 << 20;

/// The bytes of a file, some at a time.
struct Window<'a, F> {
    file: &'a F,
    start: u64,
    bytes: Vec<u8>,
    failed: Option<Failure>,
}

impl<F: WalFile> Window<'_, F> {
    fn of(file: &F) -> Window<'_, F> {
        Window { file, start: 0, bytes: Vec::new(), failed: None }
    }

    fn read(&mut self, at: u64, len: usize) -> Result<(), Failure> {
        self.bytes
            .try_reserve(len.saturating_sub(self.bytes.len()))
            .map_err(|_| Failure::Memory)?;
        self.bytes.resize(len, 0);
        self.start = at;
        read(self.file, at, &mut self.bytes)
    }

    /// Returns the failure of the medium, which ends the records as damage does.
    fn check(&mut self) -> Result<(), Failure> {
        self.failed.take().map_or(Ok(()), Err)
    }
}

impl<F: WalFile> Source for Window<'_, F> {
    fn get(&mut self, at: u64, len: usize) -> Option<&[u8]> {
        let end = at + len as u64;
        if end > self.file.bytes() || self.failed.is_some() {
            return None;
        }
        if at < self.start || end > self.start + self.bytes.len() as u64 {
            let len = READ_TOGETHER.max(len as u64).min(self.file.bytes() - at);
            if let Err(failure) = self.read(at, len as usize) {
                self.failed = Some(failure);
                return None;
            }
        }
        self.bytes.get((at - self.start) as usize..)?.get(..len)
    }
}

/// Reads bytes of a sound medium: those of one that has failed are zeros.
fn read<F: WalFile>(file: &F, at: u64, out: &mut [u8]) -> Result<(), Failure> {
    file.read_into(at, out)?;
    file.healthy()
}

/// The end of the commits that count.
#[derive(Clone, Copy, Debug)]
struct Whole {
    commits: u64,
    pages: u32,
    /// The highest page that is logged.
    highest: u32,
    at: u64,
}

/// The result of looking at a file that may be a differential log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::database::wal) enum HasRecords {
    /// It is one.
    Yes,
    /// It is empty, or a creation was interrupted.
    NotYet,
    /// It is another program's, or in another build's format, of this version.
    Foreign(Option<u64>),
}

/// Looks at a file that may be a differential log.
///
/// # Errors
/// The medium fails.
pub(in crate::database::wal) fn is_one<F: WalFile>(file: &F) -> Result<HasRecords, Failure> {
    let mut bytes = [0; NAMED_BYTES];
    let len = file.bytes().min(NAMED_BYTES as u64) as usize;
    read(file, 0, &mut bytes[..len])?;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    Ok(match (word(0), word(8)) {
        (MAGIC, VERSION) if len == NAMED_BYTES => HasRecords::Yes,
        (MAGIC, version) => HasRecords::Foreign(Some(version)),
        (0, 0) => HasRecords::NotYet,
        _ => HasRecords::Foreign(None),
    })
}

/// Makes an empty differential log, durably, in a file that is empty.
///
/// # Errors
/// No room, or the kernel refuses.
pub fn create<F: WalFile>(file: &F) -> Result<(), Failure> {
    file.write_at(RECORDS_AT - 8, &[0; 8])?;
    file.copy(MAGIC_AT, &MAGIC.to_le_bytes());
    file.copy(MAGIC_AT + 8, &VERSION.to_le_bytes());
    file.flush(Range::new(0, RECORDS_AT));
    file.sync_length()?;
    file.sync_name()?;
    file.fence();
    file.healthy()
}

/// Recovers a database from the differential log of its log, if it has one. `records` is `None` if there is no such file.
/// Returns the commits that were replayed.
///
/// # Errors
/// SQLite's log has a differential one, which is missing or another log's; no room; or the medium fails. Nothing is lost:
/// the next recovery begins anew.
pub fn recover<F: WalFile>(records: Option<&F>, log: &F, database: &F) -> Result<u64, Failure> {
    let mut header = [0; HEADER_BYTES];
    if log.bytes() < HEADER_BYTES as u64 {
        return Ok(0);
    }
    read(log, 0, &mut header)?;
    if from_media(&header).is_none() {
        return Ok(0);
    }
    let damaged = |why: &str| Failure::CannotOpen(format!("its differential log {why}"));
    let Some(records) = records else { return Err(damaged("is missing")) };
    if is_one(records)? != HasRecords::Yes {
        return Err(damaged("is missing, or has a form that this build does not know"));
    }
    let Some(generation) = last_generation(records)? else {
        return Err(damaged("has no generation"));
    };
    let whole = last_whole(records, &generation)?;
    if let Some(whole) = whole {
        // The log's header is durable before the first record.
        if !generation.is_of(&header) {
            return Err(damaged("is that of another log"));
        }
        replay(records, &generation, whole, database)?;
    }
    log.cut(0)?;
    log.sync_length()?;
    log.healthy()?;
    Ok(whole.map_or(0, |whole| whole.commits))
}

/// The last generation of which the line is whole.
fn last_generation<F: WalFile>(records: &F) -> Result<Option<Generation>, Failure> {
    let mut last: Option<Generation> = None;
    for number in [0, 1] {
        let mut line = [0; GENERATION_BYTES];
        read(records, Generation::line_of(number), &mut line)?;
        let found = Generation::decode(&line).filter(|found| found.number() % 2 == number);
        if found.map(|found| found.number()) > last.map(|last| last.number()) {
            last = found;
        }
    }
    Ok(last)
}

/// The end of the last commit that is whole.
fn last_whole<F: WalFile>(records: &F, generation: &Generation) -> Result<Option<Whole>, Failure> {
    let mut window = Window::of(records);
    let (mut at, mut check) = (RECORDS_AT, generation.seed());
    let (mut frames, mut commits, mut highest, mut whole) = (0, 0, 0, None);
    while let Some(record) = Record::read(&mut window, at, generation.page_bytes()) {
        at += record.len();
        match record {
            Record::Frame(frame) if frame.number() == frames + 1 => {
                frames += 1;
                highest = highest.max(frame.page());
                check = frame.check(check);
            }
            Record::End(end) if end.frames() == frames && end.pages() > 0 => {
                let Some(found) = end.check(check) else { break };
                check = found;
                commits += 1;
                whole = Some(Whole { commits, pages: end.pages(), highest, at });
            }
            _ => break,
        }
    }
    window.check()?;
    Ok(whole)
}

/// Replays the commits up to an end, durably.
fn replay<F: WalFile>(
    records: &F,
    generation: &Generation,
    whole: Whole,
    database: &F,
) -> Result<(), Failure> {
    database.healthy()?;
    let bytes = generation.page_at(whole.pages).end();
    // With space for all of it, so that a store does not fail.
    let most = generation.page_at(whole.pages.max(whole.highest)).end();
    if database.bytes() < most {
        database.write_at(most - 8, &[0; 8])?;
    }
    let mut window = Window::of(records);
    let mut at = RECORDS_AT;
    while at < whole.at {
        let bases = bases(&mut window, generation, at, database)?;
        at = replay_commit(&mut window, generation, at, database, &bases)?;
    }
    window.check()?;
    if database.bytes() > bytes {
        database.cut(bytes)?;
    }
    database.sync_length()?;
    database.fence();
    database.healthy()
}

/// The other pages that a commit's pages differ from, as they are before it. The commit begins at `at`.
fn bases<F: WalFile>(
    window: &mut Window<'_, F>,
    generation: &Generation,
    mut at: u64,
    database: &F,
) -> Result<FxHashMap<u32, Vec<u8>>, Failure> {
    let mut bases = FxHashMap::default();
    while let Some(Record::Frame(frame)) = Record::read(window, at, generation.page_bytes()) {
        at += frame.len();
        if let Base::Other(page) = frame.base() {
            let mut bytes = zeros(generation.page_bytes())?;
            read(database, generation.page_at(page).start, &mut bytes)?;
            bases.try_reserve(1).map_err(|_| Failure::Memory)?;
            bases.insert(page, bytes);
        }
    }
    Ok(bases)
}

fn zeros(len: usize) -> Result<Vec<u8>, Failure> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(len).map_err(|_| Failure::Memory)?;
    zeros.resize(len, 0);
    Ok(zeros)
}

/// Replays the commit at `at`. Returns where the next one begins.
fn replay_commit<F: WalFile>(
    window: &mut Window<'_, F>,
    generation: &Generation,
    mut at: u64,
    database: &F,
    bases: &FxHashMap<u32, Vec<u8>>,
) -> Result<u64, Failure> {
    let zeros = zeros(generation.page_bytes())?;
    while let Some(record) = Record::read(window, at, generation.page_bytes()) {
        at += record.len();
        let Record::Frame(frame) = record else { return Ok(at) };
        let page = generation.page_at(frame.page());
        let base = match frame.base() {
            Base::Own => None,
            Base::Zeros => Some(&zeros),
            Base::Other(page) => bases.get(&page),
        };
        if let Some(base) = base {
            database.copy(page.start, base);
            database.flush(page);
        }
        frame.each(
            |word, value| database.copy(page.start + word, value),
            |line| database.flush(Range::new(page.start + line, pm::LINE_BYTES)),
        );
    }
    // The window has failed: its error is the replay's.
    Ok(u64::MAX)
}
