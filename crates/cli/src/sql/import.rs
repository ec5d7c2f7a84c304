//! `.import`: the rows of a CSV file (RFC 4180).

use std::fs;
use std::path::Path;

use rusqlite::{Connection, params_from_iter};

use super::show::Trouble;

/// Puts the rows of a file into a table, all or none. A table that is not there is made, with the columns that
/// the first line names.
///
/// # Errors
/// The file cannot be read, a row has another number of columns, or SQLite fails.
pub(super) fn csv(connection: &Connection, file: &Path, table: &str) -> Result<(), Trouble> {
    let said = |why: String| Trouble::Said(format!("{}: {why}", file.display()));
    let text = fs::read(file).map_err(|error| said(error.to_string()))?;
    let text = String::from_utf8(text).map_err(|_| said("this is not UTF-8".into()))?;
    let mut records = records(text.trim_start_matches('\u{feff}')).map_err(said)?.into_iter();
    connection.execute_batch("SAVEPOINT perdura_import")?;
    let done = rows(connection, &mut records, table).map_err(|trouble| match trouble {
        Trouble::Said(why) => said(why),
        other => other,
    });
    if done.is_err() {
        connection.execute_batch("ROLLBACK TO perdura_import")?;
    }
    connection.execute_batch("RELEASE perdura_import")?;
    done
}

fn rows(
    connection: &Connection,
    records: &mut impl Iterator<Item = (u64, Vec<String>)>,
    table: &str,
) -> Result<(), Trouble> {
    let identifier = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let name = identifier(table);
    let count = "SELECT count(*) FROM pragma_table_xinfo(?1) WHERE hidden = 0";
    let found: i64 = connection.query_row(count, [table], |row| row.get(0))?;
    let mut columns = usize::try_from(found).unwrap_or(0);
    if columns == 0 {
        let Some((_, head)) = records.next() else {
            return Err(Trouble::Said("it has no line to name the columns".into()));
        };
        let names: Vec<String> = head.iter().map(|name| identifier(name)).collect();
        connection.execute_batch(&format!("CREATE TABLE {name}({})", names.join(", ")))?;
        columns = head.len();
    }
    let places = vec!["?"; columns].join(", ");
    let mut insert = connection.prepare(&format!("INSERT INTO {name} VALUES({places})"))?;
    for (line, record) in records {
        if record.len() != columns {
            let found = record.len();
            return Err(Trouble::Said(format!(
                "line {line}: {found} values for {columns} columns; nothing was imported"
            )));
        }
        insert.execute(params_from_iter(record))?;
    }
    Ok(())
}

/// The records of a text, each with the line that it begins in.
fn records(text: &str) -> Result<Vec<(u64, Vec<String>)>, String> {
    let (mut all, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut line, mut first, mut quoted) = (1, 1, None);
    let mut rest = text.chars().peekable();
    while let Some(one) = rest.next() {
        line += u64::from(one == '\n');
        match (one, quoted) {
            ('"', Some(_)) if rest.peek() == Some(&'"') => field.extend(rest.next()),
            ('"', Some(_)) => quoted = None,
            (one, Some(_)) => field.push(one),
            ('"', None) if field.is_empty() => quoted = Some(line),
            (',', None) => record.push(std::mem::take(&mut field)),
            ('\r', None) if rest.peek() == Some(&'\n') => {}
            ('\n', None) => {
                record.push(std::mem::take(&mut field));
                all.push((first, std::mem::take(&mut record)));
                first = line;
            }
            (one, None) => field.push(one),
        }
    }
    if let Some(line) = quoted {
        return Err(format!("line {line}: a quote that is opened there is not closed"));
    }
    if !field.is_empty() || !record.is_empty() {
        record.push(field);
        all.push((first, record));
    }
    // An empty line is no record of one empty value.
    all.retain(|(_, record)| record.len() > 1 || !record[0].is_empty());
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::records;

    #[test]
    fn quotes_commas_and_lines_may_stand_in_a_value() {
        let found = records("a,b\r\n1,\"x, \"\"y\"\"\nz\"\n\n,\"\"\n3,4").expect("whole");
        let found: Vec<(u64, Vec<&str>)> = found
            .iter()
            .map(|(line, record)| (*line, record.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(
            found,
            [
                (1, vec!["a", "b"]),
                (2, vec!["1", "x, \"y\"\nz"]),
                (5, vec!["", ""]),
                (6, vec!["3", "4"])
            ]
        );
        assert!(records("a\n\"b").expect_err("open").starts_with("line 2"));
    }
}
