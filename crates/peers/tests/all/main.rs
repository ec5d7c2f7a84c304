//! The tests of the adapters to other databases, in one program.

mod conformance;
mod tatp;
mod tpcb;
