"""Processes that end with the program that starts them: for scripts/rqlite."""

import ctypes
import os
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)

# Those that were started and not yet waited for, each the first of a group of its own. Only `end` waits for them.
RUNNING = set()


class Missing(Exception):
    """Something that is needed and not there."""


def die_with_parent():
    """Has the kernel kill this process when the one that started it dies: for a child, before its program begins."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(command, **options):
    """Starts a process in a group of its own. The kernel kills it if this program dies."""
    process = subprocess.Popen(
        command, start_new_session=True, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent, **options)
    RUNNING.add(process)
    return process


def _ended(process, timeout):
    """Waits until a process has ended, but leaves it unreaped: so long its number is not another process's."""
    until = time.monotonic() + timeout
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def end(process, number=signal.SIGKILL, timeout=30):
    """Sends a signal to a process, waits for it, and kills what it has left of its group.

    Returns its exit code, or None if it had not ended after `timeout` seconds and had to be killed.
    """
    RUNNING.discard(process)
    os.kill(process.pid, number)
    in_time = _ended(process, timeout)
    os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    return code if in_time else None


def end_all():
    """Kills all that is left."""
    for process in list(RUNNING):
        end(process)


def run(command, folder, environment, log, why):
    """Runs a command to its end and returns its output. Fails with `why` and the last lines of its errors."""
    answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    with open(log, "a") as file:
        print(*command, file=file)
        file.write(answer.stderr)
    if answer.returncode != 0:
        last = "\n".join((answer.stderr or answer.stdout).splitlines()[-5:])
        raise Missing(f"{last}\n{why} ({log})")
    return answer.stdout


def run_tests(command, folder, environment, log, timeout):
    """Runs a program of tests to its end and returns its exit code, or None if it took too long."""
    with open(log, "ab") as file:
        process = start(command, cwd=folder, env=environment, stdout=file, stderr=file)
        try:
            in_time = _ended(process, timeout)
        finally:
            # A process that has ended and was not waited for keeps its exit code.
            code = end(process)
    return code if in_time else None
