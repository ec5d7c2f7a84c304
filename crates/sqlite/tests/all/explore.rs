//! SQLite on top of a recording: every crash state is recovered, made plain, and read by stock SQLite.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;

use perdura_sqlite::database::{Failure, Level, MainFile, OpenOptions, Opened, Opener};
use perdura_sqlite::store::connection::{Media, Store};
use perdura_sqlite::store::mode::Mode;
use perdura_sqlite::store::region::Region;
use perdura_sqlite::store::stats::Stats;
use pm::{Memory, Range};
use rusqlite::Connection;
use sim::{Recording, Replay, Trace};

use crate::register::open_recording;

/// Bytes of a slot, too few for the larger transactions.
pub(crate) const SLOT: u64 = 4 << 10;
/// Bytes of the side file in the recording.
pub(crate) const SIDE: u64 = 192 << 10;
pub(crate) const DATA: u64 = 256 << 10;

/// The beginning of the names of databases whose transactions are committed page by page.
const STREAMED: &str = "streamed-";

pub(crate) type Rows = Vec<(i64, Option<String>)>;

/// Stands for a database without a table.
pub(crate) fn no_table() -> Rows {
    vec![(-1, None)]
}

/// Recordings by database name.
static MEMORIES: Mutex<Vec<(String, Recording)>> = Mutex::new(Vec::new());

pub(crate) fn media(memory: &Recording) -> Media<Recording> {
    Media {
        data: Region::new(memory.clone(), SIDE, DATA),
        side: Region::new(memory.clone(), 0, SIDE),
        separate_fences: false,
        needs_flush: true,
    }
}

/// Opens databases in recordings.
#[derive(Debug)]
pub(crate) struct RecordingOpener;

impl Opener for RecordingOpener {
    fn open(&self, path: &Path, _: &OpenOptions) -> Opened {
        let memories = MEMORIES.lock().unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        if let Some(part) = crate::two_databases::part(path) {
            return Opened::File(Box::new(part));
        }
        if let Some(part) = crate::stock_crashes::part(path) {
            return Opened::File(Box::new(part));
        }
        if let Some(part) = crate::wal::power_cuts::part(path) {
            return Opened::File(Box::new(part));
        }
        let (_, memory) = memories.iter().find(|(known, _)| known == name).unwrap();
        let media = media(memory);
        let data = media.data.clone();
        let mut store = Store::open(media, 0, 0x1234_5678_9abc_def1, SLOT).unwrap();
        if name.starts_with(STREAMED) {
            store.set_streamed_from(1);
        }
        Opened::File(Box::new(Alone::new(store, data)))
    }
}

/// A database in a recording with one connection.
#[derive(Debug)]
pub(crate) struct Alone {
    pub(crate) store: Store<Recording>,
    level: Level,
    data: Region<Recording>,
    /// Copies of fetched pages, with their places.
    fetched: Vec<(Range, Box<[u8]>)>,
    /// A page changed while it was fetched.
    changed: bool,
}

impl Alone {
    pub(crate) fn new(store: Store<Recording>, data: Region<Recording>) -> Self {
        Self { store, level: Level::None, data, fetched: Vec::new(), changed: false }
    }

    fn bytes(&self, range: Range) -> Box<[u8]> {
        let mut bytes = vec![0; range.len as usize];
        self.data.read_into(range.start, &mut bytes).unwrap();
        bytes.into()
    }
}

