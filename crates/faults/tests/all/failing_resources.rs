//! Every growth of the pool fails in turn (the pool is full), and every call that changes a file
//! (the disk is full): `faults::failing` says what has to hold. Of all engines, in a run that has
//! everything; each point is visited in four ways: only this one fails, or it and all after it
//! until the error has been borne; and the transaction aborts, or goes on.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::common::{Explained, unexplained};
use crate::points::{at_calls, one_in};
use faults::failing::{Place, Run};
use perdura::{Database, Domain, DurableIn, EngineKind, Error, Media, Options};
use pm::{Access, Pool, PoolOptions};
use sim::{Recorded, Recording, RecordingFiles};

const LIMIT: u64 = 16 << 20;

/// The resource that fails.
#[derive(Clone, Copy, Debug)]
enum Resource {
    Growth,
    Files { once: bool },
}

struct OnRecord<'a> {
    run: &'a Run,
    medium: RefCell<(Recording, RecordingFiles)>,
    created: std::cell::Cell<bool>,
}

impl<'a> OnRecord<'a> {
    fn new(run: &'a Run) -> Self {
        Self { run, medium: RefCell::new(Self::fresh()), created: false.into() }
    }

    fn fresh() -> (Recording, RecordingFiles) {
        (Recording::pool(8 << 10, LIMIT).unwrap(), RecordingFiles::new())
    }

    fn fail_after(&self, resource: Resource, times: u64) {
        let (memory, files) = &*self.medium.borrow();
        match resource {
            Resource::Growth => memory.fail_growth_after(Some(times)),
            Resource::Files { once: true } => files.fail_once_after(times),
            Resource::Files { once: false } => files.fail_after(Some(times)),
        }
    }

    fn left(&self, resource: Resource) -> u64 {
        let (memory, files) = &*self.medium.borrow();
        match resource {
            Resource::Growth => memory.growths_left().unwrap(),
            Resource::Files { .. } => files.calls_left().unwrap(),
        }
    }
}

impl Place for OnRecord<'_> {
    type World = Recorded;

    fn create(&self) -> Result<Database<Recorded>, Error> {
        if self.created.replace(true) {
            // What a failed creation leaves of a pool and of files is removed with them.
            *self.medium.borrow_mut() = Self::fresh();
        }
        let (memory, files) = self.medium.borrow().clone();
        Database::create_on(
            faults::recorded(memory, files),
            &faults::items::schema(),
            &self.run.options,
        )
    }

    fn open(&self) -> Result<Database<Recorded>, Error> {
        let (memory, files) = self.medium.borrow().clone();
        memory.mark_open()?;
        Database::open_on(faults::recorded(memory, files), &self.run.options)
    }

    fn is_empty(&self) -> bool {
        true
    }

    fn mend(&self) {
        let (memory, files) = &*self.medium.borrow();
        memory.fail_growth_after(None);
        files.fail_after(None);
    }
}

/// Visits one in so many points. Returns how many there are, and which failures were not reported:
/// no error, and nothing in the statistics.
fn some_fail_in_turn(engine: EngineKind, resource: Resource, one_in: usize) -> (u64, Vec<String>) {
    const MANY: u64 = 1 << 40;
    let mut run = Run::new(engine);
    let place = OnRecord::new(&run);
    place.fail_after(resource, MANY);
    // Nothing fails until the very end.
    let counted = std::cell::Cell::new(0);
    let count = Counting { place: &place, resource, counted: &counted };
    let whole = run.go(&count).unwrap();
    assert_eq!((whole.errors, whole.reopened), (0, 0), "{engine}");
    let points = MANY - counted.get();
    let (mut errors, mut reopened, mut unheard) = (0, 0, BTreeSet::new());
    for (point, goes_on) in
        (0..points).step_by(one_in).flat_map(|point| [(point, false), (point, true)])
    {
        run.goes_on = goes_on;
        let place = OnRecord::new(&run);
        place.fail_after(resource, point);
        match run.go(&place) {
            Ok(ran) => {
                errors += ran.errors;
                reopened += ran.reopened;
                if ran.errors + ran.failed_steps == 0 {
                    let site = place.medium.borrow().1.refused();
                    unheard.insert(match site {
                        Some(site) => format!("{}:{}", site.file(), site.line()),
                        None => format!("growth {point}"),
                    });
                }
            }
            Err(what) => panic!("{engine}, {resource:?} {point}, goes on {goes_on}: {what}"),
        }
    }
    println!("{engine}, {resource:?}: {points} points, {errors} errors, {reopened} reopened");
    let unheard = unheard.into_iter().collect();
    (points, unheard)
}

/// A place that says at the end how much was left.
struct Counting<'a> {
    place: &'a OnRecord<'a>,
    resource: Resource,
    counted: &'a std::cell::Cell<u64>,
}

impl Place for Counting<'_> {
    type World = Recorded;

    fn create(&self) -> Result<Database<Recorded>, Error> {
        self.place.create()
    }

    fn open(&self) -> Result<Database<Recorded>, Error> {
        self.place.open()
    }

    fn is_empty(&self) -> bool {
        self.place.is_empty()
    }

    fn mend(&self) {
        self.counted.set(self.place.left(self.resource));
        self.place.mend();
    }
}

