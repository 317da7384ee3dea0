"""The transcript of docs/how-to/registry.md: curl registers the tool of Starfly's reference, and calls it once."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.uvicorn_server import TOKEN, served

PAGE = (Path(__file__).parents[2] / "docs/how-to/registry.md").read_text(encoding="utf-8")
TRANSCRIPT = PAGE.partition("## From registration to a call")[2].partition("```\n\n")[0]
CONFIG = """\
version: 1
workspace: {{durability: fast}}
default_role: owner
roles:
  owner: {{admin: true}}
  agent: {{allow: ["registered.*", "app-builder.*"]}}
issuers:
  - {{issuer: "{issuer}", audience: covalt, jwks_file: keys/own.json, role: agent}}
"""


@pytest.mark.rest
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on this machine")
def test_the_transcript_from_registration_to_a_call_holds(root: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin/covalt-git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m covalt_git "$@"\n')
    program.chmod(0o755)
    sources = os.pathsep.join(filter(None, sys.path))
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "TOKEN": TOKEN, "PYTHONPATH": sources}

    def run(command: str) -> tuple[str, str]:
        ended = subprocess.run(
            ["sh", "-c", command],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return ended.stdout, ended.stderr

    (root / "keys").mkdir()
    issuer = re.search(r"issuer: (\S+)", "".join(run("covalt-git token jwks > keys/own.json")))
    assert issuer
    (root / "covalt.yaml").write_text(CONFIG.format(issuer=issuer[1]))
    shown = re.findall(r"^\$ (.+(?:\n {4}.+)*)\n((?:(?!\$ ).+\n)*)", TRANSCRIPT, re.MULTILINE)
    assert len(shown) == TRANSCRIPT.count("\n$ ")
    with served(root) as port:
        for command, expected in shown:
            # A user grants at a terminal, which this test does not have.
            script = " --no-terminal tested" if " grant add " in command else ""
            printed, errors = run(command.replace(":8787", f":{port}") + script)
            pattern = re.escape(expected.strip()).replace(r"\.\.\.", ".*")
            assert re.fullmatch(pattern, compact(printed), re.DOTALL), (command, printed, errors)


def compact(printed: str) -> str:
    """Return JSON as the page shows it, and other output as it is."""
    try:
        return json.dumps(json.loads(printed), separators=(",", ":"))
    except ValueError:
        return printed.strip()
