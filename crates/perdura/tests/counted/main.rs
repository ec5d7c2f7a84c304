//! Tests that count the allocations of global memory. Their allocator is that of the whole program,
//! so they have a program of their own.

mod allocator;
mod levelling;
mod no_allocation;
