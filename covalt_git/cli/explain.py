"""``covalt-git explain``: explanations of problem codes."""

from __future__ import annotations

import click

from covalt_git.cli.context import print_json
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.problems.explain import (
    call_code,
    call_codes,
    explanation,
    problems_page,
    titles,
)


@click.command(cls=JsonCommand)
@click.argument("code", required=False)
@click.option("--markdown", is_flag=True, hidden=True, help="Print docs/reference/problems.md.")
def command(code: str | None, *, markdown: bool) -> None:
    """Explain a CODE of validate or of a failed call; without one, list them all.

    Example: covalt-git explain CG201
    """
    if markdown:
        click.echo(problems_page(), nl=False)
    elif code is None:
        what = titles() | {entry.code: entry.what for entry in call_codes().values()}
        print_json([{"code": problem_code, "title": title} for problem_code, title in what.items()])
        output.table([*what.items()], titles=("code", "what"))
    elif (of_call := call_code(code)) is not None:
        # `how_to_mend` is a serialized name, so it keeps the word of earlier versions.
        facts = {"code": of_call.code, "title": of_call.what, "how_to_mend": of_call.how_to_fix}
        print_json(facts)
        click.echo(f"{of_call.code}: {of_call.what}\nHow to fix: {of_call.how_to_fix}")
    else:
        explained = explanation(code)
        names = ("what", "why", "how_to_mend")
        sections = dict(zip(names, explained.sections.values(), strict=True))
        print_json({"code": explained.code, "title": explained.title, **sections})
        click.echo(explained.markdown, nl=False)
