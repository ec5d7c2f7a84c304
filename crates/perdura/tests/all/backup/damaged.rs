//! Backups of which something is wrong: each is refused with the file and the place, and nothing
//! is created.

use perdura::{
    Backup, BackupError, ColumnType, Database, EngineKind, Error, Schema, TableSchema, Value,
};

use super::{Place, restore, small};

const HEADER: usize = 32;

fn tiny(place: &Place, name: &str, key: u64) -> Vec<u8> {
    let schema = Schema::new().table(
        TableSchema::new("t")
            .column("k", ColumnType::U64)
            .column("v", ColumnType::Text { max: 9 })
            .key(&["k"]),
    );
    let path = place.at(&format!("db-{name}"));
    let db = Database::create(path, &schema, &small(EngineKind::NvmInp)).unwrap();
    let table = db.table("t").unwrap();
    for key in key..key + 3 {
        db.write(|tx| tx.insert(&table, &[Value::U64(key), Value::Text("val")])).unwrap();
    }
    db.backup(place.at(name)).unwrap();
    std::fs::read(place.at(name)).unwrap()
}

struct Damaged {
    place: Place,
    sound: Vec<u8>,
    names: Vec<String>,
}

impl Damaged {
    fn new() -> Self {
        let place = Place::new();
        let sound = tiny(&place, "backup", 1);
        let names = place.names();
        Self { place, sound, names }
    }

    fn verify(&self, bytes: &[u8]) -> Result<(), Error> {
        std::fs::write(self.place.at("backup"), bytes).unwrap();
        Backup::open(self.place.at("backup"))?.verify(&mut |_| ()).map(|_| ())
    }

    /// Restoring is refused, the error names the file, and nothing is created.
    fn refused(&self, bytes: &[u8], what: &str) -> Error {
        let error = self.verify(bytes).expect_err(what);
        let to = self.place.at("copy");
        let again = restore(&self.place.at("backup"), &to, &small(EngineKind::NvmInp));
        assert_eq!(again.expect_err(what).to_string(), error.to_string());
        assert_eq!(self.place.names(), self.names, "{what}");
        let file = self.place.at("backup").display().to_string();
        assert!(error.to_string().starts_with(&file), "{what}: {error}");
        error
    }

    /// Returns where its blocks begin, and where the last one ends.
    fn blocks(&self) -> Vec<usize> {
        let mut starts = vec![HEADER];
        while *starts.last().unwrap() < self.sound.len() {
            let at = *starts.last().unwrap();
            let bytes = u32::from_le_bytes(self.sound[at + 4..at + 8].try_into().unwrap());
            starts.push(at + 32 + bytes as usize);
        }
        starts
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let damaged = Damaged::new();
    damaged.verify(&damaged.sound).unwrap();
    for at in 0..damaged.sound.len() {
        for bit in 0..8 {
            let mut bytes = damaged.sound.clone();
            bytes[at] ^= 1 << bit;
            if bit == at % 8 {
                let error = damaged.refused(&bytes, &format!("byte {at}"));
                match error {
                    Error::Backup(BackupError::NotABackup { .. }) => assert!(at < 8),
                    Error::Backup(BackupError::Version { .. }) => assert!((8..12).contains(&at)),
                    Error::Backup(BackupError::Damaged { at: found, .. }) => {
                        // The block that it is in, or its header.
                        let starts = damaged.blocks();
                        let start = starts.iter().rfind(|start| **start <= at).copied();
                        assert_eq!(found, start.unwrap_or(0) as u64, "byte {at}");
                    }
                    other => panic!("byte {at}: {other}"),
                }
            } else {
                assert!(damaged.verify(&bytes).is_err(), "bit {bit} of byte {at}");
            }
        }
    }
}

#[test]
fn every_truncation_and_every_addition_is_found() {
    let damaged = Damaged::new();
    for len in 0..damaged.sound.len() {
        let error = damaged.refused(&damaged.sound[..len], &format!("{len} bytes"));
        let short = matches!(error, Error::Backup(BackupError::NotABackup { .. }));
        assert_eq!(short, len < HEADER, "{len}: {error}");
    }
    for more in [&[0][..], &[1; 32], &[0; 4096], &damaged.sound[HEADER..], &damaged.sound] {
        damaged.refused(&[&damaged.sound, more].concat(), "with more behind it");
    }
    // Space that was lost in a crash reads as zero.
    for len in (0..damaged.sound.len()).step_by(13) {
        let mut bytes = damaged.sound.clone();
        bytes[len..].fill(0);
        // The last bytes of its checksum may be zero themselves.
        if bytes != damaged.sound {
            damaged.refused(&bytes, &format!("zero from {len} on"));
        }
    }
}

#[test]
fn blocks_in_another_s_place_are_found() {
    let damaged = Damaged::new();
    let starts = damaged.blocks();
    assert_eq!(starts.len(), 5, "description, tuples, end of the table, trailer");
    let block = |bytes: &[u8], number: usize| bytes[starts[number]..starts[number + 1]].to_vec();
    let with = |order: &[usize]| {
        let blocks = order.iter().flat_map(|number| block(&damaged.sound, *number));
        damaged.sound[..HEADER].iter().copied().chain(blocks).collect::<Vec<u8>>()
    };
    damaged.verify(&with(&[0, 1, 2, 3])).unwrap();
    for order in
        [&[0, 2, 3][..], &[0, 1, 3], &[0, 1, 1, 2, 3], &[0, 2, 1, 3], &[1, 0, 2, 3], &[0, 3]]
    {
        damaged.refused(&with(order), &format!("{order:?}"));
    }
    // Blocks of another backup, of a database with the same tables.
    let place = Place::new();
    let other = tiny(&place, "other", 4);
    assert_eq!(other.len(), damaged.sound.len());
    for number in 0..4 {
        let mut bytes = damaged.sound.clone();
        bytes[starts[number]..starts[number + 1]].copy_from_slice(&block(&other, number));
        damaged.refused(&bytes, &format!("block {number} of another one"));
    }
}

#[test]
fn what_is_no_backup_is_refused_with_its_name() {
    let place = Place::new();
    let names = |error: Error, name: &str| {
        let said = error.to_string();
        assert!(said.contains(name), "{said}");
        said
    };
    drop(Database::create(place.at("pool"), &super::every_type(), &small(EngineKind::NvmInp)));
    std::fs::write(place.at("empty"), "").unwrap();
    std::fs::write(place.at("text"), "not a backup, although it is long enough to be one").unwrap();
    for name in ["pool", "empty", "text"] {
        let said = names(Backup::open(place.at(name)).unwrap_err(), name);
        assert!(said.contains("is no backup"), "{said}");
    }
    for path in [place.at("missing"), place.0.path().into(), "/dev/zero".into()] {
        names(Backup::open(&path).unwrap_err(), &path.display().to_string());
    }
}
