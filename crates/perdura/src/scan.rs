//! Scans: which tuples, in which order, which columns, how many.

use std::cmp::Ordering;
use std::ops::{
    Bound, ControlFlow, Deref, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo,
    RangeToInclusive,
};
use std::sync::Arc;

use engines::below::{Direction, Row, RowNames, StorageError, Value, compare_floats};
use engines::{EngineError, ScanLocks};

use crate::columns::{ColumnList, ColumnRef};
use crate::error::Error;
use crate::table::Table;

/// The tuples to scan: by default all, in the order of the primary key.
///
/// A bound may give only the first columns of a key; it then stands for every key that starts with
/// them. Bounds are arrays of values, vectors, or references to them; those that are borrowed are
/// not copied.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let owner = "Ada";
/// let all = Scan::all();
/// let of_owner = Scan::prefix([Value::from(owner)]).by("by_owner");
/// let some = Scan::range([Value::from(1)]..=[Value::from(9)]).backward().limit(3);
/// let names = Scan::starting_with([Value::from("Ad")]).by("by_owner").columns(&["id", "owner"]);
/// let tx = db.begin()?;
/// let counts = [all, of_owner, some, names].map(|scan| tx.rows(&account, scan).count());
/// assert_eq!(counts, [2, 1, 2, 1]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scan<'a> {
    index: Option<&'a str>,
    low: Bound<KeyList<'a>>,
    high: Bound<KeyList<'a>>,
    /// Set if the upper bound's last value is text or bytes, and stands for all that start with it.
    open_end: bool,
    /// The key after which the scan begins, in its direction.
    after: Option<KeyList<'a>>,
    direction: Direction,
    columns: Option<ColumnList<'a>>,
    limit: Option<usize>,
    locks: ScanLocks,
}

impl<'a> Scan<'a> {
    /// All tuples, forward, all columns.
    pub fn all() -> Self {
        Self {
            index: None,
            low: Bound::Unbounded,
            high: Bound::Unbounded,
            open_end: false,
            after: None,
            direction: Direction::Forward,
            columns: None,
            limit: None,
            locks: ScanLocks::Read,
        }
    }

    /// Only the tuples whose key in the index starts with these values.
    pub fn prefix(values: impl KeyValues<'a>) -> Self {
        let values = values.values();
        Self { low: Bound::Included(values.clone()), high: Bound::Included(values), ..Self::all() }
    }

    /// Only the tuples whose key in the index starts with these values, of which the last one is
    /// the beginning of a text or of bytes.
    pub fn starting_with(values: impl KeyValues<'a>) -> Self {
        Self { open_end: true, ..Self::prefix(values) }
    }

    /// Only the tuples whose key lies in a range, such as `low..high`, `low..=high` or `low..`; a
    /// pair of [`Bound`]s is one, too.
    pub fn range(range: impl KeyRange<'a>) -> Self {
        let (low, high) = range.bounds();
        Self { low, high, ..Self::all() }
    }

    /// Scans in the order of this secondary index.
    #[must_use]
    pub fn by(mut self, index: &'a str) -> Self {
        self.index = Some(index);
        self
    }

    /// Scans from the highest key down.
    #[must_use]
    pub fn backward(mut self) -> Self {
        self.direction = Direction::Backward;
        self
    }

