"""What a principal sees and finds: never more than the door says, in no word of any answer."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.access import UnknownRoleError
from covalt_git.catalog.catalog import BrokenToolsetError, DisabledToolError
from covalt_git.errors import UnknownNameError
from covalt_git.index.index import Index
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.project_config import ProjectConfig
from covalt_git.toolsets.toolset import read_toolset
from tests.command import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.models.tool import Tool
    from tests.catalog.conftest import Shelf

GARDENER = """
    roles:
      gardener: {allow: [garden.*], deny: ["garden.secret_*"]}
      owner: {admin: true}
"""


def all_tools(shelf: Shelf) -> list[Tool]:
    names = toolset_ids(shelf.root / "toolsets")
    return [tool for name in names for tool in read_toolset(shelf.root, name).tools]


@pytest.mark.parametrize(
    ("role", "seen"),
    [
        pytest.param("allow: [garden.*]", ["secret_bed", "water", "weed"], id="a-toolset"),
        pytest.param("allow: ['*.water']", ["water", "water"], id="one-name-everywhere"),
        pytest.param("allow: ['garden.w*']", ["water", "weed"], id="a-beginning"),
        pytest.param("allow: ['**'], deny: ['**']", [], id="deny-wins"),
        pytest.param("approve: ['**']", [], id="to-approve-is-not-to-see"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_role_sees_what_it_could_call(shelf: Shelf, role: str, seen: list[str]) -> None:
    shelf.configure(f"roles: {{one: {{{role}}}}}")

    visible = shelf.catalog("one").visible(all_tools(shelf))

    assert sorted(tool.id.name for tool in visible) == seen


def test_without_roles_everything_is_there(shelf: Shelf) -> None:
    tools = all_tools(shelf)

    assert shelf.catalog().visible(tools) == tools


def test_tool_that_is_off_is_seen_and_not_callable(shelf: Shelf) -> None:
    state = shelf.root / "toolsets" / "state"
    state.mkdir()
    (state / "garden.yaml").write_text("overrides: {weed: {enabled: false}}\n")
    catalog = shelf.catalog()

    assert catalog.find("garden:weed").tool.enabled is False
    with pytest.raises(DisabledToolError) as caught:
        catalog.find_callable("garden:weed")
    assert caught.value.as_json()["error"] == "tool_disabled"


@pytest.mark.parametrize("text", ["garden:water", "garden.water"])
def test_tool_is_found_in_both_spellings_of_its_id(shelf: Shelf, text: str) -> None:
    found = shelf.catalog().find(text)

    assert (found.tool.tool_id, found.toolset.id) == ("garden:water", "garden")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param(
            "garden:watre",
            "did you mean 'garden:water'? list them with `covalt-git tool list`",
            id="a-typo",
        ),
        pytest.param(
            "weed",
            "did you mean 'garden:weed'? list them with `covalt-git tool list`",
            id="no-toolset",
        ),
        pytest.param(
            "gardn:weed",
            "did you mean 'garden:weed'? list them with `covalt-git tool list`",
            id="no-such-toolset",
        ),
        pytest.param("zzz", "list them with `covalt-git tool list`", id="nothing-near"),
        pytest.param("", "list them with `covalt-git tool list`", id="empty"),
        pytest.param("../etc:passwd", "list them with `covalt-git tool list`", id="a-path"),
        pytest.param("state:weed", None, id="a-reserved-name"),
    ],
)
def test_unknown_tool_is_told_with_the_nearest(shelf: Shelf, text: str, hint: str | None) -> None:
    with pytest.raises(UnknownNameError) as caught:
        shelf.catalog().find(text)

    assert caught.value.message == f"no tool {text!r}"
    assert hint in {None, caught.value.hint}


def test_bare_name_is_completed_however_long_its_toolset_s_name_is(shelf: Shelf) -> None:
    shelf.toolset("a-toolset-with-a-rather-long-name", "dig")

    with pytest.raises(UnknownNameError) as caught:
        shelf.catalog().find("dig")

    assert "'a-toolset-with-a-rather-long-name:dig'" in caught.value.hint


def test_a_toolset_is_found_and_an_unknown_one_told_with_the_nearest(shelf: Shelf) -> None:
    assert shelf.catalog().find_toolset("garden").id == "garden"
    for text in ("gardn", "../garden", "", "state", "Garden"):
        with pytest.raises(UnknownNameError) as caught:
            shelf.catalog().find_toolset(text)
        assert caught.value.message == f"no toolset {text!r}"
        near = "did you mean 'garden'? " if "arden" in text or text == "gardn" else ""
        assert caught.value.hint == f"{near}list them with `covalt-git toolset list`"


def test_hidden_toolset_is_one_that_does_not_exist(shelf: Shelf) -> None:
    shelf.configure(GARDENER)
    (shelf.root / "toolsets" / "Bad Vault").mkdir()
    catalog = shelf.catalog("gardener")

    assert catalog.find_toolset("garden").id == "garden"
    for text in ("vault", "vaul", "Bad Vault", "Bad Vaul", "app-builder"):
        with pytest.raises(UnknownNameError) as caught:
            catalog.find_toolset(text)
        assert caught.value.hint == "list them with `covalt-git toolset list`"
    assert shelf.catalog("owner").find_toolset("Bad Vault").problems


def test_nearest_may_be_a_tool_that_no_index_ever_had(shelf: Shelf) -> None:
    shelf.toolset("shed", "rake", more="colour: red\n")

    with pytest.raises(UnknownNameError) as caught:
        shelf.catalog().find("shd:rake")

    assert "did you mean 'shed:rake'?" not in caught.value.hint  # its manifest is none
    shelf.toolset("shed", "rake", more="tool_overrides: [{tool_id: gone, name_override: x}]\n")
    with pytest.raises(UnknownNameError, match="no tool 'shd:rake'") as caught:
        shelf.catalog().find("shd:rake")
    assert "did you mean 'shed:rake'?" in caught.value.hint


def test_unknown_names_are_told_without_an_index_too(shelf: Shelf) -> None:
    (shelf.root / "data").write_text("in its place")

    with pytest.raises(UnknownNameError, match="no tool 'garden:watre'") as caught:
        shelf.catalog().find("garden:watre")
    assert caught.value.hint == "list them with `covalt-git tool list`"
    with pytest.raises(UnknownNameError, match="no toolset 'gardn'"):
        shelf.catalog().find_toolset("gardn")


OPENED = """
import sys
from pathlib import Path
from covalt_git.project import Project

