//! SQL of two connections of this VFS and of stock SQLite in turn, over a recording, with `perdura_share=stock`.
//! Every crash state is either a plain database, which stock SQLite may read and write first, or one that it refuses.
//! Then this VFS recovers it, and stock SQLite reads the result. The same with the two connections only, in changing
//! modes.
//!
//! Stock SQLite works on a file, whose new content is then stored into the recording. A crash within that is up to
//! its own journal and is not explored. Notes in the trace give the file's length, since a recording is never cut.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use perdura_sqlite::database::{Failure, Level, MainFile};
use perdura_sqlite::store::connection::Store;
use perdura_sqlite::store::error::StoreError;
use perdura_sqlite::store::mode::Mode;
use perdura_sqlite::store::page1::{header, is_marked};
use pm::{LineSet, Memory};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rusqlite::Connection;
use sim::{Recording, Replay, Trace};

use crate::explore::{Alone, DATA, Reader, Rows, SIDE, SLOT, media, no_table};
use crate::register::open_recording;
use crate::sql::{folder, rows};

/// The bits of a note: the number of acknowledged transactions, the file's length, the recording's, and one of
/// these.
const LENGTH: u32 = 16;
const RECORDED: u32 = 36;
const LENGTH_MAX: u64 = (1 << 20) - 1;
/// Stock SQLite is writing.
const STOCK: u64 = 1 << 60;
/// No connection is writing.
const QUIET: u64 = 1 << 61;

/// A database in a recording that is shared with stock SQLite.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) memory: Recording,
    /// Bytes of the file while the marker is not set.
    pub(crate) bytes: Arc<AtomicU64>,
    pub(crate) acknowledged: Arc<AtomicU64>,
    /// Stock SQLite is kept out.
    pub(crate) alone: bool,
}

/// The open databases, by name.
static OPEN: Mutex<Vec<(String, Shared)>> = Mutex::new(Vec::new());

/// The shared database of a name, for one of the two connections.
pub(crate) fn part(path: &Path) -> Option<Part> {
    let (name, number) = path.file_name()?.to_str()?.rsplit_once("-by-")?;
    let open = OPEN.lock().unwrap();
    let shared = open.iter().find(|(known, _)| known == name)?.1.clone();
    let (media, bytes) = (media(&shared.memory), shared.bytes.load(Ordering::Relaxed));
    let data = media.data.clone();
    let mut store = match number {
        "one" => Store::open(media, bytes, 0x1234_5678_9abc_def1, SLOT).unwrap(),
        _ => Store::attach(media, bytes).unwrap(),
    };
    store.set_keeps_layout(!shared.alone);
    Some(Part { alone: Alone::new(store, data), shared })
}

impl Shared {
    fn data(&self) -> Vec<u8> {
        let region = media(&self.memory).data;
        let mut bytes = vec![0; region.len() as usize];
        region.read_into(0, &mut bytes).unwrap();
        bytes
    }

    fn file_bytes(&self) -> u64 {
        let data = media(&self.memory).data;
        let marked = is_marked(&header(&data, data.len()).unwrap());
        if marked { data.len() } else { self.bytes.load(Ordering::Relaxed) }
    }

    fn note(&self, flags: u64) {
        let [acknowledged, bytes] =
            [&self.acknowledged, &self.bytes].map(|word| word.load(Ordering::Relaxed));
        let recorded = media(&self.memory).data.len();
        self.memory.note(acknowledged | bytes << LENGTH | recorded << RECORDED | flags);
    }

    /// Stores a new content durably. Bytes past it have no meaning.
    pub(crate) fn put(&self, new: &[u8]) {
        let region = media(&self.memory).data;
        region.grow(new.len() as u64).unwrap();
        let (old, mut lines) = (self.data(), LineSet::new());
        let mut new = new.to_vec();
        new.resize(old.len(), 0);
        for (at, (old, new)) in (0..).step_by(64).zip(old.chunks(64).zip(new.chunks(64))) {
            if old != new {
                region.copy(at, new);
                region.note(&mut lines, at, 64);
            }
        }
        lines.flush(&self.memory);
        self.memory.fence();
    }

