"""Python tools as they run: what differs from the source, what is stored, and who may ask."""

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covalt_git.authority.schema_meaning import judge_meaning
from covalt_git.calls.tool_descriptions import find_described, run_schemas, store_schemas
from covalt_git.manifests.stored_schemas import SCHEMAS
from covalt_git.project import Project
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.toolsets.toolset_copies import ToolsetChangedError
from tests.operations_client import Operations
from tests.trusting import use_config

CONFIG = """\
version: 1
roles:
  caller: {allow: ["shop.*"]}
  limited: {allow: ["shop.find"]}
  guest: {allow: ["workspace.*"]}
  owner: {admin: true}
"""
MANIFEST = """\
id: shop
name: Shop
version: "1"
tools:
  - {id: find, entrypoint: "tools.shop:find"}
  - {id: pay, entrypoint: "tools.shop:pay"}
  - id: own
    entrypoint: "tools.shop:find"
    input_schema: {type: object, properties: {name: {type: string}}, required: [name]}
    output_schema: {type: array}
  - {id: web, http: {url: "https://example.com/"}}
"""
SHOP = """\
from enum import Enum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, PastDate, WithJsonSchema

EVEN = WithJsonSchema({"type": "integer", "multipleOf": 2})


class Colour(Enum):
    RED = "red"


def find(name: str, colour: Colour = Colour.RED, kind: Literal["a"] = "a") -> list[str]:
    return [name]


def pay(count: Annotated[int, AfterValidator(abs), EVEN]) -> int:
    return count


class Money(NoSuch if 0 else BaseModel):
    amount: int


def refund(money: Money, days: PastDate) -> int:
    return money.amount
"""
BAD = """\
  - {id: lost, entrypoint: "tools.lost:run"}
  - {id: vague, entrypoint: "tools.vague:run"}
  - {id: wrong, entrypoint: "tools.wrong:run"}
"""
WRONG = """\
from typing import Annotated

from pydantic import WithJsonSchema


def run(count: Annotated[int, WithJsonSchema({"type": "number of things"})]) -> int:
    return count
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "toolsets/shop"
    (folder / "tools").mkdir(parents=True)
    (tmp_path / "covalt.yaml").write_text(CONFIG, encoding="utf-8")
    (folder / "toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    (folder / "tools/shop.py").write_text(SHOP, encoding="utf-8")
    return folder


@pytest.fixture
def operate(folder: Path) -> Operations:
    return Operations(folder.parents[1], role="owner")


def verdicts(described: Any) -> dict[str, str]:
    return {one["tool_id"]: one["verdict"] for one in described["tools"]}


def codes(root: Path) -> list[str]:
    return [one.code for one in read_toolset(root, "shop").problems]


def test_each_python_tool_of_a_toolset_is_compared(operate: Operations) -> None:
    found = operate("describe_tools", target="shop")

    assert verdicts(found) == {"shop:find": "same", "shop:own": "same", "shop:pay": "differs"}
    assert (found["same"], found["differing"], found["failed"]) == (2, 1, 0)
    assert found["written"] is None
    (pay,) = [one for one in found["tools"] if one["tool_id"] == "shop:pay"]
    assert {
        "schema": "input",
        "verdict": "narrowing",
        "certain": True,
        "message": "'count': multipleOf 2, was none",
    } in pay["differences"]
    assert pay["input_schema"]["properties"]["count"]["multipleOf"] == 2
    assert pay["output_schema"] == {"type": "integer"}


@pytest.mark.rest
def test_nothing_is_written_unless_it_is_asked_for(operate: Operations, folder: Path) -> None:
    before = sorted(folder.rglob("*"))

    operate("describe_tools", target="shop")

    assert sorted(folder.rglob("*")) == before


def test_stored_schemas_are_used(operate: Operations) -> None:
    found = operate("describe_tools", target="shop", write=True)

    assert found["written"] == "toolsets/shop/toolset.schemas.yaml"
    stored = {one["tool_id"]: one["stored"] for one in found["tools"]}
    assert stored == {"shop:find": True, "shop:own": False, "shop:pay": True}
    assert "CG321" not in codes(operate.root)
    pay = operate("get_tool", tool_id="shop:pay")
    assert pay["input_schema"]["properties"]["count"]["multipleOf"] == 2
    assert pay["schema_from"] == "stored"
    assert operate("get_tool", tool_id="shop:own")["schema_from"] == "manifest"
    assert verdicts(operate("describe_tools", target="shop")) == {
        "shop:find": "same",
        "shop:own": "same",
        "shop:pay": "same",
    }


def test_a_stored_schema_ends_the_warning_about_what_it_says(
    operate: Operations, folder: Path
) -> None:
    manifest = MANIFEST + '  - {id: refund, entrypoint: "tools.shop:refund"}\n'
    (folder / "toolset.yaml").write_text(manifest, encoding="utf-8")

    def warned() -> list[str]:
        found = read_toolset(operate.root, "shop").problems
        return [
            one.message.partition("all that calls check: ")[2]
            for one in found
            if one.code == "CG320"
        ]

    before = warned()
    operate("describe_tools", target="shop", write=True)

    assert [names.count(" (") for names in before] == [1, 2]
    assert [names.partition(" (")[0] for names in warned()] == ["count", "days"]
    assert "money" not in str(warned())


def test_a_schema_that_an_example_does_not_match_is_not_stored_and_does_not_stop_the_others(
    operate: Operations, folder: Path
) -> None:
    example = "    examples: [{description: Odd, args: {count: 3}}]\n"
    manifest = MANIFEST.replace(
        '{id: pay, entrypoint: "tools.shop:pay"}\n',
        f'id: pay\n    entrypoint: "tools.shop:pay"\n{example}',
    )
    (folder / "toolset.yaml").write_text(manifest, encoding="utf-8")

    found = operate("describe_tools", target="shop", write=True)

    assert verdicts(found) == {"shop:find": "same", "shop:own": "same", "shop:pay": "failed"}
    (error,) = [one["error"] for one in found["tools"] if one["error"]]
    assert error["code"] == "contradicts_toolset"
    assert "toolsets/shop/toolset.yaml:8:" in error["message"]
    assert "CG208" in error["message"]
    assert "tool describe shop --write" in error["hint"]
    assert [*read_toolset(operate.root, "shop").stored_schemas.valid.tools] == ["find"]


@pytest.mark.rest
def test_an_example_that_contradicts_only_the_schema_that_was_read_stops_no_description(
    operate: Operations, folder: Path
) -> None:
    tool = "  - {id: odd, entrypoint: 'tools.shop:odd', examples: [{description: A, args: {count: many}}]}\n"
    (folder / "toolset.yaml").write_text(MANIFEST + tool, encoding="utf-8")
    odd = "def odd(count: int) -> None: ...\nodd.__annotations__['count'] = int | str\n"
    (folder / "tools/shop.py").write_text(SHOP + odd, encoding="utf-8")
    assert codes(operate.root).count("CG208") == 1
    assert verdicts(operate("describe_tools", target="shop:pay")) == {"shop:pay": "differs"}

    found = operate("describe_tools", target="shop", write=True)

    assert verdicts(found)["shop:odd"] == "differs"
    assert [one["tool_id"] for one in found["tools"] if not one["stored"]] == ["shop:own"]
    assert "CG208" not in codes(operate.root)


@pytest.mark.rest
def test_a_second_write_changes_nothing(operate: Operations, folder: Path) -> None:
    operate("describe_tools", target="shop", write=True)
    before = (folder / SCHEMAS).stat()

    operate("describe_tools", target="shop", write=True)

    after = (folder / SCHEMAS).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_changed_source_is_reported_until_it_is_described_again(
    operate: Operations, folder: Path
) -> None:
    operate("describe_tools", target="shop", write=True)
    (folder / "tools/shop.py").write_text(SHOP + "\n# changed\n", encoding="utf-8")
    assert codes(operate.root).count("CG321") == 2

    operate("describe_tools", target="shop:pay", write=True)

    assert codes(operate.root).count("CG321") == 1


def test_entries_of_removed_tools_are_removed(operate: Operations, folder: Path) -> None:
    operate("describe_tools", target="shop", write=True)
    manifest = MANIFEST.replace('  - {id: find, entrypoint: "tools.shop:find"}\n', "")
    (folder / "toolset.yaml").write_text(manifest, encoding="utf-8")
    assert "CG321" in codes(operate.root)

    operate("describe_tools", target="shop:pay", write=True)

    assert "CG321" not in codes(operate.root)


def test_a_tool_that_cannot_be_loaded_does_not_stop_the_others(
    operate: Operations, folder: Path
) -> None:
    (folder / "toolset.yaml").write_text(MANIFEST + BAD, encoding="utf-8")
    (folder / "tools/lost.py").write_text("import no_such\n\ndef run() -> int: ...\n")
    (folder / "tools/vague.py").write_text(
        "class NoSuch(tuple): ...\n\ndef run(a: NoSuch) -> int: ...\n"
    )
    (folder / "tools/wrong.py").write_text(WRONG)

    found = operate("describe_tools", target="shop", write=True)

    errors = {one["tool_id"]: one["error"] for one in found["tools"] if one["error"]}
    assert {name: error["code"] for name, error in errors.items()} == {
        "shop:lost": "cannot_load",
        "shop:vague": "cannot_load",
        "shop:wrong": "cannot_load",
    }
    assert "no_such" in errors["shop:lost"]["message"]
    assert "ToolSignatureError" in errors["shop:vague"]["message"]
    assert "number of things" in errors["shop:wrong"]["message"]
    assert verdicts(found)["shop:pay"] == "differs"
    assert found["failed"] == 3
    assert set(read_toolset(operate.root, "shop").stored_schemas.valid.tools) == {"find", "pay"}


def test_a_role_describes_what_it_may_call(operate: Operations) -> None:
    assert len(operate.as_role("caller")("describe_tools", target="shop")["tools"]) == 3
    limited = operate.as_role("limited")
    assert verdicts(limited("describe_tools", target="shop")) == {"shop:find": "same"}
    assert limited.error("describe_tools", target="shop:pay").http_status == 404
    assert operate.as_role("guest").error("describe_tools", target="shop").http_status == 404


def test_only_an_admin_stores_schemas(operate: Operations, folder: Path) -> None:
    refused = operate.as_role("caller").error("describe_tools", target="shop", write=True)

    assert (refused.code, refused.http_status) == ("forbidden", 403)
    assert not (folder / SCHEMAS).exists()


@pytest.mark.parametrize("target", ["shop", "shop:pay"])
def test_an_imported_toolset_is_described_only_when_it_is_enabled(
    operate: Operations, target: str
) -> None:
    state = operate.root / "toolsets/state/shop.yaml"
    state.parent.mkdir()
    text = "source_type: local\n"
    state.write_text(text, encoding="utf-8")
    assert read_toolset(operate.root, "shop").state.imported

    assert operate.error("describe_tools", target=target).code == "tool_disabled"

    state.write_text(text + "enabled: true\n", encoding="utf-8")
    assert verdicts(operate("describe_tools", target=target))["shop:pay"] == "differs"


def test_a_disabled_tool_of_an_enabled_toolset_fails_alone(operate: Operations) -> None:
    operate("enable_tool", tool_id="shop:pay", enabled=False)

    found = operate("describe_tools", target="shop")

    assert verdicts(found) == {"shop:find": "same", "shop:own": "same", "shop:pay": "failed"}


@pytest.mark.parametrize("target", ["shop:web", "workspace:read_file"])
def test_other_tools_are_refused(operate: Operations, target: str) -> None:
    assert "not a Python tool" in operate.error("describe_tools", target=target).message


def test_a_broken_toolset_is_refused(operate: Operations, folder: Path) -> None:
    (folder / SCHEMAS).write_text("version: 1\ntools: [", encoding="utf-8")

    error = operate.error("describe_tools", target="shop", write=True)

    assert [one.code for one in error.problems] == ["CG102"]
    assert "delete toolsets/shop/toolset.schemas.yaml" in error.problems[0].hint


def test_schemas_of_changed_files_are_not_stored(operate: Operations, folder: Path) -> None:
    engine = Project.open(operate.root, role="owner").engine()
    ran = run_schemas(engine, find_described(engine, "shop:pay"))
    (folder / "tools/shop.py").write_text(SHOP + "\n# changed\n", encoding="utf-8")

    with pytest.raises(ToolsetChangedError):
        store_schemas(operate.root, "shop", {"pay": ran})

    assert not (folder / SCHEMAS).exists()


def test_writing_the_file_reports_that_grants_have_ended(operate: Operations) -> None:
    operate("add_grant", toolset_id="shop", kind="network", hosts=["api.example"])

    assert not operate("describe_tools", target="shop")["ended_grants"]
    assert operate("describe_tools", target="shop", write=True)["ended_grants"]
    assert not operate("describe_tools", target="shop", write=True)["ended_grants"]


def test_a_toolset_with_untrusted_grants_is_refused(
    operate: Operations,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_config(monkeypatch, tmp_path_factory.mktemp("config"), trusts=False)
    operate("add_grant", toolset_id="shop", kind="network", hosts=["api.example"])
    state = operate.root / "toolsets/state/shop.yaml"
    text = state.read_text(encoding="utf-8") + "source_type: local\nenabled: true\n"
    state.write_text(text.replace("api.example", "other.example"), encoding="utf-8")

    for target in ("shop", "shop:pay"):
        error = operate.error("describe_tools", target=target)
        assert error.code == "not_trusted"
        assert "other.example" in str([error.message, error.hint, *error.problems])


def test_what_pydantic_checks_and_its_schema_does_not_say_stays_in_the_stored_schema(
    tmp_path: Path, folder: Path, operate: Operations
) -> None:
    text = """\
        from dataclasses import dataclass, field
        from typing import Annotated, Literal
        from pydantic import BaseModel, Field, WithJsonSchema

        class Cat(BaseModel):
            kind: Literal["cat"]

        class Dog(BaseModel):
            kind: Literal["dog"] = "dog"

        @dataclass
        class Item:
            size: int
            hidden: int = field(default=1, init=False)

        def run(
            pet: Annotated[Cat | Dog, Field(discriminator="kind")],
            names: dict[int, str],
            item: Item,
            count: Annotated[int, WithJsonSchema({"type": "integer", "multipleOf": 2})],
        ) -> str: ...
    """
    (folder / "tools/exact.py").write_text(textwrap.dedent(text))
    with (folder / "toolset.yaml").open("a") as manifest:
        manifest.write('  - {id: exact, entrypoint: "tools.exact:run"}\n')

    (tool,) = operate("describe_tools", target="shop:exact", write=True)["tools"]

    read = read_toolset(tmp_path, "shop").sources["exact"].input_schema
    stored = read_toolset(tmp_path, "shop").stored_schemas.valid.tools["exact"].input_schema
    assert {one["message"].split(":")[0] for one in tool["differences"]} == {"'count'"}
    assert stored is not None
    assert stored["properties"]["count"]["multipleOf"] == 2
    assert {one.words.split(":")[0] for one in judge_meaning(read, stored)} == {"'count'"}


def test_what_was_read_wrongly_is_shown_and_not_stored(operate: Operations) -> None:
    engine = Project.open(operate.root, role="owner").engine()
    found = find_described(engine, "shop:find")
    source = found.toolset.sources["find"]
    properties = source.input_schema["properties"]
    narrower = source.input_schema | {
        "properties": properties | {"name": {"type": "string", "maxLength": 3}}
    }
    sources = {**found.toolset.sources, "find": source._replace(input_schema=narrower)}
    tool = found.tool.model_copy(update={"input_schema": narrower})
    wrong = found._replace(tool=tool, toolset=replace(found.toolset, sources=sources))

    ran = run_schemas(engine, wrong)

    assert [(one.verdict, one.message) for one in ran.differences] == [
        ("widening", "'name': maxLength none, was 3")
    ]
    assert ran.ran is not None
    assert ran.ran.input_schema["properties"]["name"] == {"type": "string"}


UNREAD = """\
from pydantic import validate_call


@validate_call
def vague(name: str) -> str:
    return name
"""


def test_a_tool_without_a_known_signature_says_so(operate: Operations, folder: Path) -> None:
    (folder / "tools/vague.py").write_text(UNREAD, encoding="utf-8")
    with (folder / "toolset.yaml").open("a") as manifest:
        manifest.write('  - {id: vague, entrypoint: "tools.vague:vague"}\n')
    rule = 'approvals:\n  - {pattern: "**", when: {args: {path: "*.env"}}}\n'
    (operate.root / "covalt.yaml").write_text(CONFIG + rule, encoding="utf-8")

    vague, find = (operate("get_tool", tool_id=f"shop:{name}") for name in ("vague", "find"))
    assert (vague["arguments_are_unread"], find["arguments_are_unread"]) == (True, False)
    assert vague["requires_confirmation"][0].endswith("its arguments are not known")
    assert find["requires_confirmation"] == []

    operate("describe_tools", target="shop:vague", write=True)

    assert not operate("get_tool", tool_id="shop:vague")["arguments_are_unread"]
