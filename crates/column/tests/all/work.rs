//! Random statements, and the model that says what they do.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use column::{
    ColumnError, Field, KeyRange, Kind, Options, Part, Placement, Session, Store, Structure, Value,
    Waiting,
};
use heap::{Heap, HeapOptions, Lane, Purpose};
use pm::{Memory, Off, Range, Site};
use rand::Rng;
use rand::rngs::SmallRng;
use sim::{Event, Recording, Replay, Trace};

use crate::keyed::Keyed;

/// Rows by table and key.
pub(crate) type Model = BTreeMap<(usize, Field), Vec<Field>>;

/// A table whose keys are words, and one whose keys are bytes.
pub(crate) const TABLES: [&[Kind]; 2] =
    [&[Kind::Word, Kind::Word, Kind::Bytes], &[Kind::Bytes, Kind::Bytes, Kind::Word, Kind::Word]];

/// The seed of stores that do the same each time.
pub(crate) const SEED: u64 = 0x5eed;

/// The parameters of small stores, in which everything happens soon.
pub(crate) fn small() -> Options {
    Options {
        slots: 4,
        first_rows: 64,
        most_rows: 128,
        reserve: 16,
        durable_percent: 0,
        hashed: false,
        seed: Some(SEED),
    }
}

/// The same, with all indexes in persistent memory.
pub(crate) fn durable() -> Options {
    Options { durable_percent: 100, ..small() }
}

/// The same, those of dictionaries as hash tables.
pub(crate) fn hashed() -> Options {
    Options { hashed: true, ..durable() }
}

/// The same, with a part of them, so that in each table some structures are built and others are there.
pub(crate) fn mixed() -> Options {
    Options { durable_percent: CROSSED_PERCENT, ..small() }
}

/// The share of indexes in persistent memory that stands for [`CROSSED`].
const CROSSED_PERCENT: u32 = 45;
/// The first table has no index of the primary key there, and one of the second key; the second one the other way round.
const CROSSED: [Structure; 5] = [
    Structure { table: 0, part: Part::Keys(1) },
    Structure { table: 0, part: Part::Dictionary(1) },
    Structure { table: 1, part: Part::Keys(0) },
    Structure { table: 1, part: Part::Dictionary(0) },
    Structure { table: 1, part: Part::Dictionary(2) },
];

fn keys() -> Arc<Keyed> {
    Arc::new(Keyed { unique: false })
}

pub(crate) const NAME: &str = "column";
const CHUNK_BYTES: u64 = 16 << 10;
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// A store of small parts over a memory, with its name.
pub(crate) fn create<M: Memory>(memory: M, options: Options) -> Store<M> {
    let heap = Heap::format(memory, HeapOptions { chunk_bytes: CHUNK_BYTES, lanes: 1 }).unwrap();
    let mut lane = heap.lane(0);
    scribble(&mut lane);
    let placement = match options.durable_percent {
        CROSSED_PERCENT => Placement::Chosen(&CROSSED),
        _ => Placement::Percent,
    };
    let store = Store::create_placed(lane, options, &TABLES, &keys(), placement).unwrap();
    heap.set_root(NAME, store.at()).unwrap();
    store
}

/// Leaves free slots of all sizes that are full of what is no zero, durably. Slots are handed out in turn, so
/// two chunks of each size have no other.
fn scribble<M: Memory>(lane: &mut Lane<M>) {
    for step in 0..12 {
        let bytes = 64 << (step / 2);
        let bytes = bytes + bytes / 2 * (step % 2);
        let mut objects = vec![lane.allocate(bytes, Purpose::Table).unwrap()];
        let mut most = usize::MAX;
        while objects.len() < most {
            let next = lane.allocate(bytes, Purpose::Table).unwrap();
            if most == usize::MAX && next.abs_diff(objects[0]) >= CHUNK_BYTES {
                most = 2 * objects.len();
            }
            objects.push(next);
        }
        for object in objects {
            lane.memory().copy(Off::new(object), &vec![0x5a; bytes as usize]);
            lane.memory().flush(Range::new(object, bytes));
            lane.memory().fence();
            lane.release(object);
        }
    }
}

/// The store that a crash has left, its indexes not built, and its heap.
pub(crate) fn open<M: Memory>(memory: M, waiting: &Waiting) -> Result<(Store<M>, Heap<M>), String> {
    let heap = Heap::open(memory).map_err(|error| error.to_string())?;
    let at = heap.root(NAME).map_err(|error| error.to_string())?.ok_or("no name")?;
    let store =
        Store::open(heap.lane(0), at, &keys(), waiting).map_err(|error| error.to_string())?;
    Ok((store.0, heap))
}

/// A statement.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Insert(usize, Vec<Field>),
    Update(usize, Field, Vec<(usize, Field)>),
    Delete(usize, Field),
}

