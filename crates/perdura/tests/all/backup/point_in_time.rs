//! Restoring to a point in time: a base backup, and the archive of the log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use perdura::{
    Backup, BackupError, ColumnType, Database, Domain, EngineKind, Error, Options, Row, Scan,
    Schema, TableSchema, Until, Value,
};

type Rows = Vec<BTreeMap<u64, String>>;

fn schema() -> Schema {
    let table = TableSchema::new("note")
        .column("id", ColumnType::U64)
        .column("text", ColumnType::Text { max: 4000 })
        .key(&["id"])
        .index("by_text", &["id", "text"]);
    Schema::new().table(table)
}

/// Directories for databases and archives, and the options of a paged engine.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        std::fs::create_dir(place.at("archive")).expect("a directory");
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn options(&self, partitions: u32) -> Options {
        plain().partitions(partitions).archive(self.at("archive"))
    }

    fn create(&self, partitions: u32) -> Database {
        let made = Database::create(self.at("db"), &schema(), &self.options(partitions));
        made.expect("created")
    }

    fn restore(&self, name: &str, until: Until) -> Result<Rows, Error> {
        let (base, archive, to) = (self.at("base"), self.at("archive"), self.at(name));
        Backup::open(base)?.restore_until(&to, archive, until, &Options::new(), &mut |_| {})?;
        let db = Database::open(&to, &Options::new())?;
        let rows = rows(&db);
        db.close()?;
        Ok(rows)
    }
}

fn plain() -> Options {
    Options::new()
        .engine(EngineKind::NvDisk)
        .domain(Domain::Process)
        .set("page_bytes", 1024)
        .set("buffer_bytes", 64 << 10)
        .set("log_bytes", 1 << 20)
        .set("checkpoint_bytes", 32 << 10)
}

/// The tuples of each partition.
fn rows(db: &Database) -> Rows {
    let note = db.table("note").expect("a table");
    let of = |partition: usize| {
        let mut rows = BTreeMap::new();
        let read = db.partition(partition).read(|tx| {
            rows.clear();
            tx.scan(&note, &Scan::all(), &mut Row::new(), |row| {
                rows.insert(row.u64(0), row.text(1).to_owned());
                std::ops::ControlFlow::Continue(())
            })
        });
        read.expect("read");
        rows
    };
    (0..db.partition_count()).map(of).collect()
}

/// Changes a tuple in each partition; long texts lie in chains of pages.
fn change(db: &Database, round: u64) -> Vec<u64> {
    let note = db.table("note").expect("a table");
    let one = |partition: usize| {
        let mut tx = db.partition(partition).begin().expect("begun");
        let id = round * 7 % 13;
        let text = format!("{round} ").repeat(if round.is_multiple_of(5) { 400 } else { 3 });
        let key = [Value::U64(id)];
        let there = tx.get(&note, &key).expect("read").is_some();
        match (there, round % 3) {
            (true, 0) => tx.delete(&note, &key).expect("deleted"),
            (true, _) => {
                tx.update(&note, &key, &[("text", Value::Text(&text))]).expect("updated");
            }
            (false, _) => tx.insert(&note, &[key[0], Value::Text(&text)]).expect("inserted"),
        }
        tx.commit().expect("committed").number()
    };
    (0..db.partition_count()).map(one).collect()
}

#[test]
fn a_database_is_restored_to_each_commit_and_to_the_end_of_its_archive() {
    let place = Place::new();
    let db = place.create(1);
    (0..20).for_each(|round| drop(change(&db, round)));
    db.base_backup(place.at("base")).expect("a base backup");
    let mut states = Vec::new();
    for round in 20..60 {
        let number = change(&db, round)[0];
        states.push((number, rows(&db)));
    }
    // The process dies; the next one recovers, and brings the archive up to date.
    db.abandon();
    let db = Database::open(place.at("db"), &place.options(1)).expect("opened");
    db.checkpoint().expect("archived");
    for (number, wanted) in states.iter().step_by(6) {
        let name = format!("at-{number}");
        let found = place.restore(&name, Until::Commit(*number)).expect("restored");
        assert_eq!(found, *wanted, "commit {number}");
    }
    let found = place.restore("end", Until::End).expect("restored");
    assert_eq!(found, states[states.len() - 1].1);
    db.close().expect("closed");
}

