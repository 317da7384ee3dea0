"""A project as a whole: its root, its configuration, and the namespaces of its toolsets."""

import subprocess
from pathlib import Path

import pytest

from covalt_git.manifests.project_root import NotAProjectError, find_root
from covalt_git.problems import codes
from covalt_git.toolsets.project_files import read_project
from tests.toolsets.projects import HEAD, put, put_hello


def put_toolsets(root: Path, **toolsets: str) -> None:
    """Create a project of toolsets with a head and further keys, ``-`` written as ``__``."""
    (root / "covalt.yaml").write_text("version: 1\n")
    for name, more in toolsets.items():
        toolset_id = name.replace("__", "-")
        head = HEAD.replace("id: hello", f"id: {toolset_id}")
        put(root, f"{toolset_id}/toolset.yaml", f"{head}\n{more}\n")


def test_root_is_the_nearest_folder_above_with_covalt_yaml(tmp_path: Path) -> None:
    put_hello(tmp_path)
    inner = tmp_path / "toolsets" / "hello" / "tools"

    assert find_root(tmp_path) == tmp_path
    assert find_root(inner) == tmp_path
    with pytest.raises(NotAProjectError, match="does not exist"):
        find_root(inner / "not" / "there")
    (inner / "covalt.yaml").write_text("version: 1\n")
    assert find_root(inner) == inner


def test_the_hint_outside_of_a_project_names_the_projects_below(tmp_path: Path) -> None:
    with pytest.raises(NotAProjectError) as nothing:
        find_root(tmp_path)
    for name in ("demo", "my work"):
        put_hello(tmp_path / name)
    with pytest.raises(NotAProjectError) as two:
        find_root(tmp_path)

    assert nothing.value.hint == "covalt-git init demo && cd demo"
    assert two.value.hint == f"cd {tmp_path}/demo, or cd '{tmp_path}/my work'"


def test_a_broken_config_does_not_hide_the_toolsets(tmp_path: Path) -> None:
    put_hello(tmp_path)
    (tmp_path / "covalt.yaml").write_text("version: 1\nroels: {}\n")

    reading = read_project(tmp_path)

    assert reading.config is None
    assert [one.id for one in reading.toolsets] == ["hello"]


SHOP = "mcp_servers: [{id: shop, command: npx}]"
GITHUB = "mcp_servers: [{id: github, command: npx}]"


@pytest.mark.parametrize(
    ("toolsets", "states", "expected"),
    [
        ({"hello": SHOP, "shop": ""}, {}, ["toolsets/hello/toolset.yaml:8"]),
        (
            {"a": GITHUB, "b": "sources: [{id: github, type: mcp, server: x}]"},
            {},
            ["toolsets/b/toolset.yaml:8"],
        ),
        (  # a hyphen and an underscore are the same
            {"my__tools": "", "my_tools": ""},
            {"my_tools": "aliases: {my_tools: other}\n"},
            ["toolsets/my_tools/toolset.yaml:4"],
        ),
        ({"hello": SHOP, "shop": ""}, {"hello": "aliases: {shop: hello-shop}\n"}, []),
        (
            {"hello": SHOP, "shop": "", "third": ""},
            {"hello": "aliases: {shop: third}\n"},
            ["toolsets/hello/toolset.yaml:8"],
        ),
        ({"shop": SHOP}, {}, []),
    ],
)
def test_a_namespace_belongs_to_one_toolset(
    tmp_path: Path, toolsets: dict[str, str], states: dict[str, str], expected: list[str]
) -> None:
    put_toolsets(tmp_path, **toolsets)
    for name, text in states.items():
        put(tmp_path, f"state/{name}.yaml", text)

    found = read_project(tmp_path).problems

    assert {one.code for one in found} <= {codes.NAMESPACE_TAKEN}
    assert [f"{one.path}:{one.line}" for one in found] == expected


def test_the_hint_about_two_equal_ids_renames_a_toolset_and_its_state(tmp_path: Path) -> None:
    put_toolsets(tmp_path, my__tools="", my_tools="")
    put(tmp_path, "state/my_tools.yaml", "enabled: true\n")
    (problem,) = read_project(tmp_path).problems
    commands = problem.hint.removeprefix("rename one of them: ").partition(", and write ")[0]
    assert commands.count(" && ") == 1
    commands = commands.replace("NEW", "new")
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)

    subprocess.run(["sh", "-c", commands], cwd=tmp_path, check=True)
    file = tmp_path / "toolsets/new/toolset.yaml"
    file.write_text(file.read_text().replace("id: my_tools", "id: new"))

    assert read_project(tmp_path).problems == ()
    assert (tmp_path / "toolsets/state/new.yaml").exists()


def test_the_commands_of_a_hint_quote_the_name_of_a_folder(tmp_path: Path) -> None:
    put_toolsets(tmp_path, **{"a;touch b__c": "", "a;touch b_c": ""})
    hints = [one.hint for one in read_project(tmp_path).problems if one.code == "CG401"]
    assert [hint for hint in hints if "git mv 'toolsets/a;touch b" in hint] == hints != []


OFF = "enabled: false\n"
IMPORTED = (
    "source_type: zip\nsource_ref: x.json\ninstalled_at: '2026-0{}-01T00:00:00Z'\nenabled: true\n"
)


@pytest.mark.parametrize(
    ("states", "listed", "faulty"),
    [
        ({"a": OFF}, "", "a"),
        ({"b": OFF}, "", "b"),
        ({"a": OFF}, "a", "a"),  # an enabled toolset first, also if it has no tools yet
        ({}, "a", "b"),
        ({}, "b", "a"),
        ({"a": OFF, "b": OFF}, "b", "a"),
        ({"a": IMPORTED.format(1)}, "", "a"),  # the project's own toolset is older
        ({"a": IMPORTED.format(2), "b": IMPORTED.format(1)}, "", "a"),
        ({"a": IMPORTED.format(1), "b": IMPORTED.format(2)}, "", "b"),
        ({"a": IMPORTED.format(1), "b": IMPORTED.format(2)}, "b", "a"),
    ],
)
def test_a_namespace_of_two_toolsets_is_an_error_of_the_disabled_not_listed_or_newer_one(
    tmp_path: Path, states: dict[str, str], listed: str, faulty: str
) -> None:
    put_toolsets(tmp_path, a=GITHUB, b=GITHUB)
    for name, text in states.items():
        put(tmp_path, f"state/{name}.yaml", text)
    if listed:
        lock = f"version: 1\nkind: mcp\nnamespace: github\ntoolset_id: {listed}\n"
        put(tmp_path, "locks/github.yaml", lock)

    problems = [one for one in read_project(tmp_path).problems if one.severity == "error"]

    assert [(one.path, one.code) for one in problems] == [
        (f"toolsets/{faulty}/toolset.yaml", codes.NAMESPACE_TAKEN)
    ]
