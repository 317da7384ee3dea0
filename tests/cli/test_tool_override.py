"""``tool override``, ``enable`` and ``disable``: said in words, shown by whom, for admins only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.toolsets.toolset import read_toolset
from tests.toolsets.test_overrides import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "toolsets/demo").mkdir(parents=True)
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "toolsets/demo/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    return tmp_path


def local(root: Path, name: str = "web") -> dict[str, Any]:
    override = read_toolset(root, "demo").state.overrides.get(name)
    return override.model_dump(exclude_none=True) if override else {}


def test_everything_can_be_said_in_one_command_and_taken_back(
    root: Path, cli: Callable[..., tuple[int, str]]
) -> None:
    config = '{"content": "$return"}'
    said = ["--name", "Ours", "--description", "", "--renderer", "document", "--renderer-config"]
    cli("tool", "override", "demo:web", *said, config, "--no-confirm", "--disable")
    everything = {
        "name_override": "Ours",
        "description_override": "",
        "renderer": "document",
        "renderer_config": {"content": "$return"},
        "requires_confirmation": False,
        "enabled": False,
    }
    assert local(root) == everything

    cli("tool", "override", "demo:web", "--clear", "renderer", "enabled", "--confirm")
    left = {"name_override": "Ours", "description_override": "", "requires_confirmation": True}
    assert local(root) == left
    code, told = cli("tool", "override", "demo:web", "--clear", "--json")
    assert code == 0
    assert json.loads(told)["changed"] is True
    assert not (root / "toolsets/state/demo.yaml").exists()


def test_without_options_it_tells_who_says_what(cli: Callable[..., tuple[int, str]]) -> None:
    assert cli("tool", "override", "demo:plain") == (0, "nothing of demo:plain is overridden\n")
    cli("tool", "override", "demo:web", "--name", "Ours \x1b[2K", "--disable")

    _, said = cli("tool", "override", "demo:web")
    rows = {line.split()[0]: line for line in said.splitlines()}
    assert rows["FIELD"] == "FIELD            THIS PROJECT    ITS TOOLSET"
    assert rows["name"] == "name             Ours \\u{1b}[2K  Theirs"
    assert rows["enabled"].split() == ["enabled", "false", "true"]
    assert rows["renderer"].split() == ["renderer", "-", "code"]

    told = json.loads(cli("tool", "override", "demo:web", "--json")[1])
    ours = {field: value for field, value in told["project"].items() if value is not None}
    assert ours == {"name_override": "Ours \x1b[2K", "enabled": False}
    assert told["toolset"]["name_override"] == "Theirs"
    assert "changed" not in told


def test_show_tells_which_values_are_of_this_project(
    cli: Callable[..., tuple[int, str]],
) -> None:
    assert "of this project" not in cli("tool", "show", "demo:web")[1]
    cli("tool", "override", "demo:web", "--name", "Ours", "--no-confirm")

    assert "\nof this project: name, confirm\n" in cli("tool", "show", "demo:web")[1]
    shown = json.loads(cli("tool", "show", "demo:web", "--json")[1])
    assert (shown["local"]["name_override"], shown["local"]["renderer"]) == ("Ours", None)


def test_enable_and_disable_are_short_for_it_and_lists_follow(
    root: Path, cli: Callable[..., tuple[int, str]]
) -> None:
    cli("tool", "disable", "demo:web")
    cli("tool", "enable", "demo:off")

    (group,) = json.loads(cli("tool", "list", "--json")[1])["groups"]
    on = {one["tool_id"]: one["enabled"] for one in group["tools"]}
    assert on == {"demo:off": True, "demo:plain": True, "demo:web": False}
    assert "demo:web was so already" in cli("tool", "override", "demo:web", "--disable")[1]
    cli("tool", "enable", "demo:web")
    assert local(root) == {}


def test_a_warning_about_what_was_written_is_shown(cli: Callable[..., tuple[int, str]]) -> None:
    config = '{"content": "$args.town"}'
    code, said = cli("tool", "override", "demo:web", "--renderer-config", config)

    assert code == 0
    assert "warning: overrides.web.renderer_config.content: $args.town stands for nothing" in said


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        pytest.param(["demo:wbe", "--disable"], 1, "did you mean 'demo:web'?", id="no-such-tool"),
        pytest.param(["demo:wbe"], 1, "did you mean 'demo:web'?", id="nothing-to-show"),
        pytest.param(["demo:web", "--renderer", "cod"], 1, "hint: write code;", id="renderer"),
        pytest.param(["demo:web", "--renderer-config", "{"], 2, "--renderer-config is not JSON: 1:2", id="no-json"),
        pytest.param(["demo:web", "--renderer-config", "[]"], 2, "--renderer-config is a JSON object", id="no-object"),
        pytest.param(["demo:web", "--renderer-config", '{"a": 1, "a": 2}'], 2, "duplicate key 'a'", id="twice"),
        pytest.param(["demo:web", "name"], 2, "say what to do with 'name'", id="no-clear"),
        pytest.param(["demo:web", "--clear", "nam"], 1, "did you mean 'name'?", id="no-such-field"),
        pytest.param(["demo:web", "--clear", "name", "--name", "x"], 2, "name is both said and taken back", id="both"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_refused_and_nothing_is_written(
    root: Path, cli: Callable[..., tuple[int, str]], args: list[str], code: int, said: str
) -> None:
    found = cli("tool", "override", *args)

    assert found[0] == code
    assert said in found[1]
    assert not (root / "toolsets/state").exists()


def test_only_who_may_do_everything_changes_tools_and_what_is_hidden_has_no_overrides(
    root: Path, cli: Callable[..., tuple[int, str]]
) -> None:
    roles = 'roles: {maker: {allow: ["demo.web"]}, owner: {admin: true}}\n'
    (root / "covalt.yaml").write_text(f"version: 1\n{roles}", encoding="utf-8")
    refused = (1, "your role may not change tools\n  hint: a role with admin: true may\n")

    assert cli("--role", "maker", "tool", "override", "demo:web", "--no-confirm") == refused
    assert cli("--role", "maker", "tool", "enable", "demo:off") == refused
    assert cli("--role", "maker", "tool", "disable", "demo:none") == refused
    assert not (root / "toolsets/state").exists()
    assert cli("--role", "maker", "tool", "override", "demo:web")[0] == 0
    hidden = cli("--role", "maker", "tool", "override", "demo:off")[1]
    assert hidden.startswith("no tool 'demo:off'\n")
    assert cli("--role", "owner", "tool", "disable", "demo:web")[0] == 0
