//! Options of engines: each reaches its engine, and those of another are refused.

use crate::support::{Driver, Model, Tables, schema, small_logs};
use perdura::{
    Background, ColumnType, CowOptions, Database, Domain, EngineKind, Error, InpOptions,
    NvmInpOptions, Options, Placement, Schema, StructureStats, TableSchema, Value,
};
use sim::{Recording, RecordingFiles};

fn options() -> Options {
    small_logs().domain(Domain::Process).pool_limit(1 << 30).volatile_limit(1 << 30)
}

/// Small in every way.
fn small(engine: EngineKind) -> Options {
    options()
        .engine(engine)
        .tune("node_bytes", 256)
        .tune("tree_node_bytes", 256)
        .tune("page_bytes", 1024)
        .tune("cache_bytes", 64 << 10)
        .tune("checkpoint_bytes", 64 << 10)
        .tune("wal_reserve_bytes", 8 << 10)
        .tune("wal_buffer_bytes", 8 << 10)
        .tune("memtable_bytes", 8 << 10)
        .tune("growth", 2)
        .tune("level0_runs", 2)
        .tune("block_bytes", 1024)
}

/// All that can be counted of a run of random transactions, which are always the same; or the
/// error.
fn counts(options: &Options) -> String {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let run = || -> Result<String, Error> {
        let db = Database::create(&path, &schema(), options)?;
        db.count(true);
        let (tables, mut driver, mut model) =
            (Tables::of(&db), Driver::new(5, 300), Model::default());
        for transaction in 0..400 {
            driver.transaction(&db, &tables, &mut model, 1 + transaction % 5)?;
        }
        let counters = db.counters();
        let text = format!("{:?} {:?} {counters:?}", db.stats()?, db.footprint()?);
        db.close()?;
        Ok(text)
    };
    run().unwrap_or_else(|error| error.to_string())
}

/// The fences and the flushed lines of a run of random transactions in persistent memory.
fn flushes(options: &Options) -> (u64, u64) {
    let memory = Recording::pool(64 << 10, 64 << 20).unwrap();
    let media = faults::recorded(memory.clone(), RecordingFiles::new());
    let db = Database::create_on(media, &schema(), options).unwrap();
    let (tables, mut driver, mut model) = (Tables::of(&db), Driver::new(5, 300), Model::default());
    memory.start();
    for transaction in 0..400 {
        driver.transaction(&db, &tables, &mut model, 1 + transaction % 5).unwrap();
    }
    let counters = memory.stop().counters();
    (counters.fences, counters.flushed_lines)
}

/// A value of each option that shows in the counts. A cache or a buffer shows in that there is no
/// room for a large one.
fn other_value(name: &str) -> Option<u64> {
    Some(match name {
        "node_bytes" => 1024,
        "tree_node_bytes" => 512,
        "page_bytes" => 4096,
        "cache_bytes" => 1 << 40,
        "checkpoint_bytes" => 1 << 30,
        "wal_reserve_bytes" => 256 << 10,
        "wal_buffer_bytes" => 8 << 20,
        "memtable_bytes" => 64 << 10,
        "growth" => 8,
        "level0_runs" => 8,
        "block_bytes" => 4096,
        "checksummed" => 1,
        "checkpoint_frames" => 20,
        "first_rows" => 1024,
        "most_rows" => 64,
        "reserve" => 16,
        "slots" => 64,
        "placement" => 50,
        "hashed" => 1,
        "seed" => 7,
        _ => return None,
    })
}

#[test]
fn each_option_reaches_its_engine() {
    // Sizes of a paged engine show in what it evicts and when it takes checkpoints, in threads.
    let engines = EngineKind::P1.into_iter().chain(EngineKind::P3).chain([EngineKind::Sofort]);
    for engine in engines {
        let usual = counts(&small(engine));
        assert_eq!(usual, counts(&small(engine)), "{engine}: the counts are always the same");
        for option in engine.options() {
            // No counter here shows how many blocks are in memory: a test of `Log`
            // asks for it.
            if (engine, option.name) == (EngineKind::Log, "cache_bytes") {
                continue;
            }
            let value = other_value(option.name);
            let value = value.unwrap_or_else(|| panic!("{engine}: try {}, too", option.name));
            let other = small(engine).set(option.name, value);
            if option.name == "reserve" {
                // It shows in fences, of which there are none in the domain of a process.
                assert_ne!(flushes(&small(engine)).0, flushes(&other).0, "it changes nothing");
                continue;
            }
            if ["seed", "hashed"].contains(&option.name) {
                // They show in indexes in persistent memory.
                let flushed = |options: Options| flushes(&options.set("placement", 100));
                let one = || small(engine).set("seed", 1);
                let other = one().set(option.name, value);
                assert_eq!(flushed(one()), flushed(one()), "a seed does the same each time");
                assert_ne!(flushed(one()), flushed(other), "{} changes nothing", option.name);
                continue;
            }
            assert_ne!(usual, counts(&other), "{engine}: {} changes nothing", option.name);
        }
    }
}

