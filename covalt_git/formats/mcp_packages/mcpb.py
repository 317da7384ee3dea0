"""The format of MCP bundles (MCPB, before DXT): a manifest, in an archive or a folder with the server's files.

Settings that a user makes have their default, or become references: those that are ``sensitive`` to secrets, the
others to variables of the environment.  A manifest names its own folder ``${__dirname}``, which is ``$toolset``.
Source: ``MANIFEST.md`` of the project, versions 0.1 to 0.4.
"""

from __future__ import annotations

import json
import re
import tomllib
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.documents import Document, FormatError, parse
from covalt_git.formats.http_texts import escaped, with_references
from covalt_git.formats.model import Imported, Note, Part, changed, owned_variable, variable_name
from covalt_git.formats.shapes import TEXT, are_objects, schema_of
from covalt_git.manifests.toolset_files import BYTECODE, PYCACHE, is_bytecode
from covalt_git.templating.references import references, texts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from covalt_git.formats.model import Node
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc
    from covalt_git.templating.references import Reference

MANIFEST: Final = "manifest.json"
_PROJECT: Final = "pyproject.toml"
_OWN_FILE: Final = re.compile(r"\$(?:toolset|\{toolset\})/([^\s:;,=$]+)")
"""A file of the toolset in a text."""

EXTENSIONS: Final = frozenset({".mcpb", ".dxt"})

_SIGNATURE, _SIGNATURE_END = b"MCPB_SIG_V1", b"MCPB_SIG_END"
_ZIP_END: Final = b"PK\5\6"
_ZIP_END_BYTES: Final = 22

_SETTING = re.compile(r"\$\{user_config\.([^{}]+)\}")
_FOLDER = re.compile(r"\$\{__dirname\}")
_PLACES: Final = {
    "HOME": "${env:HOME}",
    "DESKTOP": "${env:HOME}/Desktop",
    "DOCUMENTS": "${env:HOME}/Documents",
    "DOWNLOADS": "${env:HOME}/Downloads",
    "pathSeparator": "/",
    "/": "/",
}
_PLACE = re.compile(r"\$\{(HOME|DESKTOP|DOCUMENTS|DOWNLOADS|pathSeparator|/)\}")
_TYPES: Final = {
    "node": "node",
    "npx": "node",
    "python": "python",
    "python3": "python",
    "uv": "uv",
    "uvx": "uv",
}
_PROGRAMS: Final = {"node": "node", "python": "python3", "uv": "uv", "binary": ""}
_OPTIONAL: Final = (
    "left out, as its setting is optional and has no default: add it to args if you need it"
)

_CONFIG: Final = {key: key for key in ("command", "args", "env")}
_SETTING_SHAPE: Final = {"type": str, "required": bool, "multiple": bool, "sensitive": bool}
MANIFEST_SCHEMA: Final = schema_of(
    {
        "name!": TEXT,
        "display_name": str,
        "version!": str,
        "description": str,
        "user_config": {str: _SETTING_SHAPE},
        "server!": {
            "type": str,
            "entry_point": str,
            "mcp_config": {"command": str, "args": [str], "env": {str: str}},
        },
    }
)


def bundle_document(path: str, files: Mapping[str, bytes], executable: Collection[str]) -> Document | None:  # fmt: skip
    """Return the document of a bundle's files; None if they are of something else.

    Raises:
        FormatError: if the manifest is not valid JSON.
    """
    if MANIFEST not in files:
        return None
    result = parse(files[MANIFEST], f"{path}/{MANIFEST}")
    others = {name: content for name, content in files.items() if name != MANIFEST}
    document = Document(result.path, result.kind, result.value, result.text, others, {*executable})
    return document if recognize_manifest(document) else None


def without_signature(content: bytes) -> bytes:
    """Return the ZIP of a signed bundle, whose signature is after it."""
    # The last one: the bytes may be in a file of the bundle too.
    at = content.rfind(_SIGNATURE)
    if at < 0 or not content.endswith(_SIGNATURE_END):
        return content
    end = content.rfind(_ZIP_END, 0, at)
    # Some programs declare the signature as the ZIP's comment, by the last two bytes.
    return content[: end + _ZIP_END_BYTES - 2] + b"\0\0" if end >= 0 else content[:at]


