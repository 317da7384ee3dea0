"""Effective tools: what the manifest, Python, the toolset's overrides and the project say, combined."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.models.renderers import Renderer
from covalt_git.models.tool import Tool
from covalt_git.models.toolset_manifest import ToolsetManifest
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.python_reader.source import ToolDefinition
from covalt_git.toolsets.effective_tools import effective_tools

NO_DIGEST = "sha256:" + "0" * 64
SOURCE = ToolDefinition(
    name="Said In Python",
    description="From the docstring",
    requires_confirmation=False,
    input_schema={"type": "object", "properties": {"name": {"type": "string"}}},
    line=1,
    col=1,
)
ASKING = SOURCE._replace(requires_confirmation=True)


def effective(
    tool: dict[str, Any] | None = None,
    *,
    override: dict[str, Any] | None = None,
    state: dict[str, Any] | None = None,
    local: dict[str, Any] | None = None,
    source: ToolDefinition | None = SOURCE,
    **manifest: Any,
) -> Tool:
    """Return the tool that results from what each of these says."""
    overrides = [] if override is None else [{"tool_id": "write_file", **override}]
    declared = {"id": "write_file", "entrypoint": "tools.files:write_file", **(tool or {})}
    data = {"id": "shop", "name": "Shop", "version": "1", "tools": [declared], **manifest}
    read = ToolsetManifest.model_validate(data | {"tool_overrides": overrides})
    decided = {**(state or {}), "overrides": {} if local is None else {"write_file": local}}
    sources = {} if source is None else {"write_file": source}
    (found,) = effective_tools(read, ToolsetState.model_validate(decided), sources, NO_DIGEST)
    return found


@pytest.mark.requirement("covalt-1.3.name", "covalt-1.3.description", "cjson-tools.summary")
def test_the_project_comes_before_overrides_the_manifest_and_python() -> None:
    settings: dict[str, Any] = {
        "local": {"name_override": "Local", "description_override": "local"},
        "override": {"name_override": "Override", "description_override": "override"},
        "tool": {"name": "Declared", "description": "declared"},
    }
    found = []
    for _ in range(4):
        tool = effective(**settings)
        found.append((tool.name, tool.description))
        settings.pop(next(iter(settings), ""), None)

    assert found == [
        ("Local", "local"),
        ("Override", "override"),
        ("Declared", "declared"),
        ("Said In Python", "From the docstring"),
    ]
    whole = effective(override={"tool_id": "shop:write_file", "name_override": "Hi"})
    assert whole == effective(override={"name_override": "Hi"})


answers = st.sampled_from([None, True, False])


@pytest.mark.requirement(
    "covalt-1.4.requires_confirmation",
    "cjson-tools.requiresApproval",
    "cjson-toolsetDefaults",
    "cjson-toolsetDefaults.requiresApproval",
)
@given(default=answers, declared=answers, decorated=st.booleans(), override=answers, local=answers)
def test_only_the_project_waives_approval(
    *,
    default: bool | None,
    declared: bool | None,
    decorated: bool,
    override: bool | None,
    local: bool | None,
) -> None:
    tool = effective(
        {"requires_confirmation": declared},
        override={"requires_confirmation": override},
        local={"requires_confirmation": local},
        source=ASKING if decorated else SOURCE,
        defaults={} if default is None else {"requires_confirmation": default},
    )

    by_manifest = bool(default) if declared is None else declared
    required = by_manifest or decorated or override is True
    assert tool.requires_confirmation == (required if local is None else local)


POST: dict[str, Any] = {"entrypoint": None, "http": {"method": "POST", "url": "https://a.example/"}}
HARMLESS = {"annotations": {"destructive": False}}
DESTRUCTIVE = {"annotations": {"destructive": True}}
WAIVED = {"requires_confirmation": False}
IMPORTED = {"source_type": "zip"}


@pytest.mark.requirement(
    "covalt-1.4.renderer",
    "covalt-1.4.renderer_config",
    "covalt-3.2.overrides",
    "covalt-3.2.renderer",
)
def test_the_renderer_of_an_override_replaces_that_of_the_tool() -> None:
    file = {"file": "$args.path"}
    declared = {"renderer": {"type": "document", **file}}
    override = {"renderer": "code", "renderer_config": {**file, "editable": True}}

    replaced = Renderer(type="code", config={**file, "editable": True})
    assert effective(declared).renderer == Renderer(type="document", config=file)
    assert effective(declared, override=override).renderer == replaced


@pytest.mark.requirement("cjson-tools.argsSchema", "covalt-10.input_schema", "toolshed-tool")
def test_declared_schemas_replace_those_of_the_source() -> None:
    declared = {"type": "object", "properties": {"name": {"enum": ["a", "b"]}}}
    tool = effective({"input_schema": declared, "output_schema": declared})

    assert (tool.input_schema, tool.output_schema) == (declared, declared)
    assert (effective().input_schema, effective().output_schema) == (SOURCE.input_schema, None)


@pytest.mark.requirement("toolshed-elicitation.destructive")
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"tool": DESTRUCTIVE}, ("destructive",)),
        ({"source": SOURCE._replace(destructive=True)}, ("destructive",)),
        ({"tool": HARMLESS, "source": SOURCE._replace(destructive=True)}, ()),
        *(
            ({"tool": POST | {"http": POST["http"] | {"method": method}}}, ("destructive",) * asks)
            for method, asks in {"POST": 1, "PUT": 1, "PATCH": 1, "DELETE": 1, "GET": 0}.items()
        ),
        ({"tool": POST | HARMLESS}, ()),
        ({"tool": POST | HARMLESS, "state": IMPORTED}, ("destructive",)),
        ({"tool": DESTRUCTIVE | WAIVED}, ()),
        ({"tool": DESTRUCTIVE, "defaults": WAIVED}, ("destructive",)),
        ({"tool": DESTRUCTIVE | WAIVED, "state": IMPORTED}, ("destructive",)),
        ({"tool": DESTRUCTIVE, "override": WAIVED}, ("destructive",)),
        ({"tool": DESTRUCTIVE, "local": WAIVED, "state": IMPORTED}, ()),
        ({"tool": DESTRUCTIVE, "local": {"requires_confirmation": True}}, ("project",)),
        ({"tool": DESTRUCTIVE | {"requires_confirmation": True}}, ("toolset",)),
    ],
)
def test_a_destructive_tool_requires_approval_unless_the_project_waives_it(
    settings: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert effective(**settings).confirmation == expected


ON = {"enabled": True}
OFF = {"enabled": False}


@pytest.mark.requirement(
    "covalt-1.3.enabled",
    "covalt-1.4.enabled",
    "cjson-tools.enabled",
    "cjson-toolsetDefaults",
    "cjson-toolsetDefaults.enabled",
)
@pytest.mark.parametrize(
    ("settings", "enabled"),
    [
        ({}, True),
        ({"defaults": OFF}, False),
        ({"defaults": OFF, "tool": ON}, True),
        ({"override": OFF}, False),
        ({"override": OFF, "local": ON}, True),
        ({"state": OFF}, False),
        ({"state": OFF, "local": ON}, False),
        ({"state": {"source_type": "zip"}}, False),
        ({"state": {"source_type": "zip", "enabled": True}}, True),
    ],
)
def test_a_tool_is_enabled_if_it_and_its_toolset_are(
    settings: dict[str, Any], *, enabled: bool
) -> None:
    assert effective(**settings).enabled is enabled


def test_the_definition_digest_covers_the_definition_and_the_code() -> None:
    first = effective()
    moved = first.model_copy(update={"toolset_digest": "sha256:" + "1" * 64})

    assert first.definition_digest == effective().definition_digest
    assert first.definition_digest != effective({"name": "Other"}).definition_digest
    assert first.definition_digest != moved.definition_digest