fn refused(options: &Options, text: &str) {
    let directory = crate::support::in_memory();
    let error = Database::create(directory.path().join("db"), &schema(), options).unwrap_err();
    assert!(matches!(error, Error::Options(_)), "{error:?}");
    assert_eq!(error.to_string(), text);
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_option_that_the_engine_does_not_have_is_refused_and_nothing_is_made() {
    refused(
        &options().engine(EngineKind::NvmInp).set("memtable_bytes", 4096),
        "nvm-inp has no option `memtable_bytes`, only log, nvm-log; it has node_bytes",
    );
    for options in [
        options().engine(EngineKind::NvmInp).tune("memtable_byte", 4096),
        options().tune("memtable_byte", 4096),
        options().set("memtable_byte", 4096),
    ] {
        refused(
            &options,
            "no engine has an option `memtable_byte`; did you mean `memtable_bytes`?",
        );
    }
    refused(
        &options().engine(CowOptions { page_bytes: 77, ..CowOptions::default() }),
        "page_bytes of 77; choose 128 to 32768",
    );
    let typed = InpOptions { checkpoint_bytes: 0, ..InpOptions::default() };
    refused(&options().engine(typed), "checkpoint_bytes of 0; choose 1 at least");
}

#[test]
fn a_size_that_no_node_can_have_is_refused_and_nothing_is_left() {
    for engine in EngineKind::ALL {
        if !engine.options().iter().any(|option| option.name == "node_bytes") {
            continue;
        }
        let directory = crate::support::in_memory();
        let options = small(engine).set("node_bytes", 100);
        let error = Database::create(directory.path().join("db"), &schema(), &options).unwrap_err();
        assert_eq!(error.to_string(), "nodes of 100 bytes cannot hold keys of 8 bytes", "{engine}");
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert!(left.is_empty(), "{engine}: {left:?}");
    }
}

#[test]
fn options_of_another_engine_than_the_databases_are_refused_with_the_way_out() {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    Database::create(&path, &schema(), &options().engine(EngineKind::NvmInp)).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = Database::open(&path, &options().engine(InpOptions::default())).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::WrongEngine { .. }), "{text}");
    let expected = "was created with engine `nvm-inp`, not `inp`; open it without naming an engine";
    assert!(text.ends_with(expected), "{text}");
    let error = Database::open(&path, &options().set("page_bytes", 4096)).unwrap_err();
    let expected = "nvm-inp has no option `page_bytes`, only cow, nv-disk, nv-logging-foi, nv-logging-foc, fast, fash, nvwal, journal, wal; it has node_bytes";
    assert_eq!(error.to_string(), expected);
    assert_eq!(std::fs::read(&path).unwrap(), before, "it was not touched");
    // The value that it has, and options of other engines, which are ignored.
    let own = NvmInpOptions { node_bytes: 1024 };
    for options in [options().engine(own), options().tune("page_bytes", 4096)] {
        Database::open(&path, &options.background(Background::Inline)).unwrap();
    }
}

/// A name counts for more than a field, and the last one of several counts.
#[test]
fn an_option_that_is_given_twice_has_the_last_value() {
    let typed = InpOptions { checkpoint_bytes: 0, ..InpOptions::default() };
    let options = options().set("checkpoint_bytes", 0).set("checkpoint_bytes", 64 << 10);
    let directory = crate::support::in_memory();
    let made =
        Database::create(directory.path().join("a"), &schema(), &options.clone().engine(typed));
    assert!(made.is_err(), "a value that is refused is refused, even if another one follows");
    let typed = InpOptions { checkpoint_bytes: 1 << 30, ..InpOptions::default() };
    let usual = counts(&small(EngineKind::Inp));
    assert_eq!(
        counts(
            &small(EngineKind::Inp)
                .set("checkpoint_bytes", 1 << 30)
                .set("checkpoint_bytes", 64 << 10)
        ),
        usual
    );
    let named = small(EngineKind::Inp).engine(typed);
    assert_eq!(counts(&named), usual);
}

