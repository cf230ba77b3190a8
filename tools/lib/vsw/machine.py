"""Cores, hugepages, signals and processes."""

import ctypes
import faulthandler
import os
import signal
import subprocess
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HUGEPAGES = Path(os.environ.get("VSWITCH_HUGEPAGES_DIR", "/sys/kernel/mm/hugepages/hugepages-2048kB"))
PR_SET_PDEATHSIG = 1
# Seconds for what must happen: where others keep the machine busy it may take long, elsewhere
# nobody waits for that. For what must not happen see `antrea.actions.DENIED_LIMIT`.
PATIENCE_S = 60
_libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """Something that the user should read in one line (or a few); no traceback."""


# What goes wrong where there are processes, sockets, and answers in which something is missing:
# told in a few lines, too.
TROUBLE = (Failure, OSError, LookupError, subprocess.SubprocessError)


def words_of(error):
    """What to say of TROUBLE; of others than Failures also where it came from."""
    if isinstance(error, Failure):
        return str(error)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(ROOT)]
    return f"{error!r}, at {' < '.join(f'{Path(frame.filename).name}:{frame.lineno}' for frame in reversed(frames))}"


class Stop(KeyboardInterrupt):
    """A signal asked us to end. Not an Exception, so that nothing but the cleanup catches it; to
    unittest it is a Ctrl-C, which ends all."""

    def __init__(self, signum):
        super().__init__(signum)
        self.signum = signum


_STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


_came = []  # the signal that asked us to end


def stop_on_signals():
    """From now on SIGINT, SIGTERM and SIGHUP raise Stop, and SIGUSR1 tells on the standard error
    where each thread is."""

    def stop(signum, _frame):
        ignore_signals()  # one is enough: what follows is the cleanup
        _came.append(signum)
        raise Stop(signum)

    for number in _STOPPERS:
        signal.signal(number, stop)
    faulthandler.register(signal.SIGUSR1)


def check_stop():
    """For what goes on until a signal comes: raises Stop if one has come. It may have come in a
    finalizer, and what is raised there ends nothing."""
    if _came:
        raise Stop(_came[0])


def ignore_signals():
    """For the cleanup: it must not be interrupted."""
    for number in _STOPPERS:
        signal.signal(number, signal.SIG_IGN)


def cores():
    """Cores that we may use, lowest first."""
    return sorted(os.sched_getaffinity(0))


def output(argv, **options):
    """Runs a command and returns what it printed; Failure with its output when it fails."""
    limit = options.pop("timeout", PATIENCE_S)
    argv = [str(word) for word in argv]
    # A session of its own: a second Ctrl-C must not kill a command of the cleanup.
    process = spawn(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    with process:
        try:
            said, complaint = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise Failure(f"`{' '.join(argv)}` did not end within {limit} s") from error
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise Failure(f"`{' '.join(argv)}` failed with status {process.returncode}: {(complaint or said).strip()}")
    return said


def _child(use_cores=None):
    """What a child does before it becomes the program: die with us (even by SIGKILL), take signals
    again, pin itself."""

    def prepare():
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in _STOPPERS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPERS)
        if use_cores:
            os.sched_setaffinity(0, use_cores)

    return prepare


def spawn(argv, use_cores=None, **options):
    """Starts a process in a session of its own: a Ctrl-C in the terminal reaches us only, and we
    end it in order."""
    argv = [str(word) for word in argv]
    options.setdefault("stdin", subprocess.DEVNULL)
    # A Stop while it starts would leave a process that nobody knows of: it comes a moment later.
    before, process = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPERS), None
    try:
        process = subprocess.Popen(argv, start_new_session=True, preexec_fn=_child(use_cores), **options)
    except FileNotFoundError as error:
        raise Failure(f"{argv[0]} is not there; run tools/setup, or build first") from error
    finally:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except Stop:
            if process:
                process.kill()
                process.wait()
            raise
    return process


def foreground(argv, **options):
    """Runs a long command with its output shown; when we are stopped meanwhile, it ends with all
    that it started."""
    process = spawn(argv, **options)
    try:
        status = process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        end(process, 5)
        raise
    if status:
        raise Failure(f"`{' '.join(map(str, argv))}` failed with status {status}")


def end(process, grace=PATIENCE_S // 2):
    """Ends a process: SIGTERM, then SIGKILL. True when it ended by itself or by SIGTERM."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(grace)
        return True
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False


def wait_until(what, limit, done, interval=0.05, seen=None):
    """Waits until done() is true; Failure after `limit` seconds, with what `seen()`, if there is
    one, returned last."""
    start = time.monotonic()
    while not done():
        if time.monotonic() - start > limit:
            raise Failure(f"{what}: not within {limit} s" + (f"; seen last: {seen()}" if seen else ""))
        time.sleep(interval)


def expect(what, done, seen=None):
    """Waits, with patience, until done() is true, as it must be sooner or later."""
    wait_until(what, PATIENCE_S, done, seen=seen)


def preemptions(pid):
    """How often the kernel took a core from this process's threads for something else."""
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        try:
            words = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:  # the thread has ended
            continue
        total += int(words["nonvoluntary_ctxt_switches"])
    return total


def run_times(pid):
    """Nanoseconds that each of this process's threads has had a core, by thread."""
    times = {}
    for stat in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            times[stat.parent.name] = int(stat.read_text().split()[0])
        except OSError:  # the thread has ended
            continue
    return times


def _number(name):
    try:
        return int((HUGEPAGES / name).read_text())
    except (OSError, ValueError):
        return 0


def free_hugepages():
    """Hugepages of 2 MiB that nobody uses."""
    return _number("free_hugepages") - _number("resv_hugepages")


class HugepageReserve:
    """Has free hugepages of 2 MiB, reserving more if need be; `undo` restores the number there
    was."""

    def __init__(self):
        self.before = self.after = _number("nr_hugepages")
        self.note = ""

    def take(self, pages):
        """Sees to it that `pages` are free; `ok` and `note` tell whether they are."""
        missing = pages - free_hugepages()
        if missing <= 0:
            return
        try:
            (HUGEPAGES / "nr_hugepages").write_text(f"{self.before + missing}\n")
        except OSError as error:
            self.note = f"no hugepages can be reserved here ({error.strerror})"
            return
        self.after = _number("nr_hugepages")
        if free_hugepages() < pages:
            self.note = f"only {free_hugepages()} of {pages} hugepages of 2 MiB can be had"
            self.undo()

    @property
    def ok(self):
        """They are there."""
        return not self.note

    def undo(self):
        """Restores the number of before, unless somebody else has changed it since; says so
        then."""
        if self.after == self.before:
            return ""
        if _number("nr_hugepages") != self.after:
            return f"hugepages: somebody else has changed their number since, it stays at {_number('nr_hugepages')}"
        (HUGEPAGES / "nr_hugepages").write_text(f"{self.before}\n")
        self.after = self.before
        return ""
