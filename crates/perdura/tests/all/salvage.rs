//! Looking for all damage, and taking over what can still be read (`Database::examine`,
//! `perdura::salvage`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{
    Driver, Item, Model, Tables, compare, contents, few, insert_item, schema, small_logs,
};
use perdura::{
    Concurrency, Database, Domain, EngineKind, Error, Options, Salvage, examine_parts, salvage,
};

fn options(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .domain(Domain::Process)
        .chunk_bytes(8 << 10)
        .tune("node_bytes", 128)
        .tune("tree_node_bytes", 128)
        .tune("page_bytes", 512)
        .tune("memtable_bytes", 4 << 10)
        .tune("block_bytes", 512)
        .tune("growth", 2)
        .tune("level0_runs", 2)
        .tune("buffer_bytes", 8 << 10)
        .tune("log_bytes", 128 << 10)
        .tune("slots", 4)
}

fn files_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.files", path.display()))
}

/// The pool and the files.
type Bytes = BTreeMap<PathBuf, Vec<u8>>;

fn bytes_of(path: &Path) -> Bytes {
    let mut all = Bytes::from([(path.into(), std::fs::read(path).unwrap())]);
    if let Ok(files) = std::fs::read_dir(files_of(path)) {
        for file in files {
            let file = file.unwrap().path();
            all.insert(file.clone(), std::fs::read(file).unwrap());
        }
    }
    all
}

fn put_back(all: &Bytes) {
    for (path, bytes) in all {
        std::fs::write(path, bytes).unwrap();
    }
}

struct Subject {
    engine: EngineKind,
    directory: tempfile::TempDir,
    path: PathBuf,
    model: Model,
    sound: Bytes,
    attempts: usize,
}

impl Subject {
    fn new(engine: EngineKind) -> Self {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let db = Database::create(&path, &schema(), &options(engine)).unwrap();
        let (mut driver, mut model) = (Driver::new(11, 300), Model::default());
        for transaction in 0..150 {
            driver.transaction(&db, &Tables::of(&db), &mut model, 1 + transaction % 7).unwrap();
        }
        db.checkpoint().unwrap();
        db.close().unwrap();
        let sound = bytes_of(&path);
        Self { engine, directory, path, model, sound, attempts: 0 }
    }

    /// Salvages what is there now, which does not change; returns the contents of the result.
    fn salvage(&mut self) -> Result<(Salvage, Model), Error> {
        self.attempts += 1;
        let to = self.directory.path().join(format!("new-{}", self.attempts));
        let before = bytes_of(&self.path);
        let done = salvage(&self.path, &to);
        assert!(bytes_of(&self.path) == before, "{}: the damaged one stays", self.engine);
        assert!(!self.directory.path().join(format!("new-{}.salvage", self.attempts)).exists());
        let done = done.inspect_err(|_| assert!(!to.exists() && !files_of(&to).exists()))?;
        let db = Database::open(&to, &small_logs()).unwrap();
        let found = contents(&db).unwrap();
        compare(&db, &found);
        assert_eq!((db.engine(), db.schema()), (self.engine, &schema()));
        assert_eq!(done.tuples(), (found.items.len() + found.pairs.len()) as u64);
        db.close().unwrap();
        std::fs::remove_file(&to).unwrap();
        let _ = std::fs::remove_dir_all(files_of(&to));
        Ok((done, found))
    }
}

/// Returns true if all that was found is in the model.
fn is_part(found: &Model, model: &Model) -> bool {
    found.items.iter().all(|(key, item)| model.items.get(key) == Some(item))
        && found.pairs.iter().all(|(key, value)| model.pairs.get(key) == Some(value))
}

