"""Each command's help has an example, which parses; the examples for the sample project also run."""

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click import Command, Context, Group

from covalt_git.cli import cli
from covalt_git.toolsets.new_project import create_project
from tests.workspaces.stores import run_git


def commands(group: Group, *path: str) -> Iterator[tuple[str, Command]]:
    context = Context(group)
    for name in group.list_commands(context):
        one = group.get_command(context, name)
        if isinstance(one, Group):
            yield from commands(one, *path, name)
        if one is not None and (not isinstance(one, Group) or one.invoke_without_command):
            yield " ".join([*path, name]), one


def example(one: Command) -> list[str]:
    found = re.findall(r"Example: covalt-git (.*(?:\n.+)*)", one.help or "")
    return shlex.split(found[0]) if len(found) == 1 else []


EXAMPLES = {name: (one, example(one)) for name, one in commands(cli)}

ROLES = "\nroles: {owner: {admin: true}, agent: {allow: [data-lab.*]}}\ndefault_role: owner\n"

# In this order, in a project with one commit, a file and a call.
RUN = """
validate, explain, schema, toolset list, toolset show, toolset disable, toolset enable, toolset new,
tool list, tool schema, tool search, tool show, tool test, tool override, tool disable, tool enable,
role list, source list, secret list, auth list, grant list, authority show, authority diff,
chat new, chat upload, call, chat replay, chat list, chat status, chat rename, chat log, chat files, chat show,
chat diff, chat restore, chat undo, chat redo, chat branch new, chat branch list, chat merge,
chat branch delete, chat branch new, chat checkout, chat branch rename, chat export, chat fork, chat message add, chat message list,
chat message show, chat message retry, chat message edit, chat message switch, chat message continue, chat gc,
chat delete, approval list, token new, token list, token revoke, index status, index rebuild, init
"""


def test_every_command_has_an_example() -> None:
    assert [name for name, (_, args) in EXAMPLES.items() if not args] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_parses(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, args = EXAMPLES[name]
    monkeypatch.chdir(tmp_path)
    for file in ("theirs.zip", "c1.bundle", "report.md", ".ssh/id_ed25519"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    context: Context | None = None
    one: Command = cli
    rest = [arg.replace("~/", f"{tmp_path}/") for arg in args]
    while isinstance(one, Group) and one is not wanted:
        context = one.make_context(one.name, list(rest), parent=context)
        _, found, rest = one.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        one = found
    one.make_context(one.name, list(rest), parent=context)

    assert one is wanted


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with one commit, which a user may change."""
    create_project(tmp_path)
    with (tmp_path / "covalt.yaml").open("a", encoding="utf-8") as file:
        file.write(ROLES)
    run_git(tmp_path, "add", ".")
    run_git(tmp_path, "commit", "-qm", "Start")
    (tmp_path / "report.md").write_text("# Sales\n")
    return tmp_path


def test_examples_run_in_the_sample_project(
    root: Path, cli: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    failed = {}
    for name in re.split(r",\s+", RUN.strip()):
        code, printed = cli(*EXAMPLES[name][1])
        if code:
            failed[name] = printed
        if name == "chat new":
            cli("chat", "upload", "c1", "toolsets/data-lab/assets/weather.csv")
            cli("chat", "message", "add", "c1", "--ref", "app-77")

    assert failed == {}