    /// Cuts the file, durably.
    fn cut(&self, bytes: u64) {
        self.put(&self.data()[..bytes as usize]);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.note(0);
    }

    /// Acknowledges a transaction. No connection writes until the next one begins.
    pub(crate) fn acknowledge(&self) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        self.note(QUIET);
        // A crash point needs a fence.
        let (side, mut lines) = (media(&self.memory).side, LineSet::new());
        side.store(SIDE - 8, self.acknowledged.load(Ordering::Relaxed));
        side.note(&mut lines, SIDE - 8, 8);
        lines.flush(&self.memory);
        self.memory.fence();
        self.note(0);
    }
}

/// One connection's database, shared as `database::stock_sharing` shares a file.
#[derive(Debug)]
pub(crate) struct Part {
    alone: Alone,
    shared: Shared,
}

impl Part {
    fn let_stock_in(&mut self) -> Result<(), Failure> {
        let store = &mut self.alone.store;
        if self.shared.alone || !store.is_marked() {
            return Ok(());
        }
        assert!(store.refresh(|| Ok::<_, StoreError>(self.shared.file_bytes()))?);
        assert!(store.can_restore_layout());
        store.catch_up()?;
        store.restore_layout()?;
        self.shared.cut(store.size());
        Ok(store.make_plain()?)
    }
}

impl MainFile for Part {
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
        if self.level() == Level::None {
            self.alone.store.refresh_unlocked(|| Ok::<_, StoreError>(self.shared.file_bytes()))?;
        }
        self.alone.read(at, out)
    }
    fn fetch(&mut self, at: u64, len: u64) -> Result<Option<*const u8>, Failure> {
        self.alone.fetch(at, len)
    }
    fn unfetch(&mut self, at: u64, page: *const u8) {
        self.alone.unfetch(at, page);
    }
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.alone.write(at, bytes)
    }
    fn truncate(&mut self, to: u64) -> Result<(), Failure> {
        self.alone.truncate(to)
    }
    fn size(&mut self) -> Result<u64, Failure> {
        if self.level() == Level::None {
            self.alone.store.refresh_unlocked(|| Ok::<_, StoreError>(self.shared.file_bytes()))?;
        }
        self.alone.size()
    }
    fn commit(&mut self, super_journal: Option<&[u8]>) -> Result<(), Failure> {
        self.alone.commit(super_journal)
    }
    fn sync(&mut self) -> Result<(), Failure> {
        self.alone.sync()
    }
    fn end_transaction(&mut self) -> Result<(), Failure> {
        self.alone.end_transaction()
    }
    fn lock(&mut self, to: Level) -> Result<(), Failure> {
        if self.level() == Level::None {
            let store = &mut self.alone.store;
            assert!(store.refresh(|| Ok::<_, StoreError>(self.shared.file_bytes()))?);
            if self.shared.alone {
                store.catch_up()?;
            } else {
                assert!(!store.is_marked(), "the connection that set it has cleared it");
            }
        }
        self.alone.lock(to)
    }
    fn unlock(&mut self, to: Level) -> Result<(), Failure> {
        if to <= Level::Shared && self.level() == Level::Exclusive {
            self.alone.store.discard();
            self.let_stock_in()?;
        }
        self.alone.unlock(to)
    }
    fn level(&self) -> Level {
        self.alone.level()
    }
    fn is_reserved(&mut self) -> Result<bool, Failure> {
        self.alone.is_reserved()
    }
    fn has_moved(&self) -> bool {
        false
    }
    fn pragma(&mut self, name: &str, value: Option<&str>) -> Option<Result<String, String>> {
        self.alone.pragma(name, value)
    }
    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}

/// The connection that makes a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Actor {
    One,
    Two,
    Stock,
}

/// An open connection of stock SQLite, and its file.
struct Stocks {
    directory: tempfile::TempDir,
    connection: Connection,
}

impl Stocks {
    fn new() -> Self {
        let directory = folder();
        let connection = Connection::open(directory.path().join("db")).unwrap();
        Self { directory, connection }
    }

    /// Runs `work` on a file of these bytes; returns its new bytes.
    fn over(&self, bytes: &[u8], work: impl FnOnce(&Connection)) -> Vec<u8> {
        let path = self.directory.path().join("db");
        std::fs::write(&path, bytes).unwrap();
        work(&self.connection);
        std::fs::read(&path).unwrap()
    }
}

