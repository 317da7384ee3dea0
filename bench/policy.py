"""What roles and access tokens cost: the visible tools of a role with many patterns, and the check of a token.

    python -m bench.policy [--rounds N] [--json]

The tools of a role are compared with a loop of compiled ``fnmatch`` patterns, and a token with PyJWT's own ``decode`` with the
same key and the same required claims.  Rounds of both alternate, so that a busy machine is busy for each; the figure is
the ratio of the medians.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from covalt_git.access import Principal, Visibility
from covalt_git.issuers import Verifier
from covalt_git.manifests.project_config import read_config
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Callable

TOOLS = 1_500
PATTERNS = 200
TOKENS = 100
ISSUER, AUDIENCE = "https://id.example.com", "covalt"


class Row(NamedTuple):
    """A row: ours and the other in ms, their ratio, and what it must reach."""

    row: str
    ours_ms: float
    other_ms: float
    figure: float
    must: float


def compare(
    row: str, must: float, rounds: int, ours: Callable[[], Any], other: Callable[[], Any]
) -> Row:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for function, durations in zip((ours, other), times, strict=True):
            begin = time.perf_counter()
            function()
            durations.append((time.perf_counter() - begin) * 1000)
    ours_ms, other_ms = map(statistics.median, times)
    return Row(row, round(ours_ms, 3), round(other_ms, 3), round(ours_ms / other_ms, 3), must)


def visible_tools(rounds: int) -> Row:
    """Return the row of a role that sees about half of the tools."""
    tools = [
        Tool(
            tool_id=f"set-{number // 10}:tool_{number % 10}",
            toolset_id="a",
            name="x",
            input_schema={},
        )
        for number in range(TOOLS)
    ]
    # Of each kind that roles have: whole toolsets, beginnings and ends of names, single tools, and some of any namespace.
    kinds = ("set-{}.*", "set-{}.tool_1*", "set-{}.*_3", "set-{}.tool_5", "set-{}*.tool_2")
    patterns = [
        kinds[4 if number % 10 == 9 else number % 4].format(number) for number in range(PATTERNS)
    ]
    roles = {"agent": {"allow": patterns}}
    config = ProjectConfig.model_validate({"version": 1, "roles": roles})
    visibility = Visibility(config, Principal("agent", "agent"))
    compiled = [re.compile(fnmatch.translate(pattern)) for pattern in patterns]
    paths = [tool.path for tool in tools]

    def ours() -> list[str]:
        return [tool.path for tool in visibility.visible(tools)]

    def other() -> list[str]:
        return [path for path in paths if any(pattern.match(path) for pattern in compiled)]

    assert ours() == other()
    return compare(f"{TOOLS:,} tools, {PATTERNS} patterns", 0.5, rounds, ours, other)


def access_token(rounds: int) -> Row:
    """Return the row of valid ES256 tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = int(time.time())
    claims = {"iss": ISSUER, "sub": "ann", "aud": AUDIENCE, "iat": now, "exp": now + 3600}
    texts = [
        jwt.encode({**claims, "jti": str(number)}, key, "ES256", {"kid": "a"})
        for number in range(TOKENS)
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        entry = {**json.loads(ECAlgorithm.to_jwk(key.public_key())), "kid": "a", "alg": "ES256"}
        (root / "keys.json").write_text(json.dumps({"keys": [entry]}), encoding="utf-8")
        issuers = (
            f"[{{issuer: '{ISSUER}', audience: {AUDIENCE}, jwks_file: keys.json, role: agent}}]"
        )
        (root / "covalt.yaml").write_text(
            f"version: 1\nroles: {{agent: {{allow: ['**']}}}}\nissuers: {issuers}\n",
            encoding="utf-8",
        )
        config, verifier = read_config(root), Verifier(root)
        public = jwt.PyJWK(entry)

        def ours() -> list[str]:
            return [verifier.verify(config, text).subject for text in texts]

        def other() -> list[str]:
            options: Any = {"require": ["exp", "iat", "iss", "sub", "aud"]}
            return [
                jwt.decode(
                    text, public, ["ES256"], options, audience=AUDIENCE, issuer=ISSUER, leeway=60
                )["sub"]
                for text in texts
            ]

        assert ours() == other()
        return compare(f"{TOKENS} access tokens", 1.5, rounds, ours, other)


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--json", action="store_true", dest="as_json")
    args = parser.parse_args()
    rows = [visible_tools(args.rounds), access_token(args.rounds)]
    if args.as_json:
        print(json.dumps([row._asdict() for row in rows]))
        return
    for row in rows:
        print(
            f"{row.row:32} {row.ours_ms:9.3f} ms {row.other_ms:9.3f} ms {row.figure:6.3f} x (at most {row.must})"
        )


if __name__ == "__main__":
    main()
