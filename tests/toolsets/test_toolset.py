"""Reading whole toolsets, and the tools that come to be in force from all who have a say."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.tool import Tool
from covalt_git.models.toolset_manifest import ToolsetManifest
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.problems import codes
from covalt_git.python_reader.source import ToolSource
from covalt_git.toolsets.effective_tools import effective_tools
from covalt_git.toolsets.new_project import SAMPLES
from covalt_git.toolsets.project_files import read_project
from covalt_git.toolsets.toolset import read_toolset
from tests.toolsets.projects import HEAD, MANIFEST, REPOSITORY, SHARED, put_hello

SPECIFICATION = SHARED / "seeds" / "toolset-system-specification.md"
MANIFESTS = SHARED / "data" / "manifests"
NO_DIGEST = "sha256:" + "0" * 64

needs_specification = pytest.mark.skipif(
    not SPECIFICATION.exists(), reason="the specification is not beside this checkout"
)


def example(section: str, language: str) -> list[str]:
    """Return the code blocks of a section of the specification, by its heading's number."""
    text = SPECIFICATION.read_text(encoding="utf-8")
    body = re.split(rf"(?m)^#+ {re.escape(section)}[. ]", text)[1]
    found: list[str] = re.findall(
        rf"```{language}\n(.*?)```", re.split(r"(?m)^#{1,3} \d", body)[0], re.DOTALL
    )
    return found


def put(root: Path, files: dict[str, str]) -> None:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content, encoding="utf-8")


# --- toolsets of others ----------------------------------------------------------------------------


@needs_specification
def test_section_10_of_the_specification_loads_with_legacy_warnings_only(tmp_path: Path) -> None:
    files, shell = example("10", "python")
    put(
        tmp_path / "toolsets" / "app-builder",
        {
            "toolset.yaml": example("10", "yaml")[0],
            "tools/files.py": files,
            "tools/shell.py": shell,
        },
    )

    toolset = read_toolset(tmp_path, "app-builder")

    assert [one.code for one in toolset.problems] == [codes.LEGACY_KEY] * 3
    assert toolset.sound
    assert {tool.tool_id: tool.requires_confirmation for tool in toolset.tools} == {
        "app-builder:write_file": False,
        "app-builder:read_file": False,
        "app-builder:run_command": True,
    }
    shown = {tool.id.name: tool.renderer for tool in toolset.tools}
    assert shown["write_file"] is not None
    assert shown["write_file"].config == {
        "file": "$args.path",
        "language": "auto",
        "editable": True,
    }
    assert [file.kind for file in toolset.files.files] == ["python", "python", "config"]


@needs_specification
def test_section_3_2_of_the_specification_loads_with_its_files_made(tmp_path: Path) -> None:
    (manifest,) = example("3.2", "yaml")
    source = "from covalt_toolset import tool\n\n@tool()\ndef run(output: str) -> dict: ...\n"
    put(
        tmp_path / "toolsets" / "my-toolset",
        {
            "toolset.yaml": manifest,
            "tools/analyze.py": source,
            "tools/transform.py": source,
            "artifacts/results.html": "<p></p>",
        },
    )

    toolset = read_toolset(tmp_path, "my-toolset")

    assert {one.code for one in toolset.problems} == {codes.LEGACY_KEY}
    assert toolset.manifest is not None
    (server,) = toolset.manifest.mcp_servers
    assert server.server_type == "stdio"
    assert server.env == {"API_KEY": "${MY_API_KEY}"}
    assert server.requires_confirmation
    assert toolset.manifest.tool_overrides[1].tool_id == "my-mcp-server:search"
    assert toolset.manifest.tool_overrides[1].requires_confirmation is False


@pytest.mark.skipif(
    not MANIFESTS.exists(), reason="the real manifests are not beside this checkout"
)
def test_manifests_of_other_systems_are_problems_and_never_a_crash(tmp_path: Path) -> None:
    found = [
        path
        for folder in ("docker-mcp-registry", "cagent", "claude-plugins", "genai-toolbox")
        for path in sorted((MANIFESTS / folder).iterdir())
        if path.suffix in {".yaml", ".json"}
    ]
    assert len(found) > 70
    put_hello(tmp_path)

    for path in found:
        shutil.copyfile(path, tmp_path / "toolsets" / "hello" / "toolset.yaml")
        toolset = read_toolset(tmp_path, "hello")

        assert not toolset.sound, path.name
        assert toolset.tools == (), path.name
        assert all(str(one) for one in toolset.problems), path.name


