"""Tests of tools/lib/vsw/steps.py and of the live view below the text."""

import contextlib
import io
import os
import pty
import subprocess
import sys
import unittest
from pathlib import Path

LIB = Path(__file__).resolve().parents[1] / "lib"
sys.path.insert(0, str(LIB))

from vsw import live, steps  # noqa: E402
from vsw.antrea import actions  # noqa: E402
from vsw.machine import Failure  # noqa: E402

PROGRAM = """if True:
    import sys
    from vsw import steps
    from vsw.machine import Failure
    try:
        steps.Steps(2).run(["sh", "-c", sys.argv[1]], "building", "about 4 min")
    except Failure as error:
        print(f"failed: {error}")
"""


class Words(unittest.TestCase):
    def test_seconds(self):
        for number, words in ((0.4, "0 s"), (31.2, "31 s"), (59.6, "1 min 0 s"), (245, "4 min 5 s")):
            self.assertEqual(steps.seconds(number), words)


class StepsShown(unittest.TestCase):
    def command(self, script, **options):
        argv = [sys.executable, "-B", "-c", PROGRAM, script]
        return subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(LIB)}, stdin=subprocess.DEVNULL, **options)

    def printed(self, script):
        process = self.command(script, stdout=subprocess.PIPE, text=True)
        return process.communicate()[0]

    def test_steps_are_numbered_and_timed(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            shown = steps.Steps(2)
            with shown.step("a Node", "about 5 s"):
                print("  its name")
            with shown.step("scenes"):
                pass
        self.assertRegex(said.getvalue(), r"^\[1/2\] a Node \(about 5 s\)\n  its name\n      \.\.\. \d+ s\n\[2/2\] scenes\n      \.\.\. \d+ s\n$")

    def test_a_step_that_fails_does_not_say_that_it_is_done(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), self.assertRaises(Failure):
            with steps.Steps(1).step("scenes"):
                raise Failure("no")
        self.assertEqual(said.getvalue(), "[1/1] scenes\n")

    def test_a_command_is_quiet_when_it_is_right(self):
        self.assertRegex(self.printed("echo noise; echo more >&2"), r"^\[1/2\] building \(about 4 min\)\n      \.\.\. \d+ s\n$")

    def test_what_a_failing_command_said_last_is_shown(self):
        said = self.printed("seq 100; echo oh >&2; exit 3")
        self.assertRegex(said, r"\n      \.\.\. \d+ s\nfailed: 72\n73\n(.*\n)*100\noh\n`sh -c .*` failed with status 3\n$")
        self.assertNotIn("\n71\n", said)

    def test_a_terminal_has_the_last_line_and_the_time_in_place(self):
        terminal, far_end = pty.openpty()
        process = self.command("echo first; read unused; exit 0", stdout=far_end, stderr=far_end)
        os.close(far_end)
        text = b""
        with contextlib.suppress(OSError):  # the terminal's other end has ended
            while data := os.read(terminal, 65536):
                text += data
        os.close(terminal)
        self.assertEqual(process.wait(), 0)
        lines = text.decode().replace("\x1b[K", "").replace("\r\n", "\n").split("\r")
        self.assertEqual(lines[0], "[1/2] building (about 4 min)")
        self.assertIn(" s  first", "".join(lines))
        self.assertRegex(lines[-1], r"^\[1/2\] building \(about 4 min\) \.\.\. \d+ s\n$")


class Below(unittest.TestCase):
    def test_lines_are_drawn_over_the_ones_before(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            view = live.Below()
            view.draw(["one", "two"])
            view.draw(["three"])
            view.draw([])
        clear, rest = live.CLEAR_LINE, live.CLEAR_BELOW
        self.assertEqual(
            said.getvalue(),
            f"\rone{clear}\r\n\rtwo{clear}\r\n{rest}" f"\x1b[2A\rthree{clear}\r\n{rest}" f"\x1b[1A{rest}",
        )


class Chosen(unittest.TestCase):
    def test_scenes_are_chosen_in_order_and_none_behind_the_last_begins(self):
        begun = []

        def scenes():
            for title in ("one: a", "two", "three: b", "four"):
                begun.append(title)
                yield title, None, [], (4,)

        self.assertEqual([scene[0] for scene in actions.chosen(scenes(), ("one", "three"))], ["one: a", "three: b"])
        self.assertEqual(begun, ["one: a", "two", "three: b"])

    def test_a_scene_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(Failure, "there is no scene 'two'"):
            list(actions.chosen(iter([("one", None, [], (4,))]), ("one", "two")))


if __name__ == "__main__":
    unittest.main()
