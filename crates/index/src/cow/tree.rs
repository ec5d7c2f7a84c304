//! The copy-on-write B+tree: look-up and changes.
//!
//! A tree is a [`Root`]. A change makes a new root; the old one stays good for as long as its
//! pages are kept ([`Pages`]). Keys are byte strings in the order of their bytes.
//!
//! How a change is made, from the leaf up:
//! 1. Build the images of the node with the change: one page, two if it is full, none if it is
//!    empty; together with its neighbour, if it has become sparse.
//! 2. A page that the open transaction made gets its image in place, and the way up ends there.
//!    Others are superseded by fresh pages.
//! 3. The parent gets the new numbers, which is a change of the parent.

use pm::{Bad, Bytes};

use super::build::{Piece, Pieces, Plan};
use super::node::{NewValue, Node, Stored, TreeShape, child_of, damaged};
use super::overflow;
use super::store::Pages;
use crate::error::IndexError;
use crate::pages::page::{Header, Image};
use crate::pages::{PageBackend, PageSource};

/// Levels of the highest tree that is believed.
const MAX_LEVELS: usize = 32;

/// The start of a tree: a page and its level, in one word. Zero for a tree without records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Root(u64);

impl Root {
    /// A tree without records.
    pub const EMPTY: Self = Self(0);

    /// The number may come from a damaged node.
    fn new(page: u64, level: u8) -> Result<Self, Bad> {
        if page == 0 || page >> 56 != 0 {
            return Err(Bad::Damaged { what: "page number", at: page });
        }
        Ok(Self(page << 8 | u64::from(level)))
    }

    /// The root in the form in which a directory keeps it.
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The word that a directory keeps.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The root page; none if the tree has no records.
    #[inline]
    pub const fn page(self) -> Option<u64> {
        if self.0 == 0 { None } else { Some(self.0 >> 8) }
    }

    /// The level of the root page; leaves have level 0.
    #[inline]
    pub const fn level(self) -> u8 {
        self.0 as u8
    }

    /// The most pages that one change of the tree allocates, overflow pages apart.
    #[inline]
    pub const fn pages_for_change(self) -> u64 {
        // Two on each level, and a new root.
        2 * (self.level() as u64 + 1) + 1
    }
}

/// The way from the root to a leaf: each page with the index of the record that was taken.
#[derive(Debug)]
struct Path {
    steps: [(u64, usize); MAX_LEVELS],
    len: usize,
}

/// A change of a node: `remove` records at `at` go, the first `news` of the tree's new records
/// come in their place.
#[derive(Clone, Copy, Debug)]
struct Edit {
    at: usize,
    remove: usize,
    news: usize,
}

/// The outcome of building a node.
enum Built {
    Empty {
        birth: u64,
    },
    /// The root has only this child.
    Only {
        child: u64,
        birth: u64,
    },
    Pages {
        /// Records of the parent that lead to the pages that are replaced: first and count.
        at: usize,
        remove: usize,
        replaced: [(u64, u64); 2],
        made: usize,
    },
}

/// Buffers for changes of trees. One set serves any number of trees.
#[derive(Default, Debug)]
pub struct TreeBuffers {
    images: [Vec<u8>; 2],
    records: [Vec<u8>; 2],
    spare: Vec<u8>,
    key: Vec<u8>,
}

impl TreeShape {
    /// Goes down to the leaf of `key`.
    #[inline]
    fn leaf<S: PageSource>(
        &self,
        source: &S,
        root: Root,
        key: &[u8],
        mut step: impl FnMut(u64, usize),
    ) -> Result<Option<u64>, IndexError> {
        let Some(mut page) = root.page() else { return Ok(None) };
        if usize::from(root.level()) >= MAX_LEVELS {
            return Err(Bad::Damaged { what: "root of a tree", at: page }.into());
        }
        for level in (1..=root.level()).rev() {
            page = source.with(page, |view| {
                let node = Node::open(view, self, page, level)?;
                let index = node.towards(key)?;
                step(page, index);
                node.child(index)
            })??;
        }
        Ok(Some(page))
    }

