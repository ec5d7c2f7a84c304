//! The four tables.
//!
//! Flags and types are `u8`, values of 0 to 255 `u16`, locations and subscribers `u32`. A subscriber's
//! number is a text of 15 digits, with an index that leads from it to the subscriber.

use perdura::{ColumnType, Database, Environment, Error, Schema, Table, TableSchema};

use ColumnType::{U8, U16, U32};

/// Digits of a telephone number.
pub(super) const DIGITS: usize = 15;
/// The index on subscribers by their number.
pub(super) const BY_NUMBER: &str = "by_number";

pub(super) const S_ID: u16 = 0;
pub(super) const BIT_1: u16 = 2;
pub(super) const VLR_LOCATION: u16 = 33;
pub(super) const AI_DATA: [u16; 4] = [2, 3, 4, 5];
pub(super) const SF_TYPE: u16 = 1;
pub(super) const IS_ACTIVE: u16 = 2;
pub(super) const DATA_A: u16 = 4;
pub(super) const CF_START: u16 = 2;
pub(super) const CF_END: u16 = 3;
pub(super) const CF_NUMBER: u16 = 4;

fn text(max: usize) -> ColumnType {
    ColumnType::Text { max: max as u32 }
}

/// The schema with which a TATP database is created.
#[must_use]
pub fn schema() -> Schema {
    let mut subscriber =
        TableSchema::new("subscriber").column("s_id", U32).column("sub_nbr", text(DIGITS));
    for (name, kind) in [("bit", U8), ("hex", U8), ("byte2", U16)] {
        for number in 1..=10 {
            subscriber = subscriber.column(format!("{name}_{number}"), kind);
        }
    }
    let subscriber = subscriber
        .column("msc_location", U32)
        .column("vlr_location", U32)
        .key(&["s_id"])
        .unique_index(BY_NUMBER, &["sub_nbr"]);
    let access_info = TableSchema::new("access_info")
        .column("s_id", U32)
        .column("ai_type", U8)
        .column("data1", U16)
        .column("data2", U16)
        .column("data3", text(3))
        .column("data4", text(5))
        .key(&["s_id", "ai_type"]);
    let special_facility = TableSchema::new("special_facility")
        .column("s_id", U32)
        .column("sf_type", U8)
        .column("is_active", U8)
        .column("error_cntrl", U16)
        .column("data_a", U16)
        .column("data_b", text(5))
        .key(&["s_id", "sf_type"]);
    let call_forwarding = TableSchema::new("call_forwarding")
        .column("s_id", U32)
        .column("sf_type", U8)
        .column("start_time", U8)
        .column("end_time", U8)
        .column("numberx", text(DIGITS))
        .key(&["s_id", "sf_type", "start_time"]);
    Schema::new()
        .table(subscriber)
        .table(access_info)
        .table(special_facility)
        .table(call_forwarding)
}

/// Fifteen decimal digits of a number, as text: a telephone number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digits([u8; DIGITS]);

impl Digits {
    /// The digits of a number below 10^15; leading zeros are there.
    #[must_use]
    pub fn of(mut number: u64) -> Self {
        let mut digits = [b'0'; DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit += (number % 10) as u8;
            number /= 10;
        }
        Self(digits)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits are ASCII")
    }
}

/// A table of the register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableOf {
    /// The subscribers.
    Subscriber,
    /// Their kinds of access.
    AccessInfo,
    /// Their facilities.
    SpecialFacility,
    /// The hours at which their calls are forwarded.
    CallForwarding,
}

/// Handles to the four tables of an open database.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    pub(super) subscriber: Table,
    pub(super) access_info: Table,
    pub(super) special_facility: Table,
    pub(super) call_forwarding: Table,
}

impl Tables {
    pub(super) const fn table(&self, of: TableOf) -> &Table {
        match of {
            TableOf::Subscriber => &self.subscriber,
            TableOf::AccessInfo => &self.access_info,
            TableOf::SpecialFacility => &self.special_facility,
            TableOf::CallForwarding => &self.call_forwarding,
        }
    }

    /// # Errors
    /// The database has no TATP tables, or other ones of these names.
    pub(super) fn of<E: Environment>(database: &Database<E>) -> Result<Self, Error> {
        let table = |name| database.table(name);
        let tables = Self {
            subscriber: table("subscriber")?,
            access_info: table("access_info")?,
            special_facility: table("special_facility")?,
            call_forwarding: table("call_forwarding")?,
        };
        // Rows are read by column number and type. There may be other tables, too.
        let wanted = schema();
        let is_own =
            |table: &&TableSchema| wanted.tables().iter().any(|own| own.name() == table.name());
        let own = database.schema().tables().iter().filter(is_own).cloned();
        match own.fold(Schema::new(), Schema::table).difference(&wanted) {
            Some(differs) => Err(Error::WrongSchema { differs }),
            None => Ok(tables),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subscriber_has_34_columns_and_the_numbers_are_theirs() {
        let schema = schema();
        let name = |table: usize, column: u16| {
            schema.tables()[table].columns()[usize::from(column)].name.clone()
        };
        assert_eq!(schema.tables()[0].columns().len(), 34);
        assert_eq!([name(0, S_ID), name(0, BIT_1)], ["s_id", "bit_1"]);
        assert_eq!(name(0, VLR_LOCATION), "vlr_location");
        assert_eq!(AI_DATA.map(|column| name(1, column)), ["data1", "data2", "data3", "data4"]);
        assert_eq!(
            [SF_TYPE, IS_ACTIVE, DATA_A].map(|column| name(2, column)),
            ["sf_type", "is_active", "data_a"]
        );
        assert_eq!(
            [CF_START, CF_END, CF_NUMBER].map(|column| name(3, column)),
            ["start_time", "end_time", "numberx"]
        );
    }

    #[test]
    fn a_number_has_fifteen_digits() {
        assert_eq!(Digits::of(42).as_str(), "000000000000042");
        assert_eq!(Digits::of(u64::from(u32::MAX)).as_str(), "000004294967295");
    }
}