def recognize_manifest(document: Document) -> bool:
    """Return whether a document is an MCPB manifest."""
    value = [document.value]
    return are_objects(value, "manifest_version", "name", "server") or are_objects(
        value, "dxt_version", "name", "server"
    )


def read_manifest(document: Document, imported: Imported) -> None:
    """Add the toolset of an MCPB manifest, with the files of its bundle."""
    source = Part(document.value)
    toolset = imported.toolset(source.peek("name"), name=source.peek("display_name", ""))
    toolset.trace(("id",), ("name",))
    if "display_name" in source:
        toolset.trace(("name",), ("display_name",))
    toolset.copy_texts(source, {"version": "version"})
    toolset.copy(source, {"description": "description"})
    _add_files(document, imported)
    config = source["server"].get("mcp_config")
    if config is not None and "command" in config:
        server = toolset.item("mcp_servers", id=toolset.value["id"])
        _Settings(server, source, imported).read(config)
        _note_overrides(config, imported)
    elif source["server"].peek("type") in _PROGRAMS and "entry_point" in source["server"]:
        _read_entry_point(toolset, source["server"], document.files)
    _note_missing_files(toolset, source["server"], imported)


def _note_overrides(config: Part, imported: Imported) -> None:
    """Note what starts on other platforms: a server of a toolset starts in the same way on each."""
    overrides = [
        item
        for key in ("platform_overrides", "platforms")
        if isinstance(config.peek(key), dict)
        for item in config.entries(key)
    ]
    for platform, override in overrides:
        if isinstance(override.value, dict) and override.value:
            keys = " and ".join(override.value)
            message = f"no toolset has another {keys} on {platform}: write it into the server if you use it there"
            imported.without_effect.append(Note(override.loc, message))


def _note_missing_files(toolset: Node, source: Part, imported: Imported) -> None:
    """Note the files of the server that the input does not have, as a manifest alone has none."""
    files = imported.files[0]
    named = [
        match[1].rstrip("/")
        for server in toolset.value.get("mcp_servers", ())
        for _, text in texts([server.get("command", ""), server.get("args", [])])
        for match in _OWN_FILE.finditer(text)
    ]
    missing = [
        name
        for name in dict.fromkeys(named)
        if not any(path == name or path.startswith(f"{name}/") for path in files)
    ]
    if missing:
        listed = ", ".join(map(repr, missing))
        message = f"the input does not have {listed}: convert the bundle or its folder, or put it beside the toolset.yaml"
        imported.notes.append(Note(source.loc, message))
    if source.peek("type") == "uv" and "mcp_config" not in source and _PROJECT not in files:
        message = f"the input does not have {_PROJECT!r}: add the dependencies of the server to args, as --with NAME"
        imported.notes.append(Note(source.loc, message))


def _add_files(document: Document, imported: Imported) -> None:
    for path, content in document.files.items():
        if PYCACHE in path.split("/"):
            continue  # a cache, which covalt-git never copies
        # Python prefers it to the source beside it, so it could run code that a reviewer has not seen.
        if is_bytecode(path):
            imported.lost_files[path] = BYTECODE
        else:
            imported.files[0][path] = content
            if path in document.executable:
                imported.executable.add((0, path))


def _read_entry_point(toolset: Node, source: Part, files: Mapping[str, bytes]) -> None:
    """Add the server of a manifest that leaves its command to the client."""
    kind, entry = source.peek("type"), source["entry_point"]
    command = _PROGRAMS[kind]
    server = toolset.item("mcp_servers", id=toolset.value["id"], command=command)
    file = f"$toolset/{escaped(entry.value)}"
    if not command:
        server.set("command", entry, file)
    else:
        args = _uv_options(files) if kind == "uv" else []
        server.value["args"] = [*args, file]
        server.trace(("args", len(args)), entry.loc)
    server.trace(("command",), source["type"].loc)


