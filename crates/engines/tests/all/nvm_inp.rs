//! NVM-InP's statements: which of them opening redoes, and which not.

use std::sync::Arc;

use engines::below::{
    Catalog, ColumnType, Dram, Heap, HeapOptions, Memory, Row, Schema, TableSchema, Value,
};
use engines::{Engine, Method, NvmInp, NvmInpOptions, Read, Resources, Setup, Write};
use sim::{Recorded, Recording, Replay};

const LIMIT: u64 = 16 << 20;

fn catalog() -> Arc<Catalog> {
    let table = TableSchema::new("t")
        .column("id", ColumnType::U64)
        .column("text", ColumnType::Text { max: 40 })
        .key(&["id"])
        .inline_columns();
    Arc::new(Catalog::new(&Schema::new().table(table)).unwrap())
}

fn resources(heap: &Heap<Recording>) -> Resources<Recorded> {
    let volatile = Dram::new(1 << 20).unwrap();
    Resources { partition: 0, volatile, durable: heap.clone(), files: None }
}

/// The image that an operation's log entry leads to may be lost when the entry is not. Then the
/// column has to have the contents of which it is an image: those that the operation before has put
/// there, not those of the statement before that one.
#[test]
fn a_statement_is_not_redone_after_two_operations() {
    let catalog = catalog();
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let options = HeapOptions { chunk_bytes: 16 << 10, lanes: 1 };
    let heap = Heap::format(memory.clone(), options).unwrap();
    let (setup, options) =
        (Setup { node_bytes: 256, ..Setup::default() }, NvmInpOptions::default());
    let mut engine = NvmInp::create(resources(&heap), &catalog, &setup, &options).unwrap();
    let key = [Value::U64(1)];
    let change = |text| [(1, Value::Text(text))];
    engine.insert(0, &[key[0], Value::Text("as it was inserted")]).unwrap();
    engine.commit().unwrap();
    engine.update_and_commit(0, &key, &change("what the statement put there")).unwrap();
    engine.update(0, &key, &change("what the first operation put there")).unwrap();
    memory.start();
    engine.update(0, &key, &change("and the second")).unwrap();
    memory.fence();
    let trace = memory.stop();
    let mut replay = Replay::new(&trace);
    let mut undone = [0; 3];
    while let Some(point) = replay.next_point() {
        point.for_each_state(1 << 10, 1, |image| {
            let heap = Heap::open(Recording::from_image(image, LIMIT).unwrap()).unwrap();
            let opened = NvmInp::open(resources(&heap), &catalog, &setup, &options);
            let (engine, report) = opened.unwrap();
            let mut row = Row::new();
            assert!(engine.get(0, &key, None, &mut row).unwrap());
            assert_eq!(row.text(1), "what the statement put there");
            undone[report.undone as usize] += 1;
        });
    }
    assert!(undone[1] > 0 && undone[2] > 0, "{undone:?}");
}
