//! Two databases in one recording, under one SQLite: every crash state has each transaction in both or in neither.
//!
//! One word of the recording stands for the super-journal, which SQLite creates and removes durably, and one for each
//! placeholder journal. As in SQLite, a database that rolls its part back removes the super-journal if no placeholder
//! names it.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use perdura_sqlite::database::{Failure, JournalEpoch, Level, MainFile, SuperJournalNotice};
use perdura_sqlite::store::connection::{Media, Store};
use perdura_sqlite::store::error::StoreError;
use perdura_sqlite::store::mode::Mode;
use perdura_sqlite::store::region::Region;
use perdura_sqlite::store::verdict::Verdict;
use pm::{LineSet, Memory};
use rusqlite::Connection;
use sim::{Recording, Replay, Trace};

use crate::explore::{Alone, Reader, Rows, SLOT, lines_of, no_table};
use crate::register::open_recording;
use crate::sql::{folder, rows};
use crate::{explore, store_kills};

/// Bytes of each side file, of each database, and of both.
const SIDE: u64 = 48 << 10;
const DATA: u64 = 64 << 10;
const BOTH: u64 = SIDE + DATA;
/// The words after both databases: the super-journal and each placeholder, a line each.
const WORDS: u64 = 2 * BOTH;
const LINES: u64 = 4096;
const TAG: u64 = 0x1234_5678_9abc_def1;

/// How a database treats the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Policy {
    Right,
    /// A prepared part always counts: fault 31.
    AppliesAlone,
    /// The second database has no placeholder: fault 32.
    NoPlaceholder,
}

/// The open databases.
static OPEN: Mutex<Vec<(String, Recording, u64, Policy)>> = Mutex::new(Vec::new());

/// The database of a name that is recorded together with another.
pub(crate) fn part(path: &Path) -> Option<Part> {
    let open = OPEN.lock().unwrap();
    let name = path.file_name()?.to_str()?;
    let (_, memory, number, policy) = open.iter().find(|(known, ..)| known == name)?;
    let media = media(memory, *number);
    let data = media.data.clone();
    let store = Store::open(media, 0, TAG + 2 * number, SLOT).unwrap();
    let words = Words(memory.clone());
    let file = path.with_file_name(format!("{name}-journal"));
    let placeholder =
        Arc::new(Placeholder { words: words.clone(), file, number: *number, policy: *policy });
    let alone = Alone::new(store, data);
    Some(Part { alone, words, placeholder, with: None, fails: false })
}

fn media(memory: &Recording, number: u64) -> Media<Recording> {
    Media {
        data: Region::new(memory.clone(), number * BOTH + SIDE, DATA),
        side: Region::new(memory.clone(), number * BOTH, SIDE),
        separate_fences: false,
        needs_flush: true,
    }
}

/// A number that stands for a name.
fn number_of(name: &[u8]) -> u64 {
    u64::from(crc32c::crc32c(name)) + 1
}

/// The words after both databases.
#[derive(Clone, Debug)]
struct Words(Recording);

impl Words {
    fn region(&self) -> Region<Recording> {
        Region::new(self.0.clone(), WORDS, LINES)
    }

    /// Creates or removes a file durably; 0 is the super-journal.
    fn set(&self, file: u64, name: u64) {
        if self.get(file) != name {
            let mut lines = LineSet::new();
            self.region().store(64 * file, name);
            self.region().note(&mut lines, 64 * file, 8);
            lines.flush(&self.0);
            self.0.fence();
        }
    }

    fn get(&self, file: u64) -> u64 {
        self.region().load(64 * file).unwrap()
    }

    fn verdict(&self, name: &[u8]) -> Verdict {
        if self.get(0) == number_of(name) { Verdict::Discard } else { Verdict::Apply }
    }

    /// Removes a placeholder, and the super-journal if no other placeholder names it.
    fn remove_placeholder(&self, number: u64) {
        let name = self.get(1 + number);
        self.set(1 + number, 0);
        if name > 0 && self.get(0) == name && self.get(2 - number) != name {
            self.set(0, 0);
        }
    }
}

#[derive(Debug)]
struct Placeholder {
    words: Words,
    /// The file that SQLite finds while nothing crashes.
    file: PathBuf,
    number: u64,
    policy: Policy,
}

