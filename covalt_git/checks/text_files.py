"""Check of a toolset's text files for credentials, merge conflicts and hidden characters.

Binary files are not checked, and large ones only for tokens of known formats.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from covalt_git import yaml_text
from covalt_git.checks.hidden_characters import hidden_characters
from covalt_git.credentials.leaks import credentials, has_random_value, known_tokens, masked
from covalt_git.credentials.named_values import announced_credentials
from covalt_git.errors import Problem
from covalt_git.models.sources.skill_entry import SKILL
from covalt_git.names import suggest_id
from covalt_git.problems import codes
from covalt_git.python_reader.literal_values import literal_documents
from covalt_git.python_reader.module_text import line_places, parse_text
from covalt_git.templating.references import texts
from covalt_git.yaml_text import Lines, YamlDocument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from covalt_git.credentials.leaks import Credential
    from covalt_git.json_values.pointer import Loc
    from covalt_git.manifests.reading import Reading
    from covalt_git.manifests.toolset_files import BundleFiles, Contents
    from covalt_git.models.toolset_manifest import ToolsetManifest
    from covalt_git.python_reader.literal_values import LiteralDocument
    from covalt_git.python_reader.source import ToolDefinition

MAX_TEXT_BYTES = 4 << 20
"""Larger files are considered data: a search for names of secrets would take seconds."""

_MAX_REPORTED = 20
"""The most problems of one kind that are reported for a file."""

_WITHOUT_FINDINGS: set[tuple[str, str, bool]] = set()
"""Files in which this process found nothing: SHA-256, path, and whether it was parsed.

