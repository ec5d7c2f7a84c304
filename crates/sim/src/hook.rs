//! The hook that a recording medium calls before each thing that is done to it: a test that decides
//! when which thread goes on does so there.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pm::Site;

/// The number of the next event, of one medium or of several.
pub(crate) type Numbers = Arc<AtomicU64>;

/// Does nothing, or what a test wants to do.
#[derive(Clone, Default)]
pub(crate) struct Hook(Option<Arc<dyn Fn(Site) + Send + Sync>>);

impl Hook {
    pub(crate) fn new(work: impl Fn(Site) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(work)))
    }

    /// Called with no lock held.
    pub(crate) fn call(&self, site: Site) {
        if let Some(work) = &self.0 {
            work(site);
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hook").field(&self.0.is_some()).finish()
    }
}