impl SuperJournalNotice for Placeholder {
    fn publish(&self, super_journal: &[u8]) -> Result<(), Failure> {
        self.words.set(0, number_of(super_journal));
        if self.policy != Policy::NoPlaceholder || self.number == 0 {
            self.words.set(1 + self.number, number_of(super_journal));
        }
        let check: u32 = super_journal.iter().map(|byte| u32::from(*byte)).sum();
        let words = [super_journal.len() as u32, check].map(u32::to_be_bytes).concat();
        let magic = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
        std::fs::write(&self.file, [&[0; 4], super_journal, &words, &magic].concat()).unwrap();
        Ok(())
    }
    fn clear(&self) {}
    fn announce_file(&self, _: bool) {}

    fn epoch(&self) -> Option<JournalEpoch> {
        None
    }

    fn has_seen_marker(&self, _: u64) -> bool {
        false
    }
}

impl Placeholder {
    fn remove(&self) {
        self.words.set(1 + self.number, 0);
        std::fs::remove_file(&self.file).unwrap();
    }
}

/// A database that is recorded together with another.
#[derive(Debug)]
pub(crate) struct Part {
    alone: Alone,
    words: Words,
    placeholder: Arc<Placeholder>,
    with: Option<Vec<u8>>,
    fails: bool,
}

impl Part {
    fn store(&mut self) -> &mut Store<Recording> {
        &mut self.alone.store
    }
}

impl MainFile for Part {
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
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
        self.alone.size()
    }
    fn commit(&mut self, super_journal: Option<&[u8]>) -> Result<(), Failure> {
        match super_journal {
            Some(name) => {
                self.with = Some(name.to_vec());
                if std::mem::take(&mut self.fails) {
                    return Err(Failure::Full("a test wants it".into()));
                }
                self.placeholder.publish(name)?;
                Ok(self.store().prepare_for(name)?)
            }
            None => {
                let Some(name) = self.with.take() else { return self.alone.commit(None) };
                assert!(Path::new(std::str::from_utf8(&name).unwrap()).exists());
                self.store().roll_back_prepared()?;
                self.store().discard();
                self.placeholder.remove();
                Ok(())
            }
        }
    }
    fn super_journal_notice(&self) -> Option<Arc<dyn SuperJournalNotice>> {
        Some(Arc::clone(&self.placeholder) as Arc<dyn SuperJournalNotice>)
    }
    fn sync(&mut self) -> Result<(), Failure> {
        assert!(self.with.is_some() || !self.store().has_changes());
        Ok(())
    }
    fn end_transaction(&mut self) -> Result<(), Failure> {
        if let Some(name) = self.with.take() {
            assert!(!Path::new(std::str::from_utf8(&name).unwrap()).exists());
            self.words.set(0, 0);
            self.store().commit_prepared()?;
            self.placeholder.remove();
        }
        self.alone.end_transaction()
    }
    fn lock(&mut self, to: Level) -> Result<(), Failure> {
        self.alone.lock(to)
    }
    fn unlock(&mut self, to: Level) -> Result<(), Failure> {
        assert!(!self.store().is_prepared());
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
        if name == "the_next_part_fails" {
            self.fails = true;
            return Some(Ok("it will".into()));
        }
        self.alone.pragma(name, value)
    }
    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}

const FAILS: &str = "PRAGMA other.the_next_part_fails";

/// The statements, most of them transactions over both databases.
fn statements() -> Vec<String> {
    let both = |one: &str, other: &str| format!("BEGIN; {one}; {other}; COMMIT");
    let insert = |table: &str, key: i64, len: i64| {
        format!("INSERT INTO {table} VALUES({key}, hex(zeroblob({len})))")
    };
    let mut all = vec![both(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)",
        "CREATE TABLE other.t(a INTEGER PRIMARY KEY, b TEXT); CREATE INDEX other.i ON t(b)",
    )];
    for key in 0..6 {
        all.push(both(&insert("t", key * 37 % 41, 60), &insert("other.t", key * 11 % 17, 50)));
        all.push(insert(if key % 2 == 0 { "other.t" } else { "t" }, 100 + key, 30));
    }
    // One part is rolled back after the other was prepared.
    all.push(FAILS.into());
    all.push(both(&insert("t", 51, 10), &insert("other.t", 51, 10)));
    all.push(insert("t", 52, 10));
    all.push(both(&insert("t", 53, 10), &insert("other.t", 53, 10)));
    // A part too large for a slot, and one that changes nothing.
    all.push(both("UPDATE t SET b = hex(zeroblob(600))", &insert("other.t", 60, 10)));
    all.push(both("UPDATE t SET b = b WHERE a = 0", &insert("other.t", 61, 10)));
    // The first part is truncated after it was prepared.
    all.push(both(
        "DELETE FROM t WHERE a > 10; PRAGMA incremental_vacuum",
        "DELETE FROM other.t WHERE a > 60",
    ));
    all.push(both("UPDATE t SET b = a", "UPDATE other.t SET b = a || b"));
    all.push("VACUUM".into());
    all.push(both(&insert("t", 70, 20), &insert("other.t", 70, 20)));
    all
}

