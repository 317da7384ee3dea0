"""The tools of my-toolset: notes in a Markdown list, one a line."""

from __future__ import annotations

from covalt_toolset import get_context, tool

NOTES = "notes.md"


# The schema comes from the type hints and the docstring: `covalt-git tool show my-toolset:add_note`.
@tool(name="Add Note")
def add_note(text: str) -> dict[str, str | int]:
    """Append a note to the list.

    Args:
        text: The note, one line.
    """
    # get_context() has the chat's workspace, the secrets, and progress reports.
    file = get_context().path(NOTES)
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    file.write_text(f"{before}- {' '.join(text.split())}\n", encoding="utf-8")
    return {"path": NOTES, "notes": before.count("\n") + 1}


@tool(name="Find Notes")
def find_notes(word: str) -> list[str]:
    """Return the notes that contain a word, ignoring case.

    Args:
        word: The word to search for.
    """
    file = get_context().path(NOTES)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [line.removeprefix("- ") for line in lines if word.casefold() in line.casefold()]
