"""Effective tools of documents: HTTP tools of a lock, off until their definition is accepted."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from covalt_git import yaml_text
from covalt_git.json_values import canonical_json
from covalt_git.json_values.shared_definitions import Definitions
from covalt_git.manifests.state_files import read_lock, write_lock, write_state
from covalt_git.models.sources.source_digest import source_digest
from covalt_git.models.sources.tool_lock import LockedTool, ToolLock
from covalt_git.models.tool import Tool
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.toolsets.overrides import override_tool
from covalt_git.toolsets.toolset import Toolset, read_toolset

MANIFEST = """\
id: demo
name: Demo
version: "1"
sources:
  - {id: pets, type: openapi, spec: specs/pets.json}
"""
PET = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "child": {"$ref": "#/$defs/Pet"}},
}
REQUEST = {"method": "POST", "url": "https://pets.example.com/pets"}


def locked(method: str = "POST", **more: Any) -> LockedTool:
    schema = {"type": "object", "properties": {"pet": {"$ref": "#/$defs/Pet"}}}
    fields: dict[str, Any] = {
        "upstream": "addPet",
        "digest": canonical_json.digest({}),
        "input_schema": schema,
        "output_schema": {"$ref": "#/$defs/Pet"},
        "request": REQUEST | {"method": method},
        "definitions": Definitions({"Pet": PET}).digest(schema),
    }
    tool = LockedTool.model_validate(fields | more)
    return tool.model_copy(update={"digest": tool.computed_digest})


def write(root: Path, tool: LockedTool, accepted: LockedTool | None = None, **more: Any) -> None:
    folder = root / "toolsets/demo/specs"
    folder.mkdir(parents=True, exist_ok=True)
    (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (folder / "pets.json").write_text("{}", encoding="utf-8")
    (root / "toolsets/demo/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    manifest = read_toolset(root, "demo").manifest
    assert manifest is not None
    documents = {"specs/pets.json": canonical_json.digest({})}
    fields = {
        "namespace": "pets",
        "toolset_id": "demo",
        "kind": "openapi",
        "tools": {"pets.create": tool},
        "definitions": {"Pet": PET},
        "documents": documents,
        "digest": source_digest(manifest.sources[0], manifest, "pets", documents),
    }
    lock = ToolLock.model_validate(fields | more)
    write_lock(root / "toolsets/locks/pets.yaml", lock)
    decided = {"pets:pets.create": (accepted or tool).digest}
    write_state(root / "toolsets/state/demo.yaml", ToolsetState(accepted=decided))


def toolset(root: Path) -> Toolset:
    return read_toolset(root, "demo")


def tool(root: Path) -> Tool:
    effective = toolset(root).tool("pets:pets.create")
    assert effective is not None
    return effective


def codes(root: Path) -> list[str]:
    return [problem.code for problem in toolset(root).problems if problem.severity == "error"]


def test_an_accepted_operation_is_an_http_tool_with_the_definitions_that_it_reaches(
    tmp_path: Path,
) -> None:
    write(tmp_path, locked())

    effective = tool(tmp_path)

    assert codes(tmp_path) == []
    assert (effective.kind, effective.source, effective.held_back) == ("http", "pets", None)
    assert effective.enabled
    assert effective.http is not None
    assert effective.http.url == REQUEST["url"]
    assert effective.input_schema["$defs"] == {"Pet": PET}
    # Clients want the type at the root.
    assert effective.output_schema == PET | {"$defs": {"Pet": PET}}
    assert toolset(tmp_path).tool_ids == ["pets:pets.create"]


def test_a_changed_definition_with_its_new_digest_is_another_definition(tmp_path: Path) -> None:
    pet = PET | {"required": ["name"]}
    digest = Definitions({"Pet": pet}).digest({"$ref": "#/$defs/Pet"})

    write(tmp_path, locked(definitions=digest), accepted=locked(), definitions={"Pet": pet})

    assert codes(tmp_path) == []
    assert tool(tmp_path).held_back == "changed"


def test_an_operation_that_is_not_accepted_is_held_back(tmp_path: Path) -> None:
    write(tmp_path, locked())
    write_state(tmp_path / "toolsets/state/demo.yaml", ToolsetState(accepted={}))

    assert tool(tmp_path).held_back == "new"
    assert not tool(tmp_path).enabled


def test_a_changed_definition_holds_the_operations_back_that_reach_it(tmp_path: Path) -> None:
    write(tmp_path, locked(), definitions={"Pet": PET | {"required": ["name"]}})

    assert tool(tmp_path).held_back == "changed"
    assert not tool(tmp_path).enabled
    assert codes(tmp_path) == ["CG403"]
    assert toolset(tmp_path).sound


@pytest.mark.parametrize(
    "change",
    [
        {"request": REQUEST | {"url": "https://evil.example.com/"}},
        {"fields": ("name",)},
    ],
    ids=["request", "fields"],
)
def test_another_part_of_a_lock_is_another_definition(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    write(tmp_path, locked(**change), accepted=locked())

    assert tool(tmp_path).held_back == "changed"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_no_document_waives_the_approval_of_a_method_that_writes(
    tmp_path: Path, method: str
) -> None:
    harmless = {"read_only": True, "destructive": False}

    write(tmp_path, locked(method, annotations=harmless))
    manifest = tmp_path / "toolsets/demo/toolset.yaml"
    silent = MANIFEST.replace("pets.json}", "pets.json, requires_confirmation: false}")
    manifest.write_text(silent, encoding="utf-8")

    assert tool(tmp_path).confirmation == ("destructive",)
    override_tool(tmp_path, "pets:pets.create", {"requires_confirmation": False})
    assert tool(tmp_path).confirmation == ()


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_reading_methods_need_no_approval(tmp_path: Path, method: str) -> None:
    write(tmp_path, locked(method))

    assert tool(tmp_path).confirmation == ()


def test_an_invalid_request_is_an_error_of_its_lock_only(tmp_path: Path) -> None:
    write(tmp_path, locked(request={"method": "TRACE", "url": "https://a.b/"}))

    assert toolset(tmp_path).tool("pets:pets.create") is None
    assert codes(tmp_path)
    assert toolset(tmp_path).sound


@pytest.mark.parametrize("change", ["document", "declaration"])
def test_a_lock_that_does_not_fit_its_document_is_an_error_of_the_lock(
    tmp_path: Path, change: str
) -> None:
    write(tmp_path, locked())
    if change == "document":
        (tmp_path / "toolsets/demo/specs/pets.json").write_text("[]", encoding="utf-8")
    else:
        text = MANIFEST.replace("pets.json}", "pets.json, exclude: [x]}")
        (tmp_path / "toolsets/demo/toolset.yaml").write_text(text, encoding="utf-8")

    assert codes(tmp_path) == ["CG407"]
    assert tool(tmp_path).enabled


def test_faults_of_the_document_are_warnings_at_their_places(tmp_path: Path) -> None:
    fault = {"path": "specs/pets.json", "line": 3, "column": 7, "code": "CG210", "message": "no"}

    write(tmp_path, locked(), faults=[fault])

    (problem,) = toolset(tmp_path).problems
    assert (problem.path, problem.line, problem.col) == ("toolsets/demo/specs/pets.json", 3, 7)
    assert problem.severity == "warning"


def test_an_unchanged_document_is_read_for_its_digest_and_parsed_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, locked())
    document = tmp_path / "toolsets/demo/specs/pets.json"
    # A value for which the search for credentials parses other JSON files.
    document.write_text(json.dumps({"example": ["Zk3qv9XwT7uLr2Yb8Nc1", "text"]}), encoding="utf-8")
    manifest = toolset(tmp_path).manifest
    assert manifest is not None
    documents = {"specs/pets.json": f"sha256:{hashlib.sha256(document.read_bytes()).hexdigest()}"}
    digest = source_digest(manifest.sources[0], manifest, "pets", documents)
    lock = read_lock(tmp_path / "toolsets/locks/pets.yaml", "pets.yaml").valid
    write_lock(
        tmp_path / "toolsets/locks/pets.yaml",
        lock.model_copy(update={"documents": documents, "digest": digest}),
    )
    parsed: list[str] = []
    load = yaml_text.load

    def counted(text: str, path: str, **more: Any) -> Any:
        parsed.append(path)
        return load(text, path, **more)

    monkeypatch.setattr(yaml_text, "load", counted)

    assert codes(tmp_path) == []
    assert [path for path in parsed if "specs/" in path] == []
    document.write_text(document.read_text(encoding="utf-8") + " ", encoding="utf-8")
    assert codes(tmp_path) == ["CG407"]
    assert [path for path in parsed if "specs/" in path] == ["toolsets/demo/specs/pets.json"]
