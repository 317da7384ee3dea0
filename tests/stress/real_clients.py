"""Clients that others wrote against our MCP server: the inspector's command line, and FastMCP's client.

Both are installed into a cache folder.  Their answers are compared with those of the SDK's own client.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp import Client

from covalt_git.grants.grants import add_grant
from covalt_git.json_values import JsonObject
from covalt_git.project import Project
from covalt_git.toolsets.new_project import create_project
from tests.mcp_client import REPOSITORY, command, talk, text
from tests.stress.figures import Proof
from tests.stress.installing import LONGEST_S, cached, call, npm_install
from tests.taking_servers import take
from tests.workspaces.stores import scratch

PROMISE = (
    "Third-party clients get the same lists, results, resources and prompts as the client of "
    "the SDK, over both transports."
)
COUNT = 1
INSPECTOR = "@modelcontextprotocol/inspector-cli"
INSPECTOR_VERSION = "1.0.3"
FASTMCP_VERSION = "4.1.2"
TOKEN = "the-token-of-the-proof"

SERVER = REPOSITORY / "fixtures" / "servers" / "first_era.py"
FASTMCP_CLIENT = REPOSITORY / "fixtures" / "clients" / "fastmcp_client.py"
MANIFEST = f"""\
id: near
name: Near
version: "1"
mcp_servers:
  - {{id: near, command: {sys.executable}, args: [{SERVER}], requires_confirmation: false}}
"""
REQUESTS: tuple[tuple[str, JsonObject], ...] = (
    ("tools/list", {}),
    ("tools/call", {"name": "app-builder.write_file", "arguments": {"path": "a.md", "content": "# A"}}),
    ("tools/call", {"name": "near.add", "arguments": {"a": 2, "b": 3}}),
    ("tools/call", {"name": "near.fail", "arguments": {}}),
    ("resources/list", {}),
    ("resources/read", {"uri": "data-lab://weather"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "data-lab.explore", "arguments": {"path": "a.csv"}}),
)  # fmt: skip


def prove(proof: Proof, count: int, seed: int) -> None:  # noqa: ARG001 - nothing is left to chance
    """Have each client make each request over each transport, ``count`` times."""
    cache = installed()
    proof.note("inspector", INSPECTOR_VERSION)
    proof.note("FastMCP", FASTMCP_VERSION)
    with scratch() as folder:
        root = folder / "project"
        make(root)
        for name in ("tools", "prompts"):
            proof.note(f"{name} listed", len(sdk(root, f"{name}/list", {})))
        with served(root) as url:
            started = command(root, "--chat", "c1")
            stdio = {"command": started.command, "args": started.args, "env": started.env}
            http = {
                "url": f"{url}/mcp?chat=c1",
                "headers": {"Authorization": f"Bearer {TOKEN}"},
            }
            for name, ask in (("the inspector", inspector), ("FastMCP", fastmcp)):
                for kind, how in (("stdio", stdio), ("HTTP", http)):
                    made = 0
                    for _ in range(count):
                        for method, params in REQUESTS:
                            told = ask(cache, how, method, params)
                            # Now: what there is to read, and which commit it is, changes with each call.
                            wanted = sdk(root, method, params)
                            same = f"{told}, and the SDK's client {wanted}"
                            proof.check(wanted, f"{method}: there is nothing to be told")
                            proof.check(told == wanted, f"{name}, {kind}, {method}: {same}")
                            made += 1
                    proof.note(f"{name} over {kind}: requests with the same answer", made)


def installed() -> Path:
    """Return the folder that holds both clients, installed where they are not yet."""
    place = cached(f"clients-{INSPECTOR_VERSION}-{FASTMCP_VERSION}")
    ready = place / "ready"
    if not ready.exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        python = place / "python"
        call(sys.executable, "-m", "venv", python)
        pip = python / "bin" / "pip"
        call(
            pip, "install", "--quiet", "--disable-pip-version-check", f"fastmcp=={FASTMCP_VERSION}"
        )
        npm_install(place, f"{INSPECTOR}@{INSPECTOR_VERSION}")
        ready.touch()
    return place


def make(root: Path) -> None:
    """Make a project: the samples, and an MCP server that is granted and accepted; with one chat."""
    create_project(root)
    (root / "toolsets" / "near").mkdir()
    (root / "toolsets" / "near" / "toolset.yaml").write_text(MANIFEST)
    add_grant(root, "near", "process", "near", by="proof")
    take(root, "near", "near")
    Project.open(root).chats.new("c1").store.close()


@contextmanager
def served(root: Path) -> Iterator[str]:
    """Serve the project as a person does, and yield its address."""
    started = command(root)
    program = [started.command, *started.args[:-1], "serve", "--port", "0", "--json"]
    variables = {**os.environ, **(started.env or {}), "COVALT_GIT_TOKEN": TOKEN}
    with subprocess.Popen(program, env=variables, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        finally:
            process.terminate()


def sdk(root: Path, method: str, params: JsonObject) -> Any:
    """Return the answers to the SDK's client."""

    async def said(client: Client) -> Any:
        match method:
            case "tools/list":
                return [one.name for one in (await client.list_tools()).tools]
            case "resources/list":
                return [str(one.uri) for one in (await client.list_resources()).resources]
            case "prompts/list":
                return [one.name for one in (await client.list_prompts()).prompts]
            case "tools/call":
                result = await client.call_tool(params["name"], params["arguments"])
                return [result.is_error, text(result).split("\n")]
            case "resources/read":
                found = await client.read_resource(params["uri"])
                return [getattr(one, "text", None) for one in found.contents]
        prompt = await client.get_prompt(params["name"], params["arguments"])
        return [getattr(one.content, "text", None) for one in prompt.messages]

    return talk(root, said, chat="c1")