fn field(random: &mut SmallRng, kind: Kind) -> Field {
    match (kind, random.random_range(0..20)) {
        (_, 0) => Field::Null,
        (Kind::Word, 1) => Field::Word(0),
        (Kind::Word, _) => Field::Word(random.random_range(1..60) * 1_000_003),
        (Kind::Bytes, 1) => Field::Bytes(Vec::new()),
        (Kind::Bytes, 2) => Field::Bytes(vec![random.random(); random.random_range(257..900)]),
        (Kind::Bytes, _) => {
            let first: u8 = random.random_range(0..40);
            Field::Bytes((0..1 + first % 30).map(|at| first.wrapping_add(at)).collect())
        }
    }
}

pub(crate) fn key(kind: Kind, number: u64) -> Field {
    match kind {
        Kind::Word => Field::Word(number),
        Kind::Bytes => Field::Bytes(format!("key {number}").into_bytes()),
    }
}

impl Statement {
    /// A random statement on one of `keys` keys of each table.
    pub(crate) fn random(random: &mut SmallRng, keys: u64) -> Self {
        let table = random.random_range(0..TABLES.len());
        let kinds = TABLES[table];
        let key = key(kinds[0], random.random_range(0..keys));
        match random.random_range(0..10) {
            0..4 => {
                let rest = kinds[1..].iter().map(|kind| field(random, *kind));
                Self::Insert(table, std::iter::once(key).chain(rest).collect())
            }
            4..8 => {
                let column = random.random_range(1..kinds.len());
                let mut changes = vec![(column, field(random, kinds[column]))];
                if random.random_range(0..3) == 0 && column + 1 < kinds.len() {
                    changes.push((column + 1, field(random, kinds[column + 1])));
                }
                Self::Update(table, key, changes)
            }
            _ => Self::Delete(table, key),
        }
    }

    /// Whether the statement is about a row that is there.
    pub(crate) fn at(&self) -> (usize, Field) {
        match self {
            Self::Insert(table, row) => (*table, row[0].clone()),
            Self::Update(table, key, _) | Self::Delete(table, key) => (*table, key.clone()),
        }
    }

    /// Runs the statement.
    pub(crate) fn run<M: Memory>(&self, session: &mut Session<M>) -> Result<(), ColumnError> {
        match self {
            Self::Insert(table, row) => {
                let row: Vec<Value<'_>> = row.iter().map(Field::value).collect();
                session.insert(*table, &row)
            }
            Self::Update(table, key, changes) => {
                session.update(*table, key.value(), &values(changes))
            }
            Self::Delete(table, key) => session.delete(*table, key.value()),
        }
    }

    /// Does the same to the model; returns whether it can be done.
    pub(crate) fn model(&self, model: &mut Model) -> bool {
        let at = self.at();
        match self {
            Self::Insert(_, row) if !model.contains_key(&at) => {
                model.insert(at, row.clone());
                true
            }
            Self::Insert(..) => false,
            Self::Update(_, _, changes) => {
                let Some(row) = model.get_mut(&at) else { return false };
                for (column, value) in changes {
                    row[*column] = value.clone();
                }
                true
            }
            Self::Delete(..) => model.remove(&at).is_some(),
        }
    }

    /// Runs the statement, and checks that the model says the same. Returns whether it did something.
    pub(crate) fn both<M: Memory>(
        &self,
        session: &mut Session<M>,
        model: &mut Model,
    ) -> Result<bool, String> {
        match (self.run(session), self.model(model)) {
            (Ok(()), true) => Ok(true),
            (Err(ColumnError::DuplicateKey), false) if matches!(self, Self::Insert(..)) => {
                Ok(false)
            }
            (Err(ColumnError::MissingKey), false) if !matches!(self, Self::Insert(..)) => Ok(false),
            (found, can) => Err(format!("{self:?}: {found:?}, {can}")),
        }
    }
}

pub(crate) fn values(changes: &[(usize, Field)]) -> Vec<(usize, Value<'_>)> {
    changes.iter().map(|(column, value)| (*column, value.value())).collect()
}

/// The rows of a table in the order of an index.
fn scanned<M: Memory>(
    session: &Session<M>,
    (table, index): (usize, usize),
    backward: bool,
) -> Result<Vec<Vec<Field>>, String> {
    let mut rows = Vec::new();
    let range = KeyRange { backward, ..KeyRange::ALL };
    let visit = |row| {
        rows.push(row);
        ControlFlow::Continue(())
    };
    session.scan(table, index, range, None, visit).map_err(text)?;
    Ok(rows)
}

