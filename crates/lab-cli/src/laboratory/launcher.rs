//! Kills for the laboratory: those of `perdura bench recovery`.

use std::path::Path;

use command::failure::Failure;
use command::job::Job;
use command::kill::Kill;
use command::outage::{Outage, Rebuild, Sample};
use command::progress::Bar;
use command::settings::run_options;
use command::system::System;
use lab::bench::{Contestant, Crossed, Crossing, Killed, Launcher, Reopened};
use lab::setting::Setting;
use perdura::{Background, Domain, EngineKind};
use workloads::Commit;

/// Starts this binary, kills it, and looks.
pub(super) struct Kills;

impl Launcher for Kills {
    fn kill(
        &self,
        contestant: Contestant,
        job: &Killed,
        setting: Setting,
        directory: &Path,
    ) -> Result<Reopened, String> {
        let (commit, tree_node_bytes) = match contestant {
            Contestant::Engine(kind, _) => (setting.commit(kind), setting.tree_node_bytes(kind)),
            Contestant::Peer(_) => (Commit::Durable, None),
        };
        let (system, domain) = match contestant {
            Contestant::Engine(kind, domain) => (System::Engine(kind), Some(domain)),
            Contestant::Peer(kind) => (System::Peer(kind), None),
        };
        let job = match job {
            Killed::Ycsb(spec) => Job::Ycsb(spec.clone()),
            Killed::Tpcc(spec) => Job::Tpcc(spec.clone()),
        };
        let kill = Kill {
            system,
            domain,
            run: run_options(1, commit),
            tree_node_bytes,
            placement: None,
            background: Background::Inline,
            job: &job,
            directory,
        };
        let outcome = kill.run(&mut Bar::silent()).map_err(in_words)?;
        let found = outcome.found;
        Ok(Reopened {
            open_ms: found.open_ms,
            first_read_ms: found.first_read_ms,
            first_commit_ms: found.first_commit_ms,
            recovered: found.recovered.map(|recovered| recovered.undone + recovered.redone),
            wrong: found.lost + found.surplus + found.wrong.len() as u64,
        })
    }

    fn outage(&self, crossing: &Crossing, directory: &Path) -> Result<Crossed, String> {
        let outage = Outage {
            kind: EngineKind::Sofort,
            domain: Some(Domain::Adr),
            spec: &crossing.spec,
            users: crossing.users,
            placement: Some(crossing.placement),
            rebuild: if crossing.first { Rebuild::First } else { Rebuild::Background },
            background: Background::Thread,
            before: crossing.before,
            after: crossing.after,
            directory,
        };
        let ended = outage.run(&mut Bar::silent()).map_err(in_words)?;
        let (curve, recovery) = (&ended.curve, ended.curve.recovery());
        Ok(Crossed {
            throughputs_txn_s: curve.samples.iter().map(Sample::throughput_txn_s).collect(),
            throughput_txn_s: curve.throughput_txn_s(),
            delta_s: recovery.delta_s,
            area_txns: recovery.area_txns,
            response_mean_us: recovery.response_mean_us,
            response_peak_us: recovery.response_peak_us,
            before_mean_us: curve.steady_mean_us(),
            built_s: recovery.built_s,
            first_answer_ms: ended.first_answer_ms,
            first_commit_ms: ended.first_commit_ms,
            wrong: ended.wrong(),
        })
    }
}

/// A failure in words.
fn in_words(failure: Failure) -> String {
    match failure {
        Failure::Failed(why) | Failure::Usage(why) | Failure::Missing(why) => why,
        Failure::Found | Failure::PipeClosed => "it ended unexpectedly".into(),
    }
}
