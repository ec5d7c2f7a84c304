//! P1's cost model: bytes that an operation writes to NVM (appendix A, Table 3).

use perdura::EngineKind;

/// An operation of the cost model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Adds a tuple.
    Insert,
    /// Changes a fixed field and one of variable length.
    Update,
    /// Removes a tuple.
    Delete,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Insert, Self::Update, Self::Delete];

    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// The model's parameters, in bytes but for [`CostModel::theta`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostModel {
    /// T: a tuple.
    pub tuple: f64,
    /// F: the field of fixed length that an update changes.
    pub fixed: f64,
    /// V: the field of variable length that it changes.
    pub variable: f64,
    /// p: a pointer.
    pub pointer: f64,
    /// θ: how often a log-structured engine writes what it was given, by merging.
    pub theta: f64,
    /// B: a node of the copy-on-write tree of `cow` and `nvm-cow`.
    pub node: f64,
    /// ε: a small write of fixed size, such as the status of a slot.
    pub small: f64,
    /// True if the node is not yet in the dirty directory, and has to be copied.
    pub node_is_absent: bool,
}

/// The bytes that an operation writes, by where.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Memory.
    pub memory: f64,
    /// Log.
    pub log: f64,
    /// Table storage.
    pub table: f64,
}

impl Cost {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.memory + self.log + self.table
    }
}

impl CostModel {
    /// Returns the bytes that an operation of an engine writes: a cell of Table 3; `None` for an
    /// engine that is not in it.
    #[must_use]
    pub fn cost(&self, engine: EngineKind, operation: Operation) -> Option<Cost> {
        let Self { tuple, fixed, variable, pointer, theta, node, small, node_is_absent } = *self;
        let changed = fixed + variable;
        let cost = |memory, log, table| Cost { memory, log, table };
        // The two sides of a bar in the table: with the node copied, and without.
        let bar = |absent, present| if node_is_absent { absent } else { present };
        Some(match (engine, operation) {
            (EngineKind::Inp, Operation::Insert) => cost(tuple, tuple, tuple),
            (EngineKind::Inp, Operation::Update) => cost(changed, 2.0 * changed, changed),
            (EngineKind::Inp, Operation::Delete) => cost(small, tuple, small),
            (EngineKind::Cow, Operation::Insert) => {
                cost(bar(node + tuple, tuple), 0.0, bar(node, tuple))
            }
            (EngineKind::Cow, Operation::Update) => {
                cost(bar(node + changed, changed), 0.0, bar(node, changed))
            }
            (EngineKind::Cow, Operation::Delete) => {
                cost(bar(node + small, small), 0.0, bar(node, small))
            }
            (EngineKind::Log, Operation::Insert) => cost(tuple, tuple, theta * tuple),
            (EngineKind::Log, Operation::Update) => cost(changed, 2.0 * changed, theta * changed),
            (EngineKind::Log, Operation::Delete) => cost(small, tuple, small),
            (EngineKind::NvmInp, Operation::Insert) => cost(tuple, pointer, pointer),
            (EngineKind::NvmInp, Operation::Update) => {
                cost(changed + pointer, fixed + pointer, 0.0)
            }
            (EngineKind::NvmLog, Operation::Update) => {
                cost(changed + pointer, fixed + pointer, theta * (fixed + pointer))
            }
            (EngineKind::NvmInp | EngineKind::NvmLog, Operation::Delete) => {
                cost(small, pointer, small)
            }
            (EngineKind::NvmCow, Operation::Insert) => {
                cost(tuple, 0.0, bar(node + pointer, pointer))
            }
            (EngineKind::NvmCow, Operation::Update) => {
                cost(tuple + changed, 0.0, bar(node + pointer, pointer))
            }
            (EngineKind::NvmCow, Operation::Delete) => cost(small, 0.0, bar(node + small, small)),
            (EngineKind::NvmLog, Operation::Insert) => cost(tuple, pointer, theta * tuple),
            (
                EngineKind::NvDisk
                | EngineKind::NvLoggingFoi
                | EngineKind::NvLoggingFoc
                | EngineKind::Fast
                | EngineKind::Fash
                | EngineKind::Nvwal
                | EngineKind::Journal
                | EngineKind::Wal
                | EngineKind::Sofort,
                _,
            ) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: CostModel = CostModel {
        tuple: 1000.0,
        fixed: 8.0,
        variable: 100.0,
        pointer: 8.0,
        theta: 2.0,
        node: 4096.0,
        small: 1.0,
        node_is_absent: true,
    };

    fn total(engine: EngineKind, operation: Operation) -> f64 {
        MODEL.cost(engine, operation).expect("in the table").total()
    }

    #[test]
    fn inp_insert_writes_three_copies_and_nvm_inp_one() {
        assert_eq!(total(EngineKind::Inp, Operation::Insert), 3000.0);
        assert_eq!(total(EngineKind::NvmInp, Operation::Insert), 1016.0);
    }

    #[test]
    fn the_cells_of_the_table() {
        assert_eq!(total(EngineKind::Inp, Operation::Update), 432.0);
        assert_eq!(total(EngineKind::Log, Operation::Update), 540.0);
        assert_eq!(total(EngineKind::NvmInp, Operation::Update), 132.0);
        assert_eq!(total(EngineKind::NvmLog, Operation::Update), 164.0);
        assert_eq!(total(EngineKind::Cow, Operation::Insert), 9192.0);
        assert_eq!(total(EngineKind::NvmCow, Operation::Delete), 4098.0);
        let present = CostModel { node_is_absent: false, ..MODEL };
        let cost = present.cost(EngineKind::Cow, Operation::Insert).expect("in the table");
        assert_eq!(cost.total(), 2000.0);
    }
}