/// All that a session sees, by scans of both indexes.
pub(crate) fn contents<M: Memory>(session: &Session<M>) -> Result<Model, String> {
    let mut found = Model::new();
    for table in 0..TABLES.len() {
        let rows = scanned(session, (table, 0), false)?;
        if let Some(pair) = rows.windows(2).find(|pair| pair[0][0] >= pair[1][0]) {
            return Err(format!("{:?} comes after {:?}", pair[1], pair[0]));
        }
        let mut by_value = rows.clone();
        by_value.sort_by_key(|row| std::cmp::Reverse((row[1].clone(), row[0].clone())));
        if scanned(session, (table, 1), true)? != by_value {
            return Err(format!("the secondary index of table {table} has not {by_value:?}"));
        }
        found.extend(rows.into_iter().map(|row| ((table, row[0].clone()), row)));
    }
    Ok(found)
}

/// Builds all indexes.
pub(crate) fn rebuild<M: Memory>(store: &Store<M>) -> Result<(), String> {
    while store.rebuild(50).map_err(|error| error.to_string())? {}
    Ok(())
}

pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The memory that a crash has left.
pub(crate) fn from_image(image: &[u8], limit: u64) -> Result<Recording, String> {
    let memory = Recording::pool_from_image(image, limit).map_err(text)?;
    memory.mark_open().map_err(text)?;
    Ok(memory)
}

/// Checks all of a store, and that the heap keeps nothing else.
pub(crate) fn leaks<M: Memory>(store: &Store<M>, heap: &Heap<M>) -> Result<(), String> {
    let census = store.check().map_err(text)?;
    let mut persisted = 0;
    heap.for_each_persisted(|_, _| persisted += 1).map_err(text)?;
    if persisted == census.objects {
        Ok(())
    } else {
        Err(format!("{persisted} objects, {census:?}"))
    }
}

/// Looks at every crash point; stops at the first violation.
pub(crate) fn explore(
    mut replay: Replay<'_>,
    bound: u64,
    mut check: impl FnMut(&[u8], u64) -> Result<(), String>,
) -> (u64, u64, Option<String>) {
    let (mut points, mut states, mut failed) = (0, 0, None);
    while failed.is_none()
        && let Some(point) = replay.next_point()
    {
        points += 1;
        let (position, noted) = (point.position, point.last_note.unwrap_or(0));
        states += point
            .for_each_state(bound, 11, |image| {
                if failed.is_none()
                    && let Err(why) = check(image, noted)
                {
                    failed = Some(format!("event {position}: {why}"));
                }
            })
            .visited;
    }
    (points, states, failed)
}

/// The same trace as if the stores and copies of a site never reached the medium.
fn without_stores_of(trace: &Trace, site: Site) -> Trace {
    let mut trace = trace.clone();
    trace.events.retain(|event| {
        let stores = matches!(event.event, Event::Store { .. } | Event::Copy { .. });
        !(stores && event.site == site)
    });
    trace
}

/// The sites of the crate that flush, fence or store, each with its line of the source, and whether something
/// fails without it. Those with a reason are left out. A state that has passed once is not looked at
/// again: most are there with the site and without it.
pub(crate) fn noticed_sites(
    trace: &Trace,
    bound: u64,
    has_reason: impl Fn(&str, &str) -> bool,
    check: impl Fn(&[u8], u64) -> Result<(), String>,
) -> Vec<((String, String), bool)> {
    let mut passed = HashSet::new();
    let mut passes = |trace: &Trace, from: usize| {
        let mut replay = Replay::new(trace);
        let mut failed = false;
        while !failed && let Some(point) = replay.next_point() {
            let noted = point.last_note.unwrap_or(0);
            // What comes before the first event of a site is as it is with it.
            if point.position <= from {
                continue;
            }
            point.for_each_numbered_state(bound, 11, |image, number| {
                if !failed && !passed.contains(&(noted, number)) {
                    failed = check(image, noted).is_err();
                    passed.insert((noted, number));
                }
            });
        }
        !failed
    };
    assert!(passes(trace, 0));
    let mut sites = BTreeMap::new();
    for (number, event) in trace.events.iter().enumerate() {
        let what = match event.event {
            Event::Flush { .. } => "flush",
            Event::Fence => "fence",
            Event::Store { .. } | Event::Copy { .. } => "store",
            _ => continue,
        };
        if event.site.file().contains("column/src") {
            let site = (event.site.file(), event.site.line(), what);
            sites.entry(site).or_insert((event.site, number));
        }
    }
    let mut found = Vec::new();
    for ((file, line, what), (site, first)) in sites {
        let edited = match what {
            "fence" => trace.without_fences_of(site),
            "flush" => trace.without_flushes_of(site),
            _ => without_stores_of(trace, site),
        };
        let name = file.rsplit('/').next().unwrap();
        let source = std::fs::read_to_string(format!("{SOURCES}/{name}")).unwrap();
        let text = source.lines().nth(line as usize - 1).unwrap().trim().to_owned();
        let place = format!("{what} at {name}:{line}");
        if !has_reason(&place, &text) {
            found.push(((place, text), !passes(&edited, first)));
        }
    }
    found
}
