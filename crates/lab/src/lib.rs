//! What do the papers claim, and is it so here?

#![forbid(unsafe_code)]

pub mod emulation;
