//! JSON lines: all of a database goes out and comes back; a line that is wrong is named, and
//! nothing of its batch is in; a dump that was cut off is not taken for a whole one.

use perdura::{
    CopySummary, Database, EngineKind, Environment, Error, Existing, Kept, LinesError, LoadOptions,
    Options, Schema, Table, TableSchema, Value,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{
    Place, contents, each, each_with_the_next, every_type, few, filled, insert_both, small,
};

fn dump<E: Environment>(db: &Database<E>, tables: &[Table]) -> Vec<u8> {
    let mut out = Vec::new();
    let summary = db.dump_to(&mut out, "output", tables, &mut |_| ()).unwrap();
    assert_eq!(summary.bytes, out.len() as u64);
    out
}

fn options() -> LoadOptions {
    LoadOptions::new("input")
}

fn load(db: &Database, mut lines: &[u8], options: &LoadOptions) -> Result<CopySummary, Error> {
    db.load(&mut lines, options, &mut |_| ())
}

fn create(
    place: &Place,
    name: &str,
    schema: Option<&Schema>,
    database: &Options,
    mut lines: &[u8],
) -> Result<Database, Error> {
    let to = place.at(name);
    Database::create_from_lines(&to, schema, database, &mut lines, &options(), &mut |_| ())?;
    Database::open(&to, database)
}

#[test]
fn what_goes_out_comes_back_in_every_engine() {
    for (engine, next) in each_with_the_next() {
        what_goes_out_comes_back(engine, &[engine, next]);
    }
}

pub(crate) fn what_goes_out_comes_back(engine: EngineKind, into: &[EngineKind]) {
    let place = Place::new();
    for partitions in [1, 3] {
        let name = format!("db-{partitions}");
        let db = filled(&place.at(&name), &small(engine).partitions(partitions), 60);
        let lines = dump(&db, &[]);
        let text = std::str::from_utf8(&lines).unwrap();
        assert_eq!(text.lines().count(), 2 + 120 * partitions as usize);
        assert_eq!(text.contains("\"partition\":2"), partitions == 3);
        for line in text.lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(value.is_object());
        }
        for &other in into {
            let name = format!("copy-{partitions}-{other}");
            let copy = create(&place, &name, None, &small(other), &lines).unwrap();
            assert_eq!(contents(&copy), contents(&db), "{engine} as {other}");
            copy.check().unwrap();
            // And once more the same text, but for the engine's name.
            let again = dump(&copy, &[]);
            let rest =
                |lines: &[u8]| lines.splitn(2, |byte| *byte == b'\n').nth(1).unwrap().to_vec();
            assert!(rest(&again) == rest(&lines));
        }
    }
}

