//! The systems: the engines of Perdura, and the peers.

use std::fmt;
use std::path::{Path, PathBuf};

use peers::PeerKind;
use perdura::{Database, Domain, EngineKind, Medium, Options, Schema};
use workloads::{PerduraStore, StoreError, create_modelled};

use crate::failure::Failure;

/// An engine or a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// An engine of Perdura.
    Engine(EngineKind),
    /// A database or bound that a user would pick instead.
    Peer(PeerKind),
}

impl System {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Engine(kind) => kind.name(),
            Self::Peer(kind) => kind.name(),
        }
    }

    /// The engine.
    pub const fn kind(self) -> Option<EngineKind> {
        match self {
            Self::Engine(kind) => Some(kind),
            Self::Peer(_) => None,
        }
    }

    /// The engine's name, for JSON.
    pub const fn engine(self) -> Option<&'static str> {
        match self {
            Self::Engine(kind) => Some(kind.name()),
            Self::Peer(_) => None,
        }
    }

    /// The peer's name, for JSON.
    pub const fn peer(self) -> Option<&'static str> {
        match self {
            Self::Engine(_) => None,
            Self::Peer(kind) => Some(kind.name()),
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The promise of a system's commit: what it survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// `None` for a map, which survives nothing.
    pub domain: Option<Domain>,
    /// True if the medium does not keep the promise.
    pub modelled: bool,
}

impl Promise {
    /// Returns what a database promises.
    pub fn of_database(database: &Database) -> Self {
        let header = database.pool_info().header;
        Self { domain: Some(header.domain), modelled: header.modelled }
    }

    /// Returns what a system promises on a medium, an engine in this domain or else in the
    /// medium's own.
    pub fn of(system: System, domain: Option<Domain>, medium: &Medium) -> Self {
        match system {
            System::Engine(_) => {
                let domain = domain.unwrap_or(medium.natural);
                Self { domain: Some(domain), modelled: !domain.is_given_by(medium.natural) }
            }
            System::Peer(kind) => Self::of_peer(kind, medium),
        }
    }

    /// Returns what a peer promises on a medium. A floor executes flushes and fences whatever it
    /// lies on; a database asks the kernel to sync, which gives what the medium gives.
    pub fn of_peer(kind: PeerKind, medium: &Medium) -> Self {
        match kind {
            PeerKind::HashMap | PeerKind::BTreeMap => Self { domain: None, modelled: false },
            PeerKind::FloorUndo | PeerKind::FloorRedo | PeerKind::FloorCopy => Self {
                domain: Some(Domain::Adr),
                modelled: !Domain::Adr.is_given_by(medium.natural),
            },
            _ => Self { domain: Some(medium.natural), modelled: false },
        }
    }

    /// Returns it as people read it.
    pub fn text(self) -> String {
        match self.domain {
            None => "none".into(),
            Some(domain) if self.modelled => format!("{domain} (modelled)"),
            Some(domain) => domain.to_string(),
        }
    }
}

/// Returns the place of a system's pool in its directory.
pub fn pool_path(directory: &Path) -> PathBuf {
    directory.join("pool")
}

/// Creates a database in `domain`, or in the medium's own; a domain that is stronger than that is
/// modelled.
///
/// # Errors
/// As [`Database::create`].
pub fn create_database(
    path: &Path,
    schema: &Schema,
    options: &Options,
    domain: Option<Domain>,
) -> Result<Database, perdura::Error> {
    match domain {
        Some(domain) => create_modelled(path, schema, &options.clone().domain(domain)),
        None => create_modelled(path, schema, options),
    }
}

/// Creates a database with the tables of a workload.
///
/// # Errors
/// As [`create_database`]; peers are no databases of Perdura.
pub fn create(
    system: System,
    path: &Path,
    schema: &Schema,
    partitions: usize,
    options: &Options,
    domain: Option<Domain>,
) -> Result<Database, Failure> {
    let System::Engine(kind) = system else {
        return Err(Failure::about(system, "peers do not run this"));
    };
    let options = options.clone().engine(kind).partitions(partitions as u32);
    Ok(create_database(path, schema, &options, domain)?)
}

/// Creates a database with the YCSB table in `directory`, its columns `inline` where the engine can.
///
/// # Errors
/// As [`create_database`].
pub fn create_store(
    kind: EngineKind,
    directory: &Path,
    partitions: usize,
    options: &Options,
    domain: Option<Domain>,
    inline: bool,
) -> Result<PerduraStore, StoreError> {
    let path = pool_path(directory);
    let options = options.clone().engine(kind).partitions(partitions as u32);
    let schema = if inline { PerduraStore::inlined_schema() } else { PerduraStore::schema() };
    let database = create_database(&path, &schema, &options, domain).map_err(StoreError::engine)?;
    PerduraStore::new(database, kind.name(), &path, partitions)
}
