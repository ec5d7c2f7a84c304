//! Schemas, values, rows: what tables are made of.

/// All tables of a database, as it is created with them.
///
/// ```
/// # use perdura::*;
/// let json = br#"{"tables": [{"name": "word", "key": ["word"], "columns": [
///     {"name": "word", "kind": {"text": {"max": 40}}},
///     {"name": "count", "kind": "u32", "default": 0}]}]}"#;
/// let from_json = Schema::from_json(json)?;
/// let word = TableSchema::new("word")
///     .column("word", ColumnType::Text { max: 40 })
///     .column("count", ColumnType::U32)
///     .default(Value::from(0))
///     .key(&["word"]);
/// assert_eq!(from_json, Schema::new().table(word).normalized());
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Schema;

/// A table as it is declared; `#[derive(Table)]` declares one by a struct.
///
/// ```
/// # use perdura::*;
/// let account = TableSchema::new("account")
///     .column("id", ColumnType::U64)
///     .column("mail", ColumnType::Text { max: 80 })
///     .nullable()
///     .column("active", ColumnType::Bool)
///     .default(Value::Bool(true))
///     .key(&["id"])
///     .unique_index("by_mail", &["mail"]);
/// assert_eq!(account.columns().len(), 3);
/// ```
#[doc(inline)]
pub use engines::below::TableSchema;

/// A column as a schema shows it.
///
/// ```
/// # use perdura::*;
/// let table = TableSchema::new("word").column("word", ColumnType::Text { max: 40 }).nullable();
/// let Column { name, kind, nullable, default } = &table.columns()[0];
/// assert_eq!((name.as_str(), kind.max_bytes(), *nullable), ("word", Some(40), true));
/// assert!(default.is_none());
/// ```
#[doc(inline)]
pub use engines::below::Column;

/// The type of a column, with what its values can be.
///
/// ```
/// # use perdura::*;
/// assert_eq!(ColumnType::I16.integer_range(), Some((-32_768, 32_767)));
/// assert_eq!(ColumnType::Timestamp.number_bytes(), Some(8));
/// assert_eq!(ColumnType::Text { max: 80 }.to_string(), "text of at most 80 bytes");
/// ```
#[doc(inline)]
pub use engines::below::ColumnType;

/// The default of a column as a schema shows it.
///
/// ```
/// # use perdura::*;
/// let table = TableSchema::new("job").column("tries", ColumnType::I32).default(Value::from(3));
/// let default: &Constant = table.columns()[0].default.as_ref().unwrap();
/// assert_eq!(default.value(), Value::U64(3));
/// ```
#[doc(inline)]
pub use engines::below::Constant;

/// A secondary index as a schema shows it.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let by_owner: &IndexSchema = &account.schema().indexes()[0];
/// assert_eq!((by_owner.name.as_str(), by_owner.unique), ("by_owner", false));
/// assert_eq!(by_owner.columns, ["owner"]);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::IndexSchema;

/// A value for a column.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let nothing: Option<&str> = None;
/// assert_eq!(Value::from(7u8), Value::U64(7));
/// assert_eq!(Value::from("Ada"), Value::Text("Ada"));
/// assert_eq!(Value::from(nothing), Value::Null);
/// // An integer fits each column that can hold it, whatever its own type is.
/// db.update(&account, &[Value::from(1)], &[("balance", Value::from(70u8))])?;
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Value;

/// A row that has been read, or some of its columns.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let row: Row = db.get(&account, &[Value::from(1)])?.expect("Ada has an account");
/// assert_eq!(format!("{row:?}"), r#"Row [1, "Ada", 100]"#);
/// assert_eq!((row.try_get::<&str>("owner")?, row.i64(2)), ("Ada", 100));
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Row;

/// A column of a row: its place, counted from 0, or its name.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// fn text<C: RowColumn>(row: &Row, column: C) -> Result<String, RowError> {
///     row.try_get(column)
/// }
/// let row = db.get(&account, &[Value::from(1)])?.expect("Ada has an account");
/// assert_eq!((text(&row, 1)?, text(&row, "owner")?), ("Ada".into(), "Ada".into()));
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::RowColumn;

/// A type that a column can be read as; an application adds its own.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// #[derive(PartialEq, Debug)]
/// struct Cents(i64);
///
/// impl FromValue<'_> for Cents {
///     const NAME: &'static str = "an amount";
///     fn from_value(value: Value<'_>) -> Option<Self> {
///         i64::from_value(value).map(Cents)
///     }
/// }
/// let row = db.get(&account, &[Value::from(1)])?.expect("Ada has an account");
/// assert_eq!(row.try_get::<Cents>("balance")?, Cents(100));
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::FromValue;

/// The reason why a column cannot be read as it was asked for.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let row = db.get(&account, &[Value::from(1)])?.expect("Ada has an account");
/// let wrong: RowError = row.try_get::<u8>("owner").unwrap_err();
/// assert_eq!(wrong.to_string(), "column owner is text, not u8");
/// assert!(matches!(row.try_get::<u8>("owners"), Err(RowError::NoColumn { .. })));
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::RowError;

/// The way of a scan.
///
/// ```
/// # use perdura::*;
/// // Scans of the public API are forward, or backward where they say so.
/// assert_ne!(Direction::Forward, Direction::Backward);
/// assert!(format!("{:?}", Scan::all().backward()).contains("Backward"));
/// ```
#[doc(inline)]
pub use engines::below::Direction;