#[test]
fn indexes_are_placed_by_their_names_and_an_unknown_one_is_refused() {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let people = TableSchema::new("people")
        .column("id", ColumnType::U64)
        .column("name", ColumnType::Text { max: 40 })
        .column("age", ColumnType::U64)
        .key(&["id"])
        .index("by_age", &["age"]);
    let schema = Schema::new().table(people);
    let placed = |names: &[&str]| {
        let names = Placement::named(names.iter().copied());
        options().engine(EngineKind::Sofort).placement(names)
    };
    let error = Database::create(&path, &schema, &placed(&["people.index.by_agee"])).unwrap_err();
    assert!(matches!(error, Error::Options(_)), "{error:?}");
    let known = "people.key, people.index.by_age, people.dictionary.id, people.dictionary.name, people.dictionary.age";
    assert_eq!(
        error.to_string(),
        format!(
            "there is no structure `people.index.by_agee` to be placed, only {known}; did you mean `people.index.by_age`?"
        )
    );
    assert!(!path.exists());
    let names = ["people.index.by_age", "people.dictionary.name"];
    let db = Database::create(&path, &schema, &placed(&names)).unwrap();
    let table = db.table("people").unwrap();
    for id in 1..40 {
        db.insert(&table, &[Value::U64(id), Value::Text("somebody"), Value::U64(id)]).unwrap();
    }
    db.close().unwrap();
    let db = Database::open(&path, &options()).unwrap();
    let structures = db.structures().unwrap();
    let all: Vec<&str> = structures.iter().map(|structure| structure.name.as_str()).collect();
    assert_eq!(all.join(", "), known);
    for StructureStats { name, durable, waiting, .. } in &structures {
        assert_eq!(*durable, names.contains(&name.as_str()), "{name}");
        assert_eq!(*waiting == 0, *durable, "{name}");
    }
    // Its inserts have searched for keys.
    assert!(structures[0].uses > 10, "{structures:?}");
    refused(
        &options().engine(EngineKind::NvmInp).placement(Placement::named(names)),
        "nvm-inp has no option `placement`, only sofort; it has node_bytes",
    );
    let db = Database::create(
        directory.path().join("percent"),
        &schema,
        &placed(&names).placement(Placement::Percent(100)),
    );
    assert!(db.unwrap().structures().unwrap().iter().all(|structure| structure.durable));
    // The last word counts, whether the share is given as a placement or as the option.
    let durable = |name: &str, options: &Options| {
        let db = Database::create(directory.path().join(name), &schema, options).unwrap();
        let structures = db.structures().unwrap();
        structures.iter().filter(|structure| structure.durable).count()
    };
    assert_eq!(durable("set", &placed(&names).set("placement", 100)), structures.len());
    assert_eq!(durable("tuned", &placed(&names).tune("placement", 100)), structures.len());
    let share = options().engine(EngineKind::Sofort).set("placement", 100);
    let named = share.placement(Placement::named(names));
    assert_eq!(durable("named", &named), names.len());
}

/// Names of tables may have dots: two structures may have one name. Each is counted for itself, in
/// all partitions, and a placement that names them places both.
#[test]
fn structures_of_one_name_are_counted_one_by_one_and_placed_together() {
    let directory = crate::support::in_memory();
    let table = |name: &str| {
        let table = TableSchema::new(name).column("id", ColumnType::U64).key(&["id"]);
        table.column("age", ColumnType::U64)
    };
    let schema = Schema::new().table(table("a").index("key", &["age"])).table(table("a.index"));
    let options = options().engine(EngineKind::Sofort).placement(Placement::named(["a.index.key"]));
    for partitions in [1, 3] {
        let path = directory.path().join(format!("db{partitions}"));
        let options = options.clone().partitions(partitions);
        let db = Database::create(&path, &schema, &options).unwrap();
        let structures = db.structures().unwrap();
        let all: Vec<_> = structures.iter().map(|one| (one.name.as_str(), one.durable)).collect();
        let expected = [
            ("a.key", false),
            ("a.index.key", true),
            ("a.dictionary.id", false),
            ("a.dictionary.age", false),
            ("a.index.key", true),
            ("a.index.dictionary.id", false),
            ("a.index.dictionary.age", false),
        ];
        assert_eq!(all, expected);
        let own = db.table("a.index").unwrap();
        for partition in 0..partitions as usize {
            db.partition(partition).write(|tx| tx.insert(&own, &[Value::U64(1); 2])).unwrap();
        }
        let built: Vec<u64> = db.structures().unwrap().iter().map(|one| one.built).collect();
        let each = u64::from(partitions);
        assert_eq!(
            built,
            [0, 0, 0, 0, 0, each, each],
            "the index in persistent memory counts nothing"
        );
    }
}
