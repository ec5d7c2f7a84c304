//! `perdura pool check`: everything of a pool is looked at, after it was recovered.

use std::path::Path;

use super::{damage_text, open};
use crate::failure::Failure;
use crate::output::print;
use crate::units::grouped;

pub(super) fn run(file: &Path, accept_loss: bool) -> Result<(), Failure> {
    let about = |error| Failure::about(file.display(), error);
    let database = open(file, accept_loss)?;
    let pool = database.pool_info();
    let recovered = database.recovery_report();
    let mut text = format!(
        "{}: engine {}, domain {}\nrecovered   {} operations undone, {} transactions redone, {} slots reclaimed\n",
        file.display(),
        database.engine(),
        pool.domain_text(),
        grouped(recovered.undone),
        grouped(recovered.redone),
        grouped(recovered.reclaimed),
    );
    if recovered.second_copies > 0 {
        text += "NOTE        the first copy of a master record is torn or damaged; the second one was used. A crash in the middle of a commit leaves it so; if there was none, the last commit is lost\n";
    }
    let header_damage = damage_text(pool);
    if let Some(damage) = header_damage {
        text += &format!(
            "DAMAGE      one copy of the header: {damage}; the other one is whole and was used\n"
        );
    }
    let found = database.check().map_err(about)?;
    text += &format!(
        "tuples      {}\nobjects     {}\nleaked      {}\ndangling    {}\n",
        grouped(found.tuples),
        grouped(found.objects),
        grouped(found.leaked),
        grouped(found.dangling),
    );
    database.close().map_err(about)?;
    let good = found.leaked == 0 && found.dangling == 0 && header_damage.is_none();
    text += if good { "no damage found\n" } else { "" };
    print(&text)?;
    if good {
        return Ok(());
    }
    let name = file.display();
    if found.dangling > 0 {
        eprintln!("perdura: {name}: data lead to objects that are not stored; restore a backup");
    }
    if found.leaked > 0 {
        eprintln!("perdura: {name}: stored objects that nothing leads to take up space");
    }
    Err(Failure::Found)
}
