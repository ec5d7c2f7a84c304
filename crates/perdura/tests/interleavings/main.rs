//! A program of its own: sources of the crate are compiled again at its root, over a scheduler's locks.
//!
//! The lock of a partition, the waking of the thread in the background, and the times of
//! transactions that wait to be continued, under a scheduler that chooses the interleaving. The
//! sources are those of the crate, compiled a second time over the scheduler's locks. A waiter that
//! is never woken is a deadlock, which the scheduler reports.

#![expect(dead_code, reason = "modules of a crate, compiled into a test")]

#[path = "../../src/group.rs"]
mod group;
#[path = "../../src/held.rs"]
mod held;
#[path = "../../src/holder.rs"]
#[expect(unreachable_pub, reason = "it is reachable in the crate")]
mod holder;
#[path = "../../src/partition_lock.rs"]
mod partition_lock;
#[path = "../../src/sharing.rs"]
mod sharing;
#[path = "../../src/waits.rs"]
mod waits;
#[path = "../../src/wakeup.rs"]
mod wakeup;

mod lock;
mod locks;
mod sync;
mod syncs;
mod times;

use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

/// The time that a thread waits that holds another partition.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs `story` under so many random schedules, and as many that change threads rarely.
fn interleave(schedules: usize, story: impl Fn() + Send + Sync + Copy + 'static) -> usize {
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = Config::new();
        config.failure_persistence = FailurePersistence::None;
        config.max_steps = MaxSteps::FailAfter(1 << 20);
        Runner::new(scheduler, config).run(story)
    };
    run(Box::new(RandomScheduler::new_from_seed(7, schedules)))
        + run(Box::new(PctScheduler::new_from_seed(8, 3, schedules)))
}
