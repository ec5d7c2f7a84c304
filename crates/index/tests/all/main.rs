//! The tests of the trees, in one program.

mod bulk;
mod cow_space;
mod cow_tree;
mod crash;
mod tree;
mod whole;
