//! The tests of the public interface, in one program. A test that needs a process to itself lies next to
//! this folder and says why.

mod files_host;
mod neighbours;
mod poison;
mod recorded;
