"""Problems as workflow commands of GitHub Actions, which shows them at the lines of a pull request.

Commands and escapes follow ``ActionCommand`` in actions/runner and ``@actions/core`` (toolkit,
packages/core/src/command.ts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covalt_git.errors import Problem


def github_command(problem: Problem, prefix: str) -> str:
    """Return a problem as a command; ``prefix`` is the path of the project in the repository."""
    places = {"file": prefix + problem.path}
    if problem.line:
        places |= {"line": str(problem.line), "col": str(problem.col)}
    places["title"] = f"covalt-git {problem.code}"
    properties = ",".join(f"{name}={_property(value)}" for name, value in places.items())
    hint = f"\nhint: {problem.hint}" if problem.hint else ""
    kind = "warning" if problem.severity == "warning" else "error"
    return f"::{kind} {properties}::{_message(f'{problem.code} {problem.message}{hint}')}"


def _message(text: str) -> str:
    # A text of a third-party toolset must not begin a command in a line of its own.  % is first, because the other
    # escapes contain it.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
