//! The changes of a commit, page by page: each page is laid out for its frame.
//!
//! A page takes the frame that holds most of it ([`crate::store::matching`]). Cells that the frame has stay where
//! they are, and new ones go to unused space ([`crate::store::place`]). A page that is not one of a B-tree is logged
//! as SQLite wrote it, where it differs from its frame.

use pm::Memory;

use crate::store::connection::Store;
use crate::store::error::{Result, StoreError};
use crate::store::layout::GRANULE;
use crate::store::matching::{Touched, assign};
use crate::store::mode::Mode;
use crate::store::page1;
use crate::store::parse::{PAGES_MAX, Page, Shape};
use crate::store::place::{Frame, Placed, exact, place_apart, place_fresh, place_over};
use crate::store::plan::{Form, Plan, place_of};
use crate::store::record::Part;
use crate::store::span::{LINE_BYTES, Span};

/// The bytes of one store.
const WORD_BYTES: usize = 8;
/// The most pages of a commit that moves any: a larger one is mostly new, or rewrites everything.
const MOVERS_MAX: usize = 256;

/// A page that a transaction wrote.
pub(super) struct Written {
    page: u32,
    image: Vec<u8>,
    /// The page's frame, and its bytes.
    pub(super) frame: u32,
    held: Vec<u8>,
    /// The page is new to the database.
    fresh: bool,
}

impl<M: Memory> Store<M> {
    /// The changes that commit what is staged.
    ///
    /// # Errors
    /// The medium fails.
    pub(crate) fn plan(&self, size: u64, shape: Shape) -> Result<Plan> {
        let mut plan = Plan::default();
        let written = self.written(size, shape, &mut plan)?;
        let rules = PageRules::new(shape, size.max(self.size));
        let places = !matches!(self.mode(), Mode::Full | Mode::Lean);
        let movers = places && written.len() <= MOVERS_MAX;
        let parsed: Vec<Parsed> = if movers {
            written.iter().map(|page| Parsed::of(page, page, rules)).collect()
        } else {
            Vec::new()
        };
        let takes = match movers && !self.keeps_layout {
            true => takes(&written, &parsed),
            false => (0..written.len()).collect(),
        };
        // Only a commit of one page is made in place. Page 1's header begins within a word.
        let alone = match &written[..] {
            [page] => self.mode() == Mode::Fast && page.page > 1 && size == self.size,
            _ => false,
        };
        for (at, (now, taken)) in written.iter().zip(takes).enumerate() {
            let from = &written[taken];
            let placed = if self.mode() == Mode::Full {
                plan.exact += 1;
                whole(now)
            } else if !places {
                self.placed(now, from, None, None, &mut plan)
            } else if alone && let (Some(old), Some(new)) = (&parsed[at].old, &parsed[at].new) {
                plan.placed += 1;
                let mut placed = place_apart(old, new, self.erases);
                plan.in_place = self.form(&placed);
                if plan.in_place.is_none() {
                    placed.share_lines();
                }
                placed
            } else if movers {
                self.placed(
                    now,
                    from,
                    parsed[at].new.as_ref(),
                    parsed[taken].old.as_ref(),
                    &mut plan,
                )
            } else {
                let pages = Parsed::of(now, from, rules);
                self.placed(now, from, pages.new.as_ref(), pages.old.as_ref(), &mut plan)
            };
            let moved = (now.frame != from.frame).then_some(now.page);
            let Placed { image, direct, logged, erased } = placed;
            if moved.is_some() || !(direct.is_empty() && logged.is_empty() && erased.is_empty()) {
                let bytes = logged.iter().flat_map(|run| run.of(&image)).copied().collect();
                let part = Part { frame: from.frame, moved, direct, logged, erased, bytes };
                plan.parts.push(part);
                plan.images.push(image);
            }
        }
        Ok(plan)
    }

    /// How the header of a page can be stored in place, if nothing else is stored after the commit.
    fn form(&self, placed: &Placed) -> Option<Form> {
        let within = |bytes: usize| placed.logged.iter().all(|run| run.end() <= bytes);
        match placed.erased.is_empty() {
            true if within(WORD_BYTES) => Some(Form::Word),
            true if within(LINE_BYTES) && self.data.memory().has_store_line() => Some(Form::Line),
            _ => None,
        }
    }

    /// The pages that differ from their frames.
    fn written(&self, size: u64, shape: Shape, plan: &mut Plan) -> Result<Vec<Written>> {
        let bytes = shape.page_bytes() as u64;
        let mut written = Vec::new();
        for page in self.staged_pages(size, bytes)? {
            written.extend(self.written_page(page, bytes, plan)?);
        }
        Ok(written)
    }

