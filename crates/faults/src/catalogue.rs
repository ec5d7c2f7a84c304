//! Faults made by hand, a file for each engine or family of engines. Each is a mistake that a
//! programmer could make, and each must be noticed.
//!
//! A fault is not compiled in. It changes the recording of the code as it ships into the recording
//! that the faulty code would have made. Its place is given by the text of a line of the source; a
//! fault whose line is gone is an error.

mod cow;
mod inp;
mod log;
mod nv_disk;
mod nv_logging;
mod nvm_cow;
mod nvm_inp;
mod nvm_log;
mod slotted;
mod sofort;

use perdura::EngineKind;

use crate::mutation::{Code, Defect, Mutation, Where};

/// A fault, and the engine that has it.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Its name: the engine and what is wrong.
    pub name: &'static str,
    /// The engine.
    pub engine: EngineKind,
    /// The fault, in a sentence.
    pub what: &'static str,
    /// The change of the record.
    pub mutation: Mutation,
}

const fn fault(
    name: &'static str,
    engine: EngineKind,
    what: &'static str,
    defect: Defect,
    at: Where,
) -> Fault {
    Fault { name, engine, what, mutation: Mutation { defect, at } }
}

const fn code(file: &'static str, function: &'static str, text: &'static str) -> Where {
    Where::Code(Code { file, function, text })
}

/// The faults of all engines.
pub fn faults() -> impl Iterator<Item = &'static Fault> {
    let engines = [
        nvm_inp::FAULTS,
        nvm_cow::FAULTS,
        nvm_log::FAULTS,
        inp::FAULTS,
        cow::FAULTS,
        log::FAULTS,
        nv_disk::FAULTS,
        nv_logging::FAULTS,
        slotted::FAULTS,
        sofort::FAULTS,
    ];
    engines.into_iter().flatten()
}

/// Returns the fault of this name.
pub fn find(name: &str) -> Option<&'static Fault> {
    faults().find(|fault| fault.name == name)
}
