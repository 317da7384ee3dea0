"""Probes of the sandbox inside the process of a script, as if the script had taken the interpreter over."""

from __future__ import annotations

import json
import os
import select
import socket
from typing import TYPE_CHECKING, Any, cast

from covalt_git.runtime.probes import LIMITS
from covalt_git.runtime.processes import script_process

if TYPE_CHECKING:
    from collections.abc import Collection

    from covalt_git.models.calls import SandboxLevel
    from covalt_git.runtime.probes import Probe
    from covalt_git.runtime.processes.script_process import Script
    from covalt_git.runtime.sandbox.trial import Verdict
    from tests.stress.sandbox_probes import Ground

_END_S = 30.0


class _Taken:
    """An interpreter that runs a probe instead of a script."""

    def __init__(self, script: Script, probe: Probe, ground: Ground) -> None:
        self._script = script
        self._probe = probe
        self._ground = ground

    def begin(self, *_: Any) -> None:
        try:
            obtained = self._probe.run(self._ground)
        except (OSError, MemoryError) as error:
            self._script.end(["refused", f"{type(error).__name__}: {error}"])
        except BaseException as error:  # noqa: BLE001 - a bug of a probe must not look like a refusal
            self._script.end(["broken", f"{type(error).__name__}: {error}"])
        else:
            self._script.end(
                ["refused", "got nothing"] if obtained is None else ["through", obtained]
            )

    def check(self, _: str) -> None:
        raise AssertionError

    def settle(self, *_: Any) -> None:
        raise AssertionError


def tried(
    probe: Probe, level: SandboxLevel, ground: Ground, _closed: Collection[int]
) -> tuple[Verdict, str]:
    """Run a probe in the process of a script; return its verdict and message."""
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        script_process.INTERPRETERS["python"] = lambda script: _Taken(script, probe, ground)
        scratch = ground.scratch / "tmp"
        scratch.mkdir()
        limits = {"time_s": 10, "memory_mb": 64, "calls": 1, "output_kb": 10}
        request = {
            "language": "python",
            "level": level,
            "limits": limits,
            "packages": str(ground.toolset),
            "run_limits": LIMITS._asdict(),
            "idle_s": _END_S,
        }
        try:
            script_process.run_script(request, scratch, parent, theirs.fileno())
        finally:
            os._exit(1)
    theirs.close()
    with ours:
        source = {
            "text": "",
            "args": {},
            "started_ms": 0,
            "seed": 0,
            "checks": False,
            "replies": [],
        }
        ours.sendall(json.dumps(source).encode() + b"\n")
        said = ours.recv(1 << 16) if select.select([ours], [], [], _END_S)[0] else b""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "refused", f"ended by signal {os.WTERMSIG(status)}"
    written = json.loads(said) if said else {}
    if "refused" in written:  # the sandbox was not entered
        return "broken", written["refused"]["message"]
    if not said:
        return "broken", "it ended without a result"
    verdict, text = written["end"]["value"]
    return cast("Verdict", verdict), text
