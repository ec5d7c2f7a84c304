//! The tests of the command in one program: each program that links all engines takes long to link.

#[path = "../../../cli/tests/all/common.rs"]
mod common;
mod crash;
mod demo;
mod lab;
mod long;
mod source;
