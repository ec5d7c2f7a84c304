//! Unique indexes in every engine: a second tuple with the same values is refused before anything
//! has changed, within a transaction and across them; NULL is never the same.

use std::collections::BTreeMap;

use perdura::{ColumnType, Database, Error, Schema, Table, TableSchema, Value};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Own, Store, Tuple, each, holds, small, values};

fn schema() -> Schema {
    Schema::new().table(
        TableSchema::new("user")
            .column("id", ColumnType::U64)
            .column("mail", ColumnType::Text { max: 20 })
            .nullable()
            .column("shard", ColumnType::U8)
            .column("place", ColumnType::F64)
            .column("note", ColumnType::Text { max: 200 })
            .key(&["id"])
            .unique_index("by_mail", &["mail"])
            .unique_index("by_place", &["shard", "place"])
            .index("by_note", &["shard"]),
    )
}

fn user(id: u64, mail: Option<&str>, shard: u64, place: f64) -> Tuple {
    let mail = mail.map_or(Own::Null, |mail| Own::Text(mail.into()));
    vec![Own::U64(id), mail, Own::U64(shard), Own::F64(place), Own::Text(String::new())]
}

fn insert(db: &Database, tuple: &[Own]) -> Result<(), Error> {
    let table = db.table("user").unwrap();
    db.write(|tx| tx.insert(&table, &values(tuple)))
}

/// The unique index that has refused it, and the whole error.
fn refused_by(done: Result<(), Error>) -> (String, String) {
    match done.unwrap_err() {
        error @ Error::DuplicateKey { index: Some(_), .. } => {
            let text = error.to_string();
            let Error::DuplicateKey { index, .. } = error else { unreachable!() };
            (index.unwrap(), text)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_second_tuple_with_the_same_values_is_refused_and_nothing_changes() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine));
        let all = vec![
            user(1, Some("ada"), 0, 0.0),
            user(2, None, 0, 1.5),
            user(3, None, 1, 1.5),
            user(4, Some(""), 0, f64::NAN),
        ];
        for tuple in &all {
            insert(store.db(), tuple).unwrap();
        }
        store.thrice(|db| {
            let table = db.table("user").unwrap();
            let (index, text) = refused_by(insert(db, &user(5, Some("ada"), 7, 0.0)));
            assert_eq!(index, "by_mail");
            let said = "`user` has a tuple with the key of unique index `by_mail`, mail = \"ada\"";
            assert!(text.contains(said), "{text}");
            assert_eq!(refused_by(insert(db, &user(5, Some(""), 7, 0.0))).0, "by_mail");
            // Both zeros are one key, and so is every NaN.
            assert_eq!(refused_by(insert(db, &user(5, None, 0, -0.0))).0, "by_place");
            assert_eq!(refused_by(insert(db, &user(5, None, 0, -f64::NAN))).0, "by_place");
            // The primary key comes first.
            let error = insert(db, &user(1, Some("ada"), 0, 0.0)).unwrap_err();
            assert!(matches!(error, Error::DuplicateKey { index: None, .. }), "{error}");
            let error = insert(db, &user(2, Some("ada"), 0, 0.0)).unwrap_err();
            assert!(matches!(error, Error::DuplicateKey { index: None, .. }), "{error}");
            let update = |id, changes: &[(u16, Value<'_>)]| {
                db.write(|tx| tx.update(&table, &[Value::U64(id)], changes))
            };
            assert_eq!(refused_by(update(2, &[(1, Value::Text("ada"))])).0, "by_mail");
            assert_eq!(refused_by(update(3, &[(2, Value::U64(0))])).0, "by_place");
            let both = [(2, Value::U64(1)), (3, Value::F64(1.5))];
            assert_eq!(refused_by(update(1, &both)).0, "by_place");
            let statement = db.update(&table, &[Value::U64(2)], &[(1, Value::Text("ada"))]);
            assert_eq!(refused_by(statement.map(drop)).0, "by_mail");
            // A value that does not change is the tuple's own.
            update(1, &[(1, Value::Text("ada")), (3, Value::F64(-0.0))]).unwrap();
            update(1, &[(3, Value::F64(0.0))]).unwrap();
            update(3, &[(1, Value::Null)]).unwrap();
            let missing = update(9, &[(1, Value::Text("ada"))]);
            assert!(matches!(missing, Err(Error::MissingKey { .. })), "{missing:?}");
            holds(db, &[(&table, all.clone())]);
        });
    });
}

