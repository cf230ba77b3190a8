"""tools/demo: that it stays while it is to, and how it ends, against the switch."""

import os
import pty
import signal
import subprocess
import sys
import unittest

from demos import ROOT, WHOLE_S, Node, read_until
from vsw import machine


class Ends(Node):
    def test_signal_in_a_scene(self):
        process = self.start("--once")
        said = read_until(process.stdout.fileno(), "✔ Pod to Pod".encode())
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM, so_far=said)

    def test_signal_in_a_scene_of_two_nodes(self):
        process = self.start("--nodes", "2", "--once")
        said = read_until(process.stdout.fileno(), "✔ Pod to Pod: client@1".encode(), WHOLE_S)
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM, so_far=said)

    def test_stays_on_a_terminal_until_ctrl_c(self):
        terminal, far_end = pty.openpty()
        process = self.start("--document", "--all", "--seconds", "1", stdin=far_end, stdout=far_end, stderr=far_end)
        os.close(far_end)
        text = read_until(terminal, b"--controller 62373", WHOLE_S)
        self.shows(text.decode(errors="replace"), "The node stays until Ctrl-C", "167 flows of the document")
        # The live view, drawn anew.
        for part in (b"rx Mbit/s", b"worker on core", b"LoadBalancer 192.168.77.150: web2 answers", b"rx Mbit/s"):
            read_until(terminal, part)
        process.send_signal(signal.SIGINT)
        try:
            self.assertEqual(process.wait(machine.PATIENCE_S), 0)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGUSR1)
            read_until(terminal, b"never said", 5)  # fails with all that is said
        os.close(terminal)

    def test_a_signal_whose_exception_is_lost_ends_what_stays(self):
        program = """if True:
            import signal
            from types import SimpleNamespace
            from vsw import machine
            from vsw.antrea.table import Table
            class Lost:
                def __del__(self):
                    signal.raise_signal(signal.SIGINT)
            machine.stop_on_signals()
            table = Table.__new__(Table)
            table.switches, table.wrong, table.args, table.hints = [], [], SimpleNamespace(live=True), lambda: "it stays"
            table.acts = table.checksums = lambda *_: None
            lost = Lost()
            del lost
            table.perform(None)
            print("and ends")
        """
        done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT / "tools" / "lib")},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=machine.PATIENCE_S)
        self.assertEqual((done.returncode, done.stdout), (0, "it stays\nand ends\n"), done.stderr)
        self.assertIn("Exception ignored", done.stderr)


if __name__ == "__main__":
    unittest.main()
