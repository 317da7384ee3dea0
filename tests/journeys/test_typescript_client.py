"""Results and errors of tools as the client of the TypeScript SDK 1.x receives them; most hosts use it."""

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import missing
from tests.mcp_client import add_toolset, make_project
from tests.uvicorn_server import TOKEN, served

pytestmark = pytest.mark.servers

MODULES = Path(sys.prefix) / "servers" / "node_modules"
CLIENT = Path(__file__).with_name("typescript_client.mjs")
CALLS = [
    ["demo_write", {"path": "a.txt", "content": "hi"}],
    ["demo_write", {"path": "missing/a.txt", "content": "hi"}],
    ["demo_write", {}],
    ["demo_asks", {"path": "a.txt", "content": "hi"}],
]

IMAGE_BYTES = 1_500_000
FORMS_CALLED = ("picture", "items", "text")
FORMS = """\
id: forms
name: Forms
version: "1"
tools:
  - {id: picture, entrypoint: "tools.forms:picture"}
  - {id: items, entrypoint: "tools.forms:items"}
  - {id: text, entrypoint: "tools.forms:text"}
"""
FORMS_CODE = f"""\
from covalt_toolset import Image


def picture() -> Image:
    return Image(b"\\x89PNG\\r\\n\\x1a\\n" + bytes({IMAGE_BYTES} - 8))


def items() -> list:
    return [1, {{"a": "b"}}]


def text() -> str:
    return "plain"
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (MODULES / "@modelcontextprotocol" / "sdk").exists():
        missing("the TypeScript SDK", "make servers")
    root = make_project(tmp_path_factory.mktemp("typescript") / "project", "handbook")
    add_toolset(root, "forms", FORMS, FORMS_CODE)
    return root


@pytest.fixture(params=["http", pytest.param("stdio", marks=pytest.mark.rest)])
def target(root: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "stdio":
        command = [str(Path(sys.prefix) / "bin" / "covalt-git"), "-C", str(root), "mcp"]
        yield json.dumps([*command, "--names", "underscore"])
        return
    with served(root) as port:
        yield f"http://127.0.0.1:{port}/mcp?names=underscore"


def results_of(target: str, calls: list[list[Any]]) -> list[dict[str, Any]]:
    """Return the results of calls, each of which the client has to accept."""
    env = {**os.environ, "MODULES": str(MODULES), "TOKEN": TOKEN}
    argv = ["node", str(CLIENT), target, json.dumps(calls)]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=True, timeout=60)
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    assert [answer.get("error") for answer in answers] == [None] * len(calls)
    return [answer["result"] for answer in answers]


def test_the_typescript_client_gets_the_reason_and_the_execution_id(target: str) -> None:
    results = results_of(target, CALLS)

    assert results[0]["structuredContent"] == {"written": "a.txt"}
    errors = [result["_meta"]["covalt-git/error"] for result in results[1:]]
    codes = ["tool_raised", "invalid_arguments", "approval_needed"]
    assert [error["error"] for error in errors] == codes
    assert errors[-1]["execution_id"] in results[-1]["content"][0]["text"]


@pytest.mark.rest
def test_the_typescript_client_gets_an_image_a_list_and_a_text(target: str) -> None:
    picture, items, text = results_of(target, [[f"forms_{name}", {}] for name in FORMS_CALLED])

    (image,) = [block for block in picture["content"] if block["type"] == "image"]
    assert len(base64.b64decode(image["data"])) == IMAGE_BYTES
    assert json.loads(items["content"][0]["text"]) == [1, {"a": "b"}]
    assert items["structuredContent"] == {"result": [1, {"a": "b"}]}
    assert text["content"][0] == {"type": "text", "text": "plain"}
    assert text["structuredContent"] == {"result": "plain"}


@pytest.mark.rest
def test_the_typescript_client_lists_and_reads_skills(target: str) -> None:
    (skills,) = results_of(target, [["skills/list", {}]])
    (entry,) = skills["skills"]
    assert entry["frontmatter"]["name"] == "review-code"
    files = entry["resources"]
    requests = [["resources/read", {"uri": file["uri"]}] for file in files]
    root = entry["uri"].removesuffix("/SKILL.md")
    *contents, children = results_of(
        target, [*requests, ["resources/directory/read", {"uri": root}]]
    )
    for file, result in zip(files, contents, strict=True):
        content = result["contents"][0]["text"].encode()
        assert file["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert [child["name"] for child in children["resources"]] == ["review-code", "references"]
