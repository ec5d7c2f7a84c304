//! The index of a dictionary: from a value's hash to its id. It lies in ordinary memory, and is built
//! again after opening, from the newest id down.
//!
//! Values that share a hash have the numbers behind it. Nothing is ever taken out.

use std::collections::HashMap;

use crate::Result;

#[derive(Debug, Default)]
pub(crate) struct DictionaryIndex {
    ids: HashMap<u64, u32>,
    /// The ids from 1 to below this one are not in it.
    pub(crate) unbuilt: u64,
    /// Bits of the ids whose values are known to be durable.
    durable: Vec<u64>,
}

impl DictionaryIndex {
    /// An index of nothing yet, of a dictionary that had `opened` ids.
    pub(crate) fn new(opened: u64) -> Self {
        Self { ids: HashMap::new(), unbuilt: opened.max(1), durable: Vec::new() }
    }

    /// The id with this hash whose value is the one that is sought.
    pub(crate) fn find(
        &self,
        hash: u64,
        mut is_it: impl FnMut(u32) -> Result<bool>,
    ) -> Result<Option<u32>> {
        let mut place = hash;
        while let Some(id) = self.ids.get(&place) {
            if is_it(*id)? {
                return Ok(Some(*id));
            }
            place = place.wrapping_add(1);
        }
        Ok(None)
    }

    /// Adds an id whose value is not in it.
    pub(crate) fn add(&mut self, hash: u64, id: u32) {
        let mut place = hash;
        while self.ids.contains_key(&place) {
            place = place.wrapping_add(1);
        }
        self.ids.insert(place, id);
    }

    /// The number of values in it.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn is_durable(&self, id: u32) -> bool {
        let word = self.durable.get(id as usize / 64);
        word.is_some_and(|word| word & 1 << (id % 64) != 0)
    }

    pub(crate) fn set_durable(&mut self, id: u32) {
        let word = id as usize / 64;
        if self.durable.len() <= word {
            self.durable.resize(word + 1, 0);
        }
        self.durable[word] |= 1 << (id % 64);
    }
}
