"""What our pages are given from elsewhere: unchanged since it was built, licensed, and all here."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import covalt_server

SERVER = Path(covalt_server.__file__).parent
STATIC = SERVER / "static"
VENDOR = STATIC / "vendor"
ROOT = Path(__file__).parents[2]
FRONTEND = ROOT / "frontend"
VENDORED: dict[str, Any] = json.loads((VENDOR / "VENDORED.json").read_text("utf-8"))

# Names of things, which no browser asks for.
NAMES = {
    "http://www.w3.org/1998/Math/MathML",
    "http://www.w3.org/1999/xhtml",
    "http://www.w3.org/1999/xlink",
    "http://www.w3.org/2000/svg",
}
ADDRESS = re.compile(r"(?:https?:)?//[\w-]+(?:\.[\w-]+)+[\w./-]*")


def test_every_file_is_the_one_that_was_built() -> None:
    found = {path.name for path in VENDOR.iterdir()}

    assert found == {*VENDORED, "VENDORED.json"}
    for name, facts in VENDORED.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == facts["sha256"], (
            f"{name} is not what frontend/build.sh made"
        )


def test_every_package_has_a_version_a_licence_and_its_text() -> None:
    texts = (VENDOR / "LICENSES.txt").read_text("utf-8")
    held = re.split(r"\n-{80}\n\n", texts)
    names = {name for text in held for name in text.partition("\n\n")[0].split("\n")}

    packages = [package for facts in VENDORED.values() for package in facts["packages"]]
    assert {package["name"] for package in packages} == names
    assert {package["licence"] for package in packages} == {"MIT", "BSD-0-Clause"}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", package["version"]) for package in packages)
    assert all("Permission" in text for text in held)


def test_the_lock_names_the_versions_that_are_here_and_no_address() -> None:
    text = (FRONTEND / "package-lock.json").read_text("utf-8")
    locked = json.loads(text)["packages"]

    packages = [package for facts in VENDORED.values() for package in facts["packages"]]
    assert {
        package["name"]: locked[f"node_modules/{package['name']}"]["version"]
        for package in packages
    } == {package["name"]: package["version"] for package in packages}
    assert "resolved" not in text
    assert "://" not in text


def test_npm_is_told_to_write_no_address() -> None:
    lines = (FRONTEND / ".npmrc").read_text("utf-8").splitlines()

    assert "omit-lockfile-registry-resolved=true" in lines
    assert not [line for line in lines if "://" in line or line.startswith("registry")]


def test_what_npm_fetches_is_not_checked_in() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout")
    ignored = subprocess.run(
        ["git", "-C", str(ROOT), "check-ignore", "--quiet", "frontend/node_modules/x"], check=False
    )

    assert ignored.returncode == 0


@pytest.mark.parametrize(
    "path",
    sorted(
        path
        for folder in (STATIC, SERVER / "templates")
        for path in folder.rglob("*")
        if path.suffix in {".js", ".css", ".html", ".svg"}
    ),
    ids=lambda path: path.name,
)
def test_no_file_of_our_pages_asks_elsewhere(path: Path) -> None:
    named = set(ADDRESS.findall(path.read_text("utf-8")))

    assert named <= NAMES
    assert "sourceMappingURL" not in path.read_text("utf-8")


def test_an_address_would_be_found() -> None:
    for line in ('import "https://cdn.example.com/x.js"', "url(//fonts.example.com/a.woff2)"):
        assert ADDRESS.search(line)
