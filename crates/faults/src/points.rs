//! How closely tests look at their points: some in a build, all in a long run.

/// Returns whether a long run looks at all points, which it asks for with `PERDURA_POINTS=all`.
///
/// # Panics
/// The variable has another value.
pub fn at_all() -> bool {
    match std::env::var("PERDURA_POINTS") {
        Ok(all) if all == "all" => true,
        Ok(other) => panic!("PERDURA_POINTS is {other}: `all`, or nothing"),
        Err(_) => false,
    }
}
