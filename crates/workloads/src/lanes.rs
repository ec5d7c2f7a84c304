//! Lanes: the share of a partition's transactions that one worker runs.
//!
//! A lane is a sequence of transactions that run one after the other. With at most one worker for
//! each partition every partition is a lane, and a worker serves several of them in turn. With more
//! workers than partitions each worker is a lane, and the lanes of a partition take its transactions
//! in turn: of two lanes one has those with even numbers.

use crate::crew::share;

/// The lanes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lanes {
    workers: usize,
    partitions: usize,
}

/// The transactions of a lane: numbers `first`, `first + step` and so on of its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// Its partition.
    pub partition: usize,
    /// The number of its first transaction in the partition.
    pub first: usize,
    /// The number of lanes that share the partition.
    pub step: usize,
}

impl Lanes {
    /// The lanes of so many workers over so many partitions, at least one of each.
    #[must_use]
    pub fn new(workers: usize, partitions: usize) -> Self {
        Self { workers: workers.max(1), partitions: partitions.max(1) }
    }

    /// The number of lanes; an [`Observer`](crate::Observer) hears of each by its number.
    #[must_use]
    pub fn count(self) -> usize {
        self.workers.max(self.partitions)
    }

    /// Returns true if workers share a partition.
    #[must_use]
    pub fn are_shared(self) -> bool {
        self.workers > self.partitions
    }

    /// The numbers of a worker's lanes.
    pub fn of_worker(self, worker: usize) -> impl Iterator<Item = usize> {
        (worker..self.count()).step_by(self.workers)
    }

    /// Lane `number`.
    #[must_use]
    pub fn lane(self, number: usize) -> Lane {
        let partition = number % self.partitions;
        let step = if self.are_shared() { share_of(self, partition) } else { 1 };
        Lane { partition, first: number / self.partitions, step }
    }
}

fn share_of(lanes: Lanes, partition: usize) -> usize {
    share(lanes.workers as u64, lanes.partitions, partition) as usize
}

impl Lane {
    /// The numbers of its transactions, of `transactions` in its partition.
    pub fn numbers(self, transactions: usize) -> impl Iterator<Item = usize> {
        (self.first..transactions).step_by(self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transaction_has_one_lane_and_each_lane_one_worker() {
        for (workers, partitions) in [(1, 1), (1, 3), (2, 3), (3, 3), (3, 1), (5, 2), (8, 3)] {
            let lanes = Lanes::new(workers, partitions);
            let mut seen = vec![vec![0; 20]; partitions];
            let mut served = vec![0; lanes.count()];
            for worker in 0..workers {
                for number in lanes.of_worker(worker) {
                    served[number] += 1;
                    let lane = lanes.lane(number);
                    lane.numbers(20).for_each(|at| seen[lane.partition][at] += 1);
                }
            }
            assert!(served.iter().all(|&times| times == 1), "{workers}, {partitions}: {served:?}");
            let all = seen.iter().flatten();
            assert!(all.into_iter().all(|&times| times == 1), "{workers}, {partitions}: {seen:?}");
            assert_eq!(lanes.are_shared(), workers > partitions);
        }
    }
}
