//! A store: tables of columns in one memory, its transactions, and how all of it is made and opened.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use heap::{Lane, Purpose};
use pm::{Bad, LineSet, Memory, Off, Range};
use zerocopy::IntoBytes;

use crate::Result;
use crate::array::zeroed;
use crate::claims::Claims;
use crate::clock::Clock;
use crate::collect::GarbageQueue;
use crate::dictionary::Dictionary;
use crate::epoch::Epochs;
use crate::error::ColumnError;
use crate::keys::Keys;
use crate::latch::{Latch, Waiting};
use crate::layout::{
    Constants, Kind, MAGIC, MOST_COLUMNS, MOST_TABLES, Options, SLOT_BYTES, SLOTS_AT, TABLES_AT,
    table_bytes,
};
use crate::placement::Placement;
use crate::rebuild::{BuildableHint, IndexBuild};
use crate::recover;
use crate::replay::Replay;
use crate::scanned::{ScanCounts, Scanned};
use crate::seed::Seed;
use crate::serial::KeptReads;
use crate::session::Session;
use crate::slots::Slots;
use crate::stripes::Stripes;
use crate::table::{Table, store_header, store_placement};
use crate::unfenced::UnfencedCommits;
use crate::watch::WatchedCommits;

/// The number of a transaction, by which it can be continued: it stays the same over crashes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TxId(pub(crate) u64);

impl TxId {
    /// The number itself.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl From<u64> for TxId {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

/// An open transaction that no session has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InFlight {
    /// Its number.
    pub id: TxId,
    /// Its name, or nothing.
    pub name: Vec<u8>,
    /// The number of its statements, which are durable.
    pub statements: u64,
    /// Counts the openings of the store since its last statement.
    pub openings: u64,
}

/// An open transaction that no session has, with the state that continuing it needs.
#[derive(Debug)]
pub(crate) struct DetachedTransaction {
    pub(crate) open: InFlight,
    pub(crate) snapshot: u64,
    pub(crate) reads: KeptReads,
}

/// The state that all sessions share.
#[derive(Debug)]
pub(crate) struct Shared<M: Memory> {
    pub(crate) memory: M,
    pub(crate) at: u64,
    pub(crate) lane: Latch<Lane<M>>,
    pub(crate) slots: Slots<M>,
    pub(crate) tables: Vec<Table<M>>,
    pub(crate) clock: Clock,
    pub(crate) watched: WatchedCommits,
    pub(crate) stripes: Stripes,
    pub(crate) claims: Claims,
    /// Open transactions that no session has, by their marks.
    pub(crate) in_flight: Latch<BTreeMap<u64, DetachedTransaction>>,
    /// The names of open transactions.
    pub(crate) names: Latch<BTreeSet<Vec<u8>>>,
    /// The rows in entries of each transaction that was in flight when the store was opened, by its
    /// mark: table and row, and the statement that made the row.
    pub(crate) recovered: HashMap<u64, HashMap<(u64, u64), u64>>,
    /// The number of the last commit before the store was opened.
    pub(crate) opened: u64,
    /// The structures that had to be built then, in the order in which that is done.
    pub(crate) building: Vec<IndexBuild>,
    pub(crate) buildable: BuildableHint,
    pub(crate) scans: ScanCounts,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) unfenced: UnfencedCommits,
    pub(crate) garbage: Latch<GarbageQueue>,
    /// The latch of the thread that collects.
    pub(crate) collecting: Latch<()>,
}

impl<M: Memory> Shared<M> {
    pub(crate) fn table(&self, number: usize) -> Result<&Table<M>> {
        self.tables.get(number).ok_or(ColumnError::Unfit { what: "a table of this number" })
    }
}

/// A store. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Store<M: Memory>(pub(crate) Arc<Shared<M>>);

/// The work of an opening.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Recovered {
    /// Transactions that had committed and were stamped again.
    pub stamped: u64,
    /// Transactions that are in flight.
    pub in_flight: u64,
}

