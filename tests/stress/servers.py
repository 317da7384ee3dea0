"""Widely used MCP servers of npm and PyPI, each run under exactly the grant that ``source observe`` proposes.

``popular_servers.yaml`` names them.  ``python -m tests.stress servers NAME...`` runs some of them, and leaves the other rows of
the page as they are.  Only the registries are contacted: a server whose proposed grant has a public host does not get it.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import yaml

from covalt_git.calls.servers.server_programs import pinned_program
from covalt_git.connections import pool
from covalt_git.connections.definition import Definition, Name
from covalt_git.errors import CovaltError
from covalt_git.models.sources.tool_lock import locked_tool
from covalt_git.toolsets.toolset import read_toolset
from tests.mcp_client import REPOSITORY
from tests.stress.figures import Proof, rows_of
from tests.workspaces.stores import scratch

PROMISE = (
    "Widely used MCP servers run in the sandbox under exactly the grant that `source observe` proposes, without any edit by hand,"
    " and list the same tools as without a sandbox. Each row of the table has the date of its run."
)
TITLES = (
    "server",
    "package",
    "packages",
    "tools",
    "same as unsandboxed",
    "granted",
    "substitute",
    "result",
    "date",
)
FILE = Path(__file__).with_name("popular_servers.yaml")
SERVERS: dict[str, dict[str, Any]] = {
    row["name"]: row for row in yaml.safe_load(FILE.read_text(encoding="utf-8"))
}
COUNT = len(SERVERS)
_REASON = ("--no-terminal", "stress test")
_LONGEST_S = 600
_NO_NETWORK = (
    "unshare",
    "--map-root-user",
    "--net",
    "sh",
    "-c",
    'ip link set lo up; exec "$0" "$@"',
)


class Outcome(NamedTuple):
    """What a server did.

    Attributes:
        packages: the number of its packages; 0 if they were not installed.
        tools: digests of its tools in the sandbox, by name.
        unsandboxed: those without a sandbox and without network.
        grant: the words of the grant that was proposed and given.
        failure: why it cannot be used; empty if it works.
    """

    packages: int
    tools: dict[str, str]
    unsandboxed: dict[str, str]
    grant: str
    failure: str


def prove(proof: Proof, count: int, seed: int, names: Sequence[str] = ()) -> None:  # noqa: ARG001 - nothing is random
    """Run the named servers, or the first ``count``; each must work, except those with a known reason."""
    unknown = sorted({*names} - {*SERVERS})
    proof.check(
        not unknown, f"there is no server {', '.join(unknown)}; there are {', '.join(SERVERS)}"
    )
    rows = rows_of(proof.name)
    wrong = []
    for number, name in enumerate(names or [*SERVERS][:count]):
        started = time.monotonic()
        with scratch() as folder:
            outcome = run(folder, SERVERS[name])
        rows[name] = _row(SERVERS[name], outcome)
        print(f"| {' | '.join(rows[name])} | {time.monotonic() - started:.0f} s", flush=True)
        error = SERVERS[name].get("error", "")
        if bool(outcome.failure) != bool(error) or error not in outcome.failure:
            wrong.append(f"{name}: {outcome.failure or 'it works now'}")
        proof.progress(number + 1, len(names) or count)
    proof.titles = TITLES
    proof.rows = {name: rows[name] for name in SERVERS if name in rows}
    working = [name for name, row in proof.rows.items() if row[TITLES.index("result")] == "works"]
    plain = {package_of(name) for name in working if "options" not in SERVERS[name]}
    changed = {package_of(name) for name in working} - plain
    packages = {package_of(name) for name in proof.rows}
    proof.note("servers", len(packages))
    proof.note("work as their authors declare them", len(plain))
    proof.note("work with an option for another version of a package", len(changed))
    proof.note("do not, for the reason in the table", len(packages - plain - changed))
    tools = sum(int(proof.rows[name][TITLES.index("tools")]) for name in working)
    proof.note("tools listed, the same as without a sandbox", tools)
    proof.check(not wrong, "; ".join(wrong))


def package_of(name: str) -> str:
    """Return the package of a server."""
    return str(SERVERS[name].get("npm") or SERVERS[name]["pypi"])


def declared(row: dict[str, Any]) -> dict[str, Any]:
    """Return the declaration of a server in a manifest, with its package at the version of the row."""
    of_npm = "npm" in row
    package = str(row["npm" if of_npm else "pypi"])
    options = [*row.get("options", ())]
    program = row.get("program")
    version = row.get("version")
    if of_npm:
        wanted = f"{package}@{version}" if version else package
        start = [*options, "-p", wanted, program] if program else [*options, wanted]
        command, words = "npx", ["-y", *start]
    else:
        wanted = f"{package}=={version}" if version else package
        command, words = "uvx", [*options, "--from", wanted, program or package]
    return {
        "id": "server",
        "command": command,
        "args": [*words, *row.get("args", ())],
        "env": {**row.get("env", {})},
    }


def run(folder: Path, row: dict[str, Any]) -> Outcome:
    """Write a toolset with the server, observe it, give exactly the proposed grant, and list its tools with and without it."""
    root = folder / "project"
    toolset = root / "toolsets/popular"
    toolset.mkdir(parents=True)
    (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    server = declared(row)
    manifest = {"id": "popular", "name": "Popular", "version": "1", "mcp_servers": [server]}
    (toolset / "toolset.yaml").write_text(json.dumps(manifest), encoding="utf-8")
    for name in ("cache", "config", "home", "workspace"):
        (folder / name).mkdir()
    env = _environment(folder)

    def command(*words: str) -> subprocess.CompletedProcess[str]:
        python = (sys.executable, "-P", "-m", "covalt_git", *words)
        return subprocess.run(
            python,
            cwd=root,
            env=env,
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )

    command("grant", "add", "popular", "server", "server", *_REASON)
    refresh = ("source", "refresh", "popular/server", "--accept", *_REASON)
    refreshed = command(*refresh)
    observed = command("source", "observe", "popular/server", "--json")
    observation = json.loads(observed.stdout or "{}")
    if "needs" not in observation:  # its packages are not there
        return Outcome(0, {}, {}, "", _end(refreshed.stderr))
    words = shlex.split(observation["command"])[1:]
    grant = shlex.join(words[5:])
    hosts = [host for need in observation["needs"] for host in need["hosts"] if host in words]
    if any(not host.startswith(("localhost", "127.")) for host in hosts):
        return Outcome(
            _packages(root),
            {},
            {},
            f"{grant} (proposed only)",
            observation["failure"] or "it needs a public host",
        )
    if words:
        granting = command(*words, *_REASON)
        if granting.returncode:
            return Outcome(_packages(root), {}, {}, grant, _end(granting.stderr))
        refreshed = command(*refresh)
    if refreshed.returncode:
        return Outcome(_packages(root), {}, {}, grant, _end(refreshed.stderr))
    lock = read_toolset(root, "popular").locks["server"].value
    tools = {tool.upstream: tool.digest for tool in lock.tools.values()} if lock else {}
    argv = _command(root, env)
    plain, failure = unsandboxed(root, argv, server["env"], folder / "workspace", env)
    if not failure and plain != tools:
        differing = sorted(name for name in plain | tools if plain.get(name) != tools.get(name))
        failure = f"its list differs without a sandbox: {', '.join(differing[:5])}"
    shown = json.loads(command("source", "list", "popular/server", "--json").stdout)
    unusable = {name: why for row in shown["sources"] for name, why in row["unusable"].items()}
    if not failure and unusable:
        failure = f"{len(unusable)} of its tools cannot be called: {next(iter(unusable.values()))}"
    return Outcome(_packages(root), tools, plain, grant, failure)


def _environment(folder: Path) -> dict[str, str]:
    """Return the variables of a user with an empty home, and the registries of this one."""
    home = Path.home()
    for name in (".npmrc", ".config/pip/pip.conf"):
        if (home / name).is_file():
            (folder / "home" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "home" / name).write_bytes((home / name).read_bytes())
    paths = {
        "HOME": str(folder / "home"),
        "XDG_CONFIG_HOME": str(folder / "home/.config"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'server'}",
    }
    return os.environ | paths


def _command(root: Path, env: dict[str, str]) -> tuple[str, ...]:
    """Return the command that the installation of the server has, without the sandbox."""
    with mock.patch.dict(os.environ, env):
        toolset = read_toolset(root, "popular")
        assert toolset.manifest is not None
        pinned = pinned_program(toolset, toolset.manifest.mcp_servers[0])
    assert pinned is not None
    return (*pinned.argv, *pinned.args)


def unsandboxed(
    root: Path,
    words: Sequence[str],
    variables: dict[str, str],
    workspace: Path,
    env: dict[str, str],
) -> tuple[dict[str, str], str]:
    """List a server's tools by the same client without a sandbox; return their digests, or why it lists none.

    The server has the loopback network only, in a network namespace: the run contacts no public host.
    """
    texts = (*words, *variables.values())
    sees_workspace = any("$workspace" in text for text in texts)
    own = {"HOME": env["HOME"]} | variables
    opened = Definition(
        Name(root, "popular", "unsandboxed", None),
        "stdio",
        argv=(*_NO_NETWORK, *(word.replace("$workspace", str(workspace)) for word in words)),
        env={name: text.replace("$workspace", str(workspace)) for name, text in own.items()},
        workspace=workspace if sees_workspace else None,
    )
    try:
        tools = pool.CONNECTIONS.tools(opened)
        return {str(tool["name"]): locked_tool(tool).digest for tool in tools}, ""
    except CovaltError as error:
        return {}, f"without a sandbox it lists no tools: {error.message}"
    finally:
        pool.CONNECTIONS.end(opened.name)


def _packages(root: Path) -> int:
    lock = yaml.safe_load((root / "toolsets/locks/server.yaml").read_text(encoding="utf-8"))
    return len(lock["program"]["packages"])


def _end(stderr: str) -> str:
    """Return what a command printed last, without its hint."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return " ".join(line for line in lines[-6:] if not line.startswith("hint:"))[:300]


def _row(server: dict[str, Any], outcome: Outcome) -> tuple[str, ...]:
    failure = str(server.get("lacking") or outcome.failure) if outcome.failure else ""
    same = "yes" if outcome.tools and outcome.tools == outcome.unsandboxed else "-"
    cells = (
        str(server["name"]),
        f"{server.get('npm') or server.get('pypi')} {server.get('version', '')}".strip(),
        str(outcome.packages or ""),
        str(len(outcome.tools) or ""),
        same,
        outcome.grant or "nothing more",
        str(server.get("substitute", "")),
        failure or "works",
        datetime.now(tz=UTC).date().isoformat(),
    )
    return tuple(cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
