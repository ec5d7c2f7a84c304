//! Power cuts in the middle of TPC-C, over recording memory.
//!
//! Fault model (`docs/format/crash-model.md`): of every line a prefix of its stores has persisted,
//! lines are independent until flushed and fenced. In each state that a cut can leave, the database
//! must open, hold exactly what the acknowledged transactions left or that and the one under way,
//! and all twelve consistency conditions must be true.

use perdura::recording::{Recording, RecordingFiles, Replay, Trace, read_header};
use perdura::{Database, EngineKind, Error, Media, Options, Recorded};
use workloads::contents;
use workloads::tpcc::{self, Kind, Spec, Terminal, Workload};

const LIMIT: u64 = 8 << 20;
/// Places at which the power is cut, spread over all there are.
const POINTS: usize = 40;
/// States that are looked at where the power is cut.
const STATES: u64 = 4;

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

/// Transactions, and the digest of the contents after each of them.
struct Story {
    spec: Spec,
    trace: Trace,
    digests: Vec<u64>,
}

fn digest(db: &Database<Recorded>) -> Result<u64, Error> {
    Ok(contents(db)?.digest())
}

fn story(engine: EngineKind) -> Story {
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let media = Media::recorded(memory.clone(), RecordingFiles::new());
    let options = Options::new().engine(engine).chunk_bytes(16 << 10);
    let db = Database::create_on(media, &tpcc::schema(), &options).unwrap();
    let workload = workload();
    let spec = workload.spec().clone();
    tpcc::load(&db, &spec, 1, &()).unwrap();
    let inputs = workload.inputs(0);
    let mut digests = vec![digest(&db).unwrap()];
    memory.start();
    for index in 0..inputs.len() {
        // It owns the partition: reading needs it back.
        let mut terminal = Terminal::new(&db, &spec, 0).unwrap();
        terminal.run(inputs, index).unwrap();
        drop(terminal);
        digests.push(digest(&db).unwrap());
        memory.note(digests.len() as u64 - 1);
    }
    let trace = memory.stop();
    db.abandon();
    Story { spec, trace, digests }
}

/// What is wrong with a state, if anything.
fn verdict(image: &[u8], story: &Story, acknowledged: usize) -> Result<(), String> {
    let said = |error: Error| error.to_string();
    let whole = Recording::from_image(image, LIMIT).unwrap();
    let (header, _) = read_header(&whole).map_err(|error| error.to_string())?;
    let memory = Recording::from_image(&image[..header.size as usize], LIMIT).unwrap();
    let media = Media::recorded(memory, RecordingFiles::new());
    let db = Database::open_on(media, &Options::new()).map_err(said)?;
    let looked = look(&db, story, acknowledged);
    db.abandon();
    looked
}

fn look(db: &Database<Recorded>, story: &Story, acknowledged: usize) -> Result<(), String> {
    let said = |error: Error| error.to_string();
    let found = digest(db).map_err(said)?;
    if !story.digests[acknowledged..].iter().take(2).any(|digest| *digest == found) {
        return Err(format!("not what {acknowledged} transactions leave, or one more"));
    }
    let conditions = tpcc::check(db, &story.spec).map_err(said)?;
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
/// looked at.
fn explore(story: &Story, trace: &Trace, stride: usize) -> (Option<String>, u64) {
    let mut replay = Replay::new(trace);
    let (mut wrong, mut states, mut points) = (None, 0, 0);
    while wrong.is_none()
        && let Some(point) = replay.next_point()
    {
        points += 1;
        if points % stride != 0 {
            continue;
        }
        let (position, acknowledged) = (point.position, point.last_note.unwrap_or(0) as usize);
        let visited = point.for_each_state(STATES, 5, |image| {
            if wrong.is_none() {
                let found = verdict(image, story, acknowledged);
                wrong = found.err().map(|why| format!("event {position}: {why}"));
            }
        });
        states += visited.visited;
    }
    (wrong, states)
}

fn engines_in_memory() -> impl Iterator<Item = EngineKind> {
    EngineKind::ALL.into_iter().filter(|engine| !engine.uses_files())
}

#[test]
fn every_condition_holds_after_a_power_cut() {
    for engine in engines_in_memory() {
        let story = story(engine);
        let mut replay = Replay::new(&story.trace);
        let points = std::iter::from_fn(|| replay.next_point().map(|_| ())).count();
        let (wrong, states) = explore(&story, &story.trace, (points / POINTS).max(1));
        println!("{engine}: {points} points, {states} states");
        assert_eq!(wrong, None, "{engine}");
        assert!(states > 100, "{engine}: {states} states");
    }
}

/// Without its fences, or without its flushes, an engine must fail the test above: else that is
/// blind.
#[test]
fn the_crash_test_fails_without_fences_and_without_flushes() {
    for engine in engines_in_memory() {
        let story = story(engine);
        let trace = &story.trace;
        let mut without_fences = trace.clone();
        for site in trace.fence_sites() {
            without_fences = without_fences.without_fences_of(site);
        }
        let mut without_flushes = trace.clone();
        for site in trace.flush_sites() {
            without_flushes = without_flushes.without_flushes_of(site);
        }
        for (name, trace) in [("fences", without_fences), ("flushes", without_flushes)] {
            let (wrong, _) = explore(&story, &trace, 1);
            println!("{engine} without {name}: {wrong:?}");
            assert!(wrong.is_some(), "{engine} without {name}");
        }
    }
}
