"""``covalt-git explain``: explanations of problem codes."""

from __future__ import annotations

import re
import shutil
import sys
from typing import TYPE_CHECKING

import click

from covalt_git.cli.terminal import output
from covalt_git.problems.explain import Explanation, explanation, problems_page, titles

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH = 88
_INLINE = re.compile(r"`([^`]+)`")


@click.command()
@click.argument("code", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--markdown", is_flag=True, hidden=True, help="Print docs/problems.md.")
def command(code: str | None, *, as_json: bool, markdown: bool) -> None:
    """Explain a problem CODE that validate prints; without one, list them all.

    Example: covalt-git explain CG201
    """
    if markdown:
        click.echo(problems_page(), nl=False)
    elif code is None:
        if as_json:
            output.as_json([{"code": one, "title": title} for one, title in titles().items()])
        else:
            output.table([*titles().items()], titles=("code", "what"))
    elif as_json:
        output.as_json(_json(explanation(code)))
    elif sys.stdout.isatty():
        click.echo(_rendered(explanation(code).markdown))
    else:
        click.echo(explanation(code).markdown, nl=False)


def _json(explained: Explanation) -> dict[str, str]:
    names = ("what", "why", "how_to_mend")
    sections = dict(zip(names, explained.sections.values(), strict=True))
    return {"code": explained.code, "title": explained.title, **sections}


def _rendered(markdown: str) -> str:
    """Return Markdown formatted for a terminal: bold headings, colored code, wrapped paragraphs."""
    width = min(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDTH)
    blocks = [block for block in _blocks(markdown) if block]
    return "\n\n".join(_block(block, width) for block in blocks)


def _blocks(markdown: str) -> Iterator[str]:
    """Yield the headings, paragraphs, lists and fenced code blocks."""
    lines: list[str] = []
    fenced = False
    for line in markdown.split("\n"):
        fenced ^= line.startswith("```")
        if line or fenced:
            lines.append(line)
        else:
            yield "\n".join(lines)
            lines = []
    yield "\n".join(lines)


def _block(block: str, width: int) -> str:
    if block.startswith("#"):
        return click.style(block.lstrip("# "), bold=True)
    if block.startswith("```"):
        info, *lines = block.split("\n")[:-1]
        kind = "bad" if " bad" in info else "good" if " good" in info else ""
        label = {"bad": click.style("wrong", fg="red"), "good": click.style("right", fg="green")}
        place = info.split()[2:]
        head = " ".join(filter(None, [label.get(kind, ""), *place]))
        shown = [click.style(f"    {line}", fg="cyan") for line in lines]
        return "\n".join([*([f"  {head}"] if head else []), *shown])
    if block.startswith("- "):
        return _INLINE.sub(lambda found: click.style(found[1], fg="cyan"), block)
    filled = click.wrap_text(" ".join(block.split()), width)
    return _INLINE.sub(lambda found: click.style(found[1], fg="cyan"), filled)
