//! The laboratory: runs the papers' experiments, tests their claims, and writes the report.
//!
//! | module | its question |
//! |---|---|
//! | [`experiments`] | what can be asked? |
//! | [`studies`] | what is measured for it, with what? |
//! | [`run`] | what is missing, and how long does that take? |
//! | [`room`] | is there room for it? |
//! | [`results`] | where does it stay? |
//! | [`emulation`] | what would it take on non-volatile memory? |
//! | [`setting`] | in which setting does the paper ask? |
//! | [`cost`] | what does the paper's cost model say? |
//! | [`claims`] | what does the paper claim, and is it so here? |
//! | [`reference`](mod@reference) | what did the authors publish? |
//! | [`compare`] | has anything changed? |
//! | [`report`] | what does all of it look like? |

#![forbid(unsafe_code)]

pub mod bench;
pub mod calibrations;
pub mod claims;
pub mod compare;
pub mod cost;
pub mod emulation;
mod error;
pub mod experiments;
mod host;
mod point;
pub mod reference;
pub mod report;
pub mod results;
pub mod room;
pub mod run;
mod scale;
pub mod setting;
pub mod studies;
pub mod timing;

pub use error::LabError;
pub use host::Host;
pub use point::{Point, PointBuilder, X, median};
pub use scale::{Scale, Sizes};
