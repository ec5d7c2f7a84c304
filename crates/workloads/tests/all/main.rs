//! The workloads and their verifiers, in one program.

mod driver_and_verifier;
mod shared;
mod tatp;
mod tpcb;
mod tpcc;
mod tpcc_crash;
