//! A database in any memory, without files and with one connection: an emulation runs on it.

use pm::{Escaped, Memory};

use crate::database::contract::{Failure, Level, MainFile};
use crate::store::connection::Store;
use crate::store::mode::Mode;

/// A database of one connection that is never reopened.
#[derive(Debug)]
pub struct MemoryFile<M> {
    store: Store<M>,
    level: Level,
}

impl<M: Memory> MemoryFile<M> {
    /// Wraps a store.
    pub fn new(store: Store<M>) -> Self {
        Self { store, level: Level::None }
    }
}

impl<M: Memory> MainFile for MemoryFile<M> {
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
        self.store.count_copy();
        Ok(self.store.read(at, out)?)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.store.write(at, bytes)?)
    }

    fn truncate(&mut self, to: u64) -> Result<(), Failure> {
        Ok(self.store.truncate(to)?)
    }

    fn size(&mut self) -> Result<u64, Failure> {
        Ok(self.store.size())
    }

    fn commit(&mut self, super_journal: Option<&[u8]>) -> Result<(), Failure> {
        if super_journal.is_some() {
            return Err(Failure::Io(
                "a database without a file is in no transaction of several".into(),
            ));
        }
        Ok(self.store.commit()?)
    }

    fn sync(&mut self) -> Result<(), Failure> {
        Ok(self.store.commit()?)
    }

    fn end_transaction(&mut self) -> Result<(), Failure> {
        if self.store.has_size_only() { Ok(self.store.commit()?) } else { Ok(()) }
    }

    fn lock(&mut self, to: Level) -> Result<(), Failure> {
        self.level = self.level.max(to);
        Ok(())
    }

    fn unlock(&mut self, to: Level) -> Result<(), Failure> {
        self.level = self.level.min(to);
        if to <= Level::Shared {
            self.store.discard();
        }
        Ok(())
    }

    fn level(&self) -> Level {
        self.level
    }

    fn is_reserved(&mut self) -> Result<bool, Failure> {
        Ok(self.level >= Level::Reserved)
    }

    fn has_moved(&self) -> bool {
        false
    }

    fn pragma(&mut self, name: &str, value: Option<&str>) -> Option<Result<String, String>> {
        match (name, value) {
            ("perdura_mode", None) => Some(Ok(self.store.mode().name().into())),
            ("perdura_mode", Some(word)) => Some(match Mode::of(word) {
                Some(mode) => {
                    self.store.set_mode(mode);
                    Ok(mode.name().into())
                }
                None => Err(format!("`{}` is no mode", Escaped(word))),
            }),
            ("perdura_stats", _) => Some(Ok(self.store.stats().json())),
            _ => None,
        }
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}
