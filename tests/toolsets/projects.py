"""Small projects on disk: from the cases of ``fixtures/invalid``, or from a few texts."""

import shutil
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SHARED = REPOSITORY.parent / "shared"
CASES = REPOSITORY / "fixtures" / "invalid"
HELLO = REPOSITORY / "fixtures" / "toolsets" / "hello"

MANIFEST = (HELLO / "toolset.yaml").read_text(encoding="utf-8")
HEAD = MANIFEST.partition("\ntools:")[0]
"""The manifest of ``hello`` without its tools."""


ELSEWHERE = {"covalt.yaml", "state.yaml", "toolsets"}
"""Parts of a case that are no part of the toolset ``hello``."""


def put(root: Path, path: str, text: str) -> None:
    """Write a file below ``toolsets``."""
    file = root / "toolsets" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def put_case(case: Path, root: Path) -> None:
    """Make the project of a case, as fixtures/invalid/README.md says."""
    toolset = root / "toolsets" / "hello"
    (root / "toolsets").mkdir(parents=True)
    (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    parts = sorted(part for part in case.iterdir() if part.name != "expected.txt")
    if any(part.name not in ELSEWHERE for part in parts):
        shutil.copytree(HELLO / "tools", toolset / "tools")
    for part in parts:
        if part.name == "covalt.yaml":
            shutil.copy(part, root)
        elif part.name == "state.yaml":
            (root / "toolsets" / "state").mkdir()
            shutil.copy(part, root / "toolsets" / "state" / "hello.yaml")
        elif part.name == "toolsets":
            shutil.copytree(part, root / "toolsets", symlinks=True, dirs_exist_ok=True)
        elif part.is_dir():
            shutil.copytree(part, toolset / part.name, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy(part, toolset / part.name)


def put_hello(root: Path, manifest: str | bytes = MANIFEST) -> Path:
    """Make a project whose toolset ``hello`` has that manifest; return the toolset's folder."""
    toolset = root / "toolsets" / "hello"
    shutil.copytree(HELLO, toolset)
    (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    content = manifest if isinstance(manifest, bytes) else manifest.encode()
    (toolset / "toolset.yaml").write_bytes(content)
    return toolset
