"""``covalt-git explain``: explanations of problem codes."""

from __future__ import annotations

import click

from covalt_git.cli.context import print_json
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.problems.explain import Explanation, explanation, problems_page, titles


@click.command(cls=JsonCommand)
@click.argument("code", required=False)
@click.option("--markdown", is_flag=True, hidden=True, help="Print docs/problems.md.")
def command(code: str | None, *, markdown: bool) -> None:
    """Explain a problem CODE that validate prints; without one, list them all.

    Example: covalt-git explain CG201
    """
    if markdown:
        click.echo(problems_page(), nl=False)
    elif code is None:
        print_json([{"code": one, "title": title} for one, title in titles().items()])
        output.table([*titles().items()], titles=("code", "what"))
    else:
        print_json(_json(explanation(code)))
        click.echo(explanation(code).markdown, nl=False)


def _json(explained: Explanation) -> dict[str, str]:
    names = ("what", "why", "how_to_mend")
    sections = dict(zip(names, explained.sections.values(), strict=True))
    return {"code": explained.code, "title": explained.title, **sections}
