//! The tests of the allocator, in one program; interleavings compile its sources a second time.

mod crash;
mod fixed_lanes;
mod handed_out;
mod handed_out_crash;
mod hints;
mod lane;
mod spans;
mod two_threads;
mod whole;