#[test]
fn of_a_sound_database_everything_is_taken_over() {
    for engine in EngineKind::ALL {
        let mut subject = Subject::new(engine);
        let (done, found) = subject.salvage().unwrap();
        assert!(done.findings.is_empty(), "{engine}: {:?}", done.findings);
        assert!(found == subject.model, "{engine}");
        let db = Database::open(&subject.path, &small_logs()).unwrap();
        let examined = db.examine().unwrap();
        assert!(examined.findings.is_empty(), "{engine}: {:?}", examined.findings);
        assert_eq!(examined.report, db.check().unwrap(), "{engine}");
    }
}

/// Each node of a B+tree in turn: the primary index has tuples that only others lead to then, and
/// those of a table without others are lost between two keys.
#[test]
fn behind_a_broken_node_the_rest_is_found() {
    let mut subject = Subject::new(EngineKind::NvmInp);
    let pool = subject.sound[&subject.path].clone();
    let nodes = (8192..pool.len()).step_by(64).filter(|at| pool[*at..at + 4] == *b"PDBN");
    let (mut broken, mut whole, mut by_others, mut told, mut lost_all) = (0, 0, 0, 0, 0);
    for at in nodes.collect::<Vec<_>>() {
        let mut bytes = pool.clone();
        bytes[at] ^= 1;
        std::fs::write(&subject.path, &bytes).unwrap();
        let (done, found) = subject.salvage().unwrap();
        assert_eq!(found.items, subject.model.items, "the other indexes lead to all of them");
        assert!(is_part(&found, &subject.model));
        // A leaf, or what a node above leads to; under the root of the table without a secondary
        // index there is nothing else.
        lost_all += usize::from(found.pairs.is_empty());
        let db = Database::open(&subject.path, &small_logs()).unwrap();
        let examined = db.examine().unwrap();
        db.abandon();
        if examined.findings.is_empty() {
            // A node that is not in use any more.
            whole += 1;
            assert!(done.findings.is_empty() && found == subject.model);
            continue;
        }
        broken += 1;
        by_others += done.tables.iter().map(|table| table.by_secondary).sum::<u64>();
        let texts: Vec<_> = examined.findings.listed.iter().map(ToString::to_string).collect();
        assert!(texts.iter().any(|text| text.contains("at offset 0x")), "{texts:?}");
        told += usize::from(texts.iter().any(|text| text.contains("between the keys")));
        put_back(&subject.sound.clone());
    }
    println!("{broken} nodes broken, {whole} unused, {by_others} tuples by other indexes, {told}");
    assert!(broken > 40 && by_others > 20 && told > 5, "{broken} {by_others} {told}");
    assert!(lost_all <= 1, "only the root of a table leads to all of it");
}

/// Random damage of every kind of file: what comes over is right where checksums tell, and there is
/// never a panic.
#[test]
fn what_is_salvaged_of_damaged_files_is_right() {
    what_is_salvaged_is_right(few(), 3);
}

/// Damages each file at several places, or at one in so many of these.
pub(crate) fn what_is_salvaged_is_right(engines: impl Iterator<Item = EngineKind>, one_in: usize) {
    let mut in_part = 0;
    for engine in engines {
        let mut subject = Subject::new(engine);
        let (mut partial, mut nothing, mut all) = (0, 0, 0);
        let places: Vec<_> = subject.sound.keys().cloned().collect();
        for path in places {
            let bytes = subject.sound[&path].clone();
            // Pages of slotted pools lie closely together in a small part of them.
            let places = match engine {
                _ if EngineKind::P3.contains(&engine) => 100,
                _ if engine.traits().needs_files() => 6,
                _ => 25,
            };
            for at in (8192 % bytes.len()..bytes.len()).step_by(bytes.len() * one_in / places + 1) {
                let mut damaged = bytes.clone();
                let end = damaged.len().min(at + 40);
                damaged[at..end].iter_mut().for_each(|byte| *byte ^= 0x55);
                std::fs::write(&path, &damaged).unwrap();
                let examined = match Database::open(&subject.path, &small_logs()) {
                    Ok(db) => {
                        let examined = db.examine().unwrap();
                        db.abandon();
                        Ok(examined)
                    }
                    Err(_) => examine_parts(&subject.path, &small_logs()),
                };
                put_back(&subject.sound.clone());
                std::fs::write(&path, &damaged).unwrap();
                match subject.salvage() {
                    Ok((done, found)) => {
                        let right =
                            !engine.traits().needs_files() || is_part(&found, &subject.model);
                        let log = path.to_string_lossy().contains("wal-");
                        assert!(right || log, "{engine}: {} at {at}", path.display());
                        let examined = examined.unwrap();
                        if done.findings.is_empty() {
                            all += 1;
                        } else {
                            assert!(!examined.findings.is_empty(), "{:?}", done.findings);
                            partial += 1;
                        }
                    }
                    Err(_) => nothing += 1,
                }
                put_back(&subject.sound.clone());
            }
        }
        println!("{engine}: {all} whole, {partial} in part, {nothing} not at all");
        assert!(partial > 0 || one_in > 1, "{engine}");
        in_part += partial;
    }
    assert!(in_part > 10, "{in_part}");
}

