"""``covalt-git dev``: every save is validated, and its problems are those of ``validate``."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.command import Piped, run

MANIFEST = """\
id: demo
name: Demo
version: "1"
tools:
  - {id: add, entrypoint: tools:add}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "toolsets/demo").mkdir(parents=True)
    (folder / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    save(folder, MANIFEST)
    tools = "def add(a: int, b: int) -> int:\n    return a + b\n"
    (folder / "toolsets/demo/tools.py").write_text(tools, encoding="utf-8")
    return folder


def save(root: Path, text: str) -> None:
    (root / "toolsets/demo/toolset.yaml").write_text(text, encoding="utf-8")


def until(dev: Piped | subprocess.Popen[str], end: str) -> list[str]:
    """Return the lines up to the first with this end."""
    assert dev.stdout is not None
    lines = [dev.stdout.readline()]
    while not lines[-1].endswith(f"{end}\n"):
        lines.append(dev.stdout.readline())
        assert lines[-1], lines
    return lines


@contextmanager
def followed(root: Path, *args: str) -> Iterator[Piped]:
    dev = Piped("dev", "--port", "0", *args, cwd=root)
    try:
        yield dev
    finally:
        dev.interrupt()
        assert dev.end().returncode == 0


@pytest.mark.parametrize("how", [[], ["--poll"]], ids=["events", "poll"])
def test_each_save_is_validated(root: Path, how: list[str]) -> None:
    with followed(root, *how) as dev:
        assert dev.stdout.readline().startswith("http://127.0.0.1:")
        until(dev, "1 toolset, 1 tool: no problems")
        save(root, MANIFEST.replace("entrypoint", "entrypont"))
        broken = until(dev, "1 problem")
        validated = run("validate", cwd=root).stdout
        save(root, MANIFEST)
        fixed = until(dev, "no problems")

    assert validated.startswith("".join(broken[:-2]))
    assert broken[0].startswith("toolsets/demo/toolset.yaml:5:15: CG201 ")
    assert fixed[0].startswith("demo is ")


def without_watches(*command: str) -> list[str]:
    """Return a command in a user namespace of its own, where the kernel gives it no watches."""
    script = 'echo 2 > /proc/sys/user/max_inotify_watches && exec "$@"'
    return ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh", *command]


@pytest.mark.rest
@pytest.mark.skipif(
    subprocess.run(without_watches("true"), capture_output=True, check=False).returncode != 0,
    reason="this machine allows no user namespace",
)
def test_it_polls_where_the_limit_of_watches_is_reached(root: Path) -> None:
    command = without_watches(sys.executable, "-m", "covalt_git", "dev", "--port", "0")
    with subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as dev:
        until(dev, "no problems")
        save(root, MANIFEST.replace("entrypoint", "entrypont"))
        until(dev, "1 problem")
        dev.terminate()
        errors = dev.communicate(timeout=60)[1]

    assert errors.count("fs.inotify.max_user_watches") == 1


CHECKED = """\
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

EVEN = WithJsonSchema({"type": "integer", "multipleOf": 2})


def add(a: Annotated[int, AfterValidator(abs), EVEN]) -> int:
    return a
"""


def test_a_call_with_another_schema_than_the_listed_one_is_reported(root: Path) -> None:
    (root / "toolsets/demo/tools.py").write_text(CHECKED, encoding="utf-8")
    dev = Piped("dev", "--port", "0", cwd=root)
    url, _, token = dev.stdout.readline().strip().partition("/?token=")
    until(dev, "1 problem")

    def post(name: str, body: dict[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = Request(f"{url}/api/{name}", json.dumps(body).encode(), headers)
        with urlopen(request) as answer:
            return json.load(answer)

    post("create_chat", {"chat_id": "c1"})
    call = {"chat_id": "c1", "tool_id": "demo:add", "args": {"a": 2}}
    assert [post("call_tool", call)["result"] for _ in range(2)] == [2, 2]
    dev.interrupt()

    printed = dev.end().stderr
    assert printed.count("demo:add checks arguments with another schema") == 1
