"""Build the site of the documents: ``python -m docs.site [FOLDER]``, by default ``build/docs``."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.cmd.build import main

SITE = Path(__file__).parent
OUTPUT = SITE.parents[1] / "build" / "docs"
READY = ".ready"
"""File of the folder whose timestamp is the end of the last build without an error."""


def build(output: Path) -> int:
    """Build the site into a folder, reading changed documents only; return the exit code.

    Each warning is an error, also a reference to a name that does not exist.
    """
    strict = ("--fail-on-warning", "--keep-going", "--nitpicky")
    folders = (str(SITE.parent), str(output), "--doctree-dir", str(output.with_name("doctrees")))
    code = main([*strict, "--quiet", "--jobs", "auto", "--conf-dir", str(SITE), *folders])
    if code == 0:
        (output / READY).touch()
    return code


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]) if sys.argv[1:] else OUTPUT))
