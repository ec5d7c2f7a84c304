//! The B+tree: finds, adds and removes keys. The record of a child in an inner page has the largest
//! key that may be in it (P3 4.1); the last one of the rightmost pages has any.

use pm::{Bad, Memory, observe};

use crate::Result;
use crate::error::SlottedError;
use crate::layout::{MOST_LEVELS, most_inline};
use crate::phases::{INSERT, SEARCH};
use crate::record::{LEAF_LENGTHS, Leaf, encode_leaf};
use crate::room::Operation;
use crate::scheme::Scheme;
use crate::store::Store;

/// The longest value. Those of engines have at most 16 MiB.
pub const MOST_VALUE_BYTES: u64 = 1 << 30;

/// A page on the way to a key, and the index there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The page.
    pub page: u64,
    /// The index of the child that has the key; in a leaf, of its record or the first one above it.
    pub index: usize,
}

/// The way to a key.
#[derive(Debug)]
pub struct Path {
    /// The tree.
    pub tree: u32,
    /// From the root to the leaf.
    pub steps: Vec<Step>,
    /// The most records that one of these pages has.
    pub records: usize,
    /// True if the key is there.
    pub found: bool,
}

impl<M: Memory, S: Scheme<M>> Store<M, S> {
    pub(crate) fn root(&self, tree: u32) -> Result<u64> {
        let roots = &self.work.master.roots;
        let none = || SlottedError::Options { what: format!("a tree numbered {tree}") };
        roots.get(tree as usize).copied().ok_or_else(none)
    }

    /// The way to a key (P3's search).
    pub(crate) fn descend(&self, tree: u32, key: &[u8]) -> Result<Path> {
        let (mut page, mut steps) = (self.root(tree)?, Vec::with_capacity(4));
        let mut records = 0;
        while steps.len() < MOST_LEVELS {
            let node = self.node(page)?;
            records = records.max(node.count);
            if node.kind.is_leaf() {
                let (index, found) = match node.find(key)? {
                    Ok(index) => (index, true),
                    Err(index) => (index, false),
                };
                steps.push(Step { page, index });
                observe!(M: self.memory.phase(SEARCH));
                return Ok(Path { tree, steps, records, found });
            }
            let index = node.child_of(key)?;
            steps.push(Step { page, index });
            page = node.inner(index)?.child;
        }
        Err(Bad::Damaged { what: "depth of a tree", at: page }.into())
    }