    /// Starts the scan after this key, in its direction and within its range. With the key of the
    /// last row of a page this gives the next page. Given the first columns of a key, it skips
    /// every key that starts with them.
    ///
    /// In a secondary index the whole key is the index's columns, then those of the primary key.
    /// Given the index's columns alone, it skips all tuples that have the same values there.
    ///
    /// ```
    /// # use perdura::*;
    /// # fn page(tx: &Tx<'_>, account: &Table, owner: &str, last: u64) -> Result<(), Error> {
    /// let of_owner = Scan::prefix([Value::from(owner)]).by("by_owner").limit(20);
    /// for row in tx.rows(account, of_owner.after([Value::from(owner), Value::from(last)])) {
    ///     println!("{:?}", row?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn after(mut self, key: impl KeyValues<'a>) -> Self {
        self.after = Some(key.values());
        self
    }

    /// Only these columns, in this order.
    #[must_use]
    pub fn columns<C: ColumnRef + 'a>(mut self, columns: &'a [C]) -> Self {
        self.columns = Some(C::list(columns));
        self
    }

    /// Ends the scan after so many tuples. Engines with locks lock no more than these, and the gaps
    /// between them.
    #[must_use]
    pub fn limit(mut self, tuples: usize) -> Self {
        self.limit = Some(tuples);
        self
    }

    /// Reads tuples that the transaction is going to change, as
    /// [`Tx::get_for_update`](crate::Tx::get_for_update). An engine that runs many transactions at
    /// the same time keeps others from changing them, or reading them to change them. `sofort` does
    /// not wait: if another transaction has a tuple, this one ends in [`Error::Conflict`] and is
    /// run again. Views that only read, such as [`crate::ReadTx`], refuse such a scan with
    /// [`Error::ReadsOnly`].
    #[must_use]
    pub fn for_update(mut self) -> Self {
        if self.locks == ScanLocks::Read {
            self.locks = ScanLocks::Update;
        }
        self
    }

    /// Works as [`Scan::for_update`], and skips tuples that another open transaction has changed,
    /// or has read to change them. So threads that each take the first free tuple of a queue do not
    /// conflict. With [`Scan::limit`] it takes no more than it needs.
    ///
    /// The tuples that it shows are committed and stay as they are until the transaction ends. But
    /// it neither waits for transactions that have changed tuples nor keeps others from inserting
    /// some. So an empty result does not mean that there are no tuples: another transaction may
    /// have taken one and may still give it back.
    ///
    /// ```
    /// # use perdura::*;
    /// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
    /// # let (_directory, db, account) = accounts(&Options::new());
    /// let taken = db.write(|tx| {
    ///     let first = Scan::all().for_update().skip_locked().limit(1);
    ///     let Some(row) = tx.rows(&account, first).next().transpose()? else { return Ok(None) };
    ///     tx.delete(&account, &[row.get(0)])?;
    ///     Ok(Some(row))
    /// })?;
    /// assert_eq!(taken.map(|row| row.u64(0)), Some(1));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn skip_locked(mut self) -> Self {
        self.locks = ScanLocks::UpdateOrSkip;
        self
    }

    /// Refuses a scan that locks, where only reading is possible.
    pub(crate) fn reads_only(&self) -> Result<(), Error> {
        if self.locks == ScanLocks::Read { Ok(()) } else { Err(Error::ReadsOnly) }
    }

    /// Returns the largest number of tuples to show.
    pub(crate) fn most(&self) -> Option<usize> {
        self.limit
    }

    /// Returns true if some columns are named.
    pub(crate) fn names_columns(&self) -> bool {
        self.columns.is_some()
    }

    /// The columns' numbers, if some are named.
    pub(crate) fn chosen(&self, table: &Table) -> Result<Option<Vec<u16>>, Error> {
        let mut buffer = Vec::new();
        let Some(columns) = &self.columns else { return Ok(None) };
        Ok(Some(columns.numbers(table, &mut buffer)?.to_vec()))
    }

    /// The columns of the index's keys, followed by those of the primary key.
    pub(crate) fn key_columns(&self, table: &Table) -> Result<Vec<u16>, Error> {
        let index = self.index.map(|name| table.index(name)).transpose()?;
        let mut columns = Vec::new();
        if let Some(index) = index {
            for name in &table.schema().indexes()[index].columns {
                columns.push(table.number_of(name)?);
            }
        }
        columns.extend(table.layout.key_columns().map(|column| column as u16));
        Ok(columns)
    }

    /// Returns the same scan after this key, if there is one, and limited to so many tuples.
    pub(crate) fn rest<'s>(&self, key: Option<Vec<Value<'s>>>, limit: usize) -> Scan<'s>
    where
        'a: 's,
    {
        let mut rest: Scan<'s> = self.clone();
        rest.limit = Some(limit);
        if let Some(key) = key {
            rest.after = Some(KeyList::Owned(key));
        }
        rest
    }

    /// The same with other columns.
    pub(crate) fn with_columns<'s>(self, columns: &'s [u16]) -> Scan<'s>
    where
        'a: 's,
    {
        Scan { columns: Some(ColumnList::Numbers(columns)), ..self }
    }

    /// Runs `scan` with this as an engine takes it.
    pub(crate) fn run(
        &self,
        table: &Table,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
        scan: impl FnOnce(
            &engines::Scan<'_>,
            &mut Row,
            &mut dyn FnMut(&Row) -> ControlFlow<()>,
        ) -> Result<(), EngineError>,
    ) -> Result<(), Error> {
        let (mut numbers, mut row) = (Vec::new(), Row::new());
        let columns = self.columns.as_ref();
        let columns = columns.map(|list| list.numbers(table, &mut numbers)).transpose()?;
        match columns {
            None => row.set_names(&table.names),
            Some(columns) => row.set_names(&Arc::new(RowNames::of(&table.layout, columns))),
        }
        let (low, high, open_end) = self.ends();
        let end = if open_end { self.end_of_prefix(table)? } else { None };
        let mut end_values = Vec::new();
        let high = match (&end, high) {
            (Some(end), Bound::Included(values)) => {
                end_values.extend_from_slice(&values[..values.len() - 1]);
                match end {
                    End::Text(text) => end_values.push(Value::Text(text)),
                    End::Bytes(bytes) => end_values.push(Value::Bytes(bytes)),
                    End::None => {}
                }
                match end {
                    End::None => Bound::Included(&end_values[..]),
                    _ => Bound::Excluded(&end_values[..]),
                }
            }
            _ => high,
        };
        let what = engines::Scan {
            index: self.index.map(|name| table.index(name)).transpose()?,
            low,
            high,
            direction: self.direction,
            columns,
            limit: self.limit,
            locks: self.locks,
        };
        match self.limit {
            None => scan(&what, &mut row, visit)?,
            Some(0) => {}
            Some(mut left) => scan(&what, &mut row, &mut |row| {
                left -= 1;
                let next = visit(row);
                if left == 0 { ControlFlow::Break(()) } else { next }
            })?,
        }
        Ok(())
    }

    /// Returns the bounds, narrowed to start after the given key, and whether the upper one still
    /// stands for all that start with its last value.
    #[inline]
    fn ends(&self) -> (Bound<&[Value<'a>]>, Bound<&[Value<'a>]>, bool) {
        let low = self.low.as_ref().map(|values| &values[..]);
        let high = self.high.as_ref().map(|values| &values[..]);
        let Some(key) = &self.after else { return (low, high, self.open_end) };
        match self.direction {
            Direction::Forward if !is_beyond(low, key, self.direction, false) => {
                (Bound::Excluded(key), high, self.open_end)
            }
            Direction::Backward if !is_beyond(high, key, self.direction, self.open_end) => {
                (low, Bound::Excluded(key), false)
            }
            _ => (low, high, self.open_end),
        }
    }

    /// The end of all texts or bytes that start with the last value of the upper bound; `None` if
    /// the value itself is the only one, since no longer one fits its column.
    #[cold]
    fn end_of_prefix(&self, table: &Table) -> Result<Option<End>, Error> {
        let Bound::Included(values) = &self.high else { return Ok(None) };
        let Some(last) = values.last() else { return Ok(None) };
        let columns = self.key_columns(table)?;
        let Some(column) = columns.get(values.len() - 1) else { return Ok(None) };
        let column = &table.schema().columns()[usize::from(*column)];
        let max = column.kind.max_bytes().unwrap_or(0) as usize;
        match *last {
            Value::Text(text) if text.len() < max => Ok(Some(end_of_text(text))),
            Value::Bytes(bytes) if bytes.len() < max => Ok(Some(end_of_bytes(bytes))),
            // The engine refuses a text or bytes that do not fit the column.
            Value::Text(_) | Value::Bytes(_) => Ok(None),
            other => Err(Error::Invalid(StorageError::WrongType {
                column: column.name.clone(),
                wanted: "in `starting_with` the beginning of a text or of bytes".into(),
                found: other.type_name(),
            })),
        }
    }
}