def _uv_options(files: Mapping[str, bytes]) -> list[str]:
    """Return the options of uv that run a bundle's server without writing into its folder."""
    # With a project, uv writes its environment into the folder, which is a read-only copy here.
    args = ["run", "--no-project"]
    try:
        project = tomllib.loads(files.get(_PROJECT, b"").decode()).get("project", {})
    except (ValueError, RecursionError):
        project = {}
    project = project if isinstance(project, dict) else {}
    if isinstance(project.get("requires-python"), str):
        args += ["--python", escaped(project["requires-python"])]
    dependencies = project.get("dependencies")
    for item in dependencies if isinstance(dependencies, list) else ():
        args += ["--with", escaped(item)] if isinstance(item, str) else []
    return args


class _Settings:
    """Reader of the command of a bundle, in which settings of a user have their values or references."""

    def __init__(self, server: Node, source: Part, imported: Imported) -> None:
        self._server = server
        self._imported = imported
        self._settings = dict(source.entries("user_config"))
        self._owner = source.peek("name")

    def read(self, config: Part) -> None:
        """Set the command, its arguments and its environment."""
        server = self._server
        text, settings = self._filled(config.peek("command"))
        self._set(("command",), text, config["command"], settings)
        if "args" in config:
            server.value["args"] = []
        arguments = config.parts("args")
        previous = ""
        for argument, following in zip_longest(arguments, arguments[1:]):
            is_flag = argument.value.startswith("-") and "=" not in argument.value
            # A list without values is no argument, and its flag would take the next one.
            if self._is_empty_list(argument) or (is_flag and self._is_empty_list(following)):
                self._imported.notes.append(Note(argument.loc, _OPTIONAL))
                continue
            self._read_argument(argument, previous)
            previous = argument.value
        for name, value in config.entries("env"):
            text, settings = self._filled(value.value)
            server.node("env")
            self._set(("env", name), text, value, settings)

    def _read_argument(self, argument: Part, previous: str) -> None:
        args = self._server.value["args"]
        whole = _SETTING.fullmatch(argument.value)
        setting = self._settings.get(whole[1]) if whole else None
        default = None if setting is None else setting.peek("default")
        if setting is not None and isinstance(default, list) and setting.peek("multiple"):
            for item in default:
                args.append(_plain(str(item)))
                self._trace(("args", len(args) - 1), argument, [setting["default"], setting])
            return
        text, settings = self._filled(argument.value)
        is_missing = any(map(self._is_missing, settings))
        # An argument without its value would be read as the value of another one; a flag without its value
        # would take the next argument.
        if is_missing and not (whole and previous.startswith("-") and "=" not in previous):
            self._imported.notes.append(Note(argument.loc, _OPTIONAL))
            return
        args.append(text)
        self._trace(("args", len(args) - 1), argument, settings)
        if setting is not None and setting.peek("multiple"):
            message = "the setting can have several values: write an argument for each of them"
            self._imported.notes.append(Note(argument.loc, message))

    def _set(self, path: tuple[str, ...], text: str, origin: Part, settings: list[Part]) -> None:
        value = self._server.value
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = text
        self._trace(path, origin, settings)

    def _trace(self, path: Loc, origin: Part, settings: list[Part]) -> None:
        """Record the origins of a text: the properties of settings that it has too."""
        self._server.trace(path, origin.loc)
        for setting in settings:
            if not isinstance(setting.value, dict):
                self._server.trace(path, setting.loc)
                continue
            for key in ("sensitive", "required", "default"):
                if key in setting:
                    self._server.trace(path, setting[key].loc)

    def _is_missing(self, setting: Part) -> bool:
        has_value = "default" in setting or setting.peek("required") or setting.peek("sensitive")
        return not has_value

    def _is_empty_list(self, argument: Part | None) -> bool:
        """Return whether an argument is an optional setting with several values, which has none."""
        whole = _SETTING.fullmatch(argument.value) if argument is not None else None
        setting = self._settings.get(whole[1]) if whole else None
        return (
            setting is not None and setting.peek("multiple") is True and self._is_missing(setting)
        )

    def _filled(self, text: str) -> tuple[str, list[Part]]:
        """Return a text with references in place of settings and places, and its settings."""
        pieces: list[str] = []
        settings: list[Part] = []
        end = 0
        for result in _SETTING.finditer(text):
            setting = self._settings.get(result[1])
            pieces += [_plain(text[end : result.start()]), self._value(result[1], setting)]
            settings += [] if setting is None else [setting]
            end = result.end()
        return "".join([*pieces, _plain(text[end:])]), settings

    def _value(self, key: str, setting: Part | None) -> str:
        """Return the default of a setting, or a reference."""
        name = variable_name(key)
        if setting is None:
            return f"${{{name}}}"
        default = setting.peek("default")
        is_optional = not setting.peek("required")
        if setting.peek("sensitive"):
            return f"${{{name}{':-' if is_optional else ''}}}"
        if default is not None:
            values = default if isinstance(default, list) else [default]
            return ",".join(_plain(item if isinstance(item, str) else json.dumps(item)) for item in values)  # fmt: skip
        # A setting is named within its bundle; `PORT` of the environment is that of all programs.
        name = owned_variable(self._owner, key)
        return f"${{env:{name}{':-' if is_optional else ''}}}"


