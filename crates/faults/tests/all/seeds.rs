//! The seeds of random scenarios: the same ones wherever tests are run, others in each build.

/// The variable that `.ci/run` sets.
const VARIABLE: &str = "PERDURA_SEED";

/// The number of the first random scenario: that of this build, or 1.
pub(crate) fn first_seed() -> u64 {
    std::env::var(VARIABLE).map_or(1, |text| match text.parse() {
        Ok(seed @ 1..=0xffff_ffff) => seed,
        _ => panic!("{VARIABLE} is {text}: a number from 1 to 4294967295"),
    })
}

/// The command that runs a test of this program again as it was.
pub(crate) fn again(test: &str) -> String {
    format!(
        "{VARIABLE}={} cargo test -p perdura-faults --test all -- --include-ignored --exact {test}",
        first_seed()
    )
}