@pytest.mark.parametrize("name", SAMPLES)
def test_our_own_toolsets_are_sound(name: str) -> None:
    toolset = read_toolset(REPOSITORY, name)

    assert [str(one) for one in toolset.problems] == []
    assert toolset.enabled


# --- W1 and W25 of the system this comes from -------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["..", "../chats", "/home/user", ".", "~", "hello/..", "hello\\..", "COM1", "'a b'"]
)
def test_an_id_is_never_a_path(tmp_path: Path, value: str) -> None:
    put_hello(tmp_path, MANIFEST.replace("id: hello", f"id: {value}", 1))

    toolset = read_toolset(tmp_path, "hello")

    assert [(one.line, one.code) for one in toolset.problems] == [
        (4, codes.BAD_VALUE if value == "~" else codes.BAD_ID)
    ]
    assert toolset.tools == ()
    assert toolset.folder == tmp_path / "toolsets" / "hello"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("# only a comment\n", id="comment"),
        pytest.param("null\n", id="null"),
        pytest.param("[]\n", id="list"),
        pytest.param("hello\n", id="text"),
        pytest.param("5\n", id="number"),
        pytest.param("{}\n", id="empty-mapping"),
        pytest.param(f"{HEAD}\ntools: null\n", id="tools-null"),
        pytest.param(f"{HEAD}\ntools: [null]\n", id="tool-null"),
        pytest.param(f"{HEAD}\ntools: [[]]\n", id="tool-list"),
        pytest.param(f"{HEAD}\ntools: [{{id: null, entrypoint: 5}}]\n", id="values-of-no-type"),
        pytest.param(HEAD.replace("name: Hello", "name: null"), id="name-null"),
        pytest.param(HEAD.replace("id: hello", "id: [hello]"), id="id-list"),
        pytest.param(HEAD.replace("id: hello", "id: {a: b}"), id="id-mapping"),
        pytest.param("\x00", id="nul"),
        pytest.param("[" * 5_000, id="brackets"),
        pytest.param("a: &a [*a]\n", id="recursion"),
    ],
)
def test_a_broken_manifest_is_a_toolset_with_problems_and_without_tools(
    tmp_path: Path, text: str
) -> None:
    put_hello(tmp_path, text)

    toolset = read_toolset(tmp_path, "hello")

    assert not toolset.sound
    assert toolset.tools == ()
    assert toolset.id == "hello"


def test_a_broken_toolset_does_not_hide_the_others(tmp_path: Path) -> None:
    put_hello(tmp_path, "tools: [")
    shutil.copytree(REPOSITORY / "toolsets" / "app-builder", tmp_path / "toolsets" / "app-builder")

    builder, hello = read_project(tmp_path).toolsets

    assert (builder.sound, hello.sound) == (True, False)
    assert builder.tool_count


# --- folders ---------------------------------------------------------------------------------------


def test_toolsets_are_the_folders_that_are_neither_hidden_nor_the_machine_s(tmp_path: Path) -> None:
    for name in ("b", "a", "state", "locks", ".git", ".b.tmp", "__pycache__", "Bad Name"):
        (tmp_path / name).mkdir()
    (tmp_path / "README.md").write_text("")

    assert toolset_ids(tmp_path) == ["Bad Name", "a", "b"]
    assert toolset_ids(tmp_path / "nowhere") == []


def test_a_link_is_a_toolset_where_it_leads_to_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "file").write_text("")
    targets = {"folder": "a", "circle": "circle", "nowhere": "b", "text": "file", "odd": "file/x"}
    for name, target in targets.items():
        (tmp_path / name).symlink_to(target)

    assert toolset_ids(tmp_path) == ["a", "folder"]