/// Returns whether a scan in this direction that begins with `bound` shows nothing up to `key`, and
/// nothing that starts with it. If `open`, the bound's last value stands for all that start with
/// it.
fn is_beyond(
    bound: Bound<&[Value<'_>]>,
    key: &[Value<'_>],
    direction: Direction,
    open: bool,
) -> bool {
    let (Bound::Included(values) | Bound::Excluded(values)) = bound else { return key.is_empty() };
    if values.is_empty() || key.is_empty() {
        // A bound without columns is none.
        return key.is_empty();
    }
    let mut orders = values.iter().zip(key).enumerate().map(|(place, (value, other))| {
        let begins = open && place + 1 == values.len() && is_beginning(value, other);
        if begins { Ordering::Equal } else { order(value, other) }
    });
    let order = orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal);
    let order = if direction == Direction::Forward { order } else { order.reverse() };
    match order {
        Ordering::Less => false,
        Ordering::Greater => true,
        // The excluded keys start with the bound, and so does this key.
        Ordering::Equal => matches!(bound, Bound::Excluded(_)) && key.len() > values.len(),
    }
}

/// Returns whether a text, or bytes, begin with another one.
fn is_beginning(beginning: &Value<'_>, whole: &Value<'_>) -> bool {
    match (beginning, whole) {
        (Value::Text(beginning), Value::Text(whole)) => whole.starts_with(beginning),
        (Value::Bytes(beginning), Value::Bytes(whole)) => whole.starts_with(beginning),
        _ => false,
    }
}

/// The order of two values of one column in its index. Values that no column has both of have none,
/// and an engine refuses one of them.
fn order(one: &Value<'_>, two: &Value<'_>) -> Ordering {
    let integer = |value: &Value<'_>| match *value {
        Value::U64(number) => Some(i128::from(number)),
        Value::I64(number) => Some(i128::from(number)),
        _ => None,
    };
    match (one, two) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::F64(one), Value::F64(two)) => compare_floats(*one, *two),
        (Value::Text(one), Value::Text(two)) => one.cmp(two),
        (Value::Bytes(one), Value::Bytes(two)) => one.cmp(two),
        (Value::Bool(one), Value::Bool(two)) => one.cmp(two),
        _ => integer(one).zip(integer(two)).map_or(Ordering::Equal, |(one, two)| one.cmp(&two)),
    }
}

