//! Faults made by hand, a file for each family of engines. Each is a mistake that a programmer
//! could make, and each must be noticed.
//!
//! A fault is not compiled in. It changes the recording of the code as it ships into the recording
//! that the faulty code would have made. Its place is given by the text of a line of the source; a
//! fault whose line is gone is an error.

/// Declares the faults of a file: engine, name, description, defect, and the place of the defect,
/// which is a file, a function and a text in the line. Without a place the defect is everywhere.
macro_rules! faults {
    (@place) => { crate::mutation::Where::Anywhere };
    (@place $file:expr, $function:expr, $text:expr) => {
        crate::mutation::Where::Code(crate::mutation::Code {
            file: $file,
            function: $function,
            text: $text,
        })
    };
    ($($engine:ident $name:literal: $what:literal, $defect:ident $(at $($place:expr),+)?;)*) => {
        /// The faults of this file.
        pub(super) static FAULTS: &[super::Fault] = &[$(super::Fault {
            name: $name,
            engine: perdura::EngineKind::$engine,
            what: $what,
            mutation: crate::mutation::Mutation {
                defect: crate::mutation::Defect::$defect,
                at: faults!(@place $($($place),+)?),
            },
        }),*];
    };
}

mod p1;
mod paged;
mod slotted;
mod sofort;

use perdura::EngineKind;

use crate::mutation::Mutation;

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

/// The faults of all engines.
pub fn faults() -> impl Iterator<Item = &'static Fault> {
    [p1::FAULTS, paged::FAULTS, slotted::FAULTS, sofort::FAULTS].into_iter().flatten()
}

/// Returns the fault of this name.
pub fn find(name: &str) -> Option<&'static Fault> {
    faults().find(|fault| fault.name == name)
}
