//! Cells that a page of a b-tree has kept, and the frames that share most with a commit's pages.
//!
//! Cells are compared only by their bytes. How SQLite changed a page does not matter: a cell may stay wherever the
//! frame already holds the same bytes as a cell.
//!
//! When SQLite balances a tree it assigns the page numbers anew, in ascending order, and most contents change places
//! (P3's note, part 5). So a commit's pages may exchange frames.

use rustc_hash::FxHashMap;

use crate::store::placement::parse::Page;

/// The bytes that a move has to save: it costs an entry in the log, and later a move back.
const WORTH_MOVING: usize = 128;
/// The least bytes of cells that are not in a page's own frame, for the page to be considered.
const WORTH_LOOKING: usize = 256;

/// Returns for each cell of `new` a cell of `old` with the same bytes, if there is one. No cell of `old` is
/// returned twice.
pub fn survivors(old: &Page, new: &Page) -> Vec<Option<usize>> {
    let (olds, news) = (old.cells().len(), new.cells().len());
    let mut kept = vec![None; news];
    let shorter = olds.min(news);
    let head = (0..shorter).take_while(|cell| old.cell(*cell) == new.cell(*cell)).count();
    let tail = (1..=shorter - head)
        .take_while(|cell| old.cell(olds - cell) == new.cell(news - cell))
        .count();
    for (cell, kept) in kept[..head].iter_mut().enumerate() {
        *kept = Some(cell);
    }
    for cell in 1..=tail {
        kept[news - cell] = Some(olds - cell);
    }
    let (old_rest, new_rest) = (head..olds - tail, head..news - tail);
    if old_rest.is_empty() || new_rest.is_empty() {
        return kept;
    }
    // Pushed in reverse, so that the first of equal cells is taken first.
    let mut places: FxHashMap<&[u8], Vec<usize>> = FxHashMap::default();
    for cell in old_rest.rev() {
        places.entry(old.cell(cell)).or_default().push(cell);
    }
    for cell in new_rest {
        kept[cell] = places.get_mut(new.cell(cell)).and_then(Vec::pop);
    }
    kept
}

/// A page that a commit changes.
#[derive(Debug)]
pub struct Touched<'a> {
    /// The page in its frame, if it is one of a b-tree.
    pub old: Option<&'a Page<'a>>,
    /// The page after the commit, if it is one of a b-tree.
    pub new: Option<&'a Page<'a>>,
    /// The page keeps its frame, as page 1 does.
    pub stays: bool,
    /// The frame is unused, so that any page may take it.
    pub fresh: bool,
}

impl Touched<'_> {
    /// Returns whether the page may take another frame.
    fn may_move(&self) -> bool {
        !self.stays && self.new.is_some()
    }

    /// Returns whether another page may take its frame.
    fn gives(&self) -> bool {
        !self.stays && self.new.is_some() && (self.old.is_some() || self.fresh)
    }
}

/// Returns for each page the one whose frame it takes, usually its own. Each frame is taken once.
pub fn assign(touched: &[Touched]) -> Vec<usize> {
    let mut frames: Vec<usize> = (0..touched.len()).collect();
    let mut movers = frames.clone();
    movers.retain(|page| touched[*page].may_move() && touched[*page].gives());
    // Most commits change one page, which has no partner.
    if movers.len() > 1 {
        movers.retain(|page| is_worth_looking(&touched[*page]));
    }
    if movers.len() < 2 {
        return frames;
    }
    let shared = shared_bytes(touched, &movers);
    let mut pairs: Vec<(usize, usize, usize)> = shared
        .iter()
        .map(|((page, frame), bytes)| {
            let stays = if page == frame { WORTH_MOVING } else { 0 };
            (*bytes + stays, *page, *frame)
        })
        .collect();
    // Most bytes first, then the lowest page and frame, so that the result is deterministic.
    pairs.sort_unstable_by(|one, other| {
        other.0.cmp(&one.0).then_with(|| (one.1, one.2).cmp(&(other.1, other.2)))
    });
    let mut taken: FxHashMap<usize, usize> = FxHashMap::default();
    let mut placed: FxHashMap<usize, usize> = FxHashMap::default();
    for (_, page, frame) in pairs {
        if !placed.contains_key(&page) && !taken.contains_key(&frame) {
            placed.insert(page, frame);
            taken.insert(frame, page);
        }
    }
    // Pages without shared bytes take their own frame if it is left, else the lowest that is.
    let own: Vec<usize> =
        movers.iter().copied().filter(|page| !placed.contains_key(page)).collect();
    for page in &own {
        if !taken.contains_key(page) {
            placed.insert(*page, *page);
            taken.insert(*page, *page);
        }
    }
    for page in own.iter().filter(|page| !placed.contains_key(page)).copied().collect::<Vec<_>>() {
        let left = movers.iter().copied().find(|frame| !taken.contains_key(frame));
        let left = left.expect("as many frames as pages");
        placed.insert(page, left);
        taken.insert(left, page);
    }
    for (page, frame) in placed {
        frames[page] = frame;
    }
    frames
}

