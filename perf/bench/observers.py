"""What looks at the switch while it is measured: captures, scrapes of its metrics, drop samples."""

import contextlib
import os
import shutil
import socket
import subprocess
import threading

from vsw import machine
from vsw.machine import Failure

PERIOD_S = 1.0
ANSWER_S = 10.0
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: vswitch\r\nConnection: close\r\n\r\n"


@contextlib.contextmanager
def capturing(daemon, core, which):
    """All packets are captured during the body: those of br0's first port, or of all of its
    ports."""
    ports = sorted(daemon.ports("br0"))[:1] if which == "port" else ()
    words = ("capture", "br0", *ports, "--count", 100_000_000, "--seconds", 3600, "-w", "-")
    # The file begins when the workers copy.
    with _vsctl(daemon, core, 4, *words):
        yield


@contextlib.contextmanager
def observing(daemon, core, metrics):
    """Metrics are scraped each second from this socket, and drops are sampled, during the body."""
    with _vsctl(daemon, core, 0, "drops", "samples"), _scraping(metrics):
        yield


@contextlib.contextmanager
def _vsctl(daemon, core, awaited, *words):
    """vsctl with these words runs on a core during the body, which begins when it has printed so
    many bytes. What it prints is thrown away."""
    process = machine.spawn(daemon.command(*words), [core], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with process, open(os.devnull, "wb") as nowhere:
        process.stdout.read(awaited)
        throwing = threading.Thread(target=shutil.copyfileobj, args=(process.stdout, nowhere))
        throwing.start()
        try:
            yield
            if process.poll() is not None:
                raise Failure(f"vsctl {words[0]} ended with status {process.returncode} while the switch was measured")
        finally:
            process.terminate()
            throwing.join()


@contextlib.contextmanager
def _scraping(metrics):
    """A thread scrapes each second during the body. What is no answer fails the measurement."""
    over, wrong = threading.Event(), []

    def scrape():
        while not over.is_set():
            try:
                answer = _answer(metrics)
            except OSError as error:
                answer = str(error).encode()
            if not answer.startswith(b"HTTP/1.1 200 "):
                wrong.append(answer[:100])
                return
            over.wait(PERIOD_S)

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if wrong:
        raise Failure(f"the metrics were not shown while the switch was measured: {wrong[0]!r}")


def _answer(metrics):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(ANSWER_S)
        client.connect(str(metrics))
        client.sendall(REQUEST)
        return b"".join(iter(lambda: client.recv(65536), b""))
