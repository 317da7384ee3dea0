"""A sample project, and changes of it whose effect on authority is known: ``sample.yaml`` and ``corpus.yaml``."""

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from covalt_git import yaml_text
from covalt_git.json_values import canonical_json
from covalt_git.models.sources.server_definition import grant_facts
from covalt_git.models.sources.tool_lock import NO_DIGEST, LockedFile, LockedPackages, locked_tool
from covalt_git.models.toolset_manifest import ToolsetManifest

Files = dict[str, str]
GUEST = "toolsets/guest/toolset.yaml"
GUEST_STATE = "toolsets/state/guest.yaml"
GEAR_STATE = "toolsets/state/gear.yaml"
PACKED = "toolsets/locks/packed.yaml"
BY = "granted_at: '2026-11-20T17:24:00Z', granted_by: me"


@cache
def _data(name: str) -> Any:
    return yaml.load(Path(__file__).with_name(name).read_text(encoding="utf-8"), yaml.CSafeLoader)


@dataclass(frozen=True)
class Case:
    """A change by its name, and parts of the lines that have to be reported of it.

    A change that permits nothing more, and is still reported as wider, is so marked.
    """

    name: str
    edits: tuple[Any, ...]
    wider: tuple[str, ...] = ()
    narrower: tuple[str, ...] = ()
    permits_nothing_more: bool = False

    def edit(self, files: Files) -> None:
        """Make the change in these files."""
        for edit in self.edits:
            if edit == ["guest is granted again"]:
                files[GUEST_STATE] = guest_state(files)
                continue
            if edit == ["packages are accepted"]:
                accept_program(files)
                continue
            path, *texts = edit
            path = _data("sample.yaml")["short_names"].get(path, path)
            match [with_digests(text, files) for text in texts]:
                case []:
                    del files[path]
                case [whole]:
                    files[path] = whole
                case [old, new, *everywhere]:
                    assert old in files[path], (path, old)
                    files[path] = files[path].replace(old, new, -1 if everywhere else 1)


CASES = [Case(**row) for rows in _data("corpus.yaml").values() for row in rows]


@cache
def _sample() -> Files:
    files = {path: with_digests(text, {}) for path, text in _data("sample.yaml")["files"].items()}
    files[GUEST_STATE] = guest_state(files)
    accept_program(files)
    return files


def accept_program(files: Files) -> None:
    """Write the digest of the locked packages into the lock, and accept them."""
    digest = re.compile(r"(?<=digest: )(<program>|sha256:[0-9a-f]{64})(?=\n  requirements)")
    text = digest.sub("sha256:" + "0" * 64, files[PACKED])
    program = LockedPackages.model_validate(yaml_text.load(text.encode(), "").data["program"])
    files[PACKED] = digest.sub(program.computed_digest, files[PACKED])
    accepted = re.compile(r"(?<=packed:program-35988fec: )\S+")
    files[GEAR_STATE] = accepted.sub(program.computed_digest, files[GEAR_STATE])


def sample() -> Files:
    """Return the texts of the sample project by their paths."""
    return dict(_sample())


def changed(case: Case) -> Files:
    """Return the sample with the change of a case."""
    files = sample()
    case.edit(files)
    return files


def with_digests(text: str, files: Files) -> str:
    """Return a text with digests of definitions and of files in place of ``<read>`` and the like."""
    for name, definition in _data("sample.yaml")["definitions"].items():
        text = text.replace(f"<{name}>", str(locked_tool(definition).digest))
    file = LockedFile(
        kind="file", path="/usr/bin/disk-server", sha256=f"sha256:{'1' * 64}", digest=NO_DIGEST
    )
    text = text.replace("<file>", file.computed_digest)
    for toolset in ("notes", "parked"):
        if (mark := f"<files of {toolset}>") in text:
            text = text.replace(mark, digest_of(files, toolset))
    return text


def guest_state(files: Files) -> str:
    """Return the state of the guest in which all of it is granted as it is in these files."""
    manifest = ToolsetManifest.model_validate(yaml_text.load(files[GUEST].encode(), "").data)
    hashes = {path: row for _, path, row in rows_of(files, "guest")}
    whole = f"digest: '{digest_of(files, 'guest')}', {BY}"
    grants = {
        "network": f'{{kind: network, hosts: ["*.example.com", "guest.example.org"], {whole}}}',
        "secret-GUEST_KEY": (
            f"{{kind: secret, name: GUEST_KEY, hosts: [guest.example.com], {whole}}}"
        ),
        "unsandboxed": f"{{kind: unsandboxed, {whole}}}",
    }
    for server in manifest.mcp_servers:
        facts = grant_facts(server, hashes)
        if server.command is not None:
            facts["sandbox"] = {
                "folders": ["$workspace", "/srv/data", "/srv/out:rw"],
                "hosts": ["api.example.com", "*.example.org"],
                "secrets": ["GUEST_KEY"],
            }
        text = json.dumps({key: one for key, one in facts.items() if one is not None})
        grants[f"{facts['kind']}-{server.id}"] = f"{text[:-1]}, {BY}}}"
    rows = "".join(f"  {key}: {grants[key]}\n" for key in sorted(grants))
    return (
        f"enabled: true\ngrants:\n{rows}installed_at: '2026-11-20T17:00:00Z'\n"
        "overrides:\n  look: {requires_confirmation: true}\n"
        "source_ref: guest.zip\nsource_type: zip\n"
    )


def digest_of(files: Files, toolset: str) -> str:
    """Return the digest of a toolset in these files, to which its grants are bound."""
    return canonical_json.digest(rows_of(files, toolset))


def rows_of(files: Files, toolset: str) -> list[list[str]]:
    """Return the mode, the path and the hash of each file of a toolset."""
    prefix = f"toolsets/{toolset}/"
    return [
        ["100644", path.removeprefix(prefix), hashlib.sha256(text.encode()).hexdigest()]
        for path, text in sorted(files.items())
        if path.startswith(prefix)
    ]