type Pair = [Rows; 2];

/// The trace of the scenario, and the rows after each statement.
fn recorded(name: &str, policy: Policy, modes: [Mode; 2]) -> (Trace, Vec<Pair>) {
    let memory = Recording::new(WORDS + LINES).unwrap();
    memory.grow(WORDS + LINES).unwrap();
    for number in 0..2 {
        let name = format!("{name}-{number}");
        OPEN.lock().unwrap().push((name, memory.clone(), number, policy));
    }
    memory.start();
    // SQLite creates and removes the super-journal there.
    let folder = folder();
    let path = |number| folder.path().join(format!("{name}-{number}"));
    let connection = open_recording(path(0).to_str().unwrap()).unwrap();
    let model = Connection::open_in_memory().unwrap();
    let other = format!("ATTACH 'file:{}?vfs=perdura-recording' AS other", path(1).display());
    for (one, attach) in [(&connection, &other[..]), (&model, "ATTACH ':memory:' AS other")] {
        let set =
            "PRAGMA page_size = 1024; PRAGMA auto_vacuum = incremental; PRAGMA cache_size = 5;
             PRAGMA mmap_size = 1000000";
        one.execute_batch(attach).unwrap();
        one.execute_batch(set).unwrap();
        one.execute_batch("PRAGMA other.page_size = 1024").unwrap();
    }
    for (database, mode) in ["main", "other"].iter().zip(modes) {
        let set = format!("PRAGMA {database}.perdura_mode = {}", mode.name());
        connection.execute_batch(&set).unwrap();
    }
    let pair = |one: &Connection| [rows(one), rows_of_other(one)];
    let mut models = vec![[no_table(), no_table()]];
    let mut fails = false;
    for (number, statement) in statements().iter().enumerate() {
        let done = connection.execute_batch(statement);
        if std::mem::replace(&mut fails, statement == FAILS) {
            done.unwrap_err();
            assert!(connection.is_autocommit());
        } else {
            done.unwrap_or_else(|error| panic!("{statement}: {error}"));
            model.execute_batch(statement).unwrap();
        }
        memory.note(number as u64 + 1);
        models.push(pair(&model));
        assert_eq!(models.last(), Some(&pair(&connection)), "{statement}");
    }
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "no super-journal is left");
    (memory.stop(), models)
}

