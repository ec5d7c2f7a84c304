//! The laboratory's tests in one program: each program that links all engines and peers takes long to
//! link. Tests that fork it run alone (`common::alone`).

mod common;
mod counted;
mod counts;
mod emulation;
mod resuming;
mod targets;
mod turns;
mod whole;
