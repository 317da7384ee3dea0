"""The bar of a long reading: on a terminal, after a second, and gone when all is read."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

SCRIPT = """
import time
from covalt_git.cli.terminal.progress_bar import Bar
told = Bar("reading toolsets")
told(1, 4)
told(2, 4)
time.sleep(1.1)
told(3, 4)
told(4, 4)
"""


def test_a_long_reading_shows_a_bar_on_a_terminal_only() -> None:
    master, slave = pty.openpty()
    subprocess.run([sys.executable, "-c", SCRIPT], stderr=slave, check=True)
    os.close(slave)
    shown = os.read(master, 10_000).decode()
    os.close(master)
    quiet = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True)

    assert shown.count("reading toolsets") == 1
    assert "3/4 reading toolsets" in shown
    assert shown.endswith("\r\x1b[K")
    assert quiet.stderr == b""