    /// Calls `read` with the value of `key`, if it is there.
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub fn get<S: PageSource, R>(
        &self,
        source: &S,
        root: Root,
        key: &[u8],
        read: impl FnOnce(Bytes<'_>) -> R,
    ) -> Result<Option<R>, IndexError> {
        let Some(leaf) = self.leaf(source, root, key, |_, _| {})? else { return Ok(None) };
        let mut read = Some(read);
        let mut take = |value: Bytes<'_>| read.take().map(|read| read(value));
        let place = source.with(leaf, |view| {
            let node = Node::open(view, self, leaf, 0)?;
            let (index, found) = node.find(key)?;
            if !found {
                return Ok(Err(None));
            }
            Ok::<_, Bad>(match node.value(index)? {
                Stored::Inline(value) => Err(take(value)),
                Stored::Overflow { bytes, first } => Ok((bytes, first)),
            })
        })??;
        match place {
            Err(result) => Ok(result),
            Ok(place) => Ok(take(Bytes::from(&overflow::read(source, self, place)?))),
        }
    }

    /// Inserts `key`; returns whether it was not there before. The caller has reserved
    /// [`Root::pages_for_change`] pages and [`Self::overflow_pages`].
    ///
    /// # Errors
    /// Damage, or a missing reservation: the transaction must be aborted.
    pub fn insert<B: PageBackend>(
        &self,
        pages: &mut Pages<B>,
        buffers: &mut TreeBuffers,
        root: &mut Root,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, IndexError> {
        let mut path = Path { steps: [(0, 0); MAX_LEVELS], len: 0 };
        match self.find(pages.source(), *root, key, &mut path)? {
            Some((_, Some(_))) => return Ok(false),
            Some((at, None)) => {
                self.encode_new(pages, buffers, key, value)?;
                self.change(pages, buffers, root, &path, Edit { at, remove: 0, news: 1 })?;
            }
            None => {
                self.encode_new(pages, buffers, key, value)?;
                *root = self.new_root(pages, buffers, 1, 0)?;
            }
        }
        Ok(true)
    }

    /// Gives `key` another value; returns whether it was there. Reserve as for [`Self::insert`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn replace<B: PageBackend>(
        &self,
        pages: &mut Pages<B>,
        buffers: &mut TreeBuffers,
        root: &mut Root,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, IndexError> {
        let mut path = Path { steps: [(0, 0); MAX_LEVELS], len: 0 };
        let found = self.find(pages.source(), *root, key, &mut path)?;
        let Some((at, Some(old))) = found else { return Ok(false) };
        self.encode_new(pages, buffers, key, value)?;
        self.change(pages, buffers, root, &path, Edit { at, remove: 1, news: 1 })?;
        old.map_or(Ok(()), |place| overflow::supersede(pages, self, place))?;
        Ok(true)
    }

    /// Removes `key`; returns whether it was there. Reserve as for [`Self::insert`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove<B: PageBackend>(
        &self,
        pages: &mut Pages<B>,
        buffers: &mut TreeBuffers,
        root: &mut Root,
        key: &[u8],
    ) -> Result<bool, IndexError> {
        let mut path = Path { steps: [(0, 0); MAX_LEVELS], len: 0 };
        let found = self.find(pages.source(), *root, key, &mut path)?;
        let Some((at, Some(old))) = found else { return Ok(false) };
        self.change(pages, buffers, root, &path, Edit { at, remove: 1, news: 0 })?;
        old.map_or(Ok(()), |place| overflow::supersede(pages, self, place))?;
        Ok(true)
    }

    /// Returns how many overflow pages a value of so many bytes takes with a key of so many bytes.
    pub fn overflow_pages(&self, key_bytes: usize, value_bytes: usize) -> u64 {
        if value_bytes <= self.max_inline(key_bytes) {
            return 0;
        }
        overflow::page_count(self.page_bytes, value_bytes)
    }

    /// Goes down to where `key` is or would be: the index in the leaf, and if it is there, the
    /// place of its overflow pages, if it has some. `None` for an empty tree.
    #[expect(clippy::type_complexity, reason = "three things of one search")]
    fn find<S: PageSource>(
        &self,
        source: &S,
        root: Root,
        key: &[u8],
        path: &mut Path,
    ) -> Result<Option<(usize, Option<Option<(u64, u64)>>)>, IndexError> {
        let Path { steps, len } = path;
        let leaf = self.leaf(source, root, key, |page, index| {
            steps[*len] = (page, index);
            *len += 1;
        })?;
        let Some(leaf) = leaf else { return Ok(None) };
        let result = source.with(leaf, |view| {
            let node = Node::open(view, self, leaf, 0)?;
            let (index, found) = node.find(key)?;
            if !found {
                return Ok((index, None));
            }
            Ok::<_, Bad>(match node.value(index)? {
                Stored::Inline(_) => (index, Some(None)),
                Stored::Overflow { bytes, first } => (index, Some(Some((bytes, first)))),
            })
        })??;
        steps[*len] = (leaf, result.0);
        *len += 1;
        Ok(Some(result))
    }

    /// Makes the leaf's new record.
    fn encode_new<B: PageBackend>(
        &self,
        pages: &mut Pages<B>,
        buffers: &mut TreeBuffers,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), IndexError> {
        let new = if value.len() <= self.max_inline(key.len()) {
            NewValue::Inline(value)
        } else {
            let first = overflow::write(pages, value, &mut buffers.spare)?;
            NewValue::Overflow { bytes: value.len() as u64, first }
        };
        self.encode(key.into(), new, &mut buffers.records[0]);
        Ok(())
    }

    /// A root page with the first `news` new records.
    fn new_root<B: PageBackend>(
        &self,
        pages: &mut Pages<B>,
        buffers: &mut TreeBuffers,
        news: usize,
        level: u8,
    ) -> Result<Root, IndexError> {
        let plan = Plan { shape: *self, level, birth: pages.number(), ascending: false };
        let mut pieces = Pieces::<Image<'_>>::new();
        buffers.records[..news].iter().for_each(|record| pieces.push(Piece::New(record)));
        plan.build(&pieces, &mut buffers.images)?;
        let page = pages.allocate()?;
        pages.write(page, &buffers.images[0])?;
        Ok(Root::new(page, level)?)
    }

    /// Changes the leaf at the end of `path`, and what has to change above it.
    fn change<B: PageBackend>(
        &self,
        pages: &mut Pages<B>,
        buffers: &mut TreeBuffers,
        root: &mut Root,
        path: &Path,
        mut edit: Edit,
    ) -> Result<(), IndexError> {
        let number = pages.number();
        let rightmost = edit.remove == 0 && self.is_rightmost(pages.source(), path, edit.at)?;
        for depth in (0..path.len).rev() {
            let level = (path.len - 1 - depth) as u8;
            let here = path.steps[depth].0;
            let parent = depth.checked_sub(1).map(|above| path.steps[above]);
            let plan = Plan { shape: *self, level, birth: number, ascending: rightmost };
            let (at, remove, replaced, made) =
                match self.rebuild(pages.source(), buffers, &plan, here, parent, edit)? {
                    Built::Empty { birth } => {
                        pages.supersede(here, birth);
                        let Some((_, index)) = parent else {
                            *root = Root::EMPTY;
                            return Ok(());
                        };
                        edit = Edit { at: index, remove: 1, news: 0 };
                        continue;
                    }
                    Built::Only { child, birth } => {
                        pages.supersede(here, birth);
                        *root = Root::new(child, level - 1)?;
                        return Ok(());
                    }
                    Built::Pages { at, remove, replaced, made } => (at, remove, replaced, made),
                };
            let ids = self.place(pages, buffers, &replaced[..remove.max(1)], made)?;
            let Some((above, _)) = parent else {
                if made == 1 {
                    *root = Root::new(ids[0], level)?;
                } else {
                    let TreeBuffers { images, records, .. } = &mut *buffers;
                    for (index, record) in records.iter_mut().enumerate() {
                        let view = Image(&images[index]);
                        let node = Node::open(&view, self, ids[index], level)?;
                        self.encode(node.key(0)?, NewValue::Child(ids[index]), record);
                    }
                    *root = self.new_root(pages, buffers, 2, level + 1)?;
                }
                return Ok(());
            };
            if made == 1 && remove == 1 {
                if ids[0] == here {
                    return Ok(());
                }
                // A parent that may be changed in place gets only the new number.
                let child_at = pages.source().with(above, |view| {
                    let node = Node::open(view, self, above, level + 1)?;
                    let own = Header::read(view).birth == number;
                    if own { node.child_at(at).map(Some) } else { Ok(None) }
                })??;
                if let Some(child_at) = child_at {
                    return pages.patch(above, child_at, ids[0].to_le_bytes());
                }
            }
            self.encode_children(pages.source(), buffers, (above, level + 1, at), &ids[..made])?;
            edit = Edit { at, remove, news: made };
        }
        Ok(())
    }

    /// Returns whether a new record at `at` of the path's leaf comes after all others of the tree.
    fn is_rightmost<S: PageSource>(
        &self,
        source: &S,
        path: &Path,
        at: usize,
    ) -> Result<bool, IndexError> {
        for (depth, (page, index)) in path.steps[..path.len].iter().enumerate() {
            let level = (path.len - 1 - depth) as u8;
            let index = if level == 0 { at } else { *index + 1 };
            let last = source.with(*page, |view| {
                Ok::<_, Bad>(Node::open(view, self, *page, level)?.count == index)
            })??;
            if !last {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Builds the images of a node with a change; of its neighbour too, if it becomes sparse.
    fn rebuild<S: PageSource>(
        &self,
        source: &S,
        buffers: &mut TreeBuffers,
        plan: &Plan,
        here: u64,
        parent: Option<(u64, usize)>,
        edit: Edit,
    ) -> Result<Built, IndexError> {
        let TreeBuffers { images, records, spare, key } = buffers;
        source.with(here, |view| {
            let node = Node::open(view, self, here, plan.level)?;
            if edit.at + edit.remove > node.count {
                return Err(Bad::Damaged { what: "page of a tree", at: here }.into());
            }
            let after = node.count - edit.remove + edit.news;
            let birth = node.birth;
            if after == 0 {
                return Ok(Built::Empty { birth });
            }
            let mut pieces = Pieces::new();
            edited(&node, edit, records, &mut pieces);
            if parent.is_none() && plan.level > 0 && after == 1 {
                let child = child_of(pieces.pop_first()?.ok_or_else(|| damaged(here))?);
                return Ok(Built::Only { child, birth });
            }
            let pair = match parent {
                Some((above, index)) if self.is_sparse(&node, edit, records)? => {
                    self.neighbour(source, (above, plan.level + 1, index), key)?
                }
                _ => None,
            };
            let Some((other, other_first)) = pair else {
                let made = plan.build(&pieces, images)?;
                let at = parent.map_or(0, |(_, index)| index);
                return Ok(Built::Pages { at, remove: 1, replaced: [(here, birth); 2], made });
            };
            source.with(other, |other_view| {
                let neighbour = Node::open(other_view, self, other, plan.level)?;
                let mut whole = Pieces::new();
                whole.push(Piece::Stored(&neighbour, 0, neighbour.count));
                let (left, mut right) = if other_first { (whole, pieces) } else { (pieces, whole) };
                if plan.level > 0 {
                    // The first key of an inner node means nothing where it stands, but it does
                    // in the middle.
                    let first = child_of(right.pop_first()?.ok_or_else(|| damaged(here))?);
                    self.encode(key[..].into(), NewValue::Child(first), spare);
                }
                let mut both = Pieces::new();
                left.iter().for_each(|piece| both.push(piece));
                if plan.level > 0 {
                    both.push(Piece::New(spare));
                }
                right.iter().for_each(|piece| both.push(piece));
                let plan = Plan { ascending: false, ..*plan };
                let made = plan.build(&both, images)?;
                let index = parent.map_or(0, |(_, index)| index);
                let (mine, others) = ((here, birth), (other, neighbour.birth));
                Ok(if other_first {
                    Built::Pages { at: index - 1, remove: 2, replaced: [others, mine], made }
                } else {
                    Built::Pages { at: index, remove: 2, replaced: [mine, others], made }
                })
            })?
        })?
    }

    /// Returns whether a change makes a node smaller and leaves less than a quarter of it.
    fn is_sparse<V: pm::View>(
        &self,
        node: &Node<'_, V>,
        edit: Edit,
        records: &[Vec<u8>; 2],
    ) -> Result<bool, Bad> {
        let after = node.count - edit.remove + edit.news;
        let more = records[..edit.news].iter().map(Vec::len).sum::<usize>();
        let mut less = 0;
        for index in edit.at..edit.at + edit.remove {
            less += node.record(index)?.len();
        }
        let used = (node.used + more).saturating_sub(less);
        let few = used < self.page_bytes as usize / 4 || (node.level > 0 && after < 2);
        Ok(more < less && few)
    }

    /// A neighbour of child `index`, and whether it comes first; the key between the two is put
    /// into `key`.
    fn neighbour<S: PageSource>(
        &self,
        source: &S,
        (above, level, index): (u64, u8, usize),
        key: &mut Vec<u8>,
    ) -> Result<Option<(u64, bool)>, IndexError> {
        source.with(above, |view| {
            let node = Node::open(view, self, above, level)?;
            if node.count < 2 {
                return Ok(None);
            }
            let other = if index > 0 { index - 1 } else { 1 };
            key.clear();
            node.key(index.max(1))?.append_to(key);
            Ok(Some((node.child(other)?, index > 0)))
        })?
    }

    /// Puts the built images into pages: those of the replaced ones that the open transaction
    /// made, else fresh ones.
    fn place<B: PageBackend>(
        &self,
        pages: &mut Pages<B>,
        buffers: &TreeBuffers,
        replaced: &[(u64, u64)],
        made: usize,
    ) -> Result<[u64; 2], IndexError> {
        let number = pages.number();
        let mut ids = [0; 2];
        let mut own = replaced.iter().filter(|(_, birth)| *birth == number);
        for id in &mut ids[..made] {
            *id = match own.next() {
                Some((page, _)) => *page,
                None => pages.allocate()?,
            };
        }
        for (page, birth) in replaced {
            if !ids[..made].contains(page) {
                pages.supersede(*page, *birth);
            }
        }
        for (id, image) in ids[..made].iter().zip(&buffers.images) {
            pages.write(*id, image)?;
        }
        Ok(ids)
    }

    /// Makes the parent's new records for the pages of the built images.
    fn encode_children<S: PageSource>(
        &self,
        source: &S,
        buffers: &mut TreeBuffers,
        (above, level, at): (u64, u8, usize),
        ids: &[u64],
    ) -> Result<(), IndexError> {
        let TreeBuffers { images, records, .. } = buffers;
        source.with(above, |view| {
            let parent = Node::open(view, self, above, level)?;
            self.encode(parent.key(at)?, NewValue::Child(ids[0]), &mut records[0]);
            Ok::<_, Bad>(())
        })??;
        if let Some(second) = ids.get(1) {
            let view = Image(&images[1]);
            let node = Node::open(&view, self, *second, level - 1)?;
            self.encode(node.key(0)?, NewValue::Child(*second), &mut records[1]);
        }
        Ok(())
    }
}

/// The records of a node with a change.
fn edited<'a, V: pm::View>(
    node: &'a Node<'a, V>,
    edit: Edit,
    records: &'a [Vec<u8>; 2],
    pieces: &mut Pieces<'a, V>,
) {
    pieces.push(Piece::Stored(node, 0, edit.at));
    records[..edit.news].iter().for_each(|record| pieces.push(Piece::New(record)));
    pieces.push(Piece::Stored(node, edit.at + edit.remove, node.count));
}
