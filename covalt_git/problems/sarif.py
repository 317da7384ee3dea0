"""Problems as a SARIF log, for GitHub's code scanning and editors (OASIS SARIF 2.1.0 with errata 01).

Columns are in Unicode characters.  The log contains no absolute paths, so that equal files have equal logs.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from covalt_git import __version__
from covalt_git.problems.explain import explanation, titles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.errors import Problem
    from covalt_git.json_values import JsonObject

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT: Final = "%SRCROOT%"


def sarif_log(problems: Sequence[Problem], prefix: str) -> JsonObject:
    """Return the log of one run; ``prefix`` is the path of the project in the repository."""
    counts: Counter[str] = Counter()
    return log_of_run(
        [_rule(code) for code in titles()],
        [_result(problem, prefix, counts) for problem in problems],
    )


def log_of_run(rules: Sequence[JsonObject], results: Sequence[JsonObject]) -> JsonObject:
    """Return the log of a run with these rules and results."""
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "covalt-git",
                        "semanticVersion": __version__,
                        "rules": list(rules),
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {
                    _ROOT: {"description": {"text": "The root of the git repository."}}
                },
                "invocations": [{"executionSuccessful": True}],
                "results": list(results),
            }
        ],
    }


def physical_location(path: str, line: int, col: int) -> JsonObject:
    """Return a place in a file, whose path is relative to the repository; line 0 is the file itself."""
    physical: JsonObject = {"artifactLocation": {"uri": quote(path), "uriBaseId": _ROOT}}
    if line:
        physical["region"] = {"startLine": line, "startColumn": col}
    return physical


def _rule(code: str) -> JsonObject:
    explained = explanation(code)
    # In SARIF, "text" is plain text.
    what = " ".join(explained.sections["What"].replace("`", "").split())
    return {
        "id": code,
        "shortDescription": {"text": explained.title},
        "fullDescription": {"text": what},
        "help": {"text": explained.markdown, "markdown": explained.markdown},
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": [_AREAS[code[2]]]},
    }


_AREAS: Final = {"1": "yaml", "2": "manifest", "3": "toolset-files", "4": "project"}


def _result(problem: Problem, prefix: str, counts: Counter[str]) -> JsonObject:
    physical = physical_location(prefix + problem.path, problem.line, problem.col)
    location: dict[str, Any] = {"physicalLocation": physical}
    if problem.item:
        location["logicalLocations"] = [{"fullyQualifiedName": problem.item}]
    hint = f"\nhint: {problem.hint}" if problem.hint else ""
    return {
        "ruleId": problem.code,
        "ruleIndex": [*titles()].index(problem.code),
        "level": "warning" if problem.severity == "warning" else "error",
        "message": {"text": f"{problem.message}{hint}"},
        "locations": [location],
        "partialFingerprints": {
            "covaltProblem/v1": fingerprint((problem.code, problem.path, problem.message), counts)
        },
    }


def fingerprint(parts: Sequence[str], counts: Counter[str]) -> str:
    """Return the identity of a result without its line; equal results are numbered by ``counts``."""
    # Without the line, so that code scanning does not report a problem anew after an edit above it.
    facts = "\0".join(parts)
    counts[facts] += 1
    return hashlib.sha256(f"{facts}\0{counts[facts]}".encode("utf-8", "replace")).hexdigest()
