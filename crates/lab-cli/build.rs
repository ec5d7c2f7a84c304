//! The version of the source that this is built from: the laboratory keeps results by it.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

fn main() {
    // Relative to the package, where cargo runs this. A path that is compiled in would be that of
    // another checkout where two of them share a directory of artifacts, and name its commit.
    let root = Path::new("../..");
    // A commit, a checkout, or a change of what is built makes another version.
    for path in
        [".git/HEAD", ".git/logs/HEAD", "Cargo.lock", "Cargo.toml", "rust-toolchain.toml", "crates"]
    {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    // What has every assertion in it is not to be taken for a release.
    let profile = if release { "" } else { "-debug" };
    println!("cargo::rustc-env=PERDURA_COMMIT={}{profile}", version(root));
}

/// The files that are built. A pattern without `glob` is compared with the names of files, not of
/// directories.
const BUILT: [&str; 8] = [
    "Cargo.lock",
    "Cargo.toml",
    "rust-toolchain.toml",
    ":(glob)crates/*/src/**",
    ":(glob)crates/*/Cargo.toml",
    ":(glob)crates/*/build.rs",
    // In the command as text.
    ":(glob)crates/*/assets/**",
    ":(glob)crates/*/claims/**",
];

/// Returns the commit. Changes that are not committed add a mark that distinguishes them from other
/// changes. Without git this is the version of the package.
pub(crate) fn version(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(root).args(arguments);
        // Set in a hook, they would name another repository.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        let output = command.output().ok()?;
        output.status.success().then_some(output.stdout)
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let Some(commit) = commit.and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return concat!("v", env!("CARGO_PKG_VERSION")).to_owned();
    };
    // What is not built does not make another version.
    let of_built = |arguments: &[&str]| git(&[arguments, &["--"], &BUILT].concat());
    let changes = of_built(&["diff", "HEAD"]).unwrap_or_default();
    let added = of_built(&["ls-files", "-z", "--others", "--exclude-standard"]).unwrap_or_default();
    if changes.is_empty() && added.is_empty() {
        return commit.trim().to_owned();
    }
    let mut hasher = DefaultHasher::new();
    changes.hash(&mut hasher);
    for name in added.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        name.hash(&mut hasher);
        std::fs::read(root.join(OsStr::from_bytes(name))).ok().hash(&mut hasher);
    }
    format!("{}-changed-{:08x}", commit.trim(), hasher.finish() as u32)
}