/// Random values of every type, any bits of a floating-point number, any characters.
#[test]
fn random_tuples_go_out_and_come_back() {
    let seed = 7;
    println!("seed {seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let place = Place::new();
    let options = small(EngineKind::NvmInp);
    let db = Database::create(place.at("db"), &every_type(), &options).unwrap();
    let table = db.table("every \"type\"").unwrap();
    for _ in 0..3000 {
        let text: String =
            (0..random.random_range(0..15)).map(|_| random.random::<char>()).collect();
        let bytes: Vec<u8> = (0..random.random_range(0..60)).map(|_| random.random()).collect();
        let values = [
            Value::U64(random.random::<u8>().into()),
            Value::U64(random.random::<u16>().into()),
            Value::U64(random.random::<u32>().into()),
            Value::U64(random.random()),
            Value::I64(random.random::<i8>().into()),
            Value::I64(random.random::<i16>().into()),
            Value::I64(random.random::<i32>().into()),
            Value::I64(random.random()),
            Value::F64(f64::from_bits(random.random())),
            Value::Text(&text),
            Value::Bytes(&bytes),
            Value::Bool(random.random()),
            Value::I64(random.random::<i64>() >> random.random_range(0..20)),
            Value::Bytes(&random.random::<[u8; 16]>()),
        ];
        db.write(|tx| tx.insert(&table, &values)).unwrap();
    }
    let copy = create(&place, "copy", None, &options, &dump(&db, &[])).unwrap();
    assert!(contents(&copy) == contents(&db));
}

#[test]
fn one_table_alone_goes_out_and_into_a_database_that_has_it() {
    let place = Place::new();
    let db = filled(&place.at("db"), &small(EngineKind::NvmLog), 20);
    let pair = db.table("pair").unwrap();
    let lines = dump(&db, &[pair]);
    let other =
        Database::create(place.at("other"), &every_type(), &small(EngineKind::Inp)).unwrap();
    let done = load(&other, &lines, &options()).unwrap();
    assert_eq!(done.tables, [("every \"type\"".into(), 0), ("pair".into(), 20)]);
    let key = (0, "pair".to_owned());
    assert_eq!(contents(&other)[&key], contents(&db)[&key]);
    let alone = create(&place, "alone", None, &small(EngineKind::Inp), &lines).unwrap();
    assert_eq!(alone.schema().tables().len(), 1);
    let foreign = db.dump_to(&mut Vec::new(), "", &[other.table("pair").unwrap()], &mut |_| ());
    assert!(matches!(foreign, Err(Error::ForeignTable { .. })));
    // Other columns under the same name.
    let table = TableSchema::new("pair").column("left", perdura::ColumnType::U64).key(&["left"]);
    let schema = Schema::new().table(table);
    let unlike = Database::create(place.at("unlike"), &schema, &small(EngineKind::Inp)).unwrap();
    let error = load(&unlike, &lines, &options()).unwrap_err().to_string();
    assert!(error.contains("line 1: table `pair` is not that of the database"), "{error}");
}

fn pairs() -> Schema {
    let table = TableSchema::new("p")
        .column("k", perdura::ColumnType::U64)
        .column("v", perdura::ColumnType::I8)
        .column("t", perdura::ColumnType::Text { max: 3 })
        .key(&["k"]);
    Schema::new().table(table)
}

fn line(key: u64, value: i64) -> String {
    format!("{{\"table\":\"p\",\"tuple\":{{\"k\":{key},\"v\":{value},\"t\":\"\"}}}}\n")
}

/// Returns what a line does whose transaction ends in trouble.
fn trouble(error: &Error) -> (u64, Kept) {
    match error {
        Error::Lines(
            LinesError::Line { line, kept, .. } | LinesError::Refused { line, kept, .. },
        ) => (*line, *kept),
        other => panic!("{other}"),
    }
}

#[test]
fn a_line_that_is_wrong_is_named_and_nothing_of_its_batch_is_in() {
    few().for_each(a_line_that_is_wrong_is_named);
}

pub(crate) fn a_line_that_is_wrong_is_named(engine: EngineKind) {
    let wrong = [
        ("{", "EOF while parsing"),
        ("7", "invalid type"),
        ("{}", "a line has `table` and `tuple`"),
        ("{\"table\":\"p\"}", "a line has `table` and `tuple`"),
        ("{\"table\":\"q\",\"tuple\":{}}", "the database has no table `q`"),
        ("{\"table\":\"p\",\"tuple\":{}}", "column `k` is missing"),
        ("{\"table\":\"p\",\"tuple\":{\"k\":1,\"v\":2}}", "column `t` is missing"),
        ("{\"table\":\"p\",\"tuple\":[]}", "an object with the columns of table `p`"),
        ("{\"table\":\"p\",\"tuple\":{},\"more\":1}", "unknown field `more`"),
        ("{\"table\":\"p\",\"partition\":1,\"tuple\":{}}", "`partition` is one of 0 to 0 here"),
        (
            "{\"table\":\"p\",\"tuple\":{\"k\":99,\"v\":128,\"t\":\"\"}}",
            "column `v` holds i8 from -128 to 127, not 128",
        ),
        (
            "{\"table\":\"p\",\"tuple\":{\"k\":99,\"v\":1,\"t\":\"four\"}}",
            "column `t` holds at most 3 bytes, not 4",
        ),
        (
            "{\"table\":\"p\",\"tuple\":{\"k\":7,\"v\":1,\"t\":\"\"}}",
            "has a tuple with primary key k = 7 already",
        ),
        ("{\"end\":{\"tuples\":0}}", "the end of a dump whose first line is missing"),
        ("{\"table\":\"p\",\"tuple\":{\"k\":\"\u{1}\"}}", "control character"),
    ];
    let place = Place::new();
    for (number, (bad, said)) in wrong.iter().enumerate() {
        let db = Database::create(place.at(&format!("db-{number}")), &pairs(), &small(engine));
        let db = db.unwrap();
        // Batches of four: 0 to 3, 4 to 7, then 8 and 9 followed by the bad line.
        let good: String = (0..10).map(|key| line(key, 1)).collect();
        let text = format!("{good}\n\n{bad}\n{}", line(50, 1));
        let error = load(&db, text.as_bytes(), &options().batch(4)).unwrap_err();
        let shown = error.to_string();
        assert_eq!(trouble(&error), (13, Kept::Before(9)), "{bad}: {shown}");
        assert!(shown.starts_with("input: line 13: ") && shown.contains(said), "{shown}");
        assert!(shown.ends_with("the tuples before line 9 are loaded, none from there on"));
        assert_eq!(contents(&db)[&(0, "p".into())].len(), 8, "{bad}");
        db.check().unwrap();
        // From there on it goes on.
        let rest: String = text
            .lines()
            .skip(8)
            .filter(|line| line != bad)
            .fold(String::new(), |text, line| text + line + "\n");
        assert_eq!(load(&db, rest.as_bytes(), &options()).unwrap().tuples(), 3);
        // A database that is created for them is not there.
        let names = place.names();
        let options = small(engine);
        let error = create(&place, "new", Some(&pairs()), &options, text.as_bytes()).unwrap_err();
        assert_eq!(trouble(&error), (13, Kept::Nothing), "{error}");
        assert!(error.to_string().ends_with("nothing was loaded"), "{error}");
        assert_eq!(place.names(), names);
    }
}

#[test]
fn bytes_that_are_no_text_and_lines_without_end_are_refused() {
    let place = Place::new();
    let db = Database::create(place.at("db"), &pairs(), &small(EngineKind::Inp)).unwrap();
    for wrong in [&b"{\"table\":\"p\xff\"}\n"[..], b"\xff\n", b"\0\n", &vec![b'x'; 3 << 20]] {
        let error = load(&db, wrong, &options()).unwrap_err();
        assert_eq!(trouble(&error), (1, Kept::Nothing), "{error}");
    }
    let good = line(1, 1);
    for wrong in [&vec![b' '; 3 << 20][..], &vec![b'['; 1 << 20]] {
        let error = load(&db, &[good.as_bytes(), wrong].concat(), &options()).unwrap_err();
        assert_eq!(trouble(&error), (2, Kept::Nothing), "{error}");
    }
    assert_eq!(load(&db, b"", &options()).unwrap().tuples(), 0);
    assert_eq!(load(&db, b"\n \r\n\n", &options()).unwrap().tuples(), 0);
    let windows = good.replace('\n', "\r\n");
    assert_eq!(load(&db, windows.trim_end().as_bytes(), &options()).unwrap().tuples(), 1);
}

#[test]
fn a_dump_that_was_cut_off_or_has_lost_a_line_is_refused() {
    let place = Place::new();
    let db = Database::create(place.at("db"), &pairs(), &small(EngineKind::NvmInp)).unwrap();
    load(&db, (line(1, 1) + &line(2, -2)).as_bytes(), &options()).unwrap();
    let lines = dump(&db, &[]);
    let database = small(EngineKind::NvmInp);
    let names = place.names();
    // Without the last line's end it is whole.
    for cut in 0..lines.len() - 1 {
        let error = create(&place, "new", None, &database, &lines[..cut]).unwrap_err();
        assert!(error.to_string().starts_with("input: "), "{cut}: {error}");
        assert_eq!(place.names(), names, "{cut}");
    }
    let text = String::from_utf8(lines.clone()).unwrap();
    let parts: Vec<&str> = text.lines().collect();
    for order in
        [&[0, 1, 3][..], &[0, 3], &[0, 1, 1, 2, 3], &[0, 1, 2, 3, 2], &[0, 0, 1, 2, 3], &[3]]
    {
        let text: Vec<&str> = order.iter().map(|number| parts[*number]).collect();
        create(&place, "new", None, &database, text.join("\n").as_bytes()).unwrap_err();
        assert_eq!(place.names(), names, "{order:?}");
    }
    let newer = text.replacen("\"perdura_dump\":1", "\"perdura_dump\":2", 1);
    let error = create(&place, "new", None, &database, newer.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("line 1: dump format 2; this build reads 1"), "{error}");
    // Without its description and its end it is just lines.
    let bare = parts[1..3].join("\n");
    let error = create(&place, "new", None, &database, bare.as_bytes()).unwrap_err();
    assert!(matches!(error, Error::Lines(LinesError::NoSchema { .. })), "{error}");
    let bare = create(&place, "bare", Some(&pairs()), &database, bare.as_bytes()).unwrap();
    assert_eq!(contents(&bare), contents(&db));
    let whole = create(&place, "whole", None, &database, &lines[..lines.len() - 1]).unwrap();
    assert_eq!(contents(&whole), contents(&db));
}

#[test]
fn tuples_that_are_there_already_are_refused_skipped_or_replaced() {
    each(|engine| {
        let place = Place::new();
        let db = Database::create(place.at("db"), &pairs(), &small(engine)).unwrap();
        let lines = |value| (0..10).map(|key| line(key, value)).collect::<String>();
        assert_eq!(
            load(&db, &lines(1).as_bytes()[..lines(1).len() / 2], &options()).unwrap().tuples(),
            5
        );
        let before = contents(&db);
        let error = load(&db, lines(2).as_bytes(), &options()).unwrap_err();
        assert_eq!((trouble(&error), contents(&db)), ((1, Kept::Nothing), before));
        let values = |db: &Database| -> Vec<u8> {
            contents(db)[&(0, "p".into())].iter().map(|tuple| tuple[24]).collect()
        };
        let skip = options().existing(Existing::Skip).batch(3);
        let done = load(&db, lines(2).as_bytes(), &skip).unwrap();
        assert_eq!((done.tuples(), done.skipped), (5, 5));
        assert_eq!(values(&db), [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
        let replace = options().existing(Existing::Replace).batch(3);
        let done = load(&db, (lines(3) + &line(77, 7)).as_bytes(), &replace).unwrap();
        assert_eq!((done.tuples(), done.skipped), (11, 0));
        assert_eq!(values(&db), [3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 7]);
        // In a new database, whose contents are counted: the last one counts.
        let text = lines(1) + &lines(2);
        Database::create_from_lines(
            place.at("new"),
            Some(&pairs()),
            &small(engine),
            &mut text.as_bytes(),
            &replace,
            &mut |_| (),
        )
        .unwrap();
        assert_eq!(values(&Database::open(place.at("new"), &small(engine)).unwrap()), [2; 10]);
    });
}

#[test]
fn lines_say_their_partition_where_there_are_several() {
    let place = Place::new();
    let options = small(EngineKind::NvmCow).partitions(2);
    let db = Database::create(place.at("db"), &pairs(), &options).unwrap();
    let with = |partition: u64| {
        line(1, 1).replace("\"tuple\"", &format!("\"partition\":{partition},\"tuple\""))
    };
    let mixed = with(1) + &with(0);
    assert_eq!(load(&db, mixed.as_bytes(), &self::options()).unwrap().tuples(), 2);
    for wrong in [line(2, 1), with(2), with(u64::MAX)] {
        let error = load(&db, wrong.as_bytes(), &self::options()).unwrap_err().to_string();
        assert!(error.contains("`partition` is one of 0 to 1 here"), "{error}");
    }
    insert_both(&filled(&place.at("other"), &small(EngineKind::Log).partitions(2), 3), 1, 9)
        .unwrap();
}

/// Any byte of a dump may be any other: it loads or it does not, and the database stays sound.
#[test]
fn no_byte_of_a_dump_makes_loading_panic() {
    let place = Place::new();
    let db = filled(&place.at("db"), &small(EngineKind::NvmInp), 2);
    let lines = dump(&db, &[]);
    let other =
        Database::create(place.at("other"), &every_type(), &small(EngineKind::NvmInp)).unwrap();
    let skip = options().existing(Existing::Skip);
    for at in 0..lines.len() {
        for byte in [b'"', b'{', b'9', b'\n', 0xff] {
            let mut lines = lines.clone();
            lines[at] = byte;
            let _ = load(&other, &lines, &skip);
        }
    }
    other.check().unwrap();
}
