//! Errors of the laboratory, as the command reports them.

use command::failure::Failure;
use lab::LabError;

/// Returns the failure of a command: a wrong word on the command line, where an experiment is asked for that does
/// not exist.
#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
pub(super) fn failure(error: LabError) -> Failure {
    let text = error.to_string();
    match error {
        LabError::UnknownExperiment { .. } => Failure::Usage(text),
        _ => Failure::Failed(text),
    }
}
