//! The options that name peers.

use clap::Args;
use peers::PeerKind;

use super::{List, list};

/// The peers that engines are compared with.
#[derive(Debug, Args)]
pub(crate) struct PeerArgs {
    /// Peers to compare with, by comma: lmdb, sqlite, redb, fjall, rocksdb (in builds with
    /// `--features rocksdb`), hashmap, btreemap, floor-undo, floor-redo, floor-copy; peers alone
    /// with `--engine none`.
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true,
          value_parser = peer_list)]
    pub(crate) peer: List<PeerKind>,
}

fn peer_list(text: &str) -> Result<List<PeerKind>, String> {
    let peers: List<PeerKind> = list(text, None)?;
    match peers.0.iter().find(|peer| !PeerKind::ALL.contains(peer)) {
        Some(peer) => Err(format!("{peer} runs TPC-B alone: perdura bench tpcb --peer {peer}")),
        None => Ok(peers),
    }
}

pub(super) fn tpcb_peers(text: &str) -> Result<List<PeerKind>, String> {
    some_peers(text, "TPC-B", &PeerKind::TPCB)
}

pub(super) fn tatp_peers(text: &str) -> Result<List<PeerKind>, String> {
    some_peers(text, "TATP", &PeerKind::TATP)
}

/// The peers of a list, all of which have to run a workload.
fn some_peers(text: &str, workload: &str, can: &[PeerKind]) -> Result<List<PeerKind>, String> {
    let peers: List<PeerKind> = list(text, None)?;
    match peers.0.iter().find(|peer| !can.contains(peer)) {
        Some(peer) => {
            let all: Vec<_> = can.iter().map(|peer| peer.name()).collect();
            let instead = if all.len() == 1 { "use" } else { "use one of" };
            Err(format!("{peer} does not run {workload}: {instead} {}", all.join(", ")))
        }
        None => Ok(peers),
    }
}
