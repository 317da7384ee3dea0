"""The tools of my-toolset: notes, one a line of a Markdown list."""

from __future__ import annotations

from covalt_toolset import get_context, tool

NOTES = "notes.md"


# The schema comes from the type hints and the docstring: `covalt-git tool show my-toolset:add_note`.
@tool(name="Add Note")
def add_note(text: str) -> dict[str, str | int]:
    """Write a note below the ones that are there.

    Args:
        text: The note, one line.
    """
    # The context knows the chat: its workspace, its secrets, and who wants to hear of progress.
    file = get_context().path(NOTES)
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    file.write_text(f"{before}- {' '.join(text.split())}\n", encoding="utf-8")
    return {"path": NOTES, "notes": before.count("\n") + 1}


@tool(name="Find Notes")
def find_notes(word: str) -> list[str]:
    """Return the notes that hold a word, whatever its case.

    Args:
        word: What to look for.
    """
    file = get_context().path(NOTES)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [line.removeprefix("- ") for line in lines if word.casefold() in line.casefold()]
