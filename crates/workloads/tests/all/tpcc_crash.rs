//! Power cuts in the middle of TPC-C, over recording memory and recording files.
//!
//! Fault model (`docs/format/crash-model.md`). In a pool: of every line a prefix of its stores has
//! persisted, lines are independent until flushed and fenced. In files: each sector that was written
//! since the last sync may or may not have persisted. In each state that a cut can leave, the
//! database must open, hold exactly what the acknowledged transactions left or that and the one
//! under way, and all twelve consistency conditions must be true; cut off again in the opening, too.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use faults::points::at_all;
use perdura::{Database, DurableIn, EngineKind, Error, Media, Options};
use sim::{
    CombinedImage, CombinedReplay, CombinedTrace, DiskReplay, DiskTrace, Recorded, Recording,
    RecordingFiles, Replay, Trace,
};
use workloads::contents;
use workloads::tpcc::{self, Kind, Spec, Terminal, Workload};

const LIMIT: u64 = 8 << 20;
/// Returns at how many places the power is cut, spread over all there are: 24, or 40 with `PERDURA_POINTS=all`.
fn places() -> usize {
    if at_all() { 40 } else { 24 }
}
/// States that are looked at where the power is cut.
const STATES: u64 = 4;

fn options(engine: EngineKind) -> Options {
    Options::new()
        .engine(engine)
        .chunk_bytes(16 << 10)
        .tune("checkpoint_bytes", 64 << 10)
        .tune("wal_reserve_bytes", 16 << 10)
        .tune("memtable_bytes", 16 << 10)
        .tune("growth", 2)
        .tune("block_bytes", 1 << 10)
        .tune("cache_bytes", 256 << 10)
        .tune("buffer_bytes", 128 << 10)
        .tune("log_bytes", 512 << 10)
}

/// The first seed whose transactions are of every kind that changes something, with an order that
/// is rolled back.
fn workload() -> Workload {
    let generate = |seed| {
        let small = Spec { items: 20, customers: 10, transactions: 40, ..Spec::default() };
        Workload::generate(&Spec { seed, ..small }).unwrap()
    };
    let has_all = |workload: &Workload| {
        let inputs = workload.inputs(0).all();
        let has = |kind| inputs.iter().any(|input| input.kind() == kind);
        let rolled_back = inputs.iter().any(tpcc::Input::is_rolled_back);
        rolled_back && has(Kind::NewOrder) && has(Kind::Payment) && has(Kind::Delivery)
    };
    (1..).map(generate).find(has_all).expect("one in a few has")
}

/// The recording medium of a database: the pool, or for an engine with files those, or both.
#[derive(Clone)]
struct Medium {
    memory: Recording,
    files: RecordingFiles,
    durable_in: DurableIn,
}

/// The record of a run.
enum History {
    Pool(Trace),
    Files { trace: DiskTrace, pool: Vec<u8> },
    Both(CombinedTrace),
}