impl<M: Memory> Store<M> {
    /// Creates a store of tables with these columns, durably. The caller gives [`Self::at`] a name; a crash before
    /// that leaves objects that nothing leads to.
    ///
    /// # Errors
    /// The options or tables are impossible, or the memory is full.
    pub fn create<K: Keys + 'static>(
        lane: Lane<M>,
        options: Options,
        tables: &[&[Kind]],
        keys: &Arc<K>,
    ) -> Result<Self> {
        Self::create_placed(lane, options, tables, keys, Placement::Percent)
    }

    /// The same, with a choice of the structures that lie in persistent memory.
    ///
    /// # Errors
    /// As [`Self::create`]; there is no structure that was chosen.
    pub fn create_placed<K: Keys + 'static>(
        mut lane: Lane<M>,
        options: Options,
        tables: &[&[Kind]],
        keys: &Arc<K>,
        placement: Placement<'_>,
    ) -> Result<Self> {
        options.validate()?;
        let options = options.seeded();
        if tables.is_empty() || tables.len() > MOST_TABLES {
            return Err(ColumnError::Options { what: format!("{} tables", tables.len()) });
        }
        if let Some(kinds) = tables.iter().find(|kinds| !(1..=MOST_COLUMNS).contains(&kinds.len()))
        {
            return Err(ColumnError::Options { what: format!("{} columns", kinds.len()) });
        }
        let columns = tables.iter().map(|kinds| kinds.len()).enumerate();
        let counts: Vec<_> = columns.map(|(table, columns)| (keys.count(table), columns)).collect();
        let placed = placement.forms(&options, &counts)?;
        let memory = lane.memory().clone();
        let bytes = (TABLES_AT + tables.len() as u64 * 8).next_multiple_of(64);
        let at = lane.allocate(bytes, Purpose::Table)?;
        let mut words = vec![0u64; bytes as usize / 8];
        let constants = options.constants(tables.len() as u32);
        let fixed: [u64; 8] = zerocopy::transmute!(constants);
        words[..8].copy_from_slice(&fixed);
        let slots = zeroed(&mut lane, u64::from(options.slots) * SLOT_BYTES)?;
        words[SLOTS_AT as usize / 8] = slots;
        for (number, kinds) in tables.iter().enumerate() {
            let (columns, forms) = (kinds.len() as u64, &placed[number]);
            let table = zeroed(&mut lane, table_bytes(forms, columns))?;
            store_header(&memory, table, kinds);
            store_placement(&memory, table, columns, forms);
            words[TABLES_AT as usize / 8 + number] = table;
            memory.fence();
            lane.mini_persist(table)?;
            lane.mini_commit(&mut LineSet::new());
            lane.fence_flushed();
        }
        lane.mini_persist(at)?;
        lane.mini_persist(slots)?;
        memory.copy(Off::new(at), words.as_bytes());
        let mut lines = LineSet::new();
        lines.add(Range::new(at, bytes));
        lane.mini_commit(&mut lines);
        lane.fence_flushed();
        Ok(Self::open(lane, at, keys, &Waiting::default())?.0)
    }

    /// Opens the store whose master is at `at`, as a crash or its last process left it (P4 4.1). No step
    /// depends on how many rows there are: indexes are built by [`Self::rebuild`], and what is not in
    /// them yet is found by scans.
    ///
    /// # Errors
    /// There is no store, or it is damaged; [`ColumnError::Version`].
    pub fn open<K: Keys + 'static>(
        lane: Lane<M>,
        at: u64,
        keys: &Arc<K>,
        waiting: &Waiting,
    ) -> Result<(Self, Recovered)> {
        let memory = lane.memory().clone();
        let fixed: Constants = memory.read(Off::new(at))?;
        fixed.check_version()?;
        let options = Options {
            slots: fixed.slots,
            first_rows: fixed.first_rows,
            most_rows: fixed.most_rows,
            reserve: fixed.reserve,
            // Each table says where its structures lie.
            durable_percent: 0,
            hashed: false,
            seed: Some(fixed.seed),
        };
        let seed = Seed(fixed.seed);
        let tables = fixed.tables as usize;
        let keys: Arc<dyn Keys> = Arc::<K>::clone(keys);
        let made = options.constants(fixed.tables);
        if fixed.magic != MAGIC
            || fixed.as_bytes() != made.as_bytes()
            || options.validate().is_err()
            || !(1..=MOST_TABLES).contains(&tables)
        {
            return Err(Bad::Damaged { what: "master of a column store", at }.into());
        }
        let word = |within: u64| memory.load(Off::new(at + within), Acquire);
        let slots = Slots::open(&memory, word(SLOTS_AT)?, options.slots, waiting)?;
        let mut found = Vec::with_capacity(tables);
        for number in 0..tables as u64 {
            let place = word(TABLES_AT + number * 8)?;
            let place = (number as usize, place);
            found.push(Table::open(&memory, place, (&options, seed), &keys, waiting)?);
        }
        let mut shared = Shared {
            memory: memory.clone(),
            at,
            lane: Latch::new(lane, waiting),
            slots,
            tables: found,
            clock: Clock::new(0, waiting),
            watched: WatchedCommits::new(waiting),
            stripes: Stripes::new(waiting),
            claims: Claims::new(waiting),
            in_flight: Latch::new(BTreeMap::new(), waiting),
            names: Latch::new(BTreeSet::new(), waiting),
            recovered: HashMap::new(),
            opened: 0,
            building: Vec::new(),
            buildable: BuildableHint::default(),
            scans: ScanCounts::default(),
            epochs: Arc::new(Epochs::new(waiting)),
            unfenced: UnfencedCommits::new(waiting),
            garbage: Latch::new(GarbageQueue::default(), waiting),
            collecting: Latch::new((), waiting),
        };
        let report = recover::run(&mut shared, waiting)?;
        let order = shared.order_of_building().into_iter();
        shared.building = order.map(|structure| IndexBuild::new(structure, waiting)).collect();
        shared.lane.write().recovered();
        Ok((Self(Arc::new(shared)), report))
    }

    /// The columns of each table.
    pub fn tables(&self) -> Vec<Vec<Kind>> {
        let kinds = |table: &Table<M>| table.columns.iter().map(Dictionary::kind).collect();
        self.0.tables.iter().map(kinds).collect()
    }

    /// Counts of what scans have looked at since the store was opened.
    pub fn scanned(&self) -> Scanned {
        self.0.scans.get()
    }

    /// The number of the last published commit.
    pub fn now(&self) -> u64 {
        self.0.clock.now()
    }

    /// The place of the master, by which the store is opened.
    pub fn at(&self) -> u64 {
        self.0.at
    }

    /// A session: one transaction at a time.
    pub fn session(&self) -> Session<M> {
        Session::new(Arc::clone(&self.0))
    }

    /// The open transactions that no session has: cut off by a crash, or detached.
    pub fn in_flight(&self) -> Vec<InFlight> {
        self.0.in_flight.read().values().map(|left| left.open.clone()).collect()
    }

    /// The numbers of those transactions.
    pub fn in_flight_numbers(&self) -> Vec<TxId> {
        self.0.in_flight.read().keys().map(|mark| TxId(*mark)).collect()
    }

    /// Resumes a transaction in flight, after its last statement.
    ///
    /// # Errors
    /// [`ColumnError::NotInFlight`]; [`ColumnError::Forgotten`], if it can only be continued, or rolled back, by
    /// [`Self::replay`].
    pub fn resume(&self, id: TxId) -> Result<Session<M>> {
        let mut in_flight = self.0.in_flight.write();
        let found = in_flight.get(&id.0).ok_or(ColumnError::NotInFlight)?;
        if found.reads == KeptReads::Forgotten {
            return Err(ColumnError::Forgotten);
        }
        let found = in_flight.remove(&id.0).ok_or(ColumnError::NotInFlight)?;
        drop(in_flight);
        Ok(Session::resumed(Arc::clone(&self.0), found, None))
    }

    /// Replays a transaction in flight from its start: statements are compared with those that are done and
    /// skipped, up to the last one, and reads see what they saw.
    ///
    /// # Errors
    /// [`ColumnError::NotInFlight`]; damage.
    pub fn replay(&self, id: TxId) -> Result<Session<M>> {
        // No other session goes on with it meanwhile.
        let found = self.0.in_flight.write().remove(&id.0).ok_or(ColumnError::NotInFlight)?;
        let replay = match Replay::of(&self.0, &found.open) {
            Ok(replay) => replay,
            Err(error) => {
                self.0.in_flight.write().insert(id.0, found);
                return Err(error);
            }
        };
        Ok(Session::resumed(Arc::clone(&self.0), found, Some(replay)))
    }
}