def test_a_linked_toolset_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    put_hello(elsewhere)
    (tmp_path / "toolsets").mkdir()
    (tmp_path / "toolsets" / "hello").symlink_to(elsewhere / "toolsets" / "hello")

    toolset = read_toolset(tmp_path, "hello")

    assert [str(one) for one in toolset.problems] == [
        "toolsets/hello: CG305 a toolset is no link\n  hint: put the folder itself here"
    ]
    assert (toolset.manifest, toolset.files.files, toolset.tools) == (None, (), ())


def test_a_linked_manifest_is_not_followed(tmp_path: Path) -> None:
    toolset = put_hello(tmp_path)
    (toolset / "toolset.yaml").rename(tmp_path / "toolset.yaml")
    (toolset / "toolset.yaml").symlink_to(tmp_path / "toolset.yaml")

    found = read_toolset(tmp_path, "hello")

    assert found.manifest is None
    assert {one.code for one in found.problems} == {codes.NO_FILE, codes.FORBIDDEN_FILE}


@pytest.mark.skipif(sys.platform == "darwin", reason="its file system has UTF-8 names only")
def test_a_folder_whose_name_is_no_text_is_told_and_no_toolset(tmp_path: Path) -> None:
    put_hello(tmp_path)
    os.mkdir(os.fsencode(tmp_path / "toolsets") + b"/caf\xe9")  # noqa: PTH102 - a name in bytes

    reading = read_project(tmp_path)

    assert [one.id for one in reading.toolsets] == ["hello"]
    assert [str(one) for one in reading.problems] == [
        "toolsets/caf\\xe9: CG305 its name is not UTF-8, so nothing reads it\n  hint: rename it"
    ]


def test_reading_runs_nothing_of_a_toolset(tmp_path: Path) -> None:
    toolset = put_hello(tmp_path)
    trap = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
    (toolset / "tools" / "hello.py").write_text(f"{trap}def greet(name: str): ...\n")
    (toolset / "tools" / "__init__.py").write_text(trap)
    (toolset / "conftest.py").write_text(trap)
    (toolset / "sitecustomize.py").write_text(trap)

    assert read_toolset(tmp_path, "hello").sound
    assert not (tmp_path / "ran").exists()
    assert not list(tmp_path.rglob("__pycache__"))


def test_digest_is_of_names_contents_and_the_executable_bit(tmp_path: Path) -> None:
    toolset = put_hello(tmp_path)
    first = read_toolset(tmp_path, "hello").digest
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", first)

    (toolset / "tools" / "hello.py").touch()
    (toolset / "tools" / "__pycache__").mkdir(exist_ok=True)
    (toolset / "tools" / "__pycache__" / "hello.cpython-311.pyc").write_bytes(b"x")
    assert read_toolset(tmp_path, "hello").digest == first

    (toolset / "tools" / "hello.py").chmod(0o755)
    executable = read_toolset(tmp_path, "hello").digest
    (toolset / "notes.txt").write_text("")
    renamed = read_toolset(tmp_path, "hello").digest
    assert len({first, executable, renamed}) == 3


def test_state_of_a_toolset_is_no_part_of_its_digest(tmp_path: Path) -> None:
    put_hello(tmp_path)
    before = read_toolset(tmp_path, "hello").digest
    put(tmp_path, {"toolsets/state/hello.yaml": "enabled: false\n"})

    assert read_toolset(tmp_path, "hello").digest == before


def test_toolset_with_a_broken_state_file_is_off_and_not_sound(tmp_path: Path) -> None:
    put_hello(tmp_path)
    put(tmp_path, {"toolsets/state/hello.yaml": "enabled: maybe\n"})

    toolset = read_toolset(tmp_path, "hello")

    assert not toolset.sound
    assert not toolset.enabled
    assert not any(tool.enabled for tool in toolset.tools)


# --- tools in force --------------------------------------------------------------------------------

SOURCE = ToolSource(
    name="Said In Python",
    description="From the docstring",
    requires_confirmation=False,
    category=None,
    parameters=(),
    input_schema={"type": "object", "properties": {"name": {"type": "string"}}},
    takes_workspace=False,
    is_async=False,
    line=1,
    col=1,
)