    /// Puts the value of a record into `out`, whose contents go.
    pub(crate) fn value_of(&self, leaf: Leaf<'_>, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        match leaf.value.whole::<16>().filter(|_| leaf.overflow) {
            Some(value) => self.read_overflow(value, out),
            None => {
                leaf.value.append_to(out);
                Ok(())
            }
        }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// A page is damaged.
    pub fn get(&self, tree: u32, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(tree, key, &mut value)?.then_some(value))
    }

    /// Puts the value of a key into `out`, whose contents go. Returns whether the key is there;
    /// `out` is as it was where it is not.
    ///
    /// # Errors
    /// A page is damaged.
    pub fn get_into(&self, tree: u32, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let path = self.descend(tree, key)?;
        let step = path.steps[path.steps.len() - 1];
        if path.found {
            self.value_of(self.node(step.page)?.leaf(step.index)?, out)?;
        }
        observe!(M: self.memory.phase(SEARCH));
        Ok(path.found)
    }

    /// Gives a key a value (P3 3.2): the record goes where nothing committed leads, and the draft
    /// of its page gets the offset, or swaps it for that of the old record. Returns whether the key
    /// was there.
    ///
    /// # Errors
    /// Something is too large, the memory is full, or a page is damaged. Nothing has changed where
    /// the memory is full: for the page that is wanted, or for what the log gets when the
    /// transaction commits.
    pub fn put(&mut self, tree: u32, key: &[u8], value: &[u8]) -> Result<bool> {
        self.checked(key, value)?;
        let path = self.descend(tree, key)?;
        let found = path.found;
        self.put_at(path, key, value)?;
        Ok(found)
    }

    /// Gives a key that is not there a value, as [`Self::put`]. Returns whether it was not there;
    /// nothing has changed where it was.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn insert(&mut self, tree: u32, key: &[u8], value: &[u8]) -> Result<bool> {
        self.checked(key, value)?;
        let path = self.descend(tree, key)?;
        if path.found {
            return Ok(false);
        }
        self.put_at(path, key, value)?;
        Ok(true)
    }

    /// Refuses a key or a value that is too large.
    fn checked(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.usable()?;
        let most = most_inline(self.page_bytes());
        for (what, bytes, most) in
            [("key", key.len(), most as u64), ("value", value.len(), MOST_VALUE_BYTES)]
        {
            if bytes as u64 > most {
                return Err(SlottedError::TooLarge { what, bytes: bytes as u64, most });
            }
        }
        Ok(())
    }

    /// Puts a record at the end of the way to its key.
    fn put_at(&mut self, mut path: Path, key: &[u8], value: &[u8]) -> Result<()> {
        let most = most_inline(self.page_bytes());
        let long = value.len() > most || LEAF_LENGTHS + 2 + key.len() + value.len() > 2 * most;
        let (record, old) = self.prepare(&path, key, if long { None } else { Some(value) })?;
        let new_pages = if long { self.overflow_pages(value.len()) } else { 0 };
        self.room_to_put(Operation { new_pages, ..self.operation(&path, old) })?;
        if long {
            self.ensure_pages(new_pages + 2 * path.steps.len() + 1)?;
        }
        let depth = path.steps.len() - 1;
        let fits = self.fits(&path, depth, record.len(), path.found)?;
        if !fits {
            self.ensure_pages(2 * path.steps.len() + 1)?;
        }
        let found = path.found;
        self.whole(|store| {
            let mut record = record;
            if long {
                let chain = store.write_overflow(value)?;
                record = encode_leaf(key, &chain, true);
            }
            store.place(&mut path, depth, &record, found)?;
            old.map_or(Ok(()), |old| store.free_overflow(old))
        })?;
        observe!(M: self.memory.phase(INSERT));
        Ok(())
    }

    /// The record for a value, with no more than its length where it is a long one, and the pages
    /// of the old value, if it has any.
    fn prepare(
        &self,
        path: &Path,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(Vec<u8>, Option<[u8; 16]>)> {
        let record = encode_leaf(key, value.unwrap_or(&[0; 16]), value.is_none());
        let step = path.steps[path.steps.len() - 1];
        let mut old = None;
        if path.found {
            let node = self.node(step.page)?;
            let leaf = node.leaf(step.index)?;
            old = leaf.value.whole::<16>().filter(|_| leaf.overflow);
        }
        Ok((record, old))
    }

    /// A change at the end of this way, whose record has a long value.
    fn operation(&self, path: &Path, old: Option<[u8; 16]>) -> Operation {
        let (levels, old_pages) = (path.steps.len(), self.pages_of(old));
        Operation { levels, records: path.records + 1, new_pages: 0, old_pages }
    }

    /// Deletes a key (P3 3.2): the draft of its page drops the offset. Returns whether it was
    /// there. The first deletion of a transaction needs no room.
    ///
    /// # Errors
    /// A page is damaged, or the memory is full for what the log gets of all that the transaction
    /// has changed; nothing has changed then.
    pub fn delete(&mut self, tree: u32, key: &[u8]) -> Result<bool> {
        self.usable()?;
        let mut path = self.descend(tree, key)?;
        if !path.found {
            return Ok(false);
        }
        let (_, old) = self.prepare(&path, key, None)?;
        self.room_to_delete(self.operation(&path, old))?;
        let step = path.steps[path.steps.len() - 1];
        self.whole(|store| {
            let len = store.node(step.page)?.record_bytes(step.index)?;
            store.edit(step.page)?.drop_slot(step.index, len);
            if let Some(old) = old {
                store.free_overflow(old)?;
            }
            let depth = path.steps.len() - 1;
            store.rebalance(&mut path, depth)
        })?;
        observe!(M: self.memory.phase(INSERT));
        Ok(true)
    }
}