/// A partition that does not open, for a damaged log or a missing file, keeps the others from
/// nothing.
#[test]
fn the_other_partitions_are_saved() {
    for engine in EngineKind::ALL {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let db = Database::create(&path, &schema(), &options(engine).partitions(3)).unwrap();
        let tables = Tables::of(&db);
        for key in 0..60 {
            let item = Item {
                name: format!("n{key}"),
                payload: vec![key as u8; 50],
                count: 1,
                flag: vec![],
                score: 1.0,
            };
            let partition = db.partition(key as usize % 3);
            partition.write(|tx| insert_item(tx, &tables, key, &item)).unwrap();
        }
        db.close().unwrap();
        if engine.traits().needs_files() {
            let files =
                std::fs::read_dir(files_of(&path)).unwrap().map(|file| file.unwrap().path());
            let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
            let of_the_second = ["wal-1", "cow-1", "paged-1"];
            let second =
                files.filter(|path| of_the_second.iter().any(|of| name(path).starts_with(of)));
            second.for_each(|path| std::fs::write(path, b"this is nothing").unwrap());
        } else {
            let mut pool = std::fs::read(&path).unwrap();
            let root = format!("{engine}/1").into_bytes();
            let at = pool.windows(root.len()).position(|part| part == root).unwrap();
            pool[at + 48..at + 56].copy_from_slice(&u64::MAX.to_le_bytes());
            std::fs::write(&path, &pool).unwrap();
        }
        assert!(Database::open(&path, &small_logs()).is_err(), "{engine}");
        let examined = examine_parts(&path, &small_logs()).unwrap();
        assert_eq!(examined.report.tuples, 40, "{engine}");
        let [finding] = &examined.findings.listed[..] else { panic!("{:?}", examined.findings) };
        assert_eq!(finding.partition, Some(1));
        assert!(finding.lost.starts_with("the whole partition"), "{finding}");
        let to = directory.path().join("new");
        let done = salvage(&path, &to).unwrap();
        assert_eq!((done.tuples(), done.findings.listed.len()), (40, 1), "{engine}");
        assert_eq!(done.findings.listed[0].lost, "the whole partition");
        let db = Database::open(&to, &small_logs()).unwrap();
        assert_eq!((db.partition_count(), db.check().unwrap().tuples), (3, 40));
    }
}

#[test]
fn where_nothing_can_be_read_there_is_an_error_and_nothing_left() {
    let mut subject = Subject::new(EngineKind::NvmInp);
    let mut pool = subject.sound[&subject.path].clone();
    pool[8192 + 8] ^= 1;
    std::fs::write(&subject.path, &pool).unwrap();
    let error = subject.salvage().unwrap_err();
    assert!(error.to_string().contains("heap superblock"), "{error}");
    put_back(&subject.sound.clone());
    // There is something already.
    let error = salvage(&subject.path, &subject.path).unwrap_err();
    assert!(matches!(error, Error::InTheWay { .. }), "{error}");
    let taken = subject.directory.path().join("taken");
    std::fs::write(&taken, b"mine").unwrap();
    assert!(salvage(&subject.path, &taken).is_err());
    assert_eq!(std::fs::read(&taken).unwrap(), b"mine");
}