#[test]
fn what_a_transaction_has_freed_or_taken_counts_at_once_and_an_abort_gives_it_back() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine));
        insert(store.db(), &user(1, Some("ada"), 0, 0.0)).unwrap();
        for abort in [true, false] {
            let table = store.db().table("user").unwrap();
            let mut tx = store.db().begin().unwrap();
            tx.update(&table, &[Value::U64(1)], &[(1, Value::Text("grace"))]).unwrap();
            tx.insert(&table, &values(&user(2, Some("ada"), 1, 0.0))).unwrap();
            let again = tx.insert(&table, &values(&user(3, Some("grace"), 2, 0.0)));
            assert_eq!(refused_by(again).0, "by_mail");
            tx.delete(&table, &[Value::U64(1)]).unwrap();
            tx.insert(&table, &values(&user(3, Some("grace"), 0, 0.0))).unwrap();
            let expected = if abort {
                tx.abort().unwrap();
                vec![user(1, Some("ada"), 0, 0.0)]
            } else {
                let _ticket = tx.commit().unwrap();
                vec![user(2, Some("ada"), 1, 0.0), user(3, Some("grace"), 0, 0.0)]
            };
            store.thrice(|db| {
                holds(db, &[(&db.table("user").unwrap(), expected.clone())]);
                let taken = refused_by(insert(db, &user(9, Some("ada"), 9, 9.0)));
                assert_eq!(taken.0, "by_mail");
            });
        }
    });
}

/// NULL is like no other value, in a part of a key as well.
#[test]
fn tuples_are_not_the_same_where_a_part_of_the_key_is_null() {
    let schema = Schema::new().table(
        TableSchema::new("room")
            .column("id", ColumnType::U64)
            .column("house", ColumnType::U8)
            .column("door", ColumnType::Text { max: 9 })
            .nullable()
            .key(&["id"])
            .unique_index("by_house_door", &["house", "door"]),
    );
    let room = |id: u64, house: u64, door: Option<&str>| {
        let door = door.map_or(Own::Null, |door| Own::Text(door.into()));
        vec![Own::U64(id), Own::U64(house), door]
    };
    each(|engine| {
        let mut store = Store::new(&schema, small(engine));
        let table = store.db().table("room").unwrap();
        let insert = |tuple: &Tuple| store.db().write(|tx| tx.insert(&table, &values(tuple)));
        for (id, door) in [(1, None), (2, None), (3, Some("")), (4, Some("a"))] {
            insert(&room(id, 7, door)).unwrap();
        }
        let update = |id: u64, door| {
            store.db().write(|tx| tx.update(&table, &[Value::U64(id)], &[(2, door)]))
        };
        assert_eq!(refused_by(insert(&room(5, 7, Some("a")))).0, "by_house_door");
        assert_eq!(refused_by(update(1, Value::Text(""))).0, "by_house_door");
        update(4, Value::Null).unwrap();
        update(1, Value::Text("a")).unwrap();
        let doors = [(1, Some("a")), (2, None), (3, Some("")), (4, None)];
        let expected = doors.map(|(id, door)| room(id, 7, door)).to_vec();
        store.thrice(|db| {
            holds(db, &[(&db.table("room").unwrap(), expected.clone())]);
        });
    });
}

/// Returns true if a new tuple has a unique value that another one of the model has.
fn collides(model: &BTreeMap<u64, Tuple>, tuple: &Tuple) -> bool {
    model.values().filter(|other| other[0] != tuple[0]).any(|other| {
        let mail = other[1] != Own::Null && other[1] == tuple[1];
        mail || other[2..4].cmp(&tuple[2..4]).is_eq()
    })
}

fn random_user(random: &mut SmallRng, id: u64) -> Tuple {
    let mail = ["a", "b", "c", "d", ""].get(random.random_range(0..7usize)).copied();
    let mut tuple = user(id, mail, random.random_range(0..3), 0.0);
    tuple[3] = Own::F64([0.0, -0.0, 1.0, 2.0, f64::NAN][random.random_range(0..5)]);
    tuple
}

#[test]
fn random_changes_are_refused_exactly_where_they_collide() {
    each(|engine| {
        let mut random = SmallRng::seed_from_u64(3);
        let mut store = Store::new(&schema(), small(engine));
        let mut model: BTreeMap<u64, Tuple> = BTreeMap::new();
        let (mut refused, mut done) = (0, 0);
        for step in 0..600 {
            let table: Table = store.db().table("user").unwrap();
            let id = random.random_range(0..12);
            let key = [Value::U64(id)];
            let new = random_user(&mut random, id);
            let result = match model.get(&id) {
                None => insert(store.db(), &new),
                Some(_) if random.random_bool(0.2) => {
                    store.db().write(|tx| tx.delete(&table, &key)).unwrap();
                    model.remove(&id);
                    continue;
                }
                Some(_) => store.db().write(|tx| {
                    tx.update(&table, &key, &[1, 2, 3].map(|at| (at, new[usize::from(at)].value())))
                }),
            };
            match result {
                Ok(()) => {
                    assert!(!collides(&model, &new), "step {step}: {new:?}");
                    model.insert(id, new);
                    done += 1;
                }
                Err(Error::DuplicateKey { index: Some(_), .. }) => {
                    assert!(collides(&model, &new), "step {step}: {new:?}");
                    refused += 1;
                }
                Err(other) => panic!("{other}"),
            }
            if step % 150 == 149 {
                holds(store.db(), &[(&table, model.values().cloned().collect())]);
                store.crash();
            }
        }
        assert!(refused > 50 && done > 50, "{refused} {done}");
    });
}