def _plain(text: str) -> str:
    """Return a text with the folder of the toolset and the places of a user."""
    pieces: list[str] = []
    end = 0
    for result in re.finditer(rf"{_FOLDER.pattern}|{_PLACE.pattern}", text):
        folder = "$toolset" if text[result.end() : result.end() + 1] in ("", "/") else "${toolset}"
        place = _PLACES[result[1]] if result[1] else folder
        pieces += [escaped(text[end : result.start()]), place]
        end = result.end()
    return "".join([*pieces, escaped(text[end:])])


def write_manifest(toolsets: Sequence[Part], _imported: Imported) -> Any:
    """Return the MCPB manifest of a toolset."""
    if len(toolsets) != 1 or len(toolsets[0].peek("mcp_servers", [])) > 1:
        raise FormatError("an MCPB manifest has one server", hint="convert each toolset on its own")
    manifest = toolsets[0]
    settings: JsonObject = {}
    output: JsonObject = {
        "manifest_version": "0.3",
        "name": manifest.take("id"),
        "display_name": manifest.take("name"),
        "version": manifest.take("version"),
        "description": manifest.take("description", ""),
        "author": {"name": "unknown"},
        "server": _manifest_server(manifest, settings),
    }
    for name in manifest.take("secrets", []):
        settings.setdefault(name.lower(), _setting(name, is_secret=True, is_required=True))
    if settings:
        output["user_config"] = settings
    return output


def _setting(name: str, *, is_secret: bool, is_required: bool) -> JsonObject:
    fields: JsonObject = {"type": "string", "sensitive": is_secret, "required": is_required}
    return {**fields, "title": name, "description": f"The value of {name}."}


def _manifest_server(manifest: Part, settings: JsonObject) -> JsonObject:
    servers = manifest.parts("mcp_servers")
    if not servers or "command" not in servers[0]:
        manifest.drop_keys("an MCPB manifest has a program, not a URL", "mcp_servers")
        return {"type": "binary", "entry_point": ""}
    server = servers[0]
    server.take("id")
    taken = server.taken(_CONFIG)
    for _, item in references(taken):
        if item.name != "HOME":
            is_secret, is_required = item.place != "env", item.default is None
            settings[item.name.lower()] = _setting(item.name, is_secret=is_secret, is_required=is_required)  # fmt: skip
    config = changed({"args": [], **taken}, _reference_to_setting)
    command, args = config["command"], config["args"]
    kind = _TYPES.get(command.rpartition("/")[2], "binary")
    entry = next((item for item in args if re.search(r"\.(?:js|mjs|cjs|py)$", item)), command)
    return {
        "type": kind,
        "entry_point": entry.removeprefix("${__dirname}/"),
        "mcp_config": config,
    }


def _reference_to_setting(text: str) -> str:
    marked = re.sub(r"(\$\$)|\$(?:toolset\b|\{toolset\})", lambda dollar: dollar[1] or "\0", text)
    return with_references(marked, _setting_of).replace("\0", "${__dirname}")


def _setting_of(reference: Reference) -> str:
    if reference.name == "HOME" and reference.place == "env":
        return "${HOME}"
    return f"${{user_config.{reference.name.lower()}}}"