impl MainFile for Alone {
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
        Ok(self.store.read(at, out)?)
    }
    fn fetch(&mut self, at: u64, len: u64) -> Result<Option<*const u8>, Failure> {
        assert!(self.level >= Level::Shared);
        let Some(range) = self.store.fetch(at, len, Ok)? else { return Ok(None) };
        let page = self.bytes(range);
        let address = page.as_ptr();
        self.fetched.push((range, page));
        Ok(Some(address))
    }
    fn unfetch(&mut self, _: u64, page: *const u8) {
        let at = self.fetched.iter().position(|(_, copy)| copy.as_ptr() == page).unwrap();
        let (range, page) = self.fetched.swap_remove(at);
        // SQLite takes no error here; its next lock fails.
        self.changed |= self.bytes(range) != page;
        self.store.unfetch();
    }
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.store.write(at, bytes)?)
    }
    fn truncate(&mut self, to: u64) -> Result<(), Failure> {
        Ok(self.store.truncate(to)?)
    }
    fn size(&mut self) -> Result<u64, Failure> {
        Ok(self.store.size())
    }
    fn commit(&mut self, super_journal: Option<&[u8]>) -> Result<(), Failure> {
        assert_eq!(super_journal, None);
        assert_eq!(self.level, Level::Exclusive);
        Ok(self.store.commit()?)
    }
    fn sync(&mut self) -> Result<(), Failure> {
        assert!(!self.store.has_changes());
        Ok(())
    }
    fn end_transaction(&mut self) -> Result<(), Failure> {
        if self.store.has_size_only() {
            self.store.commit()?;
        }
        Ok(())
    }
    fn lock(&mut self, to: Level) -> Result<(), Failure> {
        assert!(!self.changed, "a fetched page has changed");
        self.level = to;
        Ok(())
    }
    fn unlock(&mut self, to: Level) -> Result<(), Failure> {
        self.changed |= to == Level::None && !self.fetched.is_empty();
        self.level = to;
        if to <= Level::Shared {
            self.store.discard();
        }
        Ok(())
    }
    fn level(&self) -> Level {
        self.level
    }
    fn is_reserved(&mut self) -> Result<bool, Failure> {
        Ok(self.level >= Level::Reserved)
    }
    fn has_moved(&self) -> bool {
        false
    }
    fn pragma(&mut self, name: &str, value: Option<&str>) -> Option<Result<String, String>> {
        let mode = Mode::of(value.filter(|_| name == "perdura_mode")?)?;
        self.store.set_mode(mode);
        // Few, so that some checkpoints are made.
        self.store.set_frames_per_checkpoint(40);
        Some(Ok(mode.name().into()))
    }
    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Statements, each a transaction.
fn statements() -> Vec<String> {
    let texts = |from: usize, to: usize, len: usize| {
        (from..to).map(move |key| format!("INSERT INTO t VALUES({key}, hex(zeroblob({len})))"))
    };
    let mut all = vec!["CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)".to_owned()];
    all.extend(texts(1, 14, 40));
    all.push("CREATE INDEX i ON t(b)".into());
    all.extend(texts(14, 22, 90));
    all.push("UPDATE t SET b = a || b WHERE a % 3 = 0".into());
    all.push("DELETE FROM t WHERE a BETWEEN 4 AND 12".into());
    all.push("BEGIN; DELETE FROM t; ROLLBACK".into());
    all.push("BEGIN; UPDATE t SET b = 'x' WHERE a = 1; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT".into());
    all.push("VACUUM".into());
    all.extend(texts(30, 34, 700));
    // Two consecutive ones that are too large for a slot.
    all.push("UPDATE t SET b = hex(zeroblob(900))".into());
    all.push("UPDATE t SET b = replace(b, '00', '12')".into());
    // The same size of the database, after one that fits.
    all.push("UPDATE t SET b = '9' || substr(b, 2) WHERE a = 30".into());
    all.push("UPDATE t SET b = replace(b, '12', '34')".into());
    all.push("UPDATE t SET b = replace(b, '34', '56')".into());
    all.push("DELETE FROM t WHERE a > 20".into());
    all.push("PRAGMA incremental_vacuum".into());
    all.extend(texts(40, 44, 10));
    // Pages move, and later return.
    all.extend((0..40).map(|number| {
        let key = 100 + number * 37 % 101;
        format!("INSERT INTO t VALUES({key}, hex(zeroblob({})))", 40 + number % 9)
    }));
    all.push("PRAGMA page_size = 2048; VACUUM".into());
    all.extend(texts(50, 54, 30));
    all
}

