//! A bank: transfers that happen whole or not at all, and a statement by owner.
//!
//! Run it several times: the accounts are there again each time.
//!
//! ```text
//! cargo run --release --example bank
//! ```

use std::ops::ControlFlow;

use perdura::{ColumnType, Database, Error, Options, Row, Scan, Schema, TableSchema, Tx, Value};

fn main() -> Result<(), Error> {
    let directory = std::env::temp_dir().join("perdura-example-bank.d");
    std::fs::create_dir_all(&directory).map_err(Error::user)?;
    let path = directory.join("accounts");
    let schema = Schema::new().table(
        TableSchema::new("account")
            .column("id", ColumnType::U64)
            .column("owner", ColumnType::Text { max: 40 })
            .column("cents", ColumnType::I64)
            .key(&["id"])
            .index("by_owner", &["owner"]),
    );
    let fresh = !path.exists();
    let db = Database::open_or_create(&path, &schema, &Options::new())?;
    let account = db.table("account")?;
    if fresh {
        db.write(|tx| {
            for (id, owner) in [(1, "Ada"), (2, "Grace"), (3, "Ada")] {
                let tuple = [Value::U64(id), Value::Text(owner), Value::I64(10_000)];
                tx.insert(&account, &tuple)?;
            }
            Ok(())
        })?;
    }

    let balance = |tx: &Tx<'_>, id: u64| -> Result<i64, Error> {
        let mut row = Row::new();
        match tx.get_into(&account, &[Value::U64(id)], &mut row)? {
            true => Ok(row.i64(2)),
            false => Err(Error::user(format!("there is no account {id}"))),
        }
    };
    let transfer = |from: u64, to: u64, cents: i64| {
        db.write(|tx| {
            let (source, target) = (balance(tx, from)?, balance(tx, to)?);
            tx.update(&account, &[Value::U64(from)], &[(2, Value::I64(source - cents))])?;
            if source < cents {
                // Returning an error undoes the update above.
                return Err(Error::user(format!("account {from} has only {source} cents")));
            }
            tx.update(&account, &[Value::U64(to)], &[(2, Value::I64(target + cents))])
        })
    };
    transfer(1, 2, 12_34)?;
    if let Err(refused) = transfer(3, 2, 100_000_000) {
        println!("refused, and nothing has changed: {refused}");
    }

    println!("Ada's accounts:");
    let owner = [Value::Text("Ada")];
    db.read(|tx| {
        tx.scan(&account, &Scan::prefix(owner).by("by_owner"), |row| {
            println!("  {}: {} cents", row.u64(0), row.i64(2));
            ControlFlow::Continue(())
        })
    })?;
    println!("the database is in {}; run this again, or remove that", directory.display());
    db.close()
}
