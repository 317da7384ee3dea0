"""Program that writes the files of packages of PyPI's simple index (PEP 503 and PEP 691) as JSON.

It runs in the sandbox, with the standard library only.  Its input, as an argument, has the URLs of indexes,
the names of packages, and the file to write to.
"""

from __future__ import annotations

import base64
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

_ACCEPTED = "application/vnd.pypi.simple.v1+json, text/html;q=0.2"
_THREADS = 8
_TIMEOUT_S = 60


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]


def files(index: str, name: str) -> list[dict[str, Any]]:
    """Return the files of a package of an index: name, origin of the URL, and SHA-256; empty without the package."""
    parts = urllib.parse.urlsplit(f"{index.rstrip('/')}/{name}/")
    headers = {"Accept": _ACCEPTED}
    if parts.username is not None:
        user = (
            f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        )
        headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    try:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - only http and https come here
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - as above
            content, kind = answer.read(), answer.headers.get_content_type()
            url = answer.geturl()
    except urllib.error.HTTPError as error:
        if error.code == 404:  # noqa: PLR2004 - Not Found
            return []
        raise
    if kind.endswith("json"):
        listed = [
            (entry["url"], entry.get("hashes", {}).get("sha256"))
            for entry in json.loads(content)["files"]
        ]
    else:
        parser = _Links()
        parser.feed(content.decode("utf-8", "replace"))
        listed = [(link, None) for link in parser.links]
    result = []
    for link, sha256 in listed:
        target = urllib.parse.urlsplit(urllib.parse.urljoin(url, link))
        result.append(
            {
                "file": urllib.parse.unquote(target.path.rpartition("/")[2]),
                "origin": f"{target.scheme}://{target.netloc.rpartition('@')[2]}",
                "sha256": sha256 or dict(urllib.parse.parse_qsl(target.fragment)).get("sha256"),
            }
        )
    return result


def main() -> None:
    """Write the files of each package."""
    request = json.loads(sys.argv[1])
    pairs = [(index, name) for name in request["names"] for index in request["indexes"]]
    with ThreadPoolExecutor(_THREADS) as threads:
        listed = list(threads.map(lambda pair: files(*pair), pairs))
    by_name: dict[str, list[dict[str, Any]]] = {}
    for (_, name), listing in zip(pairs, listed, strict=True):
        by_name.setdefault(name, []).extend(listing)
    Path(request["to"]).write_text(json.dumps(by_name), encoding="utf-8")


if __name__ == "__main__":
    main()
