"""Problems as JUnit XML, which CI servers show with the tests.

JUnit has no standard schema; Jenkins' xUnit, GitLab, Azure and CircleCI support these elements.  A suite
is a file, a case is a problem of it.  A warning is a case that passes, with output.  A file without
problems is a case that passes, because a report without cases is an error for some servers.  CI servers compare cases
of two runs by their names, so a name has no line: it is the code, the item and, if repeated, a number.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from covalt_git.errors import Problem

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_report(problems: Sequence[Problem], valid: Collection[str], failing: set[str]) -> str:
    """Return the report of ``problems``, sorted by path, and of ``valid``, the files without any.

    ``failing`` are the severities that count as failures.
    """
    suites = ET.Element("testsuites", name="covalt-git validate")
    for path, group in groupby(problems, lambda problem: problem.path):
        suite = ET.SubElement(suites, "testsuite", name=_text(path))
        names: Counter[str] = Counter()
        for problem in group:
            name = f"{problem.code} {problem.item}".rstrip()
            names[name] += 1
            number = f" ({names[name]})" if names[name] > 1 else ""
            _add_case(suite, problem, name + number, fails=problem.severity in failing)
        _count(suite)
    for path in sorted(valid):
        suite = ET.SubElement(suites, "testsuite", name=_text(path))
        ET.SubElement(suite, "testcase", classname=_text(path), name="no problems")
        _count(suite)
    for name in ("tests", "failures", "errors"):
        suites.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suites, encoding="unicode")}'


def _add_case(suite: ET.Element, problem: Problem, name: str, *, fails: bool) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=_text(problem.path),
        name=_text(name),
        file=_text(problem.path),
    )
    if problem.line:
        case.set("line", str(problem.line))
    if fails:
        output = ET.SubElement(case, "failure", message=_text(problem.message), type=problem.code)
    else:
        output = ET.SubElement(case, "system-out")
    output.text = _text(str(problem))


def _count(suite: ET.Element) -> None:
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", "0")


def _text(text: str) -> str:
    """Return a text with escapes for characters that XML 1.0 does not allow."""
    return _NOT_IN_XML.sub(lambda character: f"\\u{ord(character[0]):04x}", text)