/// Statements of which most change one page, some in another mode.
fn statements_of_one_page() -> Vec<String> {
    let insert =
        |key: usize, len: usize| format!("INSERT INTO t VALUES({key}, hex(zeroblob({len})))");
    let mut all = vec!["CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)".to_owned()];
    all.extend((1..16).map(|key| insert(key, 40)));
    all.extend((0..14).map(|number| insert(200 + number * 37 % 101, 9 + number % 5)));
    all.push("DELETE FROM t WHERE a = 15".into());
    all.push("UPDATE t SET b = 'x' WHERE a = 204".into());
    for (number, mode) in ["fash1", "fash", "full", "fash1"].into_iter().enumerate() {
        all.push(format!("PRAGMA perdura_mode = {mode}; {}", insert(400 + 3 * number, 20)));
        all.push(format!("PRAGMA perdura_mode = fast; {}", insert(401 + 3 * number, 20)));
        all.push(insert(402 + 3 * number, 20));
    }
    // A new page, whose header is stored directly; a deletion then stores only a header.
    let (one, two) = (insert(450, 400), insert(451, 20));
    all.push(format!("PRAGMA perdura_mode = fash1; BEGIN; {one}; {two}; COMMIT"));
    all.push("PRAGMA perdura_mode = fast; DELETE FROM t WHERE a = 451".into());
    all.push("BEGIN; INSERT INTO t VALUES(500, 'y'); ROLLBACK".into());
    all.push("CREATE INDEX i ON t(b)".into());
    all.extend((600..603).map(|key| insert(key, 10)));
    all.push("DROP INDEX i".into());
    all.extend((603..606).map(|key| insert(key, 10)));
    all
}

/// The trace of a mode's fixed scenario, and the rows after each statement.
fn recorded(name: &str, mode: Mode, page_bytes: u32, vacuum: &str) -> (Trace, Vec<Rows>) {
    let statements = if mode == Mode::Fast { statements_of_one_page() } else { statements() };
    recorded_with(name, mode, page_bytes, vacuum, &statements)
}

/// The trace of statements, each a transaction, and the rows after each.
pub(crate) fn recorded_with(
    name: &str,
    mode: Mode,
    page_bytes: u32,
    vacuum: &str,
    statements: &[String],
) -> (Trace, Vec<Rows>) {
    let memory = Recording::new(SIDE + DATA).unwrap();
    memory.grow(SIDE + 4096).unwrap();
    // A stale side file is already there.
    media(&memory).side.copy(0, &[0xa5; SIDE as usize]);
    MEMORIES.lock().unwrap().push((name.into(), memory.clone()));
    memory.start();
    let connection = open_recording(name).unwrap();
    let set = format!(
        "PRAGMA page_size = {page_bytes}; PRAGMA auto_vacuum = {vacuum};
         PRAGMA cache_size = 5; PRAGMA mmap_size = 1000000; PRAGMA perdura_mode = {}",
        mode.name()
    );
    connection.execute_batch(&set).unwrap();
    let model = Connection::open_in_memory().unwrap();
    model.execute_batch(&set).unwrap();
    let mut models = vec![no_table()];
    for (number, statement) in statements.iter().enumerate() {
        connection.execute_batch(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        memory.note(number as u64 + 1);
        model.execute_batch(statement).unwrap();
        models.push(crate::sql::rows(&model));
        assert_eq!(models.last(), Some(&crate::sql::rows(&connection)), "{statement}");
    }
    (memory.stop(), models)
}

/// Reads plain databases with stock SQLite.
pub(crate) struct Reader {
    directory: tempfile::TempDir,
    known: HashMap<Vec<u8>, Result<Rows, String>>,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self { directory: crate::sql::folder(), known: HashMap::new() }
    }

    pub(crate) fn read(&mut self, plain: Vec<u8>) -> Result<Rows, String> {
        let path = self.directory.path().join("db");
        let known = self.known.entry(plain);
        let plain = known.key().clone();
        known
            .or_insert_with(|| {
                std::fs::write(&path, &plain).unwrap();
                read(&path).map_err(|error| error.to_string())?
            })
            .clone()
    }
}

