//! Which version of the source this is built from: the laboratory keeps results by it.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::process::Command;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // A commit, a checkout, or a change of what is built makes another version.
    for path in [".git/HEAD", ".git/logs/HEAD", "Cargo.lock", "crates"] {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo::rustc-env=PERDURA_COMMIT={}", version(&root));
}

/// The commit; with changes that are not committed, what tells these from others; without git, the
/// version of the package.
fn version(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
        output.status.success().then_some(output.stdout)
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let Some(commit) = commit.and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return concat!("v", env!("CARGO_PKG_VERSION")).to_owned();
    };
    // What is not built does not make another version.
    let built =
        ["diff", "HEAD", "--", "Cargo.lock", "Cargo.toml", "crates/*/src", "crates/*/Cargo.toml"];
    match git(&built) {
        Some(changes) if !changes.is_empty() => {
            let mut hasher = DefaultHasher::new();
            changes.hash(&mut hasher);
            format!("{}-changed-{:08x}", commit.trim(), hasher.finish() as u32)
        }
        _ => commit.trim().to_owned(),
    }
}
