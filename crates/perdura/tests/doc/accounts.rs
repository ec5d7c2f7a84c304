// A database for the examples in the documentation, which include this: two accounts, and the
// directory that they lie in until the example ends.
|options: &perdura::Options| {
    use perdura::{ColumnType, Database, Schema, TableSchema, Value};
    let directory = tempfile::tempdir().unwrap();
    let account = TableSchema::new("account")
        .column("id", ColumnType::U64)
        .column("owner", ColumnType::Text { max: 80 })
        .column("balance", ColumnType::I64)
        .key(&["id"])
        .index("by_owner", &["owner"]);
    let schema = Schema::new().table(account);
    let db = Database::create(directory.path().join("accounts"), &schema, options).unwrap();
    let account = db.table("account").unwrap();
    for (id, owner, balance) in [(1, "Ada", 100), (2, "Grace", 50)] {
        let tuple = [Value::U64(id), Value::Text(owner), Value::I64(balance)];
        db.insert(&account, &tuple).unwrap();
    }
    (directory, db, account)
}