/// The first value after all that start with another one.
enum End {
    Text(String),
    Bytes(Vec<u8>),
    /// No table.
    None,
}

/// The order of UTF-8 is that of the letters.
fn end_of_text(text: &str) -> End {
    let mut end = text.to_owned();
    while let Some(letter) = end.pop() {
        // Between the last letter before the surrogates and the first one after them there is none.
        if let Some(next) = (letter..=char::MAX).nth(1) {
            end.push(next);
            return End::Text(end);
        }
    }
    End::None
}

fn end_of_bytes(bytes: &[u8]) -> End {
    let mut end = bytes.to_vec();
    while let Some(byte) = end.pop() {
        if let Some(next) = byte.checked_add(1) {
            end.push(next);
            return End::Bytes(end);
        }
    }
    End::None
}

/// Values of a key, borrowed or kept.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub enum KeyList<'a> {
    Borrowed(&'a [Value<'a>]),
    Owned(Vec<Value<'a>>),
}

impl<'a> Deref for KeyList<'a> {
    type Target = [Value<'a>];

    fn deref(&self) -> &[Value<'a>] {
        match self {
            Self::Borrowed(values) => values,
            Self::Owned(values) => values,
        }
    }
}

/// The values of a key, or of its first columns: an array, a slice, a vector.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// fn owners<'a>(tx: &'a Tx<'_>, account: &Table, key: impl KeyValues<'a>) -> usize {
///     tx.rows(account, Scan::prefix(key).by("by_owner")).count()
/// }
/// let (tx, key) = (db.begin()?, vec![Value::from("Ada")]);
/// assert_eq!(owners(&tx, &account, [Value::from("Ada")]), 1);
/// assert_eq!(owners(&tx, &account, &key), 1);
/// # Ok::<(), Error>(())
/// ```
pub trait KeyValues<'a> {
    /// The values.
    #[doc(hidden)]
    fn values(self) -> KeyList<'a>;
}

