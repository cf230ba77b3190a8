"""The application of a DPDK Pod: dpdk-testpmd with virtio-user, which answers ARP and pings."""

import shutil
import subprocess
from pathlib import Path

from .. import machine

PROGRAM = "dpdk-testpmd"


def is_missing():
    """Whether it is not installed."""
    return shutil.which(PROGRAM) is None


class Guest:
    """It makes the socket, on ordinary memory. Whatever address is pinged, it answers: the switch
    decides what comes to it."""

    def __init__(self, socket, mac, log, defer):
        """`mac` is what ADD has said."""
        core = machine.cores()[0]
        # virtio-user does not replace the socket of a predecessor that was killed.
        Path(socket).unlink(missing_ok=True)
        argv = [PROGRAM, f"--lcores=0@{core},1@{core}", "--no-huge", "-m", "64", "--no-shconf", "--no-pci", "--no-telemetry",
                f"--vdev=net_virtio_user0,path={socket},server=1,queues=1,queue_size=256,mac={mac}",
                "--", "-i", "--total-num-mbufs=2048", "--forward-mode=icmpecho", "--auto-start"]
        self.log = Path(log)
        with open(self.log, "ab") as out:
            # It ends with its input.
            self.process = machine.spawn(argv, stdin=subprocess.PIPE, stdout=out, stderr=out)
        defer(self.end)

    def end(self):
        """Ends it, as a container that is killed: its socket stays."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()

    def said(self):
        """The end of what it printed."""
        return self.log.read_text(errors="replace")[-1500:]