#[test]
fn partitions_are_restored_together_to_a_time() {
    let place = Place::new();
    let db = place.create(2);
    db.base_backup(place.at("base")).expect("a base backup");
    (0..30).for_each(|round| drop(change(&db, round)));
    let (wanted, then) = (rows(&db), SystemTime::now());
    // Commits that are more than the resolution later are not there.
    while SystemTime::now() < then + Duration::from_millis(20) {
        std::thread::yield_now();
    }
    (30..60).for_each(|round| drop(change(&db, round)));
    let last = rows(&db);
    db.close().expect("closed");
    assert_eq!(place.restore("then", Until::Time(then)).expect("restored"), wanted);
    assert_eq!(place.restore("end", Until::End).expect("restored"), last);
    let early = place.restore("early", Until::Time(UNIX_EPOCH + Duration::from_secs(9)));
    assert!(early.expect_err("refused").to_string().contains("take an older backup"));
    let number = place.restore("number", Until::Commit(1 << 33)).expect_err("refused");
    assert!(number.to_string().contains("ask for a time"), "{number}");
    assert!(!place.at("number").exists());
}

#[test]
fn what_does_not_fit_together_is_refused_before_anything_is_made() {
    let place = Place::new();
    let db = place.create(1);
    (0..20).for_each(|round| drop(change(&db, round)));
    db.base_backup(place.at("base")).expect("a base backup");
    db.backup(place.at("copy")).expect("a backup");
    (20..40).for_each(|round| drop(change(&db, round)));
    db.close().expect("closed");

    let open = |name| Backup::open(place.at(name)).expect("a backup");
    assert!(open("base").is_base() && !open("copy").is_base());
    open("base").verify(&mut |_| {}).expect("whole");
    let alone = open("base").restore(place.at("x"), &Options::new(), &mut |_| {});
    assert!(matches!(alone, Err(Error::Backup(BackupError::NeedsArchive { .. }))), "{alone:?}");
    let until = |backup: Backup, archive: &Path, options: &Options| {
        let made = backup.restore_until(place.at("x"), archive, Until::End, options, &mut |_| {});
        assert!(!place.at("x").exists());
        made.expect_err("refused").to_string()
    };
    let (archive, options) = (place.at("archive"), Options::new());
    assert!(until(open("copy"), &archive, &options).contains("no base backup"));
    let other = options.clone().engine(EngineKind::NvmInp);
    assert!(until(open("base"), &archive, &other).contains("restored as it was"));
    let missing = until(open("base"), &place.at("nowhere"), &options);
    assert!(missing.contains("nowhere") && missing.contains("make the directory"), "{missing}");
    std::fs::create_dir(place.at("empty")).expect("a directory");
    let empty = until(open("base"), &place.at("empty"), &options);
    assert!(empty.contains("is it the directory"), "{empty}");

    // The archive of another database.
    let elsewhere = Place::new();
    elsewhere.create(1).close().expect("closed");
    let foreign = until(open("base"), &elsewhere.at("archive"), &options);
    assert!(foreign.contains("another database"), "{foreign}");
    let refused = Database::open(place.at("db"), &plain().archive(elsewhere.at("archive")));
    assert!(refused.expect_err("refused").to_string().contains("another database"));

    // A segment that is gone, or damaged; a base backup that is damaged.
    let segment = place.at("archive").join("log-0-000000000002");
    let bytes = std::fs::read(&segment).expect("a segment");
    std::fs::remove_file(&segment).expect("removed");
    let gap = until(open("base"), &archive, &options);
    assert!(gap.contains("log-0-000000000002") && gap.contains("missing"), "{gap}");
    std::fs::write(&segment, &bytes).expect("written");
    let last = std::fs::read_dir(&archive).expect("read").map(|entry| entry.expect("read").path());
    let last = last.max().expect("a segment");
    let mut damaged = std::fs::read(&last).expect("a segment");
    damaged[100] ^= 1;
    std::fs::write(&last, &damaged).expect("written");
    assert!(until(open("base"), &archive, &options).contains("damaged"));
    damaged[100] ^= 1;
    std::fs::write(&last, &damaged).expect("written");
    let whole = std::fs::read(place.at("base")).expect("read");
    for at in (600..whole.len()).step_by(whole.len() / 10) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(place.at("flipped"), damaged).expect("written");
        let why = until(open("flipped"), &archive, &options);
        assert!(why.contains("damaged at byte"), "byte {at}: {why}");
    }
    place.restore("good", Until::End).expect("restored");
}

#[test]
fn engines_without_an_archive_refuse_one() {
    let place = Place::new();
    let options = Options::new().engine(EngineKind::Inp).archive(place.at("archive"));
    let refused = Database::create(place.at("inp"), &schema(), &options);
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    let db = Database::create(place.at("db"), &schema(), &plain()).expect("created");
    let refused = db.base_backup(place.at("base"));
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    assert!(!place.at("base").exists());
}