/// A file that has the name of an unfinished repair and is none of ours stays, and is named.
#[test]
fn what_has_the_name_of_an_unfinished_repair_is_named() {
    let subject = Subject::new(EngineKind::Inp);
    let to = subject.directory.path().join("to");
    for left in ["to.perdura-new", "to.files", "to.salvage"] {
        let left = subject.directory.path().join(left);
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join("mine"), b"mine").unwrap();
        let error = salvage(&subject.path, &to).unwrap_err().to_string();
        assert!(error.contains(left.to_str().unwrap()), "{error}");
        assert!(error.contains("in the way") || error.contains("exists already"), "{error}");
        assert!(!to.exists());
        assert_eq!(std::fs::read(left.join("mine")).unwrap(), b"mine");
        std::fs::remove_dir_all(&left).unwrap();
    }
    salvage(&subject.path, &to).unwrap();
}

/// A log that is damaged in the middle, in any of its segments: what the records before it did is
/// saved.
#[test]
fn a_damaged_log_is_saved_up_to_the_damage() {
    for engine in [EngineKind::Inp, EngineKind::Log] {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let options =
            options(engine).tune("wal_reserve_bytes", 2 << 10).tune("memtable_bytes", 1 << 20);
        let db = Database::create(&path, &schema(), &options).unwrap();
        let (mut driver, mut model) = (Driver::new(5, 100), Model::default());
        let mut history = vec![Model::default()];
        for transaction in 0..120 {
            if driver.transaction(&db, &Tables::of(&db), &mut model, 1 + transaction % 4).unwrap() {
                history.push(model.clone());
            }
        }
        db.close().unwrap();
        let sound = bytes_of(&path);
        let is_log = |path: &&PathBuf| path.to_string_lossy().contains("/wal-");
        let names: Vec<_> = sound.keys().filter(is_log).cloned().collect();
        let mut lengths = Vec::new();
        for (attempt, name) in names.iter().cycle().take(8).enumerate() {
            let mut log = sound[name].clone();
            let used = log.iter().rposition(|byte| *byte != 0).unwrap();
            let at = 40 + (used - 40) * attempt / 8;
            log[at] ^= 0x10;
            std::fs::write(name, &log).unwrap();
            assert!(Database::open(&path, &small_logs()).is_err(), "{engine}: closed, and torn");
            let to = directory.path().join(format!("new-{attempt}"));
            let done = salvage(&path, &to).unwrap();
            let [finding] = &done.findings.listed[..] else { panic!("{:?}", done.findings) };
            assert!(finding.what.contains("wal-") && finding.lost.contains("from there on"));
            let db = Database::open(&to, &small_logs()).unwrap();
            let found = contents(&db).unwrap();
            let place = history.iter().position(|model| *model == found);
            lengths.push(place.expect("a state that there was"));
            put_back(&sound);
        }
        println!("{engine}: of {} transactions {lengths:?}", history.len());
        assert!(lengths.iter().any(|kept| *kept > 20), "{engine}");
    }
}

/// Damage of the files of a paged engine: a page costs its own tuples, an inner page, an index, a
/// header or a staging file none, and each is named.
#[test]
fn a_damaged_page_is_named_and_costs_no_other() {
    damaged_pages_are_named(few(), 17);
}

/// Bytes of a page of the files.
const PAGE: usize = 512;

/// Each inner page, and one in so many others.
pub(crate) fn damaged_pages_are_named(engines: impl Iterator<Item = EngineKind>, one_in: usize) {
    let in_pages = |engine: &EngineKind| {
        let traits = engine.traits();
        traits.concurrency == Concurrency::Shared && traits.needs_files()
    };
    for engine in engines.filter(in_pages) {
        let mut subject = Subject::new(engine);
        damage_pages(&mut subject, one_in);
        remove_files(&mut subject);
    }
}

