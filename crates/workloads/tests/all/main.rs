//! The workloads and their verifiers, in one program.

mod driver_and_verifier;
mod tpcc;
mod tpcc_crash;
