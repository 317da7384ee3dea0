"""The files of ``deploy/``: their commands and variables exist, and the git server creates the repositories of chats."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Command, Context, Group

from covalt_git.cli import cli
from covalt_git.manifests.followed_project import source_of
from tests import nginx_git_server
from tests.browser import missing
from tests.workspaces.nodes import node, prepare
from tests.workspaces.stores import fsck, scratch, upload

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def commands(text: str) -> list[list[str]]:
    """Return the words of each ``covalt-git`` command in a script."""
    found = re.findall(r"covalt-git ([^;&\n]+)", text)
    return [shlex.split(words) for words in found]


def parse(words: list[str]) -> None:
    """Parse a command as the program does, without running it; an unknown option is an error."""
    context = Context(cli)
    command: Command = cli
    while isinstance(command, Group):
        name, *words = words
        found = command.get_command(context, name)
        assert isinstance(found, Command), name
        command = found
    command.make_context(command.name, words)


def services() -> dict[str, dict[str, Any]]:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    services: dict[str, dict[str, Any]] = yaml.safe_load(text)["services"]
    return services


def test_the_containers_are_those_that_the_guide_names() -> None:
    names = services().keys()
    parts = ["git", "redis", "server-1", "server-2", "worker-1", "worker-2", "proxy"]
    assert sorted(names) == sorted(parts)
    upstreams = (DEPLOY / "proxy" / "nginx.conf").read_text()
    assert re.findall(r"server (server-\d):8787", upstreams) == ["server-1", "server-2"]


@pytest.mark.parametrize("name", ["server-1", "server-2", "worker-1", "worker-2"])
def test_each_node_has_a_folder_of_its_own_and_a_command_that_exists(name: str) -> None:
    service = services()[name]
    script = service["command"][-1]
    assert len(commands(script)) == 2
    for words in commands(script):
        parse(words)
    assert f"{name}:/project/data" in service["volumes"]
    # It ends by itself before it is killed.
    drain = int(re.findall(r"--drain (\d+)", script)[0])
    assert int(service["stop_grace_period"].removesuffix("s")) > drain


def test_the_files_that_containers_are_built_from_exist() -> None:
    for service in services().values():
        build = service.get("build")
        if isinstance(build, dict):
            assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
        elif build:
            assert (DEPLOY / build / "Dockerfile").is_file()
            copied = re.findall(r"(?m)^COPY (\S+) ", (DEPLOY / build / "Dockerfile").read_text())
            assert copied
            assert all((DEPLOY / build / name).is_file() for name in copied)
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            if source.startswith("./"):
                assert (DEPLOY / source).is_file()


def test_the_covalt_yaml_of_the_nodes_is_valid(tmp_path: Path) -> None:
    text = (DEPLOY / "node.yaml").read_text(encoding="utf-8")
    (tmp_path / "covalt.yaml").write_text(text)
    assert source_of(tmp_path) is not None
    (tmp_path / "covalt.yaml").write_text(
        text.replace("  # username", "  username").replace("  # pass", "  pass")
    )
    source = source_of(tmp_path)
    assert source is not None
    assert source.password_name == "PROJECT_TOKEN"
    assert source.password_name in (DEPLOY / "compose.yaml").read_text()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_that_exists_and_waits_for_its_end(unit: Path) -> None:
    text = unit.read_text(encoding="utf-8")
    (line,) = re.findall(r"(?m)^ExecStart=\S+/covalt-git (.*)$", text)
    parse(shlex.split(line.replace("%i", "1")))
    (drain,) = re.findall(r"--drain (\d+)", line)
    (limit,) = re.findall(r"TimeoutStopSec=(\d+)", text)
    assert int(limit) > int(drain)


def test_the_variables_of_the_nodes_exist() -> None:
    names = (ROOT / "tests/contract/names/environment.txt").read_text().split()
    files = [DEPLOY / "compose.yaml", DEPLOY / "systemd" / "team.env.example", *UNITS]
    used = {name for file in files for name in re.findall(r"COVALT_GIT_\w+", file.read_text())}
    assert used <= set(names)
    assert {"COVALT_GIT_QUEUE", "COVALT_GIT_TOKEN", "COVALT_GIT_METRICS_TOKEN"} <= used


@pytest.fixture
def readable() -> Iterator[Path]:
    """A folder that the workers of nginx can enter, which run as another user."""
    with scratch() as folder:
        folder.chmod(0o755)
        yield folder


@pytest.mark.rest
def test_the_git_server_creates_the_repository_of_a_chat_that_is_pushed(readable: Path) -> None:
    if not nginx_git_server.is_installed():
        missing("nginx with fcgiwrap", "apt install nginx-light fcgiwrap")
    folder, repositories = readable / "nginx", readable / "chats"
    repositories.mkdir()
    render = nginx_git_server.deployed(repositories, folder)
    with nginx_git_server.git_server(repositories, folder, render=render) as place:
        first, second = (node(readable, name, f"{place}/{{chat_id}}.git") for name in "ab")
        prepare(first)
        with first.new("c1") as chat:
            upload(chat, "x.txt", b"1")
        with second.open("c1") as chat:
            upload(chat, "y.txt", b"2")
            assert fsck(chat) == ""
        # Reading creates nothing.
        assert second.ids() == ["c1"]
        assert not second.has("c2")
    assert sorted(path.name for path in repositories.iterdir()) == ["c1.git", "covalt.registry.git"]