/// The pages that are damaged, one after the other: all that are in use, or some of them.
fn damage_pages(subject: &mut Subject, one_in: usize) {
    let engine = subject.engine;
    let pages = files_of(&subject.path).join("paged-0-pages");
    let image = subject.sound[&pages].clone();
    let all = subject.model.items.len() + subject.model.pairs.len();
    // Trees of rows have the numbers 16 and, after the item's two indexes, 19.
    let is_of_rows = |page: &[u8]| [16, 19].contains(&page[32]);
    let (mut leaves, mut others, mut all_lost) = (0, 0, 0);
    for (number, page) in image.chunks(PAGE).enumerate() {
        let kind = page[4];
        let is_chosen = kind == 2 || number.is_multiple_of(one_in);
        // A free page has nothing to lose.
        if page[..64] == [0; 64] || kind == 5 || !is_chosen {
            continue;
        }
        let most = match (kind, is_of_rows(page)) {
            (1, true) => 16,
            (3, true) => 1,
            _ => 0,
        };
        let mut damaged = image.clone();
        damaged[number * PAGE + 200] ^= 0x40;
        std::fs::write(&pages, &damaged).unwrap();
        let what = format!("{engine}, page {number} of kind {kind}");
        let is_named = |text: &str| {
            text.contains("paged-0-pages")
                && (number == 0 || text.contains(&format!("page {number}")))
        };
        let told = examined(&subject.path);
        assert!(told.iter().any(|one| is_named(one)), "{what}: {told:?}");
        put_back(&subject.sound);
        std::fs::write(&pages, &damaged).unwrap();
        let (done, found) = subject.salvage().unwrap();
        let told = done.findings;
        assert!(told.listed.iter().any(|one| is_named(&one.to_string())), "{what}: {told:?}");
        assert!(is_part(&found, &subject.model), "{what}");
        let lost = all - found.items.len() - found.pairs.len();
        assert!(lost <= most, "{what}: {lost} lost");
        all_lost += lost;
        *(if most > 0 { &mut leaves } else { &mut others }) += 1;
        put_back(&subject.sound);
    }
    println!("{engine}: {leaves} pages with tuples, {others} others, {all_lost} tuples lost");
    assert!(leaves > 3 && others > 3, "{engine}: {leaves}, {others}");
    assert!(all_lost > 0, "{engine}: what is damaged is lost");
}

/// All that is found when one looks at a database, whether it opens or not.
fn examined(path: &Path) -> Vec<String> {
    let found = match Database::open(path, &Options::new()) {
        Ok(db) => {
            let found = db.examine().unwrap();
            db.abandon();
            found
        }
        Err(_) => examine_parts(path, &Options::new()).unwrap(),
    };
    found.findings.listed.iter().map(ToString::to_string).collect()
}

/// Each kind of file that is missing.
fn remove_files(subject: &mut Subject) {
    let all = subject.model.items.len() + subject.model.pairs.len();
    for (name, is_saved) in
        [("staging", true), ("pages", false), ("log-0", true), ("log-head", true)]
    {
        let name = format!("paged-0-{name}");
        if std::fs::remove_file(files_of(&subject.path).join(&name)).is_err() {
            // The log lies in the pool.
            continue;
        }
        let error = Database::open(&subject.path, &Options::new()).unwrap_err().to_string();
        assert!(error.contains(&name) && error.contains("missing"), "{error}");
        let (done, found) = subject.salvage().unwrap();
        let [finding] = &done.findings.listed[..] else { panic!("{:?}", done.findings) };
        assert!(finding.what.contains(&name), "{finding}");
        let kept = if is_saved { all } else { 0 };
        let of = found.items.len() + found.pairs.len();
        assert_eq!(of, kept, "{}, without {name}", subject.engine);
        put_back(&subject.sound);
    }
}
