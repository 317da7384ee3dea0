"""The key ``approvals`` is rewritten as ``rules``, with all comments."""

from covalt_git.manifests.approvals_as_rules import approvals_as_rules
from covalt_git.manifests.fixes import fix_text

OLD = """\
version: 1
# who asks
approvals:
  - pattern: "**"  # all
    when: {args: {path: "*.env"}}
    require: true
  - {pattern: "a.*", require: false}
  - {pattern: "b.*"}
  - # the rest
    pattern: "**"
limits: {}
"""
NEW = """\
version: 1
# who asks
rules:
  - pattern: "**"  # all
    when: {args: {path: "*.env"}}
    effect: ask
  - {pattern: "a.*", effect: allow}
  - {effect: ask, pattern: "b.*"}
  - # the rest
    effect: ask
    pattern: "**"
limits: {}
"""


def test_approvals_are_rewritten_once_with_their_comments() -> None:
    fixed = fix_text(OLD, "covalt.yaml")

    assert fixed.text == NEW
    assert [(problem.code, problem.line) for problem in fixed.problems] == [("CG206", 3)]
    assert fix_text(NEW, "covalt.yaml").text == NEW
    assert fix_text(OLD, "toolsets/a/toolset.yaml").text == OLD


def test_what_would_mean_something_else_is_not_rewritten() -> None:
    value = 'version: 1\napprovals:\n  - {pattern: "**", when: {args: {a: {in: [1]}}}}\n'

    assert approvals_as_rules(value, "covalt.yaml") is None
    assert approvals_as_rules("version: 1\nrules: []\n", "covalt.yaml") is None
    assert approvals_as_rules("version: 2\napprovals: []\n", "covalt.yaml") is None
