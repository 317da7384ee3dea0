"""Vendored files of our pages: unchanged since they were built, licensed, and complete."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

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


def test_every_file_is_unchanged_since_its_build() -> None:
    found = {path.name for path in VENDOR.iterdir()}

    assert found == {*VENDORED, "VENDORED.json"}
    for name, facts in VENDORED.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == facts["sha256"], (
            f"{name} is not what frontend/build.sh made"
        )


def test_every_package_has_a_version_and_a_licence() -> None:
    texts = (VENDOR / "LICENSES.txt").read_text("utf-8")
    held = re.split(r"\n-{80}\n\n", texts)
    names = {name for text in held for name in text.partition("\n\n")[0].split("\n")}

    packages = [package for facts in VENDORED.values() for package in facts["packages"]]
    assert {package["name"] for package in packages} == names
    assert {package["licence"] for package in packages} == {"MIT", "BSD-0-Clause"}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", package["version"]) for package in packages)
    assert all("Permission" in text for text in held)


def test_the_lock_has_the_vendored_versions_and_no_url() -> None:
    text = (FRONTEND / "package-lock.json").read_text("utf-8")
    locked = json.loads(text)["packages"]

    packages = [package for facts in VENDORED.values() for package in facts["packages"]]
    assert {
        package["name"]: locked[f"node_modules/{package['name']}"]["version"]
        for package in packages
    } == {package["name"]: package["version"] for package in packages}
    assert "resolved" not in text
    assert "://" not in text
    npmrc = (FRONTEND / ".npmrc").read_text("utf-8").splitlines()
    assert "omit-lockfile-registry-resolved=true" in npmrc
    assert not [line for line in npmrc if "://" in line or line.startswith("registry")]


def test_no_file_of_our_pages_loads_from_elsewhere() -> None:
    files = [
        path
        for folder in (STATIC, SERVER / "templates")
        for path in folder.rglob("*")
        if path.suffix in {".js", ".css", ".html", ".svg"}
    ]
    for path in files:
        text = path.read_text("utf-8")
        assert {*ADDRESS.findall(text)} <= NAMES, path
        assert "sourceMappingURL" not in text, path
    for line in ('import "https://cdn.example.com/x.js"', "url(//fonts.example.com/a.woff2)"):
        assert ADDRESS.search(line)
