"""Problems as workflow commands, which GitHub Actions shows at the lines of a pull request.

The commands and their escapes are those of the runner: ``ActionCommand`` in actions/runner, the same
as ``@actions/core`` writes (toolkit, packages/core/src/command.ts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covalt_git.errors import Problem


def github_command(problem: Problem, prefix: str) -> str:
    """Return one problem as a command; ``prefix`` leads from the repository to the project."""
    places = {"file": prefix + problem.path}
    if problem.line:
        places |= {"line": str(problem.line), "col": str(problem.col)}
    places["title"] = f"covalt-git {problem.code}"
    properties = ",".join(f"{name}={_property(value)}" for name, value in places.items())
    hint = f"\nhint: {problem.hint}" if problem.hint else ""
    kind = "warning" if problem.severity == "warning" else "error"
    return f"::{kind} {properties}::{_message(f'{problem.code} {problem.message}{hint}')}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
