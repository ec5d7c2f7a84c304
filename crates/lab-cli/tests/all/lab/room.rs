//! A medium that is too small is reported before anything is measured.

use std::process::Command;

use crate::common::{Ran, perdura};

/// Runs a script in a place where it may mount; `None` where the system does not let it.
fn mounting(script: &str, arguments: &[&str]) -> Option<Ran> {
    let mounts = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
        command
    };
    let probe = mounts("mount -t tmpfs none /mnt").output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        return None;
    }
    Some(mounts(script).args(arguments).output().expect("it has just worked").into())
}

#[test]
fn what_the_medium_has_no_room_for_is_refused_before_it_begins() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path().to_str().expect("text");
    let script = "mkdir \"$1/small\" && mount -t tmpfs -o size=8m none \"$1/small\" && cd \"$1\" && \
                  exec \"$2\" lab run P1-F1 --tiny --path small";
    let binary = perdura();
    let binary = binary.get_program().to_str().expect("text");
    let Some(ran) = mounting(script, &[at, binary]) else {
        eprintln!("this user may not mount file systems: not tested");
        return;
    };
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.is_empty() && !ran.err.contains("panicked"), "{ran:?}");
    for said in ["nothing was begun", "bandwidth (for P1-F1)", "80 MiB on the medium", "--path"] {
        assert!(ran.err.contains(said), "{said}: {ran:?}");
    }
    assert!(ran.err.contains("8 MiB are free"), "{ran:?}");
}