impl<'a, 'v: 'a> KeyValues<'a> for &'a [Value<'v>] {
    fn values(self) -> KeyList<'a> {
        KeyList::Borrowed(self)
    }
}

impl<'a, 'v: 'a, const N: usize> KeyValues<'a> for &'a [Value<'v>; N] {
    fn values(self) -> KeyList<'a> {
        KeyList::Borrowed(self)
    }
}

impl<'a, 'v: 'a> KeyValues<'a> for &'a Vec<Value<'v>> {
    fn values(self) -> KeyList<'a> {
        KeyList::Borrowed(self)
    }
}

impl<'a, const N: usize> KeyValues<'a> for [Value<'a>; N] {
    fn values(self) -> KeyList<'a> {
        KeyList::Owned(self.into())
    }
}

impl<'a> KeyValues<'a> for Vec<Value<'a>> {
    fn values(self) -> KeyList<'a> {
        KeyList::Owned(self)
    }
}

/// A range of keys: see [`Scan::range`].
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// fn count<'a>(tx: &'a Tx<'_>, account: &Table, range: impl KeyRange<'a>) -> usize {
///     tx.rows(account, Scan::range(range)).count()
/// }
/// let tx = db.begin()?;
/// assert_eq!(count(&tx, &account, [Value::from(1)]..[Value::from(2)]), 1);
/// assert_eq!(count(&tx, &account, ..=[Value::from(2)]), 2);
/// # Ok::<(), Error>(())
/// ```
pub trait KeyRange<'a> {
    /// Its ends.
    #[doc(hidden)]
    fn bounds(self) -> (Bound<KeyList<'a>>, Bound<KeyList<'a>>);
}

macro_rules! ranges {
    ($($range:ty: $this:ident => $low:expr, $high:expr;)*) => {$(
        impl<'a, K: KeyValues<'a>> KeyRange<'a> for $range {
            fn bounds(self) -> (Bound<KeyList<'a>>, Bound<KeyList<'a>>) {
                let $this = self;
                ($low, $high)
            }
        }
    )*};
}
ranges! {
    Range<K>: range => Bound::Included(range.start.values()), Bound::Excluded(range.end.values());
    RangeFrom<K>: range => Bound::Included(range.start.values()), Bound::Unbounded;
    RangeTo<K>: range => Bound::Unbounded, Bound::Excluded(range.end.values());
    RangeToInclusive<K>: range => Bound::Unbounded, Bound::Included(range.end.values());
    (Bound<K>, Bound<K>): range =>
        range.0.map(KeyValues::values), range.1.map(KeyValues::values);
}

impl<'a, K: KeyValues<'a>> KeyRange<'a> for RangeInclusive<K> {
    fn bounds(self) -> (Bound<KeyList<'a>>, Bound<KeyList<'a>>) {
        let (low, high) = self.into_inner();
        (Bound::Included(low.values()), Bound::Included(high.values()))
    }
}

impl<'a> KeyRange<'a> for RangeFull {
    fn bounds(self) -> (Bound<KeyList<'a>>, Bound<KeyList<'a>>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_at_the_first_text_after_its_texts() {
        let text = |text: &str| match end_of_text(text) {
            End::Text(end) => Some(end),
            _ => None,
        };
        assert_eq!(text("Ad").as_deref(), Some("Ae"));
        assert_eq!(text("a\u{7f}").as_deref(), Some("a\u{80}"));
        assert_eq!(text("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(text("a\u{10ffff}\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(text("\u{10ffff}"), None);
        assert!(matches!(end_of_bytes(&[1, 255]), End::Bytes(end) if end == [2]));
        assert!(matches!(end_of_bytes(&[255]), End::None));
    }
}