/// The remains after a cut.
enum Image<'a> {
    Pool(&'a [u8]),
    Files { files: &'a BTreeMap<String, Vec<u8>>, pool: &'a [u8] },
    Both(&'a CombinedImage),
}

impl Medium {
    fn new(engine: EngineKind) -> Self {
        let memory = Recording::pool(64 << 10, LIMIT).unwrap();
        let files = memory.files(BTreeMap::new());
        Self { memory, files, durable_in: engine.traits().durable_in }
    }

    /// Returns a medium with what a cut has left, recording what is done to it.
    ///
    /// # Errors
    /// The pool's header is none.
    fn after(image: &Image<'_>) -> std::io::Result<Self> {
        let (pool, files, durable_in) = match image {
            Image::Pool(pool) => (*pool, BTreeMap::new(), DurableIn::Pool),
            Image::Files { files, pool } => (*pool, (*files).clone(), DurableIn::Files),
            Image::Both(both) => (&both.memory[..], both.files.clone(), DurableIn::Both),
        };
        let memory = Recording::pool_from_image(pool, LIMIT)?;
        let files = memory.files(files);
        let medium = Self { memory, files, durable_in };
        medium.start();
        medium.memory.mark_open().map_err(|bad| std::io::Error::other(format!("{bad:?}")))?;
        Ok(medium)
    }

    fn media(&self) -> Media<Recorded> {
        faults::recorded(self.memory.clone(), self.files.clone())
    }

    fn start(&self) {
        if self.durable_in != DurableIn::Files {
            self.memory.start();
        }
        if self.durable_in != DurableIn::Pool {
            self.files.start();
        }
    }

    fn note(&self, note: u64) {
        if self.durable_in == DurableIn::Files {
            self.files.note(note);
        } else {
            self.memory.note(note);
        }
    }

    fn stop(&self) -> History {
        match self.durable_in {
            DurableIn::Pool => History::Pool(self.memory.stop()),
            DurableIn::Files => {
                History::Files { trace: self.files.stop(), pool: self.memory.contents() }
            }
            DurableIn::Both => History::Both(CombinedTrace {
                memory: self.memory.stop(),
                files: self.files.stop(),
            }),
        }
    }
}

impl History {
    /// Calls `visit` with up to [`STATES`] states at every `stride`th crash point, the event before
    /// it, and how many transactions were acknowledged there. Returns how many points there are.
    fn walk(
        &self,
        stride: usize,
        visit: &mut dyn FnMut(&Image<'_>, usize, usize) -> ControlFlow<()>,
    ) -> usize {
        let (mut points, mut flow) = (0, ControlFlow::Continue(()));
        match self {
            Self::Pool(trace) => {
                let mut replay = Replay::new(trace);
                while flow.is_continue()
                    && let Some(point) = replay.next_point()
                {
                    points += 1;
                    if points % stride == 0 {
                        let at = (point.position, point.last_note.unwrap_or(0) as usize);
                        point.for_each_state(STATES, 5, |pool| {
                            if flow.is_continue() {
                                flow = visit(&Image::Pool(pool), at.0, at.1);
                            }
                        });
                    }
                }
            }
            Self::Files { trace, pool } => {
                let mut replay = DiskReplay::new(trace);
                while flow.is_continue()
                    && let Some(point) = replay.next_point()
                {
                    points += 1;
                    if points % stride == 0 {
                        let at = (point.position, point.last_note.unwrap_or(0) as usize);
                        point.for_each_state(STATES, 5, |files| {
                            if flow.is_continue() {
                                flow = visit(&Image::Files { files, pool }, at.0, at.1);
                            }
                        });
                    }
                }
            }
            Self::Both(trace) => {
                let mut replay = CombinedReplay::new(trace);
                while flow.is_continue() {
                    points += 1;
                    if points % stride > 0 {
                        if replay.pass_point() {
                            continue;
                        }
                        points -= 1;
                        break;
                    }
                    let Some(point) = replay.next_point() else {
                        points -= 1;
                        break;
                    };
                    let at = (point.position, point.last_note.unwrap_or(0) as usize);
                    point.for_each_state(STATES, 5, |both| {
                        if flow.is_continue() {
                            flow = visit(&Image::Both(both), at.0, at.1);
                        }
                    });
                }
            }
        }
        points
    }

    fn points(&self) -> usize {
        self.walk(usize::MAX, &mut |_, _, _| ControlFlow::Continue(()))
    }

    /// Returns the run as if the code did not fence, or did not flush; files are synced for both.
    fn without(&self, fences: bool) -> Self {
        let of_memory = |trace: &Trace| {
            let sites = if fences { trace.fence_sites() } else { trace.flush_sites() };
            let drop_one = |trace: Trace, site| match fences {
                true => trace.without_fences_of(site),
                false => trace.without_flushes_of(site),
            };
            sites.into_iter().fold(trace.clone(), drop_one)
        };
        match self {
            Self::Pool(trace) => Self::Pool(of_memory(trace)),
            Self::Files { trace, pool } => {
                Self::Files { trace: without_syncs(trace), pool: pool.clone() }
            }
            Self::Both(CombinedTrace { memory, files }) => {
                Self::Both(CombinedTrace { memory: of_memory(memory), files: without_syncs(files) })
            }
        }
    }
}

fn without_syncs(trace: &DiskTrace) -> DiskTrace {
    let sites = trace.sync_sites().into_iter();
    sites.fold(trace.clone(), |trace, site| trace.without_syncs_of(site))
}

/// Transactions, and the digest of the contents after each of them.
struct Story {
    engine: EngineKind,
    spec: Spec,
    trace: History,
    digests: Vec<u64>,
}

fn digest(db: &Database<Recorded>) -> Result<u64, Error> {
    Ok(contents(db)?.digest())
}

fn story(engine: EngineKind) -> Story {
    let medium = Medium::new(engine);
    let db = Database::create_on(medium.media(), &tpcc::schema(), &options(engine)).unwrap();
    let workload = workload();
    let spec = workload.spec().clone();
    tpcc::load(&db, &spec, 1, &()).unwrap();
    let inputs = workload.inputs(0);
    let mut digests = vec![digest(&db).unwrap()];
    medium.start();
    for index in 0..inputs.len() {
        // It owns the partition: reading needs it back.
        let mut terminal = Terminal::new(&db, &spec, 0).unwrap();
        terminal.run(inputs, index).unwrap();
        drop(terminal);
        digests.push(digest(&db).unwrap());
        medium.note(digests.len() as u64 - 1);
    }
    let trace = medium.stop();
    db.abandon();
    Story { engine, spec, trace, digests }
}

impl Story {
    /// Returns what is wrong with a state, if anything; and what opening it has done.
    fn verdict(&self, image: &Image<'_>, acknowledged: usize) -> Result<History, String> {
        let medium = Medium::after(image).map_err(|error| error.to_string())?;
        let opened = Database::open_on(medium.media(), &options(self.engine));
        let db = opened.map_err(|error| error.to_string())?;
        let looked = self.look(&db, acknowledged);
        let opening = medium.stop();
        db.abandon();
        looked.map(|()| opening)
    }

    fn look(&self, db: &Database<Recorded>, acknowledged: usize) -> Result<(), String> {
        let said = |error: Error| error.to_string();
        let found = digest(db).map_err(said)?;
        if !self.digests[acknowledged..].iter().take(2).any(|digest| *digest == found) {
            return Err(format!("not what {acknowledged} transactions leave, or one more"));
        }
        let conditions = tpcc::check(db, &self.spec).map_err(said)?;
        if let Some(wrong) = conditions.iter().find(|condition| !condition.holds()) {
            return Err(format!("{wrong:?}"));
        }
        let report = db.check().map_err(said)?;
        match (report.leaked, report.dangling) {
            (0, 0) => Ok(()),
            _ => Err(format!("the allocator disagrees: {report:?}")),
        }
    }

    /// The first violation that is found at every `stride`th crash point, and how many states were
    /// looked at. From every `again`th state the opening is cut off as well.
    fn explore(&self, trace: &History, stride: usize, again: u64) -> (Option<String>, u64) {
        let (mut wrong, mut states) = (None, 0);
        trace.walk(stride, &mut |image, position, acknowledged| {
            states += 1;
            let at = |why| format!("event {position}: {why}");
            let opening = match self.verdict(image, acknowledged) {
                Ok(opening) => opening,
                Err(why) => {
                    wrong = Some(at(why));
                    return ControlFlow::Break(());
                }
            };
            if states % again == 0 {
                let stride = (opening.points() / 6).max(1);
                opening.walk(
                    stride,
                    &mut |image, within, _| match self.verdict(image, acknowledged) {
                        Ok(_) => ControlFlow::Continue(()),
                        Err(why) => {
                            wrong = Some(at(format!("opening, event {within}: {why}")));
                            ControlFlow::Break(())
                        }
                    },
                );
            }
            if wrong.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (wrong, states)
    }
}

// A test each, so that they run side by side.
#[test]
fn conditions_of_nvm_inp_hold_after_a_power_cut() {
    conditions_hold([EngineKind::NvmInp], 3);
}

#[test]
fn conditions_of_nv_disk_hold_after_a_power_cut() {
    conditions_hold([EngineKind::NvDisk], 3);
}

#[test]
fn conditions_of_sofort_hold_after_a_power_cut() {
    conditions_hold([EngineKind::Sofort], 6);
}

#[test]
fn conditions_of_fast_hold_after_a_power_cut() {
    conditions_hold([EngineKind::Fast], 1);
}

/// Cuts the power at one in so many of the places.
pub(crate) fn conditions_hold(engines: impl IntoIterator<Item = EngineKind>, one_in: usize) {
    for engine in engines {
        let story = story(engine);
        let points = story.trace.points();
        // Files have few points with many states each, and a restart of paged engines makes a buffer pool.
        let wanted = match engine {
            EngineKind::NvDisk | EngineKind::NvLoggingFoi | EngineKind::NvLoggingFoc => {
                places() / 4
            }
            EngineKind::Log | EngineKind::NvmCow => places() / 4,
            // Their crate looks at each store.
            engine if EngineKind::P3.contains(&engine) => places() / 5,
            _ if engine.traits().needs_files() => places() / 2,
            _ => places(),
        };
        let (wrong, states) = story.explore(&story.trace, (points * one_in / wanted).max(1), 13);
        println!("{engine}: {points} points, {states} states");
        assert_eq!(wrong, None, "{engine}");
        assert!(states * one_in as u64 > 25, "{engine}: {states} states");
    }
}

/// Without its fences and flushes, or without its syncs, an engine must fail the test above: else
/// that is blind.
#[test]
fn crash_test_fails_without_fences_flushes_or_syncs() {
    fails_without_fences_flushes_or_syncs([EngineKind::NvmInp, EngineKind::Inp]);
}

pub(crate) fn fails_without_fences_flushes_or_syncs(engines: impl IntoIterator<Item = EngineKind>) {
    for engine in engines {
        let story = story(engine);
        for (name, fences) in [("fences or syncs", true), ("flushes or syncs", false)] {
            let (wrong, _) = story.explore(&story.trace.without(fences), 1, u64::MAX);
            println!("{engine} without {name}: {wrong:?}");
            assert!(wrong.is_some(), "{engine} without {name}");
        }
    }
}
