//! Typed rows: a table whose rows are values of a type of the application.
//!
//! [`TableRow`] says how a type and a row of a table become each other; [`Field`] says so of one
//! column. [`TypedTable`] is a handle that takes and gives such values. All of it is written
//! against the public API of tables and transactions, so that a program may use both on one table.

mod field;
mod rows;
mod table;

/// Mistakes that the compiler finds.
#[cfg(doctest)]
#[doc = include_str!("misuse.md")]
struct Misuse;

use engines::below::{Row, RowError, TableSchema, Value};

pub use field::{Field, derived};
pub use rows::TypedRows;
pub use table::TypedTable;

/// A type whose values are rows of a table. `#[derive(Table)]` declares the table by the struct of
/// its rows, and implements this: [its page](derive@crate::Table) has the attributes.
///
/// ```
/// use perdura::{Database, Options, Scan, Schema, Table, TableRow, Value};
///
/// #[derive(Table, Clone, PartialEq, Debug)]
/// struct Account {
///     #[table(key)]
///     id: u64,
///     #[table(max = 80, index = "by_owner")]
///     owner: String,
///     balance: i64,
/// }
///
/// # fn main() -> Result<(), perdura::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("accounts");
/// let schema = Schema::new().table(Account::schema());
/// let db = Database::create(&path, &schema, &Options::new())?;
/// let accounts = db.typed::<Account>()?;
/// let ada = Account { id: 1, owner: "Ada".into(), balance: 100 };
/// db.write(|tx| {
///     accounts.insert(tx, &ada)?;
///     accounts.modify(tx, 1, |account| account.balance -= 30)
/// })?;
/// db.read(|tx| {
///     assert_eq!(accounts.get(tx, 1)?, Some(Account { balance: 70, ..ada.clone() }));
///     let of_ada = Scan::prefix([Value::from("Ada")]).by("by_owner");
///     assert_eq!(accounts.rows(tx, of_ada).count(), 1);
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
///
/// An implementation by hand has to keep to one order: `values` and `from_row` have the columns as
/// `schema` declares them, `key_values` has them as the primary key does.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no row of a table",
    note = "derive it: `#[derive(perdura::Table)]`"
)]
pub trait TableRow: Sized {
    /// A primary key as it is handed in: the value of its column, or a tuple of those of several.
    /// Text and bytes are borrowed.
    type Key<'k>;

    /// The table.
    fn schema() -> TableSchema;

    /// The values of all columns.
    fn values(&self) -> impl AsRef<[Value<'_>]>;

    /// The values of a primary key.
    fn key_values<'k>(key: Self::Key<'k>) -> impl AsRef<[Value<'k>]>;

    /// Returns the row that has these values, one for each column.
    ///
    /// # Errors
    /// A column has a value that its field cannot have.
    fn from_row(row: &Row) -> Result<Self, RowError>;
}
