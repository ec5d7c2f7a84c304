//! Each operation gives back all that it uses up: repeated over and over it makes neither the files of the
//! database longer, nor the memory of the process more, nor a read of the same rows dearer.
//!
//! A table: its rows are the operations of the public API, its columns the engines. In each of its
//! fields a small database goes through an operation hundreds of times. Two windows of repetitions
//! are compared, each by the largest of what was measured in it; and the database at rest, with no
//! work put off, before and after them. All of it is counts: of bytes, objects, allocations, and of
//! accesses of memory in a medium that counts them ([`medium::InEmulation`]).

mod levels;
mod medium;
mod operations;
mod subject;

use perdura::{EngineKind, Error, Value};

use levels::levels;
use medium::{InEmulation, Medium, OnHost};
use operations::{everywhere, operations};
use subject::{Engine, ROWS, Subject, USUAL, key};

/// Repetitions of a window in each build; `PERDURA_TIMES` asks for more.
const TIMES: u64 = 60;

fn times() -> u64 {
    std::env::var("PERDURA_TIMES").map_or(TIMES, |times| times.parse().expect("a number"))
}

/// Repetitions of a window of an engine: a window spans a checkpoint, and `nv-disk` takes one after a
/// hundred or so.
fn times_of(kind: EngineKind) -> u64 {
    if kind == EngineKind::NvDisk { times().max(4 * TIMES) } else { times() }
}

/// Goes through the rows of a column on one medium: all, or those that `PERDURA_OPERATION` names.
fn column<M: Medium>(engine: Engine, growing: &mut Vec<String>) {
    let only = std::env::var("PERDURA_OPERATION").unwrap_or_default();
    let is_asked = |name: &str| only.is_empty() || only.split(';').any(|only| only == name);
    for operation in operations::<M>() {
        let has = (operation.has)(engine.kind()) && (M::ON_HOST || !operation.on_host);
        if !has || !is_asked(operation.name) {
            continue;
        }
        let medium = if M::ON_HOST { "on the host" } else { "in emulated memory" };
        let what = format!("{}, {medium}, {}", engine.name(), operation.name);
        println!("{what}");
        let times = times_of(engine.kind());
        let levels = levels::<M>(engine, &operation, times);
        let levels = levels.unwrap_or_else(|error| panic!("{what}: {error}"));
        levels.growing((engine.kind(), operation.name), times, &mut |grows| {
            growing.push(format!("{what}: {grows}"));
        });
    }
}

fn levels_off(engine: Engine) {
    let mut growing = Vec::new();
    column::<OnHost>(engine, &mut growing);
    column::<InEmulation>(engine, &mut growing);
    assert!(growing.is_empty(), "{} values grow:\n{}", growing.len(), growing.join("\n"));
}

/// A test for each engine, and the list of all of them.
macro_rules! columns {
    ($($name:ident: $engine:expr;)+) => {
        const COLUMNS: &[Engine] = &[$($engine),+];

        $(
            #[test]
            fn $name() {
                levels_off($engine);
            }
        )+
    };
}

columns! {
    inp_levels_off: Engine::Known(EngineKind::Inp);
    cow_levels_off: Engine::Known(EngineKind::Cow);
    log_levels_off: Engine::Known(EngineKind::Log);
    nvm_inp_levels_off: Engine::Known(EngineKind::NvmInp);
    nvm_cow_levels_off: Engine::Known(EngineKind::NvmCow);
    nvm_log_levels_off: Engine::Known(EngineKind::NvmLog);
    nv_disk_levels_off: Engine::Known(EngineKind::NvDisk);
    nv_logging_foi_levels_off: Engine::Known(EngineKind::NvLoggingFoi);
    nv_logging_foc_levels_off: Engine::Known(EngineKind::NvLoggingFoc);
    fast_levels_off: Engine::Known(EngineKind::Fast);
    fash_levels_off: Engine::Known(EngineKind::Fash);
    nvwal_levels_off: Engine::Known(EngineKind::Nvwal);
    journal_levels_off: Engine::Known(EngineKind::Journal);
    wal_levels_off: Engine::Known(EngineKind::Wal);
    sofort_levels_off: Engine::Known(EngineKind::Sofort);
    placed_sofort_levels_off: Engine::Placed;
}

#[test]
fn each_engine_has_a_column() {
    for kind in EngineKind::ALL {
        assert!(COLUMNS.contains(&Engine::Known(kind)), "{kind}");
    }
    assert!(COLUMNS.contains(&Engine::Placed));
}

/// Returns what grows by an operation that keeps something for ever.
fn growing<M: Medium>(
    kind: EngineKind,
    act: fn(&mut Subject<M>, u64) -> Result<(), Error>,
) -> Vec<String> {
    let mut growing = Vec::new();
    let levels = levels::<M>(Engine::Known(kind), &everywhere("leak", act), TIMES).unwrap();
    levels.growing((kind, "leak"), TIMES, &mut |grows| growing.push(grows));
    growing
}

fn is_found(growing: &[String], name: &str) {
    assert!(growing.iter().any(|grows| grows.starts_with(name)), "{name} in {growing:?}");
}

#[test]
fn leaks_are_found() {
    let memory = growing::<OnHost>(EngineKind::NvmInp, |_, _| {
        // An allocation of which nothing is seen would not be made.
        std::mem::forget(std::hint::black_box(Box::new([0_u8; 64])));
        Ok(())
    });
    is_found(&memory, "allocated bytes, at rest");
    is_found(&memory, "allocated blocks");
    let files = growing::<OnHost>(EngineKind::Cow, |subject, number| {
        std::mem::forget(subject.db().snapshot()?);
        subject.touch(number)
    });
    is_found(&files, "file ");
    let descriptors = growing::<OnHost>(EngineKind::Fast, |subject, _| {
        std::mem::forget(std::fs::File::open(subject.medium.path()).map_err(Error::user)?);
        Ok(())
    });
    is_found(&descriptors, "descriptors, at rest");
    let reads = growing::<InEmulation>(EngineKind::NvmInp, |subject, number| {
        let payload = vec![1; USUAL + 8 * number as usize];
        let change = [("payload", Value::Bytes(&payload))];
        subject.db().update(&subject.rows, &key(number % ROWS), &change)
    });
    is_found(&reads, "accesses of a read");
}
