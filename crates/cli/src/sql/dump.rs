//! `.dump`: the SQL that makes a database again.

use rusqlite::Connection;

use super::show::{Output, Trouble};

/// The objects of a schema, tables first, so that what needs them finds them; that of sequences is there when
/// all tables are.
const OBJECTS: &str = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL \
    AND (?1 IS NULL OR tbl_name = ?1 COLLATE NOCASE) ORDER BY type = 'table' DESC, name = 'sqlite_sequence', rowid";

/// Writes all of a database.
///
/// # Errors
/// The database has what cannot be dumped, SQLite fails, or the text cannot be written.
pub(super) fn all(connection: &Connection, out: &mut Output) -> Result<(), Trouble> {
    within_one_snapshot(connection, || objects(connection, None, out))
}

/// Writes a table with its indexes and triggers.
///
/// # Errors
/// As [`all`], or there is no such table.
pub(super) fn table(connection: &Connection, name: &str, out: &mut Output) -> Result<(), Trouble> {
    within_one_snapshot(connection, || {
        let known = connection
            .prepare("SELECT 1 FROM sqlite_schema WHERE tbl_name = ?1 COLLATE NOCASE")?
            .exists([name])?;
        if !known {
            return Err(Trouble::Said(format!("there is no table `{name}`")));
        }
        objects(connection, Some(name), out)
    })
}

/// Runs reads that all see the database at one moment.
fn within_one_snapshot(
    connection: &Connection,
    work: impl FnOnce() -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    connection.execute_batch("SAVEPOINT perdura_dump")?;
    let done = work();
    connection.execute_batch("RELEASE perdura_dump")?;
    done
}

fn objects(connection: &Connection, of: Option<&str>, out: &mut Output) -> Result<(), Trouble> {
    let mut statement = connection.prepare(OBJECTS)?;
    let found = statement.query_map([of], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let found: Vec<(String, String, String)> = found.collect::<rusqlite::Result<_>>()?;
    let is_virtual = |sql: &str| sql.to_ascii_uppercase().starts_with("CREATE VIRTUAL TABLE");
    if let Some((_, name, _)) = found.iter().find(|(_, _, sql)| is_virtual(sql)) {
        return Err(Trouble::Said(format!("the virtual table `{name}` cannot be dumped")));
    }
    out.line("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;")?;
    for (kind, name, sql) in &found {
        match (kind.as_str(), name.as_str()) {
            // SQLite makes them itself.
            ("table", "sqlite_sequence") => {
                out.line("DELETE FROM sqlite_sequence;")?;
                rows(connection, name, out)?;
            }
            ("table", name) if name.starts_with("sqlite_") => {}
            ("table", name) => {
                out.line(&format!("{sql};"))?;
                rows(connection, name, out)?;
            }
            _ => out.line(&format!("{sql};"))?,
        }
    }
    out.line("COMMIT;")
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Writes the rows of a table as statements.
fn rows(connection: &Connection, table: &str, out: &mut Output) -> Result<(), Trouble> {
    // Columns that are computed cannot be given.
    let mut columns = connection.prepare("SELECT name, hidden FROM pragma_table_xinfo(?1)")?;
    let columns = columns.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let columns: Vec<(String, i64)> = columns.collect::<rusqlite::Result<_>>()?;
    let given: Vec<String> = columns
        .iter()
        .filter(|(_, hidden)| *hidden == 0)
        .map(|(name, _)| identifier(name))
        .collect();
    let name = identifier(table);
    let into = match given.len() == columns.len() {
        true => format!("INSERT INTO {name} VALUES("),
        false => format!("INSERT INTO {name}({}) VALUES(", given.join(",")),
    };
    // A quoted text would end at a zero character.
    let value = |column: &String| {
        format!(
            "CASE WHEN typeof({column}) = 'text' AND instr({column}, char(0)) \
             THEN 'CAST(X''' || hex({column}) || ''' AS TEXT)' ELSE quote({column}) END"
        )
    };
    let values: Vec<String> = given.iter().map(value).collect();
    let query = format!("SELECT {} FROM {name}", values.join(" || ',' || "));
    let mut statement = connection.prepare(&query)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let values = row.get_ref(0)?;
        let bytes = values.as_bytes().map_err(rusqlite::Error::from)?;
        out.line(&format!("{into}{});", String::from_utf8_lossy(bytes)))?;
    }
    Ok(())
}
