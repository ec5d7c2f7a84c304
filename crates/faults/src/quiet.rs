//! Panics that are looked for do not have to be printed.

use std::cell::Cell;
use std::panic::{set_hook, take_hook};
use std::sync::Once;

thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });

/// Does `work` without a word about its panics on standard error.
pub(crate) fn quietly<R>(work: impl FnOnce() -> R) -> R {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                loud(panic);
            }
        }));
    });
    let before = QUIET.replace(true);
    let done = work();
    QUIET.set(before);
    done
}