/// The trace of transactions, and the rows after each.
pub(crate) fn recorded(
    name: &str,
    set: &str,
    statements: &[(Actor, String)],
) -> (Trace, Vec<Rows>) {
    recorded_as(name, set, statements, false)
}

/// The same; with `alone` stock SQLite is kept out and makes none of them.
fn recorded_as(
    name: &str,
    set: &str,
    statements: &[(Actor, String)],
    alone: bool,
) -> (Trace, Vec<Rows>) {
    let memory = Recording::new(SIDE + DATA).unwrap();
    memory.grow(SIDE).unwrap();
    // A stale side file is already there.
    media(&memory).side.copy(0, &[0xa5; SIDE as usize]);
    let shared = Shared { memory, bytes: Arc::default(), acknowledged: Arc::default(), alone };
    OPEN.lock().unwrap().push((name.into(), shared.clone()));
    shared.memory.start();
    shared.note(0);
    let [one, two] =
        ["one", "two"].map(|number| open_recording(&format!("{name}-by-{number}")).unwrap());
    let (stocks, model) = (Stocks::new(), Connection::open_in_memory().unwrap());
    for connection in [&one, &two, &stocks.connection, &model] {
        connection.execute_batch(set).unwrap();
    }
    let mut models = vec![no_table()];
    for (by, statement) in statements {
        let run = |connection: &Connection| {
            connection
                .execute_batch(statement)
                .unwrap_or_else(|error| panic!("{by:?}, {statement}: {error}"));
        };
        run(&model);
        models.push(rows(&model));
        let bytes = || shared.data()[..shared.bytes.load(Ordering::Relaxed) as usize].to_vec();
        match by {
            Actor::One => run(&one),
            Actor::Two => run(&two),
            Actor::Stock => {
                let then = stocks.over(&bytes(), run);
                shared.note(STOCK);
                shared.put(&then);
                shared.bytes.store(then.len() as u64, Ordering::Relaxed);
            }
        }
        shared.acknowledge();
        for ours in [&one, &two] {
            assert_eq!(models.last(), Some(&rows(ours)), "{by:?}, {statement}");
        }
        if !alone {
            stocks.over(&bytes(), |stocks| {
                assert_eq!(models.last(), Some(&rows(stocks)), "{by:?}, {statement}");
            });
        }
    }
    (shared.memory.stop(), models)
}

/// Recovers a state and returns the plain file. `bytes` is the file's length if it is plain.
fn recover(memory: &Recording, bytes: u64) -> Result<Vec<u8>, String> {
    let text = |error: StoreError| error.to_string();
    let data = media(memory).data;
    let marked = is_marked(&header(&data, data.len()).map_err(text)?);
    let bytes = if marked { data.len() } else { bytes };
    let mut store = Store::open(media(memory), bytes, 1, SLOT).map_err(text)?;
    if store.is_marked() {
        store.restore_layout().map_err(text)?;
        store.make_plain().map_err(text)?;
    }
    let mut plain = vec![0; store.size() as usize];
    media(memory).data.read_into(0, &mut plain).map_err(|error| error.to_string())?;
    Ok(plain)
}

/// The length of a database in its header.
fn bytes_in_header(plain: &[u8]) -> Option<usize> {
    let page_bytes = usize::from(u16::from_be_bytes(*plain.get(16..)?.first_chunk()?));
    let pages = u32::from_be_bytes(*plain.get(28..)?.first_chunk()?) as usize;
    Some(pages * page_bytes)
}

/// Numbers of states by kind.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Found {
    plain: u64,
    refused: u64,
    /// Plain states to which stock SQLite wrote before this VFS opened them.
    written: u64,
}

/// Checks crash states.
struct Watcher<'m> {
    models: &'m [Rows],
    reader: Reader,
    found: Found,
    alone: bool,
}

impl<'m> Watcher<'m> {
    fn new(models: &'m [Rows], alone: bool) -> Self {
        Self { models, reader: Reader::new(), found: Found::default(), alone }
    }

