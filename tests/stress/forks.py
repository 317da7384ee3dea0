"""Processes that a proof forks: each is killed, or comes to its end; a failing process shows its traceback."""

import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.stress.figures import Proof


@dataclass(frozen=True)
class Forked:
    """A process that was forked, and the file that has the traceback of its error, if it had one."""

    pid: int
    errors: Path

    def end(self, proof: Proof) -> None:
        """Wait for its end, which has to be a proper one."""
        _, status = os.waitpid(self.pid, 0)
        proof.check(status == 0, self._ended(status))

    def kill(self, proof: Proof) -> None:
        """Kill it with SIGKILL, of which it has to die: not of anything else, and not before."""
        ended, status = os.waitpid(self.pid, os.WNOHANG)
        proof.check(not ended, self._ended(status))
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        proof.check(status == signal.SIGKILL, self._ended(status))

    def _ended(self, status: int) -> str:
        said = (
            self.errors.read_text(encoding="utf-8") if self.errors.exists() else "it said nothing"
        )
        how = os.waitstatus_to_exitcode(status)
        return f"a process ended by itself, with {how}:\n{said}"


def fork(action: Callable[[], None], errors: Path, *, said: Path | None = None) -> Forked:
    """Do something in a process of its own; what it raises is written to ``errors``, what it prints added to ``said``."""
    child = os.fork()
    if child:
        return Forked(child, errors)
    status = 70
    try:
        if said is not None:
            os.dup2(os.open(said, os.O_WRONLY | os.O_APPEND), 1)
        action()
        status = 0
    except BaseException:  # noqa: BLE001 - the stress test must not continue in the child
        errors.write_text(traceback.format_exc(), encoding="utf-8")
    finally:
        os._exit(status)
