//! The options with which a partition is made, and what can be chosen about its engine.
//!
//! [`Setup`] is given to every engine. The rest belongs to the engine: each declares a struct of
//! its own with `engine_options!`, in a file of its own, where each option has a meaning, a
//! default, limits and a unit. From that declaration come the struct's documentation, the names for
//! [`crate::EngineOptions::set`] and the list that the command line shows.

use pm::Escaped;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use pm::LastTransaction;

use crate::base::Restoring;
use crate::kind::EngineKind;

/// Default bytes of a node of a B+tree (P1 5: 512).
pub const NODE_BYTES: u32 = 512;

/// The options with which a partition is created or opened, whatever its engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// The number of partitions of the database.
    pub partitions: u32,
    /// Bytes of a node of a B+tree, as the description of the database has it.
    pub node_bytes: u32,
    /// Transactions that one sync of a file log, or one move of a master record, makes durable
    /// together; 1 does so at each commit.
    pub group: u32,
    /// [`crate::Engine::background`] is called whenever there is a backlog: commits do only the
    /// part that it is too slow for.
    pub helped: bool,
    /// A partition that is opened was closed: what else could be the trace of a crash, such as a
    /// torn log, is damage then.
    pub closed: bool,
    /// The ends of partitions, by their numbers; empty if that is not known. A log that ends elsewhere is
    /// of another moment, and is refused before anything is removed.
    pub ends: Arc<[LastTransaction]>,
    /// A partition is salvaged whose log may end before its checkpoint does, so that of some
    /// transactions there is a part.
    pub accept_short_log: bool,
    /// A partition is salvaged, in a memory that is discarded afterwards: if what its log has to
    /// undo or redo is damaged, that is skipped.
    pub salvage: bool,
    /// The directory that logs are archived in, of engines that can.
    pub archive: Option<Arc<Path>>,
    /// The structures of a partition that is created which lie in persistent memory, by their names, of engines that
    /// can choose; `None` leaves it to their options.
    pub placed: Option<Arc<[String]>>,
    /// A partition that is created is made of a base backup, of engines that can.
    pub restoring: Option<Restoring>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            partitions: 1,
            node_bytes: NODE_BYTES,
            group: 1,
            helped: false,
            closed: false,
            ends: Arc::default(),
            accept_short_log: false,
            salvage: false,
            archive: None,
            placed: None,
            restoring: None,
        }
    }
}

/// An option of an engine, as its struct declares it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EngineOption {
    /// Its name: that of the field.
    pub name: &'static str,
    /// Its meaning: the documentation of the field.
    pub meaning: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its value if none was chosen.
    pub default: u64,
    /// The least value.
    pub least: u64,
    /// The largest value.
    pub most: u64,
    /// True if it is fixed when the database is created; opening ignores it then.
    pub fixed: bool,
}

/// An option that an engine does not have, or a value beyond its limits.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OptionError {
    /// The engine has no such option.
    #[error("{engine} has no option `{name}`{elsewhere}; it has {has}", name = Escaped(.name), elsewhere = Escaped(.elsewhere), has = Escaped(.has))]
    Unknown {
        /// The engine.
        engine: EngineKind,
        /// The name.
        name: String,
        /// The engines that have it, or what the name is near to.
        elsewhere: String,
        /// The names of its options.
        has: String,
    },
    /// No engine has such an option.
    #[error("no engine has an option `{name}`{near}", name = Escaped(.name), near = Escaped(.near))]
    Nowhere {
        /// The name.
        name: String,
        /// The nearest name.
        near: String,
    },
    /// The value is beyond the limits.
    #[error("{name} of {value}; choose {limits}")]
    Limits {
        /// The option.
        name: &'static str,
        /// The value.
        value: u64,
        /// The possible values.
        limits: Limits,
    },
}

/// The least and the largest value of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The least.
    pub least: u64,
    /// The largest.
    pub most: u64,
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { least, most } = self;
        if *most == u64::MAX {
            write!(f, "{least} at least")
        } else {
            write!(f, "{least} to {most}")
        }
    }
}

impl EngineOption {
    /// Its limits.
    pub const fn limits(&self) -> Limits {
        Limits { least: self.least, most: self.most }
    }

    /// Refuses a value beyond the limits.
    ///
    /// # Errors
    /// [`OptionError::Limits`].
    pub fn check(&self, value: u64) -> Result<(), OptionError> {
        let Limits { least, most } = self.limits();
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(OptionError::Limits { name: self.name, value, limits: self.limits() })
    }
}

/// The options of an engine, by their names; `engine_options!` implements it.
pub trait OwnOptions: Default {
    /// All of them, in the order of the fields.
    const ALL: &'static [EngineOption];

    /// The value of an option, if there is one of this name.
    fn get(&self, name: &str) -> Option<u64>;

    /// Gives an option that is within its limits its value; does nothing if there is none of this
    /// name.
    fn put(&mut self, name: &str, value: u64);
}

/// Declares the options of an engine: a struct with documented fields, its defaults, and
/// [`OwnOptions`].
macro_rules! engine_options {
    (
        $(#[doc = $about:literal])+
        $name:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty = $default:expr, $least:literal to $most:expr, $unit:literal $(, $fixed:ident)?;
            )+
        }
    ) => {
        $(#[doc = $about])+
        ///
        /// Creating or opening a database refuses values beyond an option's limits.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $name {
            $(
                $(#[doc = $doc])+
                #[doc = ""]
                #[doc = concat!("Default: `", stringify!($default), "`; `", stringify!($least), "` to `", stringify!($most), "` ", $unit, ".")]
                pub $field: $type,
            )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl crate::options::OwnOptions for $name {
            const ALL: &'static [crate::options::EngineOption] = &[
                $(crate::options::EngineOption {
                    name: stringify!($field),
                    meaning: concat!($($doc),+).trim_ascii(),
                    unit: $unit,
                    default: {
                        let value: $type = $default;
                        value as u64
                    },
                    least: $least,
                    most: $most,
                    fixed: engine_options!(@fixed $($fixed)?),
                },)+
            ];

            fn get(&self, name: &str) -> Option<u64> {
                match name {
                    $(stringify!($field) => Some(self.$field.into()),)+
                    _ => None,
                }
            }

            fn put(&mut self, name: &str, value: u64) {
                match name {
                    $(stringify!($field) => self.$field = value.try_into().unwrap_or(<$type>::MAX),)+
                    _ => {}
                }
            }
        }
    };
    (@fixed fixed) => { true };
    (@fixed) => { false };
}
pub(crate) use engine_options;
