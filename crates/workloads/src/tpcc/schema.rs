//! The nine tables (clause 1.3), with their columns in the specification's order.
//!
//! | kind of value | here |
//! |---|---|
//! | identifier | the smallest unsigned type that holds what the specification asks for: warehouses `u16`, districts, lines and carriers `u8`, items, customers and orders `u32` |
//! | count | `u64` |
//! | amount of money | `i64`, cents |
//! | tax, discount | `i64`, ten-thousandths |
//! | quantity | `i64` |
//! | date and time | `u64`: 1 for the time of loading; a transaction's is its number in its partition + 2 |
//! | null carrier, null delivery date | 0: carriers and dates start at 1 |
//! | text | text of the specification's size |
//!
//! HISTORY has no primary key in the specification. Here it has one of the warehouse and a number:
//! the customer's place in the warehouse for what was loaded; after these the transaction's date.

use perdura::{ColumnType, Database, Environment, Error, Schema, Table, TableSchema};

use ColumnType::{I64, U8, U16, U32, U64};

/// A date or a carrier that is null.
pub(crate) const NULL: u64 = 0;
/// The date of everything that was loaded.
pub(crate) const LOADED: u64 = 1;
/// The date of the first transaction of a partition.
pub(crate) const FIRST_DATE: u64 = 2;

/// The index on customers by warehouse, district, last and first name.
pub(crate) const BY_NAME: &str = "by_name";
/// The index on orders by warehouse, district and customer.
pub(crate) const BY_CUSTOMER: &str = "by_customer";

const fn text(max: u32) -> ColumnType {
    ColumnType::Text { max }
}

/// A constant for each column's number, and the list of names and types.
macro_rules! table {
    ($columns:ident: $($column:ident $name:literal $kind:expr),* $(,)?) => {
        const $columns: &[(&str, ColumnType)] = &[$(($name, $kind)),*];
        table!(@ 0; $($column)*);
    };
    (@ $number:expr; $column:ident $($more:ident)*) => {
        #[allow(dead_code, reason = "some columns are only ever written with the whole tuple")]
        pub(crate) const $column: u16 = $number;
        table!(@ $number + 1; $($more)*);
    };
    (@ $number:expr;) => {};
}

table! { WAREHOUSE:
    W_ID "w_id" U16, W_NAME "w_name" text(10), W_STREET_1 "w_street_1" text(20),
    W_STREET_2 "w_street_2" text(20), W_CITY "w_city" text(20), W_STATE "w_state" text(2),
    W_ZIP "w_zip" text(9), W_TAX "w_tax" I64, W_YTD "w_ytd" I64,
}

table! { DISTRICT:
    D_ID "d_id" U8, D_W_ID "d_w_id" U16, D_NAME "d_name" text(10),
    D_STREET_1 "d_street_1" text(20), D_STREET_2 "d_street_2" text(20), D_CITY "d_city" text(20),
    D_STATE "d_state" text(2), D_ZIP "d_zip" text(9), D_TAX "d_tax" I64, D_YTD "d_ytd" I64,
    D_NEXT_O_ID "d_next_o_id" U32,
}

table! { CUSTOMER:
    C_ID "c_id" U32, C_D_ID "c_d_id" U8, C_W_ID "c_w_id" U16, C_FIRST "c_first" text(16),
    C_MIDDLE "c_middle" text(2), C_LAST "c_last" text(16), C_STREET_1 "c_street_1" text(20),
    C_STREET_2 "c_street_2" text(20), C_CITY "c_city" text(20), C_STATE "c_state" text(2),
    C_ZIP "c_zip" text(9), C_PHONE "c_phone" text(16), C_SINCE "c_since" U64,
    C_CREDIT "c_credit" text(2), C_CREDIT_LIM "c_credit_lim" I64, C_DISCOUNT "c_discount" I64,
    C_BALANCE "c_balance" I64, C_YTD_PAYMENT "c_ytd_payment" I64,
    C_PAYMENT_CNT "c_payment_cnt" U64, C_DELIVERY_CNT "c_delivery_cnt" U64,
    C_DATA "c_data" text(500),
}

table! { HISTORY:
    H_ID "h_id" U32, H_C_ID "h_c_id" U32, H_C_D_ID "h_c_d_id" U8, H_C_W_ID "h_c_w_id" U16,
    H_D_ID "h_d_id" U8, H_W_ID "h_w_id" U16, H_DATE "h_date" U64, H_AMOUNT "h_amount" I64,
    H_DATA "h_data" text(24),
}

table! { NEW_ORDER:
    NO_O_ID "no_o_id" U32, NO_D_ID "no_d_id" U8, NO_W_ID "no_w_id" U16,
}

