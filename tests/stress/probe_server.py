"""Server that makes one probe of the sandbox: ``probe_server.py PROBE GROUND``; prints the verdict as JSON.

Standard input is a terminal, and standard error the pipe that shows whether a process stayed behind.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.stress.sandbox_probes import PROBES, Ground


def main() -> None:
    """Make the probe and print its verdict."""
    _, name, described = sys.argv
    fields: dict[str, Any] = {
        key: Path(value) if isinstance(value, str) and key != "token" else value
        for key, value in json.loads(described).items()
    }
    ground = Ground(**fields | {"terminal": 0, "held": 2})
    probe = next(probe for probe in PROBES if probe.name == name)
    try:
        obtained = probe.run(ground)
    except (OSError, MemoryError) as error:
        verdict, said = "refused", f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - a bug of a probe must not look like a refusal
        verdict, said = "broken", f"{type(error).__name__}: {error}"
    else:
        verdict = "refused" if obtained is None else "through"
        said = "got nothing" if obtained is None else obtained
    sys.stdout.write(json.dumps([verdict, said[:200]]) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