def fastmcp(cache: Path, how: JsonObject, method: str, params: JsonObject) -> Any:
    """Return the answers to FastMCP's client."""
    words = [json.dumps(how), method, json.dumps(params)]
    program = [str(cache / "python" / "bin" / "python"), str(FASTMCP_CLIENT), *words]
    return json.loads(_answer(program))


def inspector(cache: Path, how: JsonObject, method: str, params: JsonObject) -> Any:
    """Return the answers to the inspector."""
    build = cache / "node_modules" / INSPECTOR / "build"
    program = ["node", str(build / "cli.js"), "--cli"]
    if "url" in how:
        headers = [f"{name}: {value}" for name, value in how["headers"].items()]
        program += [how["url"], "--transport", "http"]
        program += [word for one in headers for word in ("--header", one)]
    else:
        program += [how["command"], *how["args"]]
    program += ["--method", method]
    given = [f"{name}={value}" for name, value in params.get("arguments", {}).items()]
    if method == "tools/call":
        program += ["--tool-name", params["name"], *_each("--tool-arg", given)]
    elif method == "prompts/get":
        program += ["--prompt-name", params["name"], *_each("--prompt-args", given)]
    elif method == "resources/read":
        program += ["--uri", params["uri"]]
    # It looks for its own package.json from where it is started.
    told = json.loads(_answer(program, folder=build, **how.get("env", {})))
    match method:
        case "tools/list" | "prompts/list":
            return [one["name"] for one in told[method.partition("/")[0]]]
        case "resources/list":
            return [one["uri"] for one in told["resources"]]
        case "tools/call":
            words = [one["text"] for one in told["content"] if one["type"] == "text"]
            return [told.get("isError", False), words]
        case "resources/read":
            return [one["text"] for one in told["contents"]]
    return [one["content"]["text"] for one in told["messages"]]


def _each(option: str, values: list[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _answer(program: list[str], folder: Path | None = None, **variables: str) -> str:
    done = subprocess.run(
        program,
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_S,
    )
    if done.returncode != 0:
        raise AssertionError(f"{program[0]}: {done.stdout}{done.stderr}")
    return done.stdout