    /// Reads a state with stock SQLite; `None` if that refuses it.
    fn stock_first(&mut self, image: &[u8], bytes: u64) -> Result<Option<Rows>, String> {
        let data = &image[SIDE as usize..];
        if !is_marked(&data[..100.min(data.len())]) {
            let file = data[..data.len().min(bytes as usize)].to_vec();
            let is_tag = |byte: &(usize, &u8)| (72..80).contains(&byte.0);
            if !file.is_empty() && file.iter().enumerate().all(|byte| *byte.1 == 0 || is_tag(&byte))
            {
                // The first commit, before the marker.
                return Ok(None);
            }
            self.found.plain += 1;
            return self.reader.read(file).map(Some).map_err(|why| format!("stock: {why}"));
        }
        self.found.refused += 1;
        if self.found.refused.is_multiple_of(16) {
            let refused = self.reader.read(data.to_vec());
            if !refused.clone().is_err_and(|why| why.contains("not a database")) {
                return Err(format!("stock is not refused: {refused:?}"));
            }
        }
        Ok(None)
    }

    /// Checks a state; with `deep` also the crashes of its recovery, and writes of stock SQLite before that.
    fn look(&mut self, image: &[u8], noted: u64, deep: bool) -> Result<(), String> {
        if noted & STOCK > 0 {
            return Ok(());
        }
        let acknowledged = noted as usize & 0xffff;
        let [bytes, recorded] = [LENGTH, RECORDED].map(|at| noted >> at & LENGTH_MAX);
        let there = image.len() as u64 - SIDE;
        // It has grown since the note.
        let bytes = if there > recorded { there } else { bytes };
        let quiet = noted & QUIET > 0;
        let stocks = self.stock_first(image, bytes)?;
        let is_plain = quiet && !self.alone;
        if is_plain && (stocks.is_none() || image[SIDE as usize + 72..][..8] != [0; 8]) {
            return Err(format!("after transaction {acknowledged} the file is not plain"));
        }
        let memory = Recording::from_image(image, SIDE + DATA).unwrap();
        if deep {
            memory.start();
        }
        let plain = recover(&memory, bytes)?;
        // SQLite truncates it after its commit.
        if bytes_in_header(&plain)
            .is_some_and(|bytes| bytes > plain.len() || quiet && bytes < plain.len())
        {
            return Err(format!(
                "after transaction {acknowledged} the file has {} bytes",
                plain.len()
            ));
        }
        let rows = self.reader.read(plain.clone())?;
        // The transaction under way may have committed.
        let may_be =
            if quiet { acknowledged..=acknowledged } else { acknowledged..=acknowledged + 1 };
        if !may_be.clone().any(|number| self.models.get(number) == Some(&rows)) {
            return Err(format!(
                "after transaction {acknowledged} the rows are those of none: {rows:?}"
            ));
        }
        if stocks.as_ref().is_some_and(|stocks| *stocks != rows) {
            return Err(format!("stock has read {stocks:?}, ours {rows:?}"));
        }
        if !deep {
            return Ok(());
        }
        let recovery = memory.stop();
        let explored = Replay::new(&recovery).explore(8, 2, |image, _| {
            let bytes = plain.len() as u64;
            let stocks = self.stock_first(image, bytes)?;
            let memory = Recording::from_image(image, SIDE + DATA).unwrap();
            let again = self.reader.read(recover(&memory, bytes)?)?;
            let right = again == rows && stocks.is_none_or(|stocks| stocks == rows);
            if right { Ok(()) } else { Err(format!("{again:?}, not {rows:?}")) }
        });
        if let Some(why) = explored.failed {
            return Err(format!("a crash in recovery: {why}"));
        }
        if stocks.is_some() {
            self.written_by_stock(image, bytes)?;
        }
        Ok(())
    }

    /// Lets stock SQLite write to a plain state before this VFS opens it.
    fn written_by_stock(&mut self, image: &[u8], bytes: u64) -> Result<(), String> {
        self.found.written += 1;
        let file = &image[SIDE as usize..];
        let file = &file[..file.len().min(bytes as usize)];
        let mut written = Err(String::new());
        // A connection that has seen no other state.
        let then = Stocks::new().over(file, |stocks| {
            let insert = "CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, b TEXT);
                          INSERT OR REPLACE INTO t VALUES(1000, 'stock')";
            written = stocks.execute_batch(insert).map_err(|error| error.to_string());
        });
        written?;
        let image = [&image[..SIDE as usize], &then].concat();
        let memory = Recording::from_image(&image, SIDE + DATA).unwrap();
        let ours = recover(&memory, then.len() as u64)?;
        if ours == then { Ok(()) } else { Err("ours has not what stock has written".into()) }
    }
}