fn read(path: &Path) -> rusqlite::Result<Result<Rows, String>> {
    let connection = Connection::open(path)?;
    let answer: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if answer != "ok" {
        return Ok(Err(answer));
    }
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(Ok(if tables == 0 { no_table() } else { crate::sql::rows(&connection) }))
}

/// Recovers a state and returns the plain file.
pub(crate) fn recover(memory: &Recording) -> Result<Vec<u8>, String> {
    recover_and_count(memory).map(|(plain, _)| plain)
}

fn recover_and_count(memory: &Recording) -> Result<(Vec<u8>, Stats), String> {
    let text = |error: perdura_sqlite::store::error::StoreError| error.to_string();
    let bytes = media(memory).data.len();
    let mut store = Store::open(media(memory), bytes, 1, SLOT).map_err(text)?;
    if store.is_marked() {
        store.restore_layout().map_err(text)?;
        store.checkpoint_slots().map_err(text)?;
        store.make_plain().map_err(text)?;
    }
    let mut plain = vec![0; store.size() as usize];
    media(memory).data.read_into(0, &mut plain).map_err(|error| error.to_string())?;
    Ok((plain, store.stats()))
}

fn compare(rows: &Rows, models: &[Rows], noted: u64) -> Result<(), String> {
    let noted = noted as usize;
    // The transaction under way may have committed.
    if [noted, noted + 1].iter().any(|number| models.get(*number) == Some(rows)) {
        return Ok(());
    }
    Err(format!("after statement {noted} the rows are those of none: {rows:?}"))
}

/// Explores a trace, and the crashes of one recovery in `again`.
fn explore(trace: &Trace, models: &[Rows], bound: u64, again: u64) -> sim::Explored {
    explore_and_count(trace, models, bound, again).0
}

/// States by the work of their recoveries.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Recovered {
    /// Two commits were replayed.
    pub(crate) both: u64,
    /// Displaced pages were returned.
    pub(crate) restored: u64,
}

pub(crate) fn explore_and_count(
    trace: &Trace,
    models: &[Rows],
    bound: u64,
    again: u64,
) -> (sim::Explored, Recovered) {
    let mut reader = Reader::new();
    let (mut number, mut recovered) = (0, Recovered::default());
    let explored = Replay::new(trace).explore(bound, 1, |image, noted| {
        let memory = Recording::from_image(image, SIDE + DATA).unwrap();
        number += 1;
        let twice = number % again == 0;
        if twice {
            memory.start();
        }
        let (plain, stats) = recover_and_count(&memory)?;
        recovered.both += u64::from(stats.replayed == 2);
        recovered.restored += u64::from(stats.restored > 0);
        let rows = reader.read(plain)?;
        compare(&rows, models, noted)?;
        if twice {
            let recovery = memory.stop();
            let explored = Replay::new(&recovery).explore(8, 2, |image, _| {
                let memory = Recording::from_image(image, SIDE + DATA).unwrap();
                let plain = recover(&memory)?;
                let found = reader.read(plain)?;
                if found == rows { Ok(()) } else { Err(format!("{found:?}, not {rows:?}")) }
            });
            if let Some(why) = explored.failed {
                return Err(format!("a crash in recovery: {why}"));
            }
        }
        Ok(())
    });
    (explored, recovered)
}

#[test]
fn every_crash_state_has_whole_transactions() {
    for (name, mode, page_bytes, bound) in [
        ("diffs", Mode::Fash1, 1024, 16),
        ("lean", Mode::Lean, 1024, 8),
        ("full", Mode::Full, 512, 6),
        ("fash", Mode::Fash, 1024, 6),
        ("fast", Mode::Fast, 1024, 16),
        ("nvwal", Mode::Nvwal, 1024, 6),
    ] {
        let (trace, models) = recorded(name, mode, page_bytes, "incremental");
        let (explored, recovered) = explore_and_count(&trace, &models, bound, 40);
        assert_eq!(explored.failed, None, "{name}");
        println!("{name}: {} points, {} states, {recovered:?}", explored.points, explored.states);
        assert!(explored.states > 3_000, "{name}: {explored:?}");
        // After an ordered commit only the next one is replayed; the layout is restored by unordered commits.
        let by_turns = [Mode::Lean, Mode::Fash1, Mode::Full].contains(&mode);
        let both = if by_turns { 301..=u64::MAX } else { 0..=300 };
        assert!(both.contains(&recovered.both), "{name}: {recovered:?}");
        assert!(
            [Mode::Lean, Mode::Full, Mode::Fast, Mode::Nvwal].contains(&mode)
                || recovered.restored > 100,
            "{recovered:?}"
        );
    }
}