/// Returns whether much of the page is missing from its own frame.
fn is_worth_looking(page: &Touched) -> bool {
    let Some(new) = page.new else { return false };
    let Some(old) = page.old else { return page.fresh };
    let missing: usize = survivors(old, new)
        .iter()
        .enumerate()
        .filter(|(_, kept)| kept.is_none())
        .map(|(cell, _)| new.cells()[cell].bytes)
        .sum();
    missing >= WORTH_LOOKING
}

/// The bytes of cells that a page and a frame share, for pairs that share any.
fn shared_bytes(touched: &[Touched], movers: &[usize]) -> FxHashMap<(usize, usize), usize> {
    let mut holders: FxHashMap<&[u8], Vec<usize>> = FxHashMap::default();
    for frame in movers {
        if let Some(old) = touched[*frame].old {
            for cell in 0..old.cells().len() {
                holders.entry(old.cell(cell)).or_default().push(*frame);
            }
        }
    }
    let mut shared = FxHashMap::default();
    for page in movers {
        let Some(new) = touched[*page].new else { continue };
        for cell in 0..new.cells().len() {
            for frame in holders.get(new.cell(cell)).into_iter().flatten() {
                *shared.entry((*page, *frame)).or_insert(0) += new.cells()[cell].bytes;
            }
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::shape::Shape;

    /// A leaf of a table with a cell of 66 bytes for each key.
    fn leaf(keys: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 1024];
        let content = 1024 - 66 * keys.len();
        (image[0], image[4]) = (13, keys.len() as u8);
        image[5..7].copy_from_slice(&(content as u16).to_be_bytes());
        for (number, key) in keys.iter().enumerate() {
            let at = content + 66 * number;
            image[8 + 2 * number..][..2].copy_from_slice(&(at as u16).to_be_bytes());
            image[at..at + 66].fill(*key);
            (image[at], image[at + 1]) = (64, *key);
        }
        image
    }

    fn page(image: &[u8]) -> Page<'_> {
        Page::parse(image, Shape::new(1024, 0, false).unwrap(), false).expect("a leaf")
    }

    #[test]
    fn cells_survive_wherever_they_are() {
        let (old, new) = (leaf(&[1, 2, 3, 5, 5, 8]), leaf(&[1, 3, 2, 5, 7, 5, 5, 8]));
        let kept = survivors(&page(&old), &page(&new));
        let wanted: [Option<usize>; 8] =
            [Some(0), Some(2), Some(1), None, None, Some(3), Some(4), Some(5)];
        assert_eq!(kept, wanted);
    }

    #[test]
    fn pages_take_frames_holding_most_of_them() {
        let olds = [leaf(&[1, 2, 3, 4, 5]), leaf(&[6, 7, 8, 9, 10]), leaf(&[11, 12, 13, 14])];
        let news =
            [leaf(&[11, 12, 13, 14, 15]), leaf(&[1, 2, 3, 16, 17]), leaf(&[4, 5, 6, 7, 8, 9, 10])];
        let pages: Vec<[Page; 2]> =
            olds.iter().zip(&news).map(|(old, new)| [page(old), page(new)]).collect();
        let touched = |stays: usize, fresh: usize| -> Vec<Touched> {
            let mut all = Vec::new();
            for (at, [old, new]) in pages.iter().enumerate() {
                let old = Some(old).filter(|_| at != fresh);
                let (stays, fresh) = (at == stays, at == fresh);
                all.push(Touched { old, new: Some(new), stays, fresh });
            }
            all
        };
        assert_eq!(assign(&touched(9, 9)), [2, 0, 1]);
        // A page that stays keeps its frame, and no other page gets it.
        assert_eq!(assign(&touched(0, 9)), [0, 2, 1]);
        // An unused frame shares nothing.
        assert_eq!(assign(&touched(9, 0)), [2, 0, 1]);
        assert_eq!(assign(&[]), Vec::<usize>::new());
    }
}
