"""The 3.0 form of documents of OpenAPI 2.0, as the npm package ``swagger2openapi`` makes it.

    python -m tests.compilers.openapi_2   # write that of fixtures/openapi/shelter-2.0

The judge of requests (``test_openapi_judge.py``) reads no 2.0, and a conversion of our own would share its mistakes.
``make servers`` installs the package.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

CONVERTER = Path(sys.prefix) / "servers" / "node_modules" / ".bin" / "swagger2openapi"
OWN = Path(__file__).parents[2] / "fixtures/openapi/shelter-2.0/shelter.yaml"
CONVERTED = OWN.with_name("converted-3.0.json")


def converted(document: Any) -> Any:
    """Return the 3.0 form of a document; ``CONVERTER`` must exist."""
    for item in document["paths"].values():
        # The converter drops bodies that a path has for all of its operations.
        shared = [
            parameter
            for parameter in item.get("parameters", ())
            if parameter.get("in") in {"body", "formData"}
        ]
        for method, operation in item.items():
            if method != "parameters":
                operation["parameters"] = [*shared, *operation.get("parameters", ())]
    with TemporaryDirectory() as folder:
        (file := Path(folder, "api.json")).write_text(json.dumps(document), encoding="utf-8")
        # Small errors are repaired, because a reported error would end the conversion.
        command = [str(CONVERTER), "--patch", "--warnOnly", str(file)]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(result.stdout)


if __name__ == "__main__":
    text = json.dumps(converted(yaml.safe_load(OWN.read_text(encoding="utf-8"))), indent=2)
    CONVERTED.write_text(text + "\n", encoding="utf-8")
