//! What both log-structured engines share (P1 3.3, 4.3): what an entry of a run means, and which
//! runs are merged next. Nothing here knows where runs lie.

pub mod change;
pub mod levels;