#[test]
fn every_growth_of_the_pool_fails_in_turn() {
    // A log in a pool of a database with files takes its space when it is created, and nothing else
    // grows there.
    let grows = |engine: &EngineKind| engine.traits().durable_in != DurableIn::Both;
    for engine in EngineKind::ALL.into_iter().filter(grows) {
        let (points, unheard) =
            some_fail_in_turn(engine, Resource::Growth, one_in(engine) as usize);
        let slotted = EngineKind::P3.contains(&engine);
        // What lies in pages grows in larger steps.
        let least = match engine.traits().needs_files() {
            true => 1,
            false if slotted => 5,
            false => 8,
        };
        assert!(points >= least, "{engine}: {points}");
        // Room is found by other means: NVM-InP finds chunks that are empty and were kept for
        // another size; NVM-CoW ends its batch, after which what was superseded can be used again.
        let most = match engine {
            EngineKind::NvmInp => 2,
            EngineKind::NvmCow => 1,
            // A checkpoint makes room in their logs.
            EngineKind::Nvwal | EngineKind::Wal => 2,
            _ => 0,
        };
        assert!(unheard.len() <= most, "{engine}: no error for {unheard:?}");
    }
}

/// The calls that may fail once without any report.
const SEAL: Explained = (
    "storage/src/logs/wal.rs",
    "rotate",
    "&seal",
    "without the seal only the loss of a whole file goes unnoticed, and it is not synced either",
);
const INPUT: Explained = (
    "lsm/work.rs",
    "install",
    "self.files.remove(&name);",
    "what the manifest names no more; the next opening removes it",
);
const AHEAD: Explained = (
    "pages/file.rs",
    "reserve",
    "self.file().reserve(",
    "where there is no room to reserve ahead, what is needed is reserved",
);

/// One in so many calls. Each explained place shows when all of them fail.
fn calls_fail_in_turn(engine: EngineKind, one_in: usize, explained: &[Explained]) {
    let (points, unheard) = some_fail_in_turn(engine, Resource::Files { once: true }, one_in);
    assert!(points >= 100, "{engine}: {points}");
    let (open, stale) = unexplained(unheard, explained);
    assert_eq!(open, Vec::<String>::new(), "{engine}");
    assert!(one_in > 1 || stale.is_empty(), "{engine}: {stale:?}");
}

pub(crate) fn each_call_that_changes_a_file_fails(each: usize, each_of_paged: usize) {
    calls_fail_in_turn(EngineKind::Inp, each, &[SEAL]);
    calls_fail_in_turn(EngineKind::Cow, each, &[AHEAD]);
    calls_fail_in_turn(EngineKind::Log, each, &[SEAL, INPUT]);
    calls_fail_in_turn(EngineKind::NvDisk, each_of_paged, &[]);
    calls_fail_in_turn(EngineKind::NvLoggingFoi, each_of_paged, &[]);
    calls_fail_in_turn(EngineKind::NvLoggingFoc, each_of_paged, &[]);
}

#[test]
fn calls_that_change_a_file_fail_in_turn() {
    each_call_that_changes_a_file_fails(at_calls(47), at_calls(331));
}

/// From one in so many calls on. The paged engines make many, and a full disk is full for all of
/// them.
pub(crate) fn the_disk_is_full(each: usize, each_of_paged: usize) {
    for engine in EngineKind::ALL.into_iter().filter(|engine| engine.traits().needs_files()) {
        let each = if EngineKind::P1.contains(&engine) { each } else { each_of_paged };
        let (_, unheard) = some_fail_in_turn(engine, Resource::Files { once: false }, each);
        assert!(unheard.is_empty(), "{engine}: no error for {unheard:?}");
    }
}

#[test]
fn the_disk_is_full_from_a_call_on() {
    the_disk_is_full(at_calls(47), at_calls(331));
}

/// Zeroes are read of a medium that has failed: that is no database whose creation was cut off,
/// which one may remove. It fails as one that is cut off under its mapping.
#[test]
fn a_medium_that_fails_while_it_is_opened_is_named_as_such() {
    const PAGE: u64 = 4096;
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = directory.path().join("db");
    let schema = faults::items::schema();
    for engine in EngineKind::ALL.into_iter().filter(|engine| !engine.traits().needs_files()) {
        let options = Options::new().engine(engine).domain(Domain::Process);
        Database::create(&path, &schema, &options).unwrap().close().unwrap();
        let sound = std::fs::read(&path).unwrap();
        let mut refused = 0;
        for page in 0..sound.len() as u64 / PAGE {
            let pool = Pool::open(&path, &PoolOptions::default(), Access::ReadWrite).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_len(page * PAGE).unwrap();
            let media = Media::native(pool);
            if let Err(error) = Database::open_on(media, &Options::new()) {
                assert!(error.to_string().contains("the medium failed"), "{page}: {error}");
                refused += 1;
            }
            std::fs::write(&path, &sound).unwrap();
        }
        assert!(refused > 2, "{engine}: {refused}");
        std::fs::remove_file(&path).unwrap();
    }
}
