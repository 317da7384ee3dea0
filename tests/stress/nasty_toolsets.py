"""Corrupt toolsets: the cases of ``fixtures/invalid``, and valid ones with parts removed.

Every Python file of them leaves a file behind if a line of it is run.
"""

import os
from pathlib import Path
from random import Random

REPOSITORY = Path(__file__).parents[2]
SHARED_YAML = REPOSITORY.parent / "shared" / "data" / "yaml" / "nasty-handwritten"
TRAP = "open('/tmp/covalt-git-was-run', 'w')\n"
"""Put before all Python, it would leave a file if it ran; it does not change what the rest is."""

PIECES = (
    *(b"", b"\n", b"\t", b"\0", b"\xff", b"\xef\xbb\xbf", b"\r", "\u202e\u200b".encode()),
    *(b"&a [*a]", b"<<: *a\n", b"!!python/object/apply:os.system [id]", b"---\n", b"%TAG ! x\n"),
    *(b"{" * 70, b"[" * 70, b"? ", b"- ", b": ", b"'", b'"', b"|", b">", b"#", b"*x", b"`"),
    *(b"<<<<<<< a\n=======\n>>>>>>> b\n", b"9" * 400, b"0x" + b"f" * 400, b"1e999", b".nan", b"~"),
    *(b"$args.x.y", b"${args.x}", b"${", b"${SECRET}", b"$return", b"{+x}", b"../../../etc/passwd"),
    *(
        b"os:system",
        b"https://a@b:c/",
        b"$ref: https://example.com/a.json\n",
        b"(a+)+$",
        b"</script>",
    ),
    *(b"api_key: ", b"-----BEGIN PRIVATE KEY-----", b"token=", b"ghp_", b"@", b"\\u202e", b"\\x"),
    *(b"import os\n", b"def f(x: 'f(' = 1, *, y): ...\n", b"class A(A): ...\n", b"f'{f\"{0}\"}'"),
)


def sources() -> list[tuple[str, bytes]]:
    """Return the files to begin with: name within a toolset and content, sorted."""
    found = []
    for folder in sorted((REPOSITORY / "toolsets").iterdir()):
        found += _files(folder)
    for case in sorted((REPOSITORY / "fixtures" / "invalid").iterdir()):
        found += _files(case)
    if SHARED_YAML.is_dir():
        found += [("toolset.yaml", file.read_bytes()) for file in sorted(SHARED_YAML.iterdir())]
    return found


def _files(folder: Path) -> list[tuple[str, bytes]]:
    return [
        (path.relative_to(folder).as_posix(), path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.suffix in {".yaml", ".py", ".html", ".json"}
        and len(path.relative_to(folder).parts) <= 2
    ]


def torn(random: Random, content: bytes, others: list[tuple[str, bytes]]) -> bytes:
    """Return ``content`` with a few pieces taken out, doubled, put elsewhere or replaced."""
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        start = random.randrange(len(content) + 1)
        end = min(len(content), start + random.choice((0, 1, 3, 20, 200)))
        kind = random.randrange(4)
        piece = random.choice(PIECES)
        if kind == 1:
            piece = content[start:end] * random.choice((2, 3, 50))
        elif kind == 2:
            other = random.choice(others)[1]
            at = random.randrange(len(other) + 1)
            piece = other[at : at + random.choice((5, 50, 500))]
        content = content[:start] + piece + content[end:]
    return content


def put_toolset(folder: Path, random: Random, files: list[tuple[str, bytes]]) -> None:
    """Write one nasty toolset: a few torn files, now and then with a pipe or a link among them."""
    folder.mkdir(parents=True)
    manifests = [one for one in files if one[0] == "toolset.yaml"]
    chosen = [random.choice(manifests), *random.sample(files, 3)]
    for name, content in chosen:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = torn(random, content, files)
        path.write_bytes(TRAP.encode() + text if path.suffix == ".py" else text)
    odd = random.randrange(20)
    if odd == 0:
        os.mkfifo(folder / "pipe.py")
    elif odd == 1:
        (folder / "link.yaml").symlink_to("/etc/passwd")
    elif odd == 2:
        (folder / "loop").symlink_to(folder)