    /// The numbers of the pages that are staged, ascending.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn staged_pages(&self, size: u64, page_bytes: u64) -> Result<Vec<u32>> {
        let numbers = self.stage.numbers()?;
        let mut pages: Vec<u32> = Vec::new();
        let most = numbers.len() * (GRANULE / page_bytes).max(1) as usize;
        pages.try_reserve_exact(most).map_err(|_| StoreError::Memory)?;
        for number in numbers {
            let end = ((number + 1) * GRANULE).min(size).div_ceil(page_bytes);
            for page in number * GRANULE / page_bytes..end {
                let page = page as u32 + 1;
                if pages.last() != Some(&page) {
                    pages.push(page);
                }
            }
        }
        Ok(pages)
    }

    /// A staged page, if it differs from its frame. The counters of page 1 go to the plan.
    pub(super) fn written_page(
        &self,
        page: u32,
        bytes: u64,
        plan: &mut Plan,
    ) -> Result<Option<Written>> {
        let at = place_of(page, bytes);
        let frame = self.side.frame(page)?;
        let (mut image, mut held) = (vec![0; bytes as usize], vec![0; bytes as usize]);
        self.staged(at, &mut image)?;
        self.data.read_into(place_of(frame, bytes), &mut held)?;
        if page == 1 {
            page1::mark(&mut image, self.side.tag);
            plan.counters = Some(self.take_counters(&mut image, &held));
        }
        // Page 1's counters are stored by themselves, so nothing of its header is stored directly.
        let fresh = page > 1 && at >= self.size;
        Ok((fresh || image != held).then_some(Written { page, image, frame, held, fresh }))
    }

    /// Lays a page out for the frame of `from`. `new` and `old` are the page and the frame's content, if they are
    /// pages of a B-tree.
    pub(super) fn placed(
        &self,
        now: &Written,
        from: &Written,
        new: Option<&Page>,
        old: Option<&Page>,
        plan: &mut Plan,
    ) -> Placed {
        let held = if from.fresh { Frame::Fresh } else { Frame::Holds(&from.held) };
        let Some(new) = new else {
            plan.exact += 1;
            return exact(&now.image, held);
        };
        plan.placed += 1;
        match old {
            Some(old) => place_over(old, new, self.erases),
            None if from.fresh => {
                let mut placed = place_fresh(new, self.erases);
                placed.erased.retain(|run| run.of(&from.held).iter().any(|byte| *byte != 0));
                placed
            }
            None => exact(&now.image, held),
        }
    }
}

/// Returns for each page the index of the one whose frame it takes.
fn takes(written: &[Written], parsed: &[Parsed]) -> Vec<usize> {
    let touched: Vec<Touched> = written
        .iter()
        .zip(parsed)
        .map(|(page, parsed)| Touched {
            old: parsed.old.as_ref(),
            new: parsed.new.as_ref(),
            stays: page.page == 1,
            fresh: page.fresh,
        })
        .collect();
    assign(&touched)
}

/// A page as SQLite wrote it, logged whole.
pub(super) fn whole(now: &Written) -> Placed {
    let logged = vec![Span::new(0, now.image.len())];
    Placed { image: now.image.clone(), direct: Vec::new(), logged, erased: Vec::new() }
}

/// The pages of B-trees among a page and its frame's content.
pub(super) struct Parsed<'a> {
    pub(super) new: Option<Page<'a>>,
    pub(super) old: Option<Page<'a>>,
}

impl<'a> Parsed<'a> {
    pub(super) fn of(now: &'a Written, from: &'a Written, rules: PageRules) -> Self {
        let old = if from.fresh { None } else { rules.parse(from.page, &from.held) };
        Self { new: rules.parse(now.page, &now.image), old }
    }
}

/// Rules for recognizing pages of B-trees.
#[derive(Clone, Copy)]
pub(super) struct PageRules {
    shape: Shape,
    /// Such pages may be laid out anew: extensions reserve no bytes, and the database has few enough pages that no
    /// other kind looks like one.
    free: bool,
}

impl PageRules {
    /// The rules for a database of so many bytes.
    pub(super) fn new(shape: Shape, bytes: u64) -> Self {
        let free = shape.usable() == shape.page_bytes()
            && bytes / (shape.page_bytes() as u64) < u64::from(PAGES_MAX);
        Self { shape, free }
    }

    /// The page of a B-tree in `image`, if it is one.
    fn parse(self, page: u32, image: &[u8]) -> Option<Page<'_>> {
        let may_be = self.free && !self.shape.is_pointer_map(page);
        may_be.then(|| Page::parse(image, self.shape, page == 1)).flatten()
    }
}
