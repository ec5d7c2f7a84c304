//! Describes how two schemas differ, for people.

use serde::Serialize;

use crate::rows::by_hand::shortened;
use crate::rows::schema::{Schema, TableSchema};

/// Differences that are named.
const NAMED: usize = 3;
/// Characters of a declaration that are shown.
const SHOWN: usize = 160;

impl Schema {
    /// Describes how this schema differs from `other`: the first few places, in each this schema's
    /// side first. `None` if they are equal.
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self == other {
            return None;
        }
        let mut found = Vec::new();
        for table in self.tables() {
            match other.tables().iter().find(|one| one.name() == table.name()) {
                None => found.push(format!("it has a table `{}`", table.name())),
                Some(one) => table.differences(one, &mut found),
            }
        }
        for table in other.tables() {
            if !self.tables().iter().any(|one| one.name() == table.name()) {
                found.push(format!("it has no table `{}`", table.name()));
            }
        }
        if found.is_empty() {
            found.push("its tables have another order".into());
        }
        Some(shown(found))
    }
}

impl TableSchema {
    /// Describes how this table differs from `other`, as [`Schema::difference`] does.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let mut found = Vec::new();
        self.differences(other, &mut found);
        (!found.is_empty()).then(|| shown(found))
    }

    fn differences(&self, other: &Self, found: &mut Vec<String>) {
        if self == other {
            return;
        }
        let before = found.len();
        let name = &self.name;
        parts("column", &self.columns, &other.columns, |column| &column.name, name, found);
        if self.key != other.key {
            let (own, others) = (self.key.join(", "), other.key.join(", "));
            found.push(format!("table `{name}` has primary key ({own}), not ({others})"));
        }
        parts("index", &self.indexes, &other.indexes, |index| &index.name, name, found);
        if self.inline != other.inline {
            let own = if self.inline { "asks" } else { "does not ask" };
            found.push(format!("table `{name}` {own} for inlined columns"));
        }
        if found.len() == before {
            found.push(format!("table `{name}` is declared otherwise"));
        }
    }
}

/// Describes how the columns or indexes of a table differ.
fn parts<P: PartialEq + Serialize>(
    what: &str,
    own: &[P],
    others: &[P],
    name: impl Fn(&P) -> &String,
    table: &str,
    found: &mut Vec<String>,
) {
    let before = found.len();
    for part in own {
        match others.iter().find(|one| name(one) == name(part)) {
            None => found.push(format!("table `{table}` has {what} `{}`", name(part))),
            Some(one) if one != part => {
                let (own, other) = (declared(part), declared(one));
                found.push(format!("table `{table}` has {what} {own}, not {other}"));
            }
            Some(_) => {}
        }
    }
    for part in others {
        if !own.iter().any(|one| name(one) == name(part)) {
            found.push(format!("table `{table}` has no {what} `{}`", name(part)));
        }
    }
    if found.len() == before && own != others {
        let plural = if what == "index" { "indexes" } else { "columns" };
        let order = own.iter().map(|part| name(part).as_str()).collect::<Vec<_>>().join(", ");
        found.push(format!(
            "table `{table}` has its {plural} in the order {}",
            shortened(&order, SHOWN)
        ));
    }
}

/// A column or index as in a schema.
fn declared(part: &impl Serialize) -> String {
    // A part that cannot be written as JSON was never read.
    shortened(&serde_json::to_string(part).unwrap_or_default(), SHOWN)
}

fn shown(mut found: Vec<String>) -> String {
    let more = found.len().saturating_sub(NAMED);
    found.truncate(NAMED);
    if more > 0 {
        found.push(format!("and {more} more"));
    }
    found.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::value::ColumnType;

    fn table() -> TableSchema {
        TableSchema::new("t")
            .column("a", ColumnType::U64)
            .column("b", ColumnType::I64)
            .key(&["a"])
            .index("by_b", &["b"])
    }

    #[test]
    fn each_difference_is_named() {
        let own = Schema::new().table(table());
        let said = |other: Schema| own.difference(&other).unwrap_or_default();
        assert_eq!(own.difference(&own.clone()), None);
        let other = |table: TableSchema| Schema::new().table(table);
        assert_eq!(said(own.clone().table(TableSchema::new("u"))), "it has no table `u`");
        assert_eq!(said(Schema::new()), "it has a table `t`");
        assert_eq!(said(other(table().column("c", ColumnType::U8))), "table `t` has no column `c`");
        assert_eq!(
            said(other(table().key(&["b", "a"]))),
            "table `t` has primary key (a), not (b, a)"
        );
        assert_eq!(said(other(table().index("x", &["a"]))), "table `t` has no index `x`");
        assert_eq!(
            said(other(table().inline_columns())),
            "table `t` does not ask for inlined columns"
        );
        let mut changed = table();
        changed.columns[1].kind = ColumnType::Text { max: 9 };
        let wanted = r#"table `t` has column {"name":"b","kind":"i64"}, not {"name":"b","kind":{"text":{"max":9}}}"#;
        assert_eq!(said(other(changed)), wanted);
        let mut turned = table();
        turned.columns.reverse();
        assert_eq!(said(other(turned)), "table `t` has its columns in the order a, b");
        let two = own.clone().table(TableSchema::new("u"));
        let other_order = Schema::new().table(TableSchema::new("u")).table(table());
        assert_eq!(two.difference(&other_order).as_deref(), Some("its tables have another order"));
    }

    #[test]
    fn many_differences_are_counted() {
        let many =
            (0..9).fold(Schema::new(), |all, n| all.table(TableSchema::new(format!("t{n}"))));
        let said = many.difference(&Schema::new()).unwrap_or_default();
        assert_eq!(
            said,
            "it has a table `t0`; it has a table `t1`; it has a table `t2`; and 6 more"
        );
    }
}
