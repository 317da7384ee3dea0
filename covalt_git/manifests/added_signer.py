"""Edit of a hand-written ``covalt.yaml`` that adds a signer.

Comments and layout stay.  Before the file is written, the new text is parsed, and must have the old data and
the new line.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from covalt_git import yaml_text
from covalt_git.errors import CovaltError
from covalt_git.json_values.difference import same
from covalt_git.manifests.project_config import read_config
from covalt_git.manifests.project_root import CONFIG
from covalt_git.system import atomic_write
from covalt_git.system.node_folder import check_changeable

if TYPE_CHECKING:
    from pathlib import Path

_MARK = "\ufeff"


def add_signer(root: Path, line: str, reason: str | None = None) -> None:
    """Add a line of OpenSSH's allowed-signers format to ``signers``, and the ``reason`` of a script as a comment.

    Raises:
        BrokenConfigError: when ``covalt.yaml`` has errors.
        CovaltError: ``config_not_editable``, when it has to be edited by hand.
    """
    check_changeable(root)
    read_config(root)
    file = root / CONFIG
    content = file.read_bytes()
    document = yaml_text.load(content, CONFIG)
    # The loader removes the byte order mark, and an edit must change nothing but its line.
    mark = _MARK if content.startswith(_MARK.encode()) else ""
    text = mark + _with_signer(document, line, reason)
    expected = document.data | {"signers": [*document.data.get("signers", ()), line]}
    try:
        added = same(yaml_text.load(text.encode(), CONFIG).data, expected)
    except yaml_text.YamlProblems:
        added = False
    if not added or file.is_symlink():  # the file that a link leads to is not this project's
        raise CovaltError(
            f"{CONFIG} cannot be edited safely, and was left as it is",
            hint=f"add to signers in {CONFIG}: - {line}",
            code="config_not_editable",
            http_status=409,
        )
    atomic_write.replace(file, text)


def _with_signer(document: yaml_text.YamlDocument, line: str, reason: str | None) -> str:
    item = yaml_text.dump([line])
    if reason is not None:
        # As JSON in ASCII: a line break would end the comment, and the rest of the reason would be YAML.
        item = f"{item.rstrip()}  # added without a terminal: {json.dumps(reason)}\n"
    signers = document.data.get("signers")
    if not signers:
        return f"{document.text.rstrip()}\n\nsigners:\n  {item}"
    last = document.offset(("signers", len(signers) - 1))
    start = document.text.rfind("\n", 0, last) + 1
    end = document.text.find("\n", last) + 1
    indent = document.text[start:last].partition("-")[0]
    return f"{document.text[:end]}{indent}{item}{document.text[end:]}"
