//! Creates and opens partitions of the column store.

use std::sync::Arc;

use column::{Kind, Options, Placement, Store, Waiting};
use pm::{Bad, Environment};
use storage::Catalog;

use super::tables::ColumnTables;
use super::{Sofort, SofortOptions};
use crate::contract::{Method, RecoveryReport, Resources};
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::Setup;
use crate::traits::{Concurrency, DurableIn, EngineTraits, Isolation, Unfinished};

fn root_name(partition: u32) -> String {
    format!("sofort/{partition}")
}

/// The parameters of a store. Chunks of rows are at least as large as their first ones.
fn store_options(options: &SofortOptions) -> Options {
    let SofortOptions { first_rows, most_rows, reserve, slots, placement, hashed, seed } = *options;
    let first_rows = first_rows.next_power_of_two();
    let most_rows = most_rows.next_power_of_two().max(first_rows);
    let reserve = reserve.min(most_rows);
    let seed = Some(seed).filter(|seed| *seed != 0);
    Options {
        slots,
        first_rows,
        most_rows,
        reserve,
        durable_percent: placement,
        hashed: hashed == 1,
        seed,
    }
}

impl<E: Environment> Method<E> for Sofort<E> {
    const KIND: EngineKind = EngineKind::Sofort;
    const TRAITS: EngineTraits = EngineTraits {
        durable_in: DurableIn::Pool,
        concurrency: Concurrency::Shared,
        isolation: Isolation::Serializable,
        usual_isolation: Isolation::Snapshot,
        snapshots: false,
        unfinished: Unfinished::Continued,
        larger_than_memory: false,
    };
    const GROUPS_COMMITS: bool = false;
    type Options = SofortOptions;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &SofortOptions,
    ) -> Result<Self, EngineError> {
        let (heap, tables) = (&resources.durable, Arc::new(ColumnTables::new(catalog)));
        let chosen =
            setup.placed.as_ref().map(|names| tables.structures_named(names)).transpose()?;
        let placement = chosen.as_deref().map_or(Placement::Percent, Placement::Chosen);
        let kinds = tables.kinds();
        let kinds: Vec<&[Kind]> = kinds.iter().map(Vec::as_slice).collect();
        let lane = heap.lane(resources.partition);
        let options = store_options(options);
        let store = Store::create_placed(lane, options, &kinds, &tables, placement)?;
        heap.set_root(&root_name(resources.partition), store.at())?;
        Ok(Self::root(store, heap.memory().clone(), tables, 0))
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        _: &Setup,
        _: &SofortOptions,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let (heap, tables) = (&resources.durable, Arc::new(ColumnTables::new(catalog)));
        let name = root_name(resources.partition);
        let at = heap.root(&name)?.ok_or(EngineError::Missing { what: name })?;
        let lane = heap.lane(resources.partition);
        let (store, recovered) = Store::open(lane, at, &tables, &Waiting::default())?;
        if store.tables() != tables.kinds() {
            return Err(Bad::Damaged { what: "tables of a column store", at }.into());
        }
        // A transaction without a name cannot be continued.
        let mut undone = 0;
        for found in store.in_flight().into_iter().filter(|found| found.name.is_empty()) {
            store.replay(found.id)?.abort()?;
            undone += found.statements;
        }
        let report =
            RecoveryReport { undone, redone: recovered.stamped, ..RecoveryReport::default() };
        let in_flight = recovered.in_flight;
        Ok((Self::root(store, heap.memory().clone(), tables, in_flight), report))
    }
}
