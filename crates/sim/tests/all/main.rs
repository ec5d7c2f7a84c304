//! The tests of the public interface, in one program.

mod emulated;
mod two_threads;
