//! Pages laid out for their frames.
//!
//! A page takes the frame that holds most of it ([`crate::store::placement::matching`]). Cells that the frame has stay
//! where they are, and new ones go to unused space ([`crate::store::placement::place`]). A page that is not one of a
//! B-tree is logged as SQLite wrote it, where it differs from its frame.

use pm::Memory;

use crate::store::connection::Store;
use crate::store::mode::Mode;
use crate::store::pages::Written;
use crate::store::placed::{Placed, exact};
use crate::store::placement::matching::{Touched, assign};
use crate::store::placement::parse::{PAGES_MAX, Page};
use crate::store::placement::place::{place_apart, place_fresh, place_over};
use crate::store::plan::{Form, Plan};
use crate::store::shape::Shape;
use crate::store::span::LINE_BYTES;

/// The bytes of one store.
const WORD_BYTES: usize = 8;
/// The most pages of a commit that moves any: a larger one is mostly new, or rewrites everything.
const MOVERS_MAX: usize = 256;

impl<M: Memory> Store<M> {
    /// Lays out all pages that a transaction wrote, each for its frame or one of the others'.
    pub(in crate::store) fn lay_out(
        &self,
        written: &[Written],
        size: u64,
        shape: Shape,
        plan: &mut Plan,
    ) {
        let rules = PageRules::new(shape, size.max(self.view.size()));
        let movers = written.len() <= MOVERS_MAX;
        let parsed: Vec<Parsed> = if movers {
            written.iter().map(|page| Parsed::of(page, page, rules)).collect()
        } else {
            Vec::new()
        };
        let takes = match movers && !self.keeps_layout() {
            true => takes(written, &parsed),
            false => (0..written.len()).collect(),
        };
        // Only a commit of one page is made in place. Page 1's header begins within a word.
        let alone = match written {
            [page] => self.mode() == Mode::Fast && page.page > 1 && size == self.view.size(),
            _ => false,
        };
        for (at, (now, taken)) in written.iter().zip(takes).enumerate() {
            let from = &written[taken];
            let placed = if alone && let (Some(old), Some(new)) = (&parsed[at].old, &parsed[at].new)
            {
                plan.placed += 1;
                let mut placed = place_apart(old, new, self.erases());
                plan.in_place = self.form(&placed);
                if plan.in_place.is_none() {
                    placed.share_lines();
                }
                placed
            } else if movers {
                self.placed(now, from, parsed[at].new.as_ref(), parsed[taken].old.as_ref(), plan)
            } else {
                let pages = Parsed::of(now, from, rules);
                self.placed(now, from, pages.new.as_ref(), pages.old.as_ref(), plan)
            };
            plan.add(from.frame, (now.frame != from.frame).then_some(now.page), placed);
        }
    }

    /// Lays a page out for its own frame.
    pub(in crate::store) fn lay_out_alone(
        &self,
        page: &Written,
        size: u64,
        shape: Shape,
        plan: &mut Plan,
    ) -> Placed {
        let parsed = Parsed::of(page, page, PageRules::new(shape, size.max(self.view.size())));
        self.placed(page, page, parsed.new.as_ref(), parsed.old.as_ref(), plan)
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

    /// Lays a page out for the frame of `from`. `new` and `old` are the page and the frame's content, if they are
    /// pages of a B-tree.
    fn placed(
        &self,
        now: &Written,
        from: &Written,
        new: Option<&Page>,
        old: Option<&Page>,
        plan: &mut Plan,
    ) -> Placed {
        let held = from.frame_before();
        let Some(new) = new else {
            plan.exact += 1;
            return exact(&now.image, held);
        };
        plan.placed += 1;
        match old {
            Some(old) => place_over(old, new, self.erases()),
            None if from.fresh => {
                let mut placed = place_fresh(new, self.erases());
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

/// The pages of B-trees among a page and its frame's content.
struct Parsed<'a> {
    new: Option<Page<'a>>,
    old: Option<Page<'a>>,
}

impl<'a> Parsed<'a> {
    fn of(now: &'a Written, from: &'a Written, rules: PageRules) -> Self {
        let old = if from.fresh { None } else { rules.parse(from.page, &from.held) };
        Self { new: rules.parse(now.page, &now.image), old }
    }
}

/// Rules for recognizing pages of B-trees.
#[derive(Clone, Copy)]
struct PageRules {
    shape: Shape,
    /// Such pages may be laid out anew: extensions reserve no bytes, and the database has few enough pages that no
    /// other kind looks like one.
    free: bool,
}

impl PageRules {
    /// The rules for a database of so many bytes.
    fn new(shape: Shape, bytes: u64) -> Self {
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