table! { ORDER:
    O_ID "o_id" U32, O_D_ID "o_d_id" U8, O_W_ID "o_w_id" U16, O_C_ID "o_c_id" U32,
    O_ENTRY_D "o_entry_d" U64, O_CARRIER_ID "o_carrier_id" U8, O_OL_CNT "o_ol_cnt" U8,
    O_ALL_LOCAL "o_all_local" U8,
}

table! { ORDER_LINE:
    OL_O_ID "ol_o_id" U32, OL_D_ID "ol_d_id" U8, OL_W_ID "ol_w_id" U16,
    OL_NUMBER "ol_number" U8, OL_I_ID "ol_i_id" U32, OL_SUPPLY_W_ID "ol_supply_w_id" U16,
    OL_DELIVERY_D "ol_delivery_d" U64, OL_QUANTITY "ol_quantity" I64, OL_AMOUNT "ol_amount" I64,
    OL_DIST_INFO "ol_dist_info" text(24),
}

table! { ITEM:
    I_ID "i_id" U32, I_IM_ID "i_im_id" U32, I_NAME "i_name" text(24), I_PRICE "i_price" I64,
    I_DATA "i_data" text(50),
}

table! { STOCK:
    S_I_ID "s_i_id" U32, S_W_ID "s_w_id" U16, S_QUANTITY "s_quantity" I64,
    S_DIST_01 "s_dist_01" text(24), S_DIST_02 "s_dist_02" text(24),
    S_DIST_03 "s_dist_03" text(24), S_DIST_04 "s_dist_04" text(24),
    S_DIST_05 "s_dist_05" text(24), S_DIST_06 "s_dist_06" text(24),
    S_DIST_07 "s_dist_07" text(24), S_DIST_08 "s_dist_08" text(24),
    S_DIST_09 "s_dist_09" text(24), S_DIST_10 "s_dist_10" text(24), S_YTD "s_ytd" I64,
    S_ORDER_CNT "s_order_cnt" U64, S_REMOTE_CNT "s_remote_cnt" U64, S_DATA "s_data" text(50),
}

fn table(name: &str, columns: &[(&str, ColumnType)], key: &[&str]) -> TableSchema {
    let table = columns
        .iter()
        .fold(TableSchema::new(name), |table, (column, kind)| table.column(*column, *kind));
    table.key(key)
}

/// The schema with which a TPC-C database is created.
#[must_use]
pub fn schema() -> Schema {
    let customer = table("customer", CUSTOMER, &["c_w_id", "c_d_id", "c_id"])
        .index(BY_NAME, &["c_w_id", "c_d_id", "c_last", "c_first"]);
    let orders = table("orders", ORDER, &["o_w_id", "o_d_id", "o_id"])
        .index(BY_CUSTOMER, &["o_w_id", "o_d_id", "o_c_id"]);
    Schema::new()
        .table(table("warehouse", WAREHOUSE, &["w_id"]))
        .table(table("district", DISTRICT, &["d_w_id", "d_id"]))
        .table(customer)
        .table(table("history", HISTORY, &["h_w_id", "h_id"]))
        .table(table("new_order", NEW_ORDER, &["no_w_id", "no_d_id", "no_o_id"]))
        .table(orders)
        .table(table("order_line", ORDER_LINE, &["ol_w_id", "ol_d_id", "ol_o_id", "ol_number"]))
        .table(table("item", ITEM, &["i_id"]))
        .table(table("stock", STOCK, &["s_w_id", "s_i_id"]))
}

/// Handles to the nine tables of an open database.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    pub(crate) warehouse: Table,
    pub(crate) district: Table,
    pub(crate) customer: Table,
    pub(crate) history: Table,
    pub(crate) new_order: Table,
    pub(crate) orders: Table,
    pub(crate) order_line: Table,
    pub(crate) item: Table,
    pub(crate) stock: Table,
}

impl Tables {
    /// # Errors
    /// The database has no TPC-C tables, or other ones of these names.
    pub(crate) fn of<E: Environment>(database: &Database<E>) -> Result<Self, Error> {
        let table = |name| database.table(name);
        let tables = Self {
            warehouse: table("warehouse")?,
            district: table("district")?,
            customer: table("customer")?,
            history: table("history")?,
            new_order: table("new_order")?,
            orders: table("orders")?,
            order_line: table("order_line")?,
            item: table("item")?,
            stock: table("stock")?,
        };
        // Rows are read by column number and type.
        match database.schema().difference(&schema()) {
            Some(differs) => Err(Error::WrongSchema { differs }),
            None => Ok(tables),
        }
    }
}