def in_force(
    tool: dict[str, Any] | None = None,
    *,
    override: dict[str, Any] | None = None,
    state: dict[str, Any] | None = None,
    local: dict[str, Any] | None = None,
    source: ToolSource | None = SOURCE,
    **manifest: Any,
) -> Tool:
    """Return the one tool that is in force when each of those has said this."""
    overrides = [] if override is None else [{"tool_id": "write_file", **override}]
    declared = {"id": "write_file", "entrypoint": "tools.files:write_file", **(tool or {})}
    data = {"id": "shop", "name": "Shop", "version": "1", "tools": [declared], **manifest}
    read = ToolsetManifest.model_validate(data | {"tool_overrides": overrides})
    decided = {**(state or {}), "overrides": {} if local is None else {"write_file": local}}
    (found,) = effective_tools(
        read,
        ToolsetState.model_validate(decided),
        {} if source is None else {"write_file": source},
        NO_DIGEST,
    )
    return found


def test_a_tool_that_nobody_says_anything_about_has_the_defaults() -> None:
    tool = in_force(source=None)

    assert (tool.tool_id, tool.path) == ("shop:write_file", "shop.write_file")
    assert (tool.name, tool.description) == ("Write File", "")
    assert tool.input_schema == {"type": "object"}
    assert (tool.schema_is_declared, tool.requires_confirmation, tool.enabled) == (
        False,
        False,
        True,
    )
    assert tool.renderer is None


def test_each_voice_goes_before_the_one_after_it() -> None:
    said: dict[str, Any] = {
        "local": {"name_override": "Local", "description_override": "local"},
        "override": {"name_override": "Override", "description_override": "override"},
        "tool": {"name": "Declared", "description": "declared"},
    }
    heard = []
    while said:
        tool = in_force(**said)
        heard.append((tool.name, tool.description))
        said.pop(next(iter(said)))
    heard.append((in_force().name, in_force().description))

    assert heard == [
        ("Local", "local"),
        ("Override", "override"),
        ("Declared", "declared"),
        ("Said In Python", "From the docstring"),
    ]


def test_override_may_name_the_whole_id_and_means_the_same() -> None:
    bare = in_force(override={"name_override": "Hi"})
    whole = in_force(override={"tool_id": "shop:write_file", "name_override": "Hi"})

    assert bare == whole


def test_declared_schema_wins_even_when_it_is_empty() -> None:
    assert in_force().input_schema == SOURCE.input_schema
    assert in_force({"input_schema": {}}).input_schema == {}
    assert in_force({"input_schema": {}}).schema_is_declared


@pytest.mark.parametrize(
    ("said", "asks"),
    [
        pytest.param({}, (), id="nobody"),
        pytest.param({"tool": {"requires_confirmation": True}}, ("toolset",), id="manifest"),
        pytest.param({"defaults": {"requires_confirmation": True}}, ("toolset",), id="defaults"),
        pytest.param(
            {
                "defaults": {"requires_confirmation": True},
                "tool": {"requires_confirmation": False},
            },
            (),
            id="tool-differs-from-the-defaults-of-its-own-manifest",
        ),
        pytest.param({"source": True}, ("decorator",), id="decorator"),
        pytest.param(
            {"source": True, "tool": {"requires_confirmation": False}},
            ("decorator",),
            id="manifest-does-not-lower-the-decorator",
        ),
        pytest.param(
            {"source": True, "override": {"requires_confirmation": False}},
            ("decorator",),
            id="override-does-not-lower-the-decorator",
        ),
        pytest.param(
            {
                "tool": {"requires_confirmation": True},
                "override": {"requires_confirmation": False},
            },
            ("toolset",),
            id="override-does-not-lower-the-manifest",
        ),
        pytest.param({"override": {"requires_confirmation": True}}, ("override",), id="override"),
        pytest.param({"local": {"requires_confirmation": True}}, ("project",), id="project"),
        pytest.param(
            {
                "source": True,
                "tool": {"requires_confirmation": True},
                "override": {"requires_confirmation": True},
            },
            ("toolset", "decorator", "override"),
            id="all",
        ),
        pytest.param(
            {
                "source": True,
                "tool": {"requires_confirmation": True},
                "override": {"requires_confirmation": True},
                "local": {"requires_confirmation": False},
            },
            (),
            id="only-the-project-lowers",
        ),
    ],
)
def test_anybody_may_ask_for_confirmation(said: dict[str, Any], asks: tuple[str, ...]) -> None:
    said = dict(said)
    if said.pop("source", False):
        said["source"] = asking_source()

    tool = in_force(said.pop("tool", None), **said)

    assert tool.confirmation == asks
    assert tool.confirmation_is_settled == ("local" in said)


