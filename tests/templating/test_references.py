"""How references to values outside the project are written, and what only looks like one."""

import pytest

from covalt_git.templating.references import Reference, malformed, split


@pytest.mark.requirement("cjson-toolsets.server.references", "covalt-6.2.syntax")
@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a", ("a",)),
        ("${A}", (Reference("A", "any", None, "${A}"),)),
        ("Bearer ${env:A}!", ("Bearer ", Reference("A", "env", None, "${env:A}"), "!")),
        ("${secret:A:-x y}", (Reference("A", "secret", "x y", "${secret:A:-x y}"),)),
        ("${A:-}", (Reference("A", "any", "", "${A:-}"),)),
        ("$${A}", ("$${A}",)),
        ("$$${A}", ("$$", Reference("A", "any", None, "${A}"))),
        ("${args.a} ${args} ${workspace}", ("${args.a} ${args} ${workspace}",)),
        ("${arguments}", (Reference("arguments", "any", None, "${arguments}"),)),
        ("$A {B}", ("$A {B}",)),
    ],
)
def test_references_are_separated_from_text(text: str, pieces: tuple[str | Reference, ...]) -> None:
    assert split(text) == pieces


def test_malformed_references_are_reported() -> None:
    text = "${API-KEY} ${} ${vault:A} $${NO-REFERENCE} ${GOOD} ${args.my-key} ${"

    assert malformed(text) == ["${API-KEY}", "${}", "${vault:A}", "${"]
