//! A library that lends books: tables declared by the structs of their rows.
//!
//! ```text
//! cargo run --release --example typed
//! ```

use std::time::SystemTime;

use perdura::{Database, Error, Options, Scan, Schema, Table, TableRow, TypedTable, Value};

#[derive(Table, Clone, PartialEq, Debug)]
pub(crate) struct Book {
    #[table(key)]
    pub(crate) id: u32,
    #[table(max = 200, index = "by_title")]
    pub(crate) title: String,
    /// The shelf mark, if it has one.
    #[table(max = 20, unique = "by_mark")]
    pub(crate) mark: Option<String>,
    #[table(default = 0)]
    pub(crate) times_lent: u32,
}

#[derive(Table, Clone, PartialEq, Debug)]
#[table(key(book), index("by_reader", reader, due))]
pub(crate) struct Loan {
    pub(crate) book: u32,
    #[table(max = 80)]
    pub(crate) reader: String,
    pub(crate) due: SystemTime,
}

pub(crate) struct Library {
    db: Database,
    books: TypedTable<Book>,
    loans: TypedTable<Loan>,
}

impl Library {
    pub(crate) fn open(path: &std::path::Path) -> Result<Self, Error> {
        let schema = Schema::new().table(Book::schema()).table(Loan::schema());
        let db = Database::open_or_create(path, &schema, &Options::new())?;
        Ok(Self { books: db.typed()?, loans: db.typed()?, db })
    }

    pub(crate) fn buy(&self, book: &Book) -> Result<(), Error> {
        self.db.write(|tx| self.books.upsert(tx, book).map(|_| ()))
    }

    /// Lends a book; returns it as it is now, or nothing if another reader has it.
    pub(crate) fn lend(
        &self,
        book: u32,
        reader: &str,
        due: SystemTime,
    ) -> Result<Option<Book>, Error> {
        self.db.write(|tx| {
            let loan = Loan { book, reader: reader.into(), due };
            if !self.loans.insert_if_absent(tx, &loan)? {
                return Ok(None);
            }
            self.books.modify(tx, book, |book| book.times_lent += 1).map(Some)
        })
    }

    pub(crate) fn give_back(&self, book: u32) -> Result<(), Error> {
        self.db.write(|tx| self.loans.delete(tx, book))
    }

    /// The reader's books, the one that is due first in front.
    pub(crate) fn lent_to(&self, reader: &str) -> Result<Vec<Book>, Error> {
        self.db.read(|tx| {
            let of_reader = Scan::prefix([Value::from(reader)]).by("by_reader");
            let books = self.loans.rows(tx, of_reader).map(|loan| self.books.get(tx, loan?.book));
            books.filter_map(Result::transpose).collect()
        })
    }
}

fn main() -> Result<(), Error> {
    let library = Library::open(&std::env::temp_dir().join("perdura-example-library"))?;
    let title = "Transaction Processing".to_owned();
    library.buy(&Book { id: 1, title, mark: Some("QA 76".into()), times_lent: 0 })?;
    library.lend(1, "Ada", SystemTime::now())?;
    for book in library.lent_to("Ada")? {
        println!("Ada has {}", book.title);
    }
    library.give_back(1)
}