/// Explores a trace: at most `bound` states of each crash point, one in `again` deeply.
pub(crate) fn explore(
    trace: &Trace,
    models: &[Rows],
    bound: u64,
    again: u64,
) -> (sim::Explored, Found) {
    explore_with(Watcher::new(models, false), trace, bound, again)
}

fn explore_with(
    mut watcher: Watcher,
    trace: &Trace,
    bound: u64,
    again: u64,
) -> (sim::Explored, Found) {
    let mut number = 0;
    let explored = Replay::new(trace).explore(bound, 1, |image, noted| {
        number += 1;
        watcher.look(image, noted, number % again == 0)
    });
    (explored, watcher.found)
}

/// Explores the scenario of a seed.
fn explore_seed(seed: u64, bound: u64, alone: bool) -> (u64, Found) {
    const STATEMENTS: usize = 24;
    let mut random = SmallRng::seed_from_u64(seed);
    let page_bytes = [512, 512, 1024, 4096][random.random_range(0..4)];
    let vacuum = ["none", "full", "incremental"][random.random_range(0..3)];
    let mut statements = vec![
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)".to_owned(),
        "CREATE INDEX i ON t(b)".to_owned(),
    ];
    statements.extend((0..STATEMENTS).map(|_| crate::random::statement(&mut random)));
    let all = if alone {
        [Actor::One, Actor::Two, Actor::One, Actor::Two]
    } else {
        [Actor::One, Actor::One, Actor::Two, Actor::Stock]
    };
    // The mode changes with each statement, or stays for each connection.
    let stays = random.random_bool(0.5);
    let mut modes =
        [Mode::default(); 2].map(|_| Mode::ALL[random.random_range(0..Mode::ALL.len())]);
    let statements: Vec<(Actor, String)> = statements
        .into_iter()
        .map(|statement| {
            let by = all[random.random_range(0..4)];
            let mode = &mut modes[usize::from(by == Actor::Two)];
            if !stays {
                *mode = Mode::ALL[random.random_range(0..Mode::ALL.len())];
            }
            (by, format!("PRAGMA perdura_mode = {}; {statement}", mode.name()))
        })
        .collect();
    let set = format!(
        "PRAGMA page_size = {page_bytes}; PRAGMA auto_vacuum = {vacuum};
         PRAGMA cache_size = 5; PRAGMA mmap_size = 1000000"
    );
    let name = if alone { "two" } else { "shared" };
    let (trace, models) = recorded_as(&format!("{name}-{seed}"), &set, &statements, alone);
    let (explored, found) = explore_with(Watcher::new(&models, alone), &trace, bound, 40);
    assert_eq!(explored.failed, None, "{name}: seed {seed}, {page_bytes} bytes, {vacuum}");
    (explored.states, found)
}

/// Explores scenarios from a seed on, until `wanted` states have been visited.
pub(crate) fn explore_states(first: u64, wanted: u64, bound: u64, alone: bool) {
    let (mut states, mut all, mut stories) = (0, Found::default(), 0);
    while states < wanted {
        let (more, found) = explore_seed(first + stories, bound, alone);
        stories += 1;
        states += more;
        all.plain += found.plain;
        all.refused += found.refused;
        all.written += found.written;
    }
    println!("{stories} stories, {states} states: {all:?}");
    let plain = if alone { 0 } else { wanted / 10 };
    assert!(all.plain >= plain && all.refused > wanted / 10, "{all:?}");
    assert!(alone || all.written > wanted / 1_000, "{all:?}");
}

#[test]
fn every_crash_state_shared_with_stock_is_right_or_refused() {
    explore_states(1, 40_000, 6, false);
}

#[test]
fn every_crash_state_of_two_connections_is_right() {
    explore_states(1, 20_000, 6, true);
}
