"""Probes of the sandbox inside programs of MCP servers, in Python and in Node."""

from __future__ import annotations

import json
import os
import select
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalt_git.models.tool_properties import Limits
from covalt_git.runtime.pool import ProgramSpec
from covalt_git.runtime.probes import LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from covalt_git.models.calls import SandboxLevel
    from covalt_git.runtime.probes import Probe
    from covalt_git.runtime.sandbox.policy import RunLimits
    from covalt_git.runtime.sandbox.trial import Verdict
    from tests.stress.sandbox_probes import Ground

_SERVER = Path(__file__).with_name("probe_server.py")
_LIMITS = Limits(memory_mb=512, processes=32, written_mb=4)
_END_S = 60.0


class _Copy:
    """A toolset that needs no copy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def hold(self) -> Any:
        return self

    def close(self) -> None:
        pass


class _Spec(ProgramSpec):
    """Sandbox with the limits that the probes expect."""

    __slots__ = ()

    @property
    def run_limits(self) -> RunLimits:
        return super().run_limits._replace(open_files=LIMITS.open_files)


def tried_in(
    server: str,
) -> Callable[[Probe, SandboxLevel, Any, Collection[int]], tuple[Verdict, str]]:
    """Return the attempt of a probe in a server of a language, "python" or "node"."""
    words = [sys.executable, str(_SERVER)]
    if server == "node":
        words = [shutil.which("node") or "node", str(_SERVER.with_suffix(".js")), *words]

    def tried(
        probe: Probe, level: SandboxLevel, ground: Ground, _closed: Collection[int]
    ) -> tuple[Verdict, str]:
        fields = {name: getattr(ground, name) for name in ground.__dataclass_fields__}
        described = json.dumps(
            {key: str(value) if isinstance(value, Path) else value for key, value in fields.items()}
        )
        output, end = os.pipe()
        copy: Any = _Copy(ground.toolset)
        spec = _Spec(
            level,
            copy,
            workspace=ground.workspace,
            readable=(_SERVER.parents[2], Path(sys.prefix)),
            limits=_LIMITS,
        )
        reports: list[str] = []
        try:
            env = {"PATH": os.environ["PATH"]}
            streams = (ground.terminal, end, ground.held)
            program = spec.start(
                [*words, probe.name, described], env, ground.workspace, streams, reports.append
            )
        finally:
            os.close(end)
        with os.fdopen(output, "rb", buffering=0) as file:
            said = file.read(1 << 16) if select.select([file], [], [], _END_S)[0] else b""
        program.end()
        if said:
            verdict, text = json.loads(said)
            return verdict, " ".join(text.replace("\0", " ").split())
        # A program beyond a limit is ended before it prints its verdict.
        return ("refused", reports[-1]) if reports else ("broken", "it printed nothing")

    return tried
