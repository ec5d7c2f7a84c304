//! The durability domains: what a commit promises.

use crate::escaped::Escaped;
use std::fmt;
use std::str::FromStr;

/// Names the failures that a committed transaction survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Domain {
    /// kill -9, an out-of-memory kill, an upgrade: not a reboot. Needs no flush and no fence:
    /// stores become visible in program order, and the kernel keeps the pages.
    Process = 1,
    /// Power loss on persistent memory whose caches are volatile: write back each line, fence.
    Adr = 2,
    /// Power loss on persistent memory whose caches are saved too: a fence is enough.
    Eadr = 3,
    /// Power loss on an ordinary disk: sync what was written.
    Disk = 4,
}

impl Domain {
    /// All domains, in the order of the table in `docs/guarantees.md`.
    pub const ALL: [Self; 4] = [Self::Process, Self::Adr, Self::Eadr, Self::Disk];

    /// The domain's name, as the command and the errors write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Adr => "adr",
            Self::Eadr => "eadr",
            Self::Disk => "disk",
        }
    }

    /// Says in a few words what a committed transaction survives.
    pub const fn survives(self) -> &'static str {
        match self {
            Self::Process => "kill -9, out-of-memory kill, upgrade; not a reboot",
            Self::Adr => "power loss on persistent memory",
            Self::Eadr => "power loss on persistent memory whose caches are saved",
            Self::Disk => "power loss on an ordinary disk",
        }
    }

    /// Returns whether a medium of domain `natural` really gives what `self` promises. Where it
    /// does not, the domain is *modelled*: the instructions are executed, the promise is not kept.
    pub const fn is_given_by(self, natural: Self) -> bool {
        matches!(self, Self::Process)
            || matches!(
                (self, natural),
                (Self::Disk, Self::Disk | Self::Adr | Self::Eadr)
                    | (Self::Adr, Self::Adr | Self::Eadr)
                    | (Self::Eadr, Self::Eadr)
            )
    }

    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Process),
            2 => Some(Self::Adr),
            3 => Some(Self::Eadr),
            4 => Some(Self::Disk),
            _ => None,
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no durability domain.
#[derive(Debug, thiserror::Error)]
#[error("`{word}` is no durability domain; there are process, adr, eadr and disk", word = Escaped(.0))]
pub struct ParseDomainError(String);

impl FromStr for Domain {
    type Err = ParseDomainError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|domain| domain.name() == word)
            .ok_or_else(|| ParseDomainError(word.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::Domain;

    #[test]
    fn tmpfs_gives_process_and_models_the_rest() {
        assert!(Domain::Process.is_given_by(Domain::Process));
        for domain in [Domain::Adr, Domain::Eadr, Domain::Disk] {
            assert!(!domain.is_given_by(Domain::Process), "{domain}");
        }
        assert!(Domain::Disk.is_given_by(Domain::Adr));
        assert!(!Domain::Adr.is_given_by(Domain::Disk));
        assert!(!Domain::Eadr.is_given_by(Domain::Adr));
    }
}