catalog = Project.open(Path(sys.argv[1])).catalog
opened = []
sys.addaudithook(lambda name, facts: opened.append(str(facts[0])) if name == "open" else None)
catalog.find("garden:water")
catalog.find_toolset("garden")
print("\\n".join(opened))
"""


def test_one_toolset_is_found_without_reading_another(shelf: Shelf) -> None:
    said = subprocess.run(
        [sys.executable, "-c", OPENED, str(shelf.root)], capture_output=True, text=True, check=True
    )

    assert "garden/toolset.yaml" in said.stdout
    assert not [line for line in said.stdout.splitlines() if "/vault/" in line or ".db" in line]


@pytest.mark.parametrize(
    "text",
    ["garden:secret_bed", "garden.secret_bed", "vault:secret_door", "vault:water", "secret_door"],
)
@pytest.mark.parametrize("look", ["find", "find_callable"])
def test_hidden_tool_is_one_that_does_not_exist(shelf: Shelf, text: str, look: str) -> None:
    shelf.configure(GARDENER)
    catalog = shelf.catalog("gardener")
    ask: Callable[[str], object] = {"find": catalog.find, "find_callable": catalog.find_callable}[
        look
    ]

    with pytest.raises(UnknownNameError) as caught:
        ask(text)

    hidden = ("secret_bed", "secret_door", "vault:water")
    assert caught.value.message == f"no tool {text!r}"
    assert not any(name in caught.value.hint for name in hidden)
    assert caught.value.problems == ()


BROKEN = "  - {id: secret_shed, entrypont: tools.it:run}\n"
"""A mistake in a hidden tool that the errors of its toolset name."""


def test_hidden_tool_of_a_broken_toolset_does_not_exist_either(shelf: Shelf) -> None:
    shelf.configure(GARDENER)
    shelf.toolset("vault", "secret_door", more=BROKEN)

    for text in ("vault:secret_door", "vault:anything"):
        with pytest.raises(UnknownNameError) as caught:
            shelf.catalog("gardener").find(text)
        assert "secret" not in caught.value.hint


def test_errors_of_a_toolset_are_not_told_where_they_may_name_a_hidden_tool(shelf: Shelf) -> None:
    shelf.configure(GARDENER)
    shelf.toolset("garden", "water", "secret_bed", more=BROKEN)

    with pytest.raises(BrokenToolsetError) as caught:
        shelf.catalog("gardener").find("garden:water")

    assert "secret" not in str(caught.value.as_json())
    assert caught.value.hint == "covalt-git validate"


def test_errors_of_a_toolset_are_told_to_whoever_sees_all_of_it(shelf: Shelf) -> None:
    shelf.toolset("garden", "water", more=BROKEN)

    with pytest.raises(BrokenToolsetError) as caught:
        shelf.catalog().find("garden:water")

    assert caught.value.message == (
        "the toolset 'garden' has errors, so none of its tools can be used"
    )
    assert any("entrypont" in problem.message for problem in caught.value.problems)
    assert all(problem.severity == "error" for problem in caught.value.problems)


def test_broken_toolset_hides_no_other(shelf: Shelf) -> None:
    shelf.toolset("vault", "secret_door", more=BROKEN)

    assert shelf.catalog().find("garden:water").tool.enabled


def test_role_that_is_not_defined_finds_nothing(shelf: Shelf) -> None:
    shelf.configure(GARDENER)

    with pytest.raises(UnknownRoleError):
        shelf.catalog("gardner").find("garden:water")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["tool", "list"], id="list"),
        pytest.param(["tool", "list", "--json"], id="list-json"),
        pytest.param(["tool", "show", "garden:secret_bet", "--json"], id="show-json"),
        pytest.param(["tool", "show", "vault:secret_dor"], id="show"),
        pytest.param(["call", "c1", "garden:secret_bet", "--json"], id="call-json"),
    ],
)
def test_command_line_names_no_hidden_tool(shelf: Shelf, command: list[str]) -> None:
    shelf.configure(GARDENER)
    assert run("-C", str(shelf.root), "chat", "new", "--id", "c1").returncode == 0

    said = run("-C", str(shelf.root), "--role", "gardener", *command)

    printed = said.stdout + said.stderr
    assert "secret_bed" not in printed
    assert "secret_door" not in printed
    if command[1:] == ["list", "--json"]:
        groups = json.loads(said.stdout)["groups"]
        seen = {tool["tool_id"] for group in groups for tool in group["tools"]}
        assert seen == {"garden:water", "garden:weed"}


patterns = st.lists(
    st.sampled_from(
        ["**", "garden.*", "garden.w*", "*.water", "vault.**", "*.secret_*", "vault.water"]
    ),
    max_size=3,
)


def test_what_is_found_is_what_is_visible(shelf: Shelf) -> None:
    tools = all_tools(shelf)
    ids = [tool.tool_id for tool in tools]

    @settings(max_examples=25, deadline=None)
    @given(allow=patterns, deny=patterns, text=st.sampled_from([*ids, "garden:watr", "door"]))
    def check(allow: list[str], deny: list[str], text: str) -> None:
        catalog = shelf.catalog()
        config = ProjectConfig.model_validate(
            {"version": 1, "default_role": "one", "roles": {"one": {"allow": allow, "deny": deny}}}
        )
        limited = type(catalog)(shelf.root, config, catalog.principal)
        visible = {tool.tool_id for tool in limited.visible(tools)}

        if text in visible:
            assert limited.find(text).tool.tool_id == text
            return
        with pytest.raises(UnknownNameError) as caught:
            limited.find(text)
        assert not [name for name in ids if name not in visible and name in caught.value.hint]

    check()


def test_a_search_finds_only_what_exists_for_the_role(shelf: Shelf) -> None:
    shelf.configure("roles: {gardener: {allow: [garden.w*]}, owner: {admin: true}}")

    def found(role: str, query: str, limit: int = 10, toolset_id: str = "") -> list[str]:
        catalog = shelf.catalog(role)
        with Index.of_project(shelf.root, catalog.config.workspace) as index:
            index.sync_toolsets()
            tools = catalog.search(index, query, limit=limit, toolset_id=toolset_id)
        return [tool.tool_id for tool in tools]

    assert found("owner", "secret") == ["garden:secret_bed", "vault:secret_door"]
    assert found("owner", "secret", toolset_id="vault") == ["vault:secret_door"]
    assert found("owner", "secret", limit=1) == ["garden:secret_bed"]
    assert found("gardener", "secret") == []
    assert found("gardener", "secert") == []
    assert found("gardener", "water secret vault", limit=1) == ["garden:water"]
