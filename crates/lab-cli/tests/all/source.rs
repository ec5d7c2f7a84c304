//! Results are kept by the version of the source: a change of what is built makes another one.

#[path = "../../build.rs"]
#[expect(dead_code, reason = "what cargo runs")]
mod build;

use std::fs;
use std::path::Path;
use std::process::Command;

use build::version;

fn git(root: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["-c", "user.name=test", "-c", "user.email=test@localhost"])
        .args(["-c", "commit.gpgsign=false"])
        .args(arguments)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .status()
        .expect("git runs");
    assert!(status.success(), "git {arguments:?}");
}

#[test]
fn a_change_of_what_is_built_makes_another_version() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let write = |name: &str, text: &str| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("crates/a/src/lib.rs", "// one\n");
    write("notes/a.md", "one\n");
    git(root, &["init", "--quiet"]);
    git(root, &["add", "."]);
    git(root, &["commit", "--quiet", "--message", "one"]);
    let committed = version(root);
    assert!(!committed.contains("changed"), "{committed}");

    write("notes/a.md", "two\n");
    write("notes/b.md", "one\n");
    assert_eq!(version(root), committed, "documents are not built");

    for built_in in ["crates/a/claims/a.toml", "crates/a/assets/a.js"] {
        write(built_in, "one\n");
        assert_ne!(version(root), committed, "{built_in} is in the command");
        fs::remove_file(root.join(built_in)).unwrap();
    }

    write("crates/a/src/lib.rs", "// two\n");
    let edited = version(root);
    assert!(edited.starts_with(&format!("{committed}-changed-")), "{edited}");

    write("crates/a/src/deep/added.rs", "// one\n");
    let added = version(root);
    assert_ne!(added, edited);
    write("crates/a/src/deep/added.rs", "// two\n");
    assert_ne!(version(root), added, "it is not in the index yet");

    write("crates/a/src/lib.rs", "// one\n");
    fs::remove_file(root.join("crates/a/src/deep/added.rs")).unwrap();
    assert_eq!(version(root), committed);
}
