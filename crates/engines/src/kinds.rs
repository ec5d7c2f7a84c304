//! The engines by their kinds: their options, how a partition is created and opened under each. All
//! of it comes from the list in `list.rs`.

use std::sync::Arc;

use pm::{Environment, Native};
use storage::{Catalog, did_you_mean};

use crate::contract::{Engine, Method, RecoveryReport, Resources};
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::list::with_engines;
use crate::options::{EngineOption, OptionError, OwnOptions, Setup};
use crate::traits::EngineTraits;

macro_rules! engines {
    ($(#[doc = $doc:literal] $kind:ident, $name:literal, $options:ident, $stats:ident;)+) => {
        $(use crate::{$kind, $options};)+

        impl EngineKind {
            /// The engine's traits.
            pub const fn traits(self) -> EngineTraits {
                match self {
                    $(Self::$kind => <$kind<Native> as Method<Native>>::TRAITS,)+
                }
            }

            /// Returns whether commits can be grouped, so that several transactions become durable
            /// at once; others are durable at each commit anyway.
            pub const fn groups_commits(self) -> bool {
                match self {
                    $(Self::$kind => <$kind<Native> as Method<Native>>::GROUPS_COMMITS,)+
                }
            }

            /// The engine's options.
            pub const fn options(self) -> &'static [EngineOption] {
                match self {
                    $(Self::$kind => $options::ALL,)+
                }
            }
        }

        /// An engine and what was chosen about it. Comes from an [`EngineKind`], with the defaults,
        /// and from the options of each engine.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum EngineOptions {
            $(#[doc = $doc] $kind($options),)+
        }

        impl From<EngineKind> for EngineOptions {
            fn from(kind: EngineKind) -> Self {
                match kind {
                    $(EngineKind::$kind => Self::$kind($options::default()),)+
                }
            }
        }

        $(impl From<$options> for EngineOptions {
            fn from(options: $options) -> Self {
                Self::$kind(options)
            }
        })+

        impl EngineOptions {
            /// Returns the kind of engine that they belong to.
            pub const fn kind(&self) -> EngineKind {
                match self {
                    $(Self::$kind(_) => EngineKind::$kind,)+
                }
            }

            /// The value of an option, if the engine has one of this name.
            pub fn get(&self, name: &str) -> Option<u64> {
                match self {
                    $(Self::$kind(options) => options.get(name),)+
                }
            }

            fn put(&mut self, name: &str, value: u64) {
                match self {
                    $(Self::$kind(options) => options.put(name, value),)+
                }
            }
        }

        /// Creates a partition under an engine; see [`Method::create`].
        ///
        /// # Errors
        /// As [`Method::create`].
        pub fn create<E: Environment>(
            options: &EngineOptions,
            resources: Resources<E>,
            catalog: &Arc<Catalog>,
            setup: &Setup,
        ) -> Result<Box<dyn Engine>, EngineError> {
            match options {
                $(EngineOptions::$kind(options) => {
                    <$kind<E> as Method<E>>::create_form(resources, catalog, setup, options)
                })+
            }
        }

        /// Opens a partition under an engine; see [`Method::open`].
        ///
        /// # Errors
        /// As [`Method::open`].
        pub fn open<E: Environment>(
            options: &EngineOptions,
            resources: Resources<E>,
            catalog: &Arc<Catalog>,
            setup: &Setup,
        ) -> Result<(Box<dyn Engine>, RecoveryReport), EngineError> {
            match options {
                $(EngineOptions::$kind(options) => {
                    <$kind<E> as Method<E>>::open_form(resources, catalog, setup, options)
                })+
            }
        }
    };
}

with_engines!(engines);

impl EngineKind {
    /// The option of this name, if the engine has one.
    pub fn option(self, name: &str) -> Option<&'static EngineOption> {
        self.options().iter().find(|option| option.name == name)
    }

    /// Refuses the name of an option that no engine has.
    ///
    /// # Errors
    /// [`OptionError::Nowhere`].
    pub fn check_option_name(name: &str) -> Result<(), OptionError> {
        if Self::ALL.into_iter().any(|kind| kind.option(name).is_some()) {
            return Ok(());
        }
        let names = Self::ALL.into_iter().flat_map(Self::options).map(|option| option.name);
        Err(OptionError::Nowhere { name: name.into(), near: did_you_mean(name, names) })
    }
}

impl EngineOptions {
    /// Gives an option a value.
    ///
    /// # Errors
    /// The engine has no option of this name, or the value is beyond its limits.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), OptionError> {
        let kind = self.kind();
        let Some(option) = kind.option(name) else {
            EngineKind::check_option_name(name)?;
            return Err(unknown(kind, name));
        };
        option.check(value)?;
        self.put(name, value);
        Ok(())
    }

    /// Refuses values beyond the limits of their options.
    ///
    /// # Errors
    /// [`OptionError::Limits`].
    pub fn check(&self) -> Result<(), OptionError> {
        let mut options = self.kind().options().iter();
        options.try_for_each(|option| option.check(self.get(option.name).unwrap_or(option.default)))
    }
}

/// Returns the error that another engine than `kind` has the option `name`.
fn unknown(kind: EngineKind, name: &str) -> OptionError {
    let names = |all: Vec<&str>| all.join(", ");
    let others = EngineKind::ALL.into_iter().filter(|other| other.option(name).is_some());
    OptionError::Unknown {
        engine: kind,
        name: name.into(),
        elsewhere: format!(", only {}", names(others.map(EngineKind::name).collect())),
        has: names(kind.options().iter().map(|option| option.name).collect()),
    }
}