fn rows_of_other(connection: &Connection) -> Rows {
    let mut select = connection.prepare("SELECT a, b FROM other.t ORDER BY a").unwrap();
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Recovers one database. Returns the plain file, and whether it decided about a part.
fn recover(memory: &Recording, number: u64, policy: Policy) -> Result<(Vec<u8>, bool), String> {
    let text = |error: StoreError| error.to_string();
    let (words, media) = (Words(memory.clone()), media(memory, number));
    let (decided, no_placeholder) = (Cell::new(false), Cell::new(false));
    let decide = |name: &[u8]| {
        decided.set(true);
        let verdict = words.verdict(name);
        // Once the super-journal is gone, the placeholder does not matter.
        no_placeholder.set(verdict == Verdict::Discard && words.get(1 + number) != number_of(name));
        Ok(if policy == Policy::AppliesAlone { Verdict::Apply } else { verdict })
    };
    let bytes = media.data.len();
    let mut store =
        Store::open_and_decide(media.clone(), bytes, TAG, SLOT, &decide).map_err(text)?;
    if no_placeholder.get() && policy == Policy::Right {
        return Err("a part is prepared, and no placeholder says so".into());
    }
    words.remove_placeholder(number);
    if store.is_marked() {
        store.restore_layout().map_err(text)?;
        store.checkpoint_slots().map_err(text)?;
        store.make_plain().map_err(text)?;
    }
    let mut plain = vec![0; store.size() as usize];
    media.data.read_into(0, &mut plain).map_err(|error| error.to_string())?;
    Ok((plain, decided.get()))
}

/// Recovers both in order. Returns their rows, and how many decided about a part.
fn recover_both(
    memory: &Recording,
    first: u64,
    policy: Policy,
    reader: &mut Reader,
) -> Result<(Pair, u64), String> {
    let (mut found, mut decided) = ([Rows::new(), Rows::new()], 0);
    for number in [first, 1 - first] {
        let (plain, has_decided) = recover(memory, number, policy)?;
        found[number as usize] = reader.read(plain)?;
        decided += u64::from(has_decided);
    }
    let words = Words(memory.clone());
    match [0, 1, 2].map(|file| words.get(file)) {
        [0, 0, 0] => Ok((found, decided)),
        // A super-journal that no journal names yet stays.
        [_, 0, 0] if decided == 0 => Ok((found, decided)),
        _ if policy != Policy::Right => Ok((found, decided)),
        left => Err(format!("files are left: {left:?}")),
    }
}

/// Explores a trace, and the crashes of one recovery in `again`. Returns how many states had a prepared part.
fn explore(
    trace: &Trace,
    models: &[Pair],
    policy: Policy,
    bound: u64,
    again: u64,
) -> (sim::Explored, u64) {
    let mut reader = Reader::new();
    let (mut number, mut prepared) = (0, 0);
    let explored = Replay::new(trace).explore(bound, 1, |image, noted| {
        let memory = Recording::from_image(image, WORDS + LINES).unwrap();
        number += 1;
        let twice = number % again == 0;
        if twice {
            memory.start();
        }
        let (found, decided) = recover_both(&memory, number % 2, policy, &mut reader)?;
        prepared += u64::from(decided > 0);
        let noted = noted as usize;
        // The transaction under way may have committed, in both.
        if [noted, noted + 1].iter().all(|number| models.get(*number) != Some(&found)) {
            return Err(format!("after statement {noted}: {found:?}"));
        }
        if twice {
            let recovery = memory.stop();
            let explored = Replay::new(&recovery).explore(6, 2, |image, _| {
                let memory = Recording::from_image(image, WORDS + LINES).unwrap();
                let (then, _) = recover_both(&memory, number / 2 % 2, policy, &mut reader)?;
                if then == found { Ok(()) } else { Err(format!("{then:?}, not {found:?}")) }
            });
            if let Some(why) = explored.failed {
                return Err(format!("a crash in recovery: {why}"));
            }
        }
        Ok(())
    });
    (explored, prepared)
}

#[test]
fn every_crash_state_keeps_two_databases_alike() {
    for (modes, bound) in
        [([Mode::Fash1; 2], 24), ([Mode::Fash, Mode::Fast], 6), ([Mode::Full, Mode::Nvwal], 6)]
    {
        let name = format!("{}-{}", modes[0].name(), modes[1].name());
        let (trace, models) = recorded(&name, Policy::Right, modes);
        let (explored, prepared) = explore(&trace, &models, Policy::Right, bound, 20);
        assert_eq!(explored.failed, None, "{name}");
        println!("{name}: {explored:?}, {prepared} with a part that was prepared");
        let least = if bound == 24 { (4_000, 500) } else { (800, 100) };
        assert!(explored.states > least.0 && prepared > least.1, "{explored:?}, {prepared}");
    }
}

#[test]
fn parts_that_ignore_each_other_are_noticed() {
    for policy in [Policy::AppliesAlone, Policy::NoPlaceholder] {
        let (trace, models) = recorded(&format!("{policy:?}"), policy, [Mode::Fash1; 2]);
        let (explored, _) = explore(&trace, &models, policy, 24, u64::MAX);
        let why = explored.failed.expect("it is noticed");
        assert!(why.contains("after statement"), "{policy:?}: {why}");
    }
}

#[test]
fn missing_prepare_instruction_is_noticed() {
    let (trace, models) = recorded("parts-left-out", Policy::Right, [Mode::Fash1; 2]);
    let mut unnoticed = Vec::new();
    let mut instructions = trace.instructions();
    instructions.retain(|one| one.to_string().contains("prepared.rs"));
    // For live connections only.
    let source = include_str!("../../src/store/prepared.rs");
    let live = ["self.side.set_begun(", "self.side.set_applied("]
        .map(|text| lines_of(("prepared.rs", source, text)));
    let live = live.concat();
    instructions.retain(|one| live.iter().all(|line| !one.to_string().ends_with(line)));
    assert!(instructions.len() > 5, "{instructions:?}");
    for one in instructions {
        let without = trace.without(one);
        let noticed =
            |bound| explore(&without, &models, Policy::Right, bound, u64::MAX).0.failed.is_some();
        if !noticed(8) && !noticed(100) {
            unnoticed.push(one.to_string());
        }
    }
    assert_eq!(unnoticed, Vec::<String>::new());
}

const SUPER: &[u8] = b"/there/one-mj012345678";

/// A database with one more row, made by stock SQLite.
fn with_another_row(file: &[u8]) -> Vec<u8> {
    let folder = folder();
    let path = folder.path().join("db");
    std::fs::write(&path, file).unwrap();
    Connection::open(&path).unwrap().execute_batch("INSERT INTO t VALUES(5000, 'other')").unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn decision_about_a_killed_part_survives_power_cuts() {
    const ROWS: usize = 40;
    let files = store_kills::files_of_inserts();
    for verdict in [Verdict::Discard, Verdict::Apply] {
        let decide = |name: &[u8]| {
            assert_eq!(name, SUPER);
            Ok(verdict)
        };
        let memory = store_kills::new();
        let mut one = store_kills::open(&memory, 1);
        files[..ROWS].iter().for_each(|file| store_kills::commit(&mut one, file));
        one.write(0, &files[ROWS]).unwrap();
        // Once the super-journal is gone, the part is already prepared.
        let trace = if verdict == Verdict::Discard {
            store_kills::trace(&memory, || one.prepare_for(SUPER).unwrap())
        } else {
            one.prepare_for(SUPER).unwrap();
            store_kills::trace(&memory, || one.commit_prepared().unwrap())
        };
        let before = &files[if verdict == Verdict::Discard { ROWS - 1 } else { ROWS }];
        let then = with_another_row(before);
        let mut reader = Reader::new();
        let wanted = [before, &then].map(|file| reader.read(file.clone()).unwrap());
        let (mut states, mut replayed) = (0, 0);
        trace.kills(1, |killed| {
            let memory = Recording::from_image(killed.visible(), explore::SIDE + explore::DATA);
            let memory = memory.unwrap();
            memory.start();
            let bytes = store_kills::file_bytes(&memory);
            let mut next = Store::attach(explore::media(&memory), bytes).unwrap();
            if !store_kills::refresh(&mut next, || bytes) {
                next.recover_and_decide(&decide).unwrap();
            }
            replayed += next.stats().replayed;
            assert_eq!(reader.read(store_kills::whole(&next)).as_ref(), Ok(&wanted[0]));
            next.write(0, &then).unwrap();
            next.commit().unwrap();
            memory.note(1);
            // A crash point after the last fence needs another event.
            explore::media(&memory).side.store(explore::SIDE - 8, 1);
            let after = memory.stop();
            let explored = killed.replay(&after).explore(12, 1, |image, noted| {
                let memory = Recording::from_image(image, explore::SIDE + explore::DATA).unwrap();
                let media = explore::media(&memory);
                let bytes = media.data.len();
                let store = Store::open_and_decide(media, bytes, 1, SLOT, &decide);
                let store = store.map_err(|error| error.to_string())?;
                let found = reader.read(store_kills::whole(&store))?;
                let right = found == wanted[1] || found == wanted[0] && noted == 0;
                if right { Ok(()) } else { Err(format!("noted {noted}: {found:?}")) }
            });
            assert_eq!(explored.failed, None, "killed at {}", killed.position());
            states += explored.states;
        });
        println!("{verdict:?}: {states} states, {replayed} replayed");
        assert!(states > 150, "{verdict:?}: {states}");
        assert!(replayed > 0);
    }
}
