//! The work of a scenario and what has to be there afterwards: the explorer looks at all alike.

use perdura::{Database, Error};
use rand::Rng;
use sim::Recorded;

use crate::driver::Driver;
use crate::items::{self, Model, Tables};

/// The transactions of scenarios, and the model of what they leave.
pub trait Work: Clone + Send + Sync {
    /// The contents of a database.
    type Model: Clone + PartialEq + Send + Sync;
    /// The choice of transactions that come after a scenario's.
    type More: Send;

    /// Everything that the database holds.
    ///
    /// # Errors
    /// It cannot be read, or holds what was never written.
    fn contents(&self, db: &Database<Recorded>) -> Result<Self::Model, Error>;

    /// The first of these models that the database holds, if it holds one of them.
    ///
    /// # Errors
    /// As [`Self::contents`].
    fn which(
        &self,
        db: &Database<Recorded>,
        models: &[Self::Model],
    ) -> Result<Option<usize>, Error> {
        let found = self.contents(db)?;
        Ok(models.iter().position(|model| *model == found))
    }

    /// Reads a database whose [`Self::contents`] are `model` in all other ways, and makes its own
    /// check, which has to find neither damage nor space that leaked.
    ///
    /// # Errors
    /// The first difference.
    fn reads_differ(&self, db: &Database<Recorded>, model: &Self::Model) -> Result<(), String>;

    /// Compares the database with the model.
    ///
    /// # Errors
    /// The first difference.
    fn differs(&self, db: &Database<Recorded>, model: &Self::Model) -> Result<(), String> {
        let held = self.which(db, std::slice::from_ref(model));
        match held.map_err(|error| format!("cannot be read: {error}"))? {
            Some(_) => self.reads_differ(db, model),
            None => Err("holds something else".into()),
        }
    }

    /// Transactions to go on with. The same seed gives the same ones.
    fn more(&self, seed: u64) -> Self::More;

    /// Runs one more, of about so many operations, on the database and on the model; returns
    /// whether it has committed.
    ///
    /// # Errors
    /// It did otherwise than the model says, or is committed and not durable.
    fn transaction(
        &self,
        more: &mut Self::More,
        db: &Database<Recorded>,
        model: &mut Self::Model,
        operations: usize,
    ) -> Result<bool, Error>;
}

/// The share of them that are updates which are transactions of their own.
const STATEMENTS: f64 = 0.25;

/// Random operations of every kind on [`crate::items`].
#[derive(Clone, Copy, Debug)]
pub struct Items;

impl Work for Items {
    type Model = Model;
    type More = Driver;

    fn contents(&self, db: &Database<Recorded>) -> Result<Model, Error> {
        items::contents(db)
    }

    fn which(&self, db: &Database<Recorded>, models: &[Model]) -> Result<Option<usize>, Error> {
        items::which_in(&db.try_partition(0)?, &Tables::of(db), models)
    }

    fn reads_differ(&self, db: &Database<Recorded>, model: &Model) -> Result<(), String> {
        items::reads_differ(db, model)
    }

    fn more(&self, seed: u64) -> Driver {
        Driver::new(seed, 60)
    }

    fn transaction(
        &self,
        driver: &mut Driver,
        db: &Database<Recorded>,
        model: &mut Model,
        operations: usize,
    ) -> Result<bool, Error> {
        let tables = Tables::of(db);
        if driver.random.random_bool(STATEMENTS) {
            return driver.statement(db, &tables, model).map(|()| true);
        }
        driver.transaction(db, &tables, model, operations)
    }
}
