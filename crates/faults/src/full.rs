//! A scenario on a full pool: it is filled until nothing more fits, half of it is deleted, and
//! others take the place. What makes room there is done in place, and only there.

use perdura::{Database, EngineKind, Error, Value};
use sim::{Recorded, Recording};

use crate::explorer::Scenario;
use crate::items::{Item, Model, Tables, insert_item, schema, update_item};
use crate::plot::options;
use crate::pool::PoolMedium;
use crate::scenario::record_with;
use crate::work::Items;

/// Tuples before the scenario begins.
const BEFORE: u64 = 90;
/// Attempts at an insert that finds no room: each makes some.
const ATTEMPTS: usize = 30;

fn item(key: u64) -> Item {
    Item {
        name: format!("n{}", key % 7),
        payload: vec![key as u8; 150],
        count: key as i64,
        flag: b"f".into(),
        score: 0.0,
    }
}

/// The pool of an engine is full; every other tuple is deleted, one by one and some in a
/// transaction that aborts; then there is room for others, with keys of their own.
///
/// # Panics
/// The engine fails without any crash, or there is no room again.
pub fn room_is_made_on_a_full_pool(engine: EngineKind) -> Scenario<PoolMedium> {
    let mut model = Model::default();
    model.items.extend((0..BEFORE).map(|key| (key, item(key))));
    let mut models = vec![model.clone()];
    let first = |db: &Database<Recorded>, tables: &Tables| {
        (0..BEFORE).try_for_each(|key| db.write(|tx| insert_item(tx, tables, key, &item(key))))
    };
    let act = |db: &Database<Recorded>, tables: &Tables, memory: &Recording| {
        memory.fail_growth_after(Some(0));
        let mut acknowledge = |model: &Model| {
            models.push(model.clone());
            memory.note(models.len() as u64 - 1);
        };
        let insert = |key: u64| db.write(|tx| insert_item(tx, tables, key, &item(key)));
        let mut next = BEFORE;
        while room(insert(next))? {
            model.items.insert(next, item(next));
            acknowledge(&model);
            next += 1;
        }
        for key in (0..next).step_by(2) {
            if key % 16 == 8 {
                let mut tx = db.begin()?;
                tx.delete(&tables.item, &[Value::U64(key)])?;
                let _ = update_item(&mut tx, tables, key + 1, &item(key), 2);
                tx.abort()?;
            }
            db.write(|tx| tx.delete(&tables.item, &[Value::U64(key)]))?;
            model.items.remove(&key);
            acknowledge(&model);
        }
        let mut again = 0;
        for key in 1000..1000 + next / 4 {
            let mut attempts = (0..ATTEMPTS).map(|_| room(insert(key)));
            if attempts.by_ref().any(|done| matches!(done, Ok(true))) {
                model.items.insert(key, item(key));
                acknowledge(&model);
                again += 1;
            }
        }
        assert!(again >= next / 8, "{engine}: {again} in place of {} of {next}", next / 2);
        memory.fail_growth_after(None);
        Ok(())
    };
    let options = options(engine).chunk_bytes(8 << 10);
    let (medium, trace) = record_with(&schema(), options, first, act).expect("it runs");
    Scenario { work: Items, medium, trace, models, in_flight: 1, created: false }
}

fn room(done: Result<(), Error>) -> Result<bool, Error> {
    match done {
        Ok(()) => Ok(true),
        Err(Error::Full(_)) => Ok(false),
        Err(other) => Err(other),
    }
}