/// Each transaction of more than one granule is committed page by page.
#[test]
fn every_crash_state_of_streamed_commits_is_whole() {
    streamed_commits(&[("streamed-diffs", Mode::Fash1, 1024, 10)]);
}

/// A name, a mode, the bytes of a page, and the most lines that a state leaves out or has.
pub(crate) type Streamed = (&'static str, Mode, u32, u64);

pub(crate) fn streamed_commits(cases: &[Streamed]) {
    for &(name, mode, page_bytes, bound) in cases {
        let (trace, models) = recorded_with(name, mode, page_bytes, "incremental", &statements());
        let (explored, recovered) = explore_and_count(&trace, &models, bound, 40);
        assert_eq!(explored.failed, None, "{name}");
        println!("{name}: {} points, {} states, {recovered:?}", explored.points, explored.states);
        assert!(explored.states > 3_000, "{name}: {explored:?}");
        every_kill(&format!("{name}-kills"), mode);
    }
}

#[test]
fn every_kill_leaves_whole_transactions() {
    every_kill("kills", Mode::Fash1);
    every_kill("kills-lean", Mode::Lean);
}

pub(crate) fn every_kill(name: &str, mode: Mode) {
    let (trace, models) = recorded(name, mode, 1024, "full");
    let mut notes = vec![0];
    for event in &trace.events {
        let last = *notes.last().unwrap();
        notes.push(if let sim::Event::Note(note) = event.event { note } else { last });
    }
    let (mut reader, mut states) = (Reader::new(), 0);
    trace.process_states(|events, image| {
        // One state in nine covers all stores of commits and the first ones of long copies; the rest differs only
        // in the log.
        states += 1;
        if states % 9 != 0 {
            return;
        }
        let memory = Recording::from_image(image, SIDE + DATA).unwrap();
        let rows = recover(&memory).and_then(|plain| reader.read(plain));
        rows.and_then(|rows| compare(&rows, &models, notes[events])).unwrap();
    });
    assert!(states > 500, "{states}");
}

/// The source lines that contain a text, for instructions whose absence need not be noticed.
pub(crate) fn lines_of((file, source, text): (&str, &str, &str)) -> Vec<String> {
    let found = source.lines().zip(1..).filter(|(line, _)| line.contains(text));
    let found: Vec<String> = found.map(|(_, number)| format!("{file}:{number}")).collect();
    assert!(!found.is_empty(), "{text}");
    found
}

/// The source line after a text.
pub(crate) fn line_after(source: &str, text: &str) -> String {
    let line = source.lines().position(|line| line.contains(text)).expect(text) + 2;
    format!(":{line}")
}

#[test]
fn missing_instruction_is_noticed() {
    assert_eq!(unnoticed("left-out", Mode::Fash1), Vec::<String>::new());
}

#[test]
fn missing_instruction_in_mode_lean_is_noticed() {
    assert_eq!(unnoticed("left-out-lean", Mode::Lean), Vec::<String>::new());
}

#[test]
fn missing_instruction_in_mode_fash_is_noticed() {
    assert_eq!(unnoticed("left-out-fash", Mode::Fash), Vec::<String>::new());
}

#[test]
fn missing_instruction_in_mode_fast_is_noticed() {
    assert_eq!(unnoticed("left-out-fast", Mode::Fast), Vec::<String>::new());
}

#[test]
fn missing_instruction_in_mode_nvwal_is_noticed() {
    assert_eq!(unnoticed("left-out-nvwal", Mode::Nvwal), Vec::<String>::new());
}

/// The instructions whose absence goes unnoticed.
fn unnoticed(name: &str, mode: Mode) -> Vec<String> {
    // Without auto-vacuum a new database is one commit, and the first note follows it directly.
    let (trace, models) = recorded(name, mode, 1024, "none");
    // For live connections only: never flushed, or set again before it matters.
    let connection = include_str!("../../src/store/connection.rs");
    let blocks = include_str!("../../src/store/nvwal_log/blocks.rs");
    let ordered = include_str!("../../src/store/adr/ordered.rs");
    let in_place = include_str!("../../src/store/adr/in_place.rs");
    let nvwal = include_str!("../../src/store/adr/nvwal.rs");
    let live = [
        ("side.rs", include_str!("../../src/store/side.rs"), "put(BEGUN_AT, 0)"),
        ("side.rs", include_str!("../../src/store/side.rs"), "put(TABLE_AT, 0)"),
        ("connection.rs", connection, "self.side.set_begun("),
        ("commit.rs", include_str!("../../src/store/commit.rs"), "self.side.set_begun("),
        ("connection.rs", connection, "self.side.set_applied("),
        ("bytes.rs", include_str!("../../src/store/bytes.rs"), "self.side.set_begun("),
        ("log.rs", include_str!("../../src/store/log.rs"), "self.side.set_begun("),
        ("lean.rs", include_str!("../../src/store/lean.rs"), "self.side.set_begun("),
        ("ordered.rs", ordered, "self.side.set_begun("),
        ("ordered.rs", ordered, "self.side.set_applied("),
        ("in_place.rs", in_place, "self.side.set_begun("),
        ("nvwal.rs", nvwal, "self.side.set_begun("),
        // Recovery treats a pending block as free, and the log's age matters to its readers only.
        ("blocks.rs", blocks, "self.put_block(block, PENDING"),
        ("side.rs", include_str!("../../src/store/side.rs"), "put(EMPTIED_AT, 0)"),
        // For the number's upper half, which the next commit's mark also shows.
        ("ordered.rs", ordered, "self.side.set_checkpointed("),
    ];
    let mut live: Vec<String> = live.into_iter().flat_map(lines_of).collect();
    // The next log's fence covers the marker as well, before anything is applied.
    live.push(format!("connection.rs{}", line_after(connection, "page1::set_marker(&self.data")));
    // Needed after a failed commit: `store_kills.rs` has that case.
    let home = include_str!("../../src/store/restore_layout.rs");
    live.push(format!("restore_layout.rs{}", line_after(home, "set_table(Table { entries: 0")));
    assert_eq!(explore(&trace, &models, 16, u64::MAX).failed, None, "with all of them");
    if mode == Mode::Fast {
        let names: Vec<String> = trace.instructions().iter().map(ToString::to_string).collect();
        let stores = |name: &&String| name.starts_with("store") && name.contains("in_place.rs");
        // A word, a line, and the end of the commit.
        assert_eq!(names.iter().filter(stores).count(), 3, "{names:?}");
    }
    let acknowledged = lines_of(("connection.rs", connection, "self.fence(lines);"));
    let mut own = vec![
        "slot.rs:",
        "lean.rs:",
        "log.rs:",
        "ordered.rs:",
        "in_place.rs:",
        "nvwal.rs:",
        "blocks.rs:",
    ];
    own.extend(acknowledged.iter().map(String::as_str));
    if mode == Mode::Fast {
        own.push("connection.rs:");
    }
    let mut unnoticed = Vec::new();
    for one in trace.instructions() {
        let (name, without) = (one.to_string(), trace.without(one));
        // The rest is as in the first mode.
        let is_its_own = mode == Mode::Fash1 || own.iter().any(|own| name.contains(own));
        if !is_its_own || live.iter().any(|line| name.ends_with(line)) {
            continue;
        }
        // Few states of each crash point show most of them.
        let noticed = |bound| explore(&without, &models, bound, u64::MAX).failed.is_some();
        if !noticed(4) && !noticed(150) && !noticed(600) {
            unnoticed.push(name);
        }
    }
    unnoticed
}
