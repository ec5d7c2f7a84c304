//! The tests of the public interface, in one program.

mod emulated;
mod left;
mod two_threads;
