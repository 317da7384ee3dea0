"""The models of files: full examples come back as they were, and nothing passes in silence."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import jsonschema_rs
import pytest
from pydantic import TypeAdapter, ValidationError

from covalt_git import models, yaml_text
from covalt_git.json_values import canonical_json
from covalt_git.models.base import StrictModel
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.renderers import CONFIGS, RENDERER_TYPES, config_model
from covalt_git.models.tool import Tool
from covalt_git.models.tool_lock import ToolLock
from covalt_git.models.toolset_manifest import ToolsetManifest
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.problems import codes
from covalt_git.problems.explain import titles

DIGEST = "sha256:" + "0f" * 32
GRANTED = {"digest": DIGEST, "granted_at": "2026-11-20T17:24:00.123Z", "granted_by": "local"}
ANNOTATIONS = {"read_only": False, "destructive": True, "idempotent": True, "open_world": False}

MANIFEST: dict[str, Any] = {
    "manifest_version": "1",
    "id": "app-builder",
    "name": "App Builder",
    "version": "1.0.0",
    "description": "Build and preview web applications",
    "icon": "assets/icon.png",
    "defaults": {"enabled": True, "requires_confirmation": False},
    "python": {"dependencies": ["jinja2>=3"]},
    "secrets": ["WEATHER_KEY"],
    "tools": [
        {
            "id": "write_file",
            "name": "Write File",
            "description": "Write content to a file",
            "entrypoint": "tools.files:write_file",
            "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
            "output_schema": {"type": "object"},
            "annotations": ANNOTATIONS,
            "limits": {
                "timeout_s": 30.5,
                "cpu_s": 10.0,
                "memory_mb": 512,
                "processes": 4,
                "output_mb": 16,
                "written_mb": 5,
            },
            "examples": [
                {"description": "a page", "args": {"path": "index.html"}, "expected": {"size": 2}}
            ],
            "security": {
                "resource_uri": "https://tools.example.com/write",
                "required_capabilities": ["write"],
                "max_blast_radius": "namespace:analytics",
                "requires_execution": True,
                "allowed_operations": ["write"],
                "allowed_targets": ["workspace:*"],
                "protocols": ["mcp", "http", "a2a/2025-draft-01"],
            },
            "renderer": {"type": "code", "file": "$args.path", "editable": True},
            "requires_confirmation": True,
            "enabled": False,
        },
        {
            "id": "forecast",
            "http": {
                "method": "POST",
                "url": "https://api.example.com/v1/forecast/{city}",
                "headers": {"Authorization": "Bearer ${WEATHER_KEY}"},
                "parameters": {"city": {"in": "path", "name": "town"}},
                "body": "form",
            },
        },
    ],
    "tool_overrides": [
        {
            "tool_id": "write_file",
            "renderer": "html",
            "renderer_config": {"artifact": "artifacts/a.html"},
            "name_override": "Write",
            "description_override": "Write it",
            "requires_confirmation": False,
            "enabled": True,
        }
    ],
    "mcp_servers": [
        {
            "id": "search",
            "transport": "stdio",
            "command": "npx",
            "args": ["-y", "search"],
            "cwd": ".",
            "env": {"API_KEY": "${MY_API_KEY}"},
            "requires_confirmation": False,
            "enabled": False,
        },
        {"id": "remote", "url": "${REMOTE}/mcp", "headers": {"X-Key": "${secret:KEY}"}},
    ],
    "prompts": [
        {
            "id": "review",
            "name": "Review",
            "description": "Look at a product",
            "arguments": [
                {
                    "name": "product",
                    "description": "Which",
                    "required": True,
                    "values": ["cup", "plate"],
                    "ask": "Which product?",
                }
            ],
            "messages": [
                {"role": "assistant", "text": "About $args.product"},
                {"file": "assets/a.bin", "resource": "shop://a", "mime_type": "image/png"},
            ],
        }
    ],
    "resources": [
        {
            "id": "terms",
            "uri": "shop://terms",
            "name": "Terms",
            "description": "What holds",
            "mime_type": "text/markdown",
            "text": "All of it",
        },
        {
            "id": "product",
            "uri_template": "shop://products/{name}",
            "file": "assets/${args.name}.md",
            "variables": [{"name": "name", "values": ["cup"]}],
        },
    ],
    "sources": [
        {"id": "github", "type": "openapi", "spec": "specs/a.yaml", "auth": {"bearer": "${T}"}},
        {
            "id": "shop",
            "type": "graphql",
            "schema": "specs/shop.graphql",
            "endpoint": "https://a.b/",
            "include": ["issues.*"],
            "exclude": ["admin.*"],
        },
    ],
    "auth": [{"id": "github", "type": "oauth2", "provider": "github", "scopes": ["repo"]}],
    "extensions": {"vendor": {"any": [1, 2.5, None, True, {"thing": "x"}]}},
}
STATE: dict[str, Any] = {
    "source_type": "url",
    "source_ref": "https://example.com/shop.zip",
    "version": "1.0",
    "installed_at": "2026-11-20T17:24:00Z",
    "signer": {"fingerprint": f"SHA256:{'A' * 43}", "principal": "ann@example.com"},
    "digest": DIGEST,
    "enabled": True,
    "overrides": {
        "write_file": {
            "name_override": "no",
            "description_override": "",
            "renderer": "code",
            "renderer_config": {"file": "$args.path"},
            "requires_confirmation": True,
            "enabled": False,
        }
    },
    "grants": {
        "network:a": {**GRANTED, "kind": "network", "hosts": ["api.example.com"]},
        "secret:KEY": {**GRANTED, "kind": "secret", "name": "KEY", "hosts": ["api.example.com"]},
        "process:web": {
            **GRANTED,
            "kind": "process",
            "server": "web",
            "argv": ["npx", "-y", "web"],
            "env": ["KEY"],
        },
        "server:web": {
            **GRANTED,
            "kind": "server",
            "server": "web",
            "url": "https://a.b/",
            "headers": ["Authorization"],
        },
        "unsandboxed": {**GRANTED, "kind": "unsandboxed"},
    },
    "accepted": {"web-search:search": DIGEST},
    "aliases": {"search": "web-search"},
}
LOCK: dict[str, Any] = {
    "version": 1,
    "namespace": "search",
    "toolset_id": "app-builder",
    "kind": "mcp",
    "reference": "npx -y search",
    "digest": DIGEST,
    "tools": {
        "web.search": {
            "upstream": "web/search",
            "digest": DIGEST,
            "title": "Search",
            "description": "Search the web",
            "input_schema": {"type": "object"},
            "output_schema": {"type": "object"},
            "annotations": ANNOTATIONS,
            "icons": [{"src": "https://a.b/icon.png"}],
            "meta": {"vendor": 1},
            "more": {"execution": {"taskSupport": "forbidden"}},
            "request": {"method": "GET"},
        }
    },
    "replaced": {"find": {"upstream": "find", "digest": DIGEST, "input_schema": {}}},
}
CONFIG: dict[str, Any] = {
    "version": 1,
    "default_role": "developer",
    "roles": {
        "developer": {
            "name": "Developer",
            "allow": ["app-builder.**", "*.read_*"],
            "deny": ["app-builder.run_command"],
            "approve": ["**"],
            "admin": False,
        },
        "owner": {"admin": True},
    },
    "approvals": [
        {
            "pattern": "**",
            "when": {"annotations": {"destructive": True}, "args": {"path": "*.env", "n": 1}},
            "require": False,
        }
    ],
    "workspace": {
        "ignore": ["node_modules/"],
        "max_file_mb": 10,
        "durability": "fast",
        "object_format": "sha256",
    },
    "limits": {"timeout_s": 5.0, "memory_mb": 64, "approval_expires_s": 60},
    "server": {"host": "::1", "port": 0, "allowed_hosts": ["tools.example.com"]},
    "issuers": [
        {"issuer": "https://a.b", "jwks_file": "keys.json", "audience": "us", "role": "owner"}
    ],
    "signers": [
        "ann@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDPYLDmm+fruPnm+FzQjnRtoRxVdSiEGXcbBYY36MGoq"
    ],
    "secret_command": ["pass", "show", "{name}"],
}

FULL = [
    pytest.param(ToolsetManifest, MANIFEST, id="manifest"),
    pytest.param(ToolsetState, STATE, id="state"),
    pytest.param(ToolLock, LOCK, id="lock"),
    pytest.param(ProjectConfig, CONFIG, id="config"),
]


def all_models() -> list[type[StrictModel]]:
    """Return every model of the room."""
    modules = [
        importlib.import_module(module.name)
        for module in pkgutil.iter_modules(models.__path__, "covalt_git.models.")
    ]
    found = {
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, StrictModel)
    }
    return sorted(found, key=lambda model: model.__name__)


each_model = pytest.mark.parametrize("model", all_models(), ids=lambda model: model.__name__)


@pytest.mark.parametrize(("model", "data"), FULL)
def test_a_full_example_comes_back_through_yaml(
    model: type[StrictModel], data: dict[str, Any]
) -> None:
    first = model.model_validate(data)

    text = yaml_text.dump(first.model_dump(mode="json", by_alias=True, exclude_defaults=True))

    second = model.model_validate(yaml_text.load(text, "f").data)
    assert second == first
    assert (
        yaml_text.dump(second.model_dump(mode="json", by_alias=True, exclude_defaults=True)) == text
    )


@pytest.mark.parametrize(("model", "data"), FULL)
def test_a_full_example_is_kept_whole(model: type[StrictModel], data: dict[str, Any]) -> None:
    """The keys of the examples are those of the models: an example that misses one is too small."""
    dumped = model.model_validate(data).model_dump(mode="json", by_alias=True, exclude_unset=True)

    assert dumped == data
    assert set(data) == set(model.model_json_schema(by_alias=True)["properties"])


@pytest.mark.parametrize(("model", "data"), FULL)
def test_a_full_example_satisfies_the_model_s_own_json_schema(
    model: type[StrictModel], data: dict[str, Any]
) -> None:
    schema = model.model_json_schema()

    jsonschema_rs.Draft202012Validator(schema).validate(data)
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.Draft202012Validator(schema).validate(data | {"colour": "red"})


@pytest.mark.parametrize(
    ("model", "data", "place"),
    [
        pytest.param(model, data, place, id="/".join(map(str, (model.__name__, *place))))
        for model, data, places in (
            (
                ToolsetManifest,
                MANIFEST,
                """
                .  defaults  python  tools/0  tools/0/annotations  tools/0/limits
                tools/0/examples/0  tools/0/security  tools/1/http  tools/1/http/parameters/city
                tool_overrides/0  mcp_servers/0  mcp_servers/1  sources/0  sources/0/auth  auth/0
                """,
            ),
            (
                ToolsetState,
                STATE,
                """
                .  overrides/write_file  grants/network:a  grants/secret:KEY  grants/process:web
                grants/server:web  grants/unsandboxed
                """,
            ),
            (ToolLock, LOCK, ".  tools/web.search  tools/web.search/annotations"),
            (
                ProjectConfig,
                CONFIG,
                """
                .  roles/developer  approvals/0  approvals/0/when  approvals/0/when/annotations
                workspace  limits  server  issuers/0
                """,
            ),
        )
        for place in [
            tuple(int(part) if part.isdigit() else part for part in word.split("/") if part != ".")
            for word in places.split()
        ]
    ],
)
def test_an_unknown_key_is_refused(
    model: type[StrictModel], data: dict[str, Any], place: tuple[str | int, ...]
) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(with_more(data, place))

    assert [one["type"] for one in caught.value.errors()] == ["extra_forbidden"]
    assert caught.value.errors()[0]["loc"][-1] == "colour"


def with_more(data: Any, place: tuple[str | int, ...]) -> Any:
    """Return the data with an unknown key at a place."""
    if not place:
        return data | {"colour": "red"}
    key, *rest = place
    if isinstance(data, list):
        return [with_more(one, tuple(rest)) if at == key else one for at, one in enumerate(data)]
    return data | {key: with_more(data[key], tuple(rest))}


@each_model
def test_every_model_is_frozen_and_strict(model: type[StrictModel]) -> None:
    assert model.model_config["frozen"] is True
    assert model.model_config["extra"] == (
        "allow" if model.__name__ == "LegacyRenderer" else "forbid"
    )


@each_model
def test_every_model_says_what_it_is(model: type[StrictModel]) -> None:
    if not model.__name__.startswith("_"):
        assert model.__doc__
        assert model.__doc__.split("\n")[0].endswith(".")


@each_model
def test_every_model_s_json_schema_is_one(model: type[StrictModel]) -> None:
    jsonschema_rs.meta.validate(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
    )


def test_values_cannot_be_changed() -> None:
    manifest = ToolsetManifest.model_validate(MANIFEST)

    with pytest.raises(ValidationError, match="frozen"):
        setattr(manifest, "name", "Other")  # noqa: B010 - mypy knows it cannot be
    assert isinstance(manifest.tools, tuple)


@pytest.mark.parametrize("alias", ["renderType", "schema_file", "location"])
def test_only_the_written_name_of_a_key_is_read(alias: str) -> None:
    source = {"id": "shop", "type": "graphql", alias: "x"}
    data = {"id": "a", "name": "A", "version": "1", "sources": [source]}

    with pytest.raises(ValidationError):
        ToolsetManifest.model_validate(data)


@pytest.mark.parametrize("value", [True, 1.0, "1", 2, None])
def test_version_one_is_the_integer_one(value: object) -> None:
    with pytest.raises(ValidationError):
        ProjectConfig.model_validate({"version": value})
    with pytest.raises(ValidationError):
        ToolLock.model_validate(LOCK | {"version": value})


@pytest.mark.parametrize("renderer", RENDERER_TYPES)
def test_every_renderer_has_a_closed_configuration(renderer: str) -> None:
    model = config_model(renderer)

    assert model.model_validate({}) is not None
    with pytest.raises(ValidationError):
        model.model_validate({"colour": "red"})
    if renderer in CONFIGS:
        assert all(field.description for field in model.model_fields.values())


def test_expressions_are_allowed_where_a_renderer_wants_a_number_or_a_yes() -> None:
    assert config_model("frame").model_validate({"port": "$return.port"}) is not None
    assert config_model("code").model_validate({"editable": "$args.edit"}) is not None
    assert config_model("html").model_validate({"data": {"rows": "$return.rows"}}) is not None


def test_a_tool_comes_back_from_what_the_index_keeps() -> None:
    tool = Tool(
        tool_id="app-builder:forecast",
        toolset_id="app-builder",
        name="Forecast",
        input_schema={},
        http=ToolsetManifest.model_validate(MANIFEST).tools[1].http,
        confirmation=("toolset", "project"),
        toolset_digest=DIGEST,
    )
    kept = canonical_json.dumps(tool.model_dump(mode="json", by_alias=True, exclude_defaults=True))

    assert TypeAdapter(Tool).validate_python(canonical_json.loads(kept)) == tool
    assert (
        tool.definition_digest == Tool.model_validate(canonical_json.loads(kept)).definition_digest
    )


def test_every_code_is_told_once_and_stands_in_its_hundred() -> None:
    named = {name: value for name, value in vars(codes).items() if name.isupper()}

    assert sorted(named.values()) == [*titles()]
    assert len(set(named.values())) == len(named)
    assert all(code[:3] in {"CG1", "CG2", "CG3", "CG4"} for code in titles())
    assert len(set(titles().values())) == len(named)