def asking_source() -> ToolSource:
    return SOURCE._replace(requires_confirmation=True)


voices = st.sampled_from([None, True, False])


@given(default=voices, declared=voices, decorated=st.booleans(), override=voices, local=voices)
@settings(max_examples=100, deadline=None)
def test_confirmation_is_only_ever_lowered_by_the_project(
    *,
    default: bool | None,
    declared: bool | None,
    decorated: bool,
    override: bool | None,
    local: bool | None,
) -> None:
    tool = in_force(
        {"requires_confirmation": declared},
        override={"requires_confirmation": override},
        local={"requires_confirmation": local},
        source=asking_source() if decorated else SOURCE,
        defaults={"requires_confirmation": bool(default)},
    )

    by_manifest = bool(default) if declared is None else declared
    asked = by_manifest or decorated or override is True
    assert tool.requires_confirmation == (asked if local is None else local)


@pytest.mark.parametrize(
    ("said", "enabled"),
    [
        pytest.param({}, True, id="nobody"),
        pytest.param({"defaults": {"enabled": False}}, False, id="defaults"),
        pytest.param({"defaults": {"enabled": False}, "tool": {"enabled": True}}, True, id="tool"),
        pytest.param({"override": {"enabled": False}}, False, id="override"),
        pytest.param(
            {"override": {"enabled": False}, "local": {"enabled": True}}, True, id="project"
        ),
        pytest.param({"state": {"enabled": False}}, False, id="toolset-off"),
        pytest.param(
            {"state": {"enabled": False}, "local": {"enabled": True}}, False, id="both-needed"
        ),
        pytest.param({"state": {"source_type": "zip"}}, False, id="imported"),
        pytest.param(
            {"state": {"source_type": "zip", "enabled": True}}, True, id="imported-and-on"
        ),
    ],
)
def test_a_tool_is_on_when_it_and_its_toolset_are(said: dict[str, Any], *, enabled: bool) -> None:
    said = dict(said)

    assert in_force(said.pop("tool", None), **said).enabled is enabled


CODE = {"type": "code", "file": "$args.path"}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"tool": {"renderer": CODE}}, ("code", {"file": "$args.path"}), id="legacy"),
        pytest.param(
            {"tool": {"renderer": CODE}, "override": {"renderer": "document"}},
            ("document", {}),
            id="another-renderer-comes-without-the-old-configuration",
        ),
        pytest.param(
            {"tool": {"renderer": CODE}, "override": {"renderer_config": {"language": "sql"}}},
            ("code", {"language": "sql"}),
            id="configuration-for-the-legacy-renderer",
        ),
        pytest.param(
            {
                "override": {"renderer": "code", "renderer_config": {"file": "a"}},
                "local": {"renderer_config": {"file": "b"}},
            },
            ("code", {"file": "b"}),
            id="project-configures",
        ),
        pytest.param(
            {"override": {"renderer": "code"}, "local": {"renderer": "terminal"}},
            ("terminal", {}),
            id="project-chooses",
        ),
        pytest.param({"override": {"renderer": "markdown"}}, ("document", {}), id="alias"),
    ],
)
def test_renderer_in_force(said: dict[str, Any], shown: tuple[str, Any] | None) -> None:
    said = dict(said)

    renderer = in_force(said.pop("tool", None), **said).renderer

    assert (renderer and (renderer.type, renderer.config)) == shown


def test_definition_digest_changes_with_the_code_and_the_definition_only() -> None:
    first = in_force()
    manifest = ToolsetManifest(id="shop", name="Shop", version="1")

    assert first.definition_digest == in_force().definition_digest
    assert first.definition_digest != in_force({"name": "Other"}).definition_digest
    assert manifest.tools == ()
    moved = first.model_copy(update={"toolset_digest": "sha256:" + "1" * 64})
    assert first.definition_digest != moved.definition_digest
