//! The job queue among the examples does what it says.

use std::time::{Duration, SystemTime};

#[expect(dead_code, reason = "the example is a program")]
#[path = "../../examples/queue.rs"]
mod example;

use example::Queue;

#[test]
fn jobs_are_taken_when_they_are_due_once_and_again_after_a_failure() {
    let directory = crate::support::in_memory();
    let path = directory.path().join("jobs");
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let queue = Queue::open(&path).unwrap();
    assert_eq!(queue.enqueue("late", at(20)).unwrap(), 1);
    assert_eq!(queue.enqueue("soon", at(10)).unwrap(), 2);
    assert!(queue.take(at(9)).unwrap().is_none(), "none is due");
    let soon = queue.take(at(25)).unwrap().unwrap();
    assert_eq!((soon.id, soon.tries, soon.payload.as_str()), (2, 0, "soon"));
    let late = queue.take(at(25)).unwrap().unwrap();
    assert_eq!(late.payload, "late");
    assert!(queue.take(at(25)).unwrap().is_none(), "each is taken once");
    queue.complete(&late).unwrap();
    let mut job = soon;
    for (tries, wait) in [(1, 1), (2, 2), (3, 4)] {
        queue.retry(&job, at(100)).unwrap();
        assert!(queue.take(at(100 + wait - 1)).unwrap().is_none(), "it waits");
        job = queue.take(at(100 + wait)).unwrap().unwrap();
        assert_eq!((job.id, job.tries), (2, tries));
    }
    // One that is running when the process ends is there again.
    assert!(queue.take(at(200)).unwrap().is_none());
    drop(queue);
    let queue = Queue::open(&path).unwrap();
    let again = queue.take(at(200)).unwrap().unwrap();
    assert_eq!((again.id, again.tries), (2, 3));
    queue.complete(&again).unwrap();
    assert!(queue.take(at(200)).unwrap().is_none());
}
