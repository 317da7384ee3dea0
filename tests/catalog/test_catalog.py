"""What a principal sees and finds: never more than the access check allows, in no part of any answer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.catalog.catalog import BrokenToolsetError
from covalt_git.errors import UnknownNameError
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.tool import Tool
from covalt_git.toolsets.toolset import read_toolset
from tests.calls.conftest import World, world
from tests.examples import examples

GARDENER = """
    roles:
      gardener: {allow: [garden.*], deny: ["garden.secret_*"]}
      owner: {admin: true}
"""
BROKEN = "  - {id: secret_shed, entrypont: tools.it:run}\n"
"""A mistake in a hidden tool, which the errors of its toolset name."""
TOOLSET_LIST = "list them with `covalt-git toolset list`"
CODE = "def run(text: str = '') -> str:\n    return text\n"

__all__ = ["world"]


def declare(world: World, name: str, *tools: str, more: str = "") -> None:
    lines = [f"  - {{id: {tool}, entrypoint: tools.it:run}}\n" for tool in tools]
    head = f"id: {name}\nname: {name}\nversion: '1.0'\ntools:\n"
    world.write(f"{name}/tools/it.py", CODE)
    world.write(f"{name}/toolset.yaml", head + "".join(lines) + more)


@pytest.fixture
def shelf(world: World) -> World:
    """A project with two small toolsets."""
    declare(world, "garden", "water", "weed", "secret_bed")
    declare(world, "vault", "secret_door", "water")
    return world


def all_tools(shelf: World) -> list[Tool]:
    names = toolset_ids(shelf.root / "toolsets")
    return [tool for name in names for tool in read_toolset(shelf.root, name).tools]


@pytest.mark.parametrize(
    ("text", "near"),
    [("disk:read_text_file", ""), ("gardn:weeed", "garden:weed"), ("weed", "garden:weed")],
)
def test_a_tool_of_an_unknown_namespace_is_not_guessed_from_others(
    shelf: World, text: str, near: str
) -> None:
    with pytest.raises(UnknownNameError) as caught:
        shelf.project().catalog.find(text)

    proposed = caught.value.hint.partition("list them")[0]
    assert proposed == (f"did you mean {near!r}? " if near else "")


# Hidden tools


@pytest.mark.parametrize("text", ["vault", "vaul", "Bad Vault", "Bad Vaul", "app-builder"])
def test_a_hidden_toolset_is_refused_as_unknown(shelf: World, text: str) -> None:
    shelf.configure(GARDENER)
    (shelf.root / "toolsets" / "Bad Vault").mkdir()

    with pytest.raises(UnknownNameError) as caught:
        shelf.project("gardener").catalog.find_toolset(text)

    assert caught.value.hint == TOOLSET_LIST
    assert shelf.project("owner").catalog.find_toolset("Bad Vault").problems


def test_the_errors_of_a_toolset_are_shown_only_to_a_role_that_sees_all_of_it(shelf: World) -> None:
    shelf.configure(GARDENER)
    declare(shelf, "garden", "water", "secret_bed", more=BROKEN)
    errors = {}
    for role in ("gardener", "owner"):
        with pytest.raises(BrokenToolsetError) as caught:
            shelf.project(role).catalog.find("garden:water")
        errors[role] = caught.value

    assert "secret" not in str(errors["gardener"].as_json())
    assert errors["gardener"].hint == "covalt-git validate"
    assert any("entrypont" in problem.message for problem in errors["owner"].problems)
    assert all(problem.severity == "error" for problem in errors["owner"].problems)


PATTERNS = ["**", "garden.*", "garden.w*", "*.water", "vault.**", "*.secret_*", "vault.water"]
patterns = st.lists(st.sampled_from(PATTERNS), max_size=3)


def test_exactly_the_visible_tools_are_found(shelf: World) -> None:
    tools = all_tools(shelf)
    ids = [tool.tool_id for tool in tools]
    catalog = shelf.project().catalog

    @settings(max_examples=examples(60))
    @given(allow=patterns, deny=patterns, text=st.sampled_from([*ids, "garden:watr", "door"]))
    def check(allow: list[str], deny: list[str], text: str) -> None:
        roles = {"one": {"allow": allow, "deny": deny}}
        config = ProjectConfig.model_validate({"version": 1, "default_role": "one", "roles": roles})
        limited = type(catalog)(config, catalog.principal, shelf.root)
        visible = {tool.tool_id for tool in limited.visible(tools)}

        if text in visible:
            assert limited.find(text).tool.tool_id == text
            return
        with pytest.raises(UnknownNameError) as caught:
            limited.find(text)
        assert not [name for name in ids if name not in visible and name in caught.value.hint]

    check()