The search is two thirds of the time to read a toolset, which a server does for each page. Files with findings are searched
again, so that no credential stays in memory.
"""

_MAX_REMEMBERED = 10_000

_CONFLICT_PARTS = tuple(
    re.compile(part, re.MULTILINE) for part in ("^<{7} ", "^={7}\r?$", "^>{7} ")
)
_YAML = (".yaml", ".yml")
_DOCUMENTS = (*_YAML, ".json")
_PYTHON = (".py", ".pyi", ".pyw")
_NAMES = re.compile(
    r"key|token|secret|pass|pwd|cred|auth|bearer|jwt|cookie|session|dsn|connection", re.IGNORECASE
)
# Possessive, as 20,000 blanks after a quote took 4 s otherwise.
_JOINT = re.compile(r"""["'][\s\\]*+\+?[\s\\]*+[rbfuRBFU]{0,2}+["']""")
"""What is between two texts that Python joins."""

_REFERENCES = {"/toolset.yaml": "${NAME}", ".py": 'get_context().secrets["NAME"]'}
"""The reference to a secret that replaces a credential, by the end of the file name."""

_SHOWN_TO_AGENTS = frozenset(
    {"id", "tool_id", "name", "description", "title", "name_override", "description_override"}
)


def check_texts(
    display_path: str,
    files: BundleFiles,
    contents: Contents,
    compiled: AbstractSet[str] = frozenset(),
) -> tuple[list[Problem], set[str]]:
    """Return the problems of a toolset's text files, and the credentials in them.

    The documents at the paths ``compiled`` are searched, but not parsed: their locks have what
    :func:`announced_problems` returns.
    """
    problems: list[Problem] = []
    values: set[str] = set()
    for file in files.files:
        is_parsed, path = file.path not in compiled, f"{display_path}/{file.path}"
        # Contents that are not cached are read again, so they may be other bytes than the digest's.
        cached = contents.cached(file.path) is not None
        if cached and (file.sha256, path, is_parsed) in _WITHOUT_FINDINGS:
            continue
        try:
            content = contents.read(file.path)
        except OSError:
            continue  # removed since the files were listed
        if b"\0" in content:
            continue
        text = content.decode("utf-8", "replace")
        is_data = len(content) > MAX_TEXT_BYTES
        file_problems, file_values = (
            check_data(text, path) if is_data else check_text(text, path, is_parsed=is_parsed)
        )
        if cached and not file_problems and not file_values:
            if len(_WITHOUT_FINDINGS) >= _MAX_REMEMBERED:
                _WITHOUT_FINDINGS.clear()
            _WITHOUT_FINDINGS.add((file.sha256, path, is_parsed))
        problems += file_problems
        values |= file_values
    return problems, values


def announced_problems(text: str, display_path: str) -> list[Problem]:
    """Return the problems of a text that only its values show: credentials far from their names."""
    if not display_path.endswith(_DOCUMENTS) or len(text.encode()) > MAX_TEXT_BYTES:
        return []
    announced = _announced_credentials(text, display_path, credentials(text))
    return _placed([*_credential_problems(announced, display_path)], text, display_path)


def check_text(
    text: str,
    display_path: str,
    *,
    is_parsed: bool = True,
    document: YamlDocument | None = None,
) -> tuple[list[Problem], set[str]]:
    """Return the problems of the text of a file, and the credentials in it; ``document`` is what was parsed of it."""
    secret = credentials(text)
    if is_parsed and display_path.endswith(_DOCUMENTS):
        secret += _announced_credentials(text, display_path, secret, document)
    elif display_path.endswith(_PYTHON):
        secret += _credentials_in_python(text, secret)
    findings = [*_credential_problems(secret, display_path), *_hidden(text, display_path)]
    if not display_path.endswith(_YAML):  # the YAML reader reports conflicts itself
        findings += _conflict(text)
    return _placed(findings, text, display_path), {credential.value for credential in secret}


def check_data(text: str, display_path: str) -> tuple[list[Problem], set[str]]:
    """Return the problems of a large text file, and the credentials in it that have a known format."""
    tokens = known_tokens(text)
    findings = [*_credential_problems(tokens, display_path)]
    return _placed(findings, text, display_path), {token.value for token in tokens}


def _placed(findings: list[_Finding], text: str, display_path: str) -> list[Problem]:
    if not findings:
        return []  # most files: their lines need not be counted
    lines = Lines(text)
    return [
        Problem(display_path, *lines.locate(place), code, message, hint, severity)
        for place, code, message, hint, severity in findings
    ]


def _announced_credentials(
    text: str, path: str, detected: list[Credential], document: YamlDocument | None = None
) -> list[Credential]:
    """Return the credentials of a document that are far from their names, which only its values show."""
    if not has_random_value(text):
        return []  # most documents: reading one takes a hundred times as long as this search
    try:
        document = document or yaml_text.load(text, path)
    except yaml_text.YamlProblems:
        return []
    return list(_announced_by_value(document.data, text, detected, document.offset).values())


def _credentials_in_python(text: str, detected: list[Credential]) -> list[Credential]:
    """Return the credentials of Python source whose names only its syntax shows; none for what is no Python."""
    # Most files have none of both, and parsing one takes a hundred times as long as this search.
    if not _NAMES.search(text) or not has_random_value(_JOINT.sub("", text)):
        return []
    tree = parse_text(text)
    if tree is None:
        return []
    by_value: dict[str, Credential] = {}
    begins = line_places(text)
    for document in literal_documents(tree):

        def begin_of(loc: Loc, document: LiteralDocument = document) -> int:
            node = document.nodes[loc]
            begin = begins[node.lineno - 1]
            # The tree counts bytes, and a character takes at most four.
            line = text[begin : begin + node.col_offset].encode()[: node.col_offset]
            return begin + len(line.decode("utf-8", "ignore"))

        for value, credential in _announced_by_value(
            document.data, text, detected, begin_of
        ).items():
            by_value.setdefault(value, credential)
    return list(by_value.values())


def _announced_by_value(
    data: Any, text: str, detected: list[Credential], begin_of: Callable[[Loc], int]
) -> dict[str, Credential]:
    """Return the credentials that the names in a document announce, by value, with their first places in its text."""
    by_value: dict[str, Credential] = {}
    for named, credential in announced_credentials(data):
        if not any(credential.value in other.value for other in detected):
            # A value with escapes is not in the text as it is read: then its beginning is its place.
            begin = begin_of(named.loc)
            at = text.find(credential.value, begin)
            by_value.setdefault(
                credential.value, credential._replace(place=at if at >= 0 else begin)
            )
    return by_value


_Finding = tuple[int, str, str, str, str]


def _credential_problems(secrets: list[Credential], display_path: str) -> Iterator[_Finding]:
    hint = "store it in the environment or in secrets.env, and revoke this value"
    for suffix, reference in _REFERENCES.items():
        if display_path.endswith(suffix):
            hint = f"write {reference}, add NAME to secrets, and revoke this value"
    for credential in secrets[:_MAX_REPORTED]:
        kind = f"{credential.kind} in plain text" if credential.certain else credential.kind
        message = f"{kind}: {credential.shown!r}"
        yield (
            credential.place,
            codes.CREDENTIAL,
            message,
            hint,
            "error" if credential.certain else "warning",
        )


def _hidden(text: str, display_path: str) -> Iterator[_Finding]:
    if not display_path.endswith((*_YAML, ".py", f"/{SKILL}")):
        return
    characters = hidden_characters(text, only_reordering=display_path.endswith(".py"))
    for hidden in islice(characters, _MAX_REPORTED):
        hint = f"remove it, or write `{_escape(hidden.character)}` between double quotes"
        hint = "remove it" if display_path.endswith(SKILL) else hint
        yield hidden.place, codes.HIDDEN_CHARACTER, hidden.message, hint, "error"


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"  # noqa: PLR2004


def find_conflict(text: str) -> int | None:
    """Return the index of the first conflict: three markers, one after another; None without a conflict."""
    if "<<<<<<< " not in text:
        return None
    # In this order: a single row of = underlines a heading in Markdown and reStructuredText.
    places = [0]
    for mark in _CONFLICT_PARTS:
        match = mark.search(text, places[-1])
        if match is None:
            return None
        places.append(match.start())
    return places[1]


def _conflict(text: str) -> list[_Finding]:
    place = find_conflict(text)
    if place is None:
        return []
    message, hint = "a merge conflict marker", "resolve the merge conflict"
    return [(place, codes.MERGE_CONFLICT, message, hint, "error")]


def check_hidden_escapes(reading: Reading[Any]) -> Iterator[Problem]:
    """Find hidden characters in names and descriptions that are written as escape sequences."""
    document = reading.document
    source = document.text.lower() if document else ""
    # Few manifests have an escape; a walk through all texts of all manifests made reading a tenth slower.
    if document is None or not any(escape in source for escape in ("\\u", "\\x")):
        return
    # A reviewer of the file sees a harmless escape, and the agent gets the character.
    for loc, text in texts(document.data):
        named = [part for part in loc if isinstance(part, str)]
        if not named or named[-1] not in _SHOWN_TO_AGENTS or "examples" in named:
            continue
        for hidden in hidden_characters(text):
            number = ord(hidden.character)
            if any(
                f"\\{kind}" in source
                for kind in (f"u{number:04x}", f"u{number:08x}", f"x{number:02x}")
            ):
                yield reading.problem(codes.HIDDEN_CHARACTER, loc, hidden.message, hint="remove it")
                break


def check_docstrings(
    reading: Reading[ToolsetManifest], sources: Mapping[str, ToolDefinition]
) -> Iterator[Problem]:
    """Find hidden characters in names and descriptions of tools in Python source."""
    for position, tool in enumerate(reading.valid.tools):
        source = sources.get(tool.id)
        texts = {"name": source.name, "description": source.description} if source else {}
        for field, text in texts.items():
            for hidden in islice(hidden_characters(text or ""), 1):
                message = f"in its {field} {hidden.message}"
                at = ("tools", position, "entrypoint")
                yield reading.problem(
                    codes.HIDDEN_CHARACTER, at, message, hint="remove it from the function"
                )


def once_for_each_cause(problems: list[Problem]) -> list[Problem]:
    """Return the problems without syntax errors that a merge conflict causes."""
    merged = {problem.path for problem in problems if problem.code == codes.MERGE_CONFLICT}
    return [
        problem
        for problem in problems
        if problem.code != codes.PYTHON_SYNTAX or problem.path not in merged
    ]


def without(values: set[str], problems: list[Problem]) -> list[Problem]:
    """Return the problems with these credentials masked in their texts."""
    if not values:
        return problems
    # A hint can suggest the id that is most similar to a credential: the same in lower case.
    suggested = values | {suggest_id(value) for value in values} - {""}
    return [
        replace(
            problem,
            message=masked(problem.message, values),
            hint=masked(problem.hint, suggested),
            item=masked(problem.item, values),
        )
        for problem in problems
    ]
