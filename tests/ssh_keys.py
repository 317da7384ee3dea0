"""Keys that ssh-keygen made, and signatures of them."""

import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.browser import missing


@dataclass(frozen=True)
class Key:
    """One key pair: the file of its private half, and its public half as two words."""

    file: Path
    public: str

    @cached_property
    def fingerprint(self) -> str:
        said = subprocess.run(
            ["ssh-keygen", "-lf", self.file], capture_output=True, text=True, check=True
        )
        return said.stdout.split()[1]

    def allowed(self, principal: str = "ann@example.com", options: str = "") -> str:
        """Return the line that lets its signatures count."""
        return f"{principal} {options}{' ' if options else ''}{self.public}"

    def sign(self, content: bytes, namespace: str = "covalt-git") -> bytes:
        """Return a signature by ssh-keygen, without our code."""
        argv = ["ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", str(self.file)]
        return subprocess.run(argv, input=content, capture_output=True, check=True).stdout


def make_key(folder: Path, name: str, kind: str = "ed25519", passphrase: str = "") -> Key:
    """Make a key pair; without ssh-keygen the test is skipped, and fails in CI."""
    if shutil.which("ssh-keygen") is None:
        missing("ssh-keygen", "apt-get install openssh-client")
    file = folder / name
    size = ["-b", "2048"] if kind == "rsa" else []  # the usual 3072 bits take three times as long
    argv = ["ssh-keygen", "-q", "-t", kind, *size, "-N", passphrase, "-C", name, "-f", str(file)]
    subprocess.run(argv, check=True)
    kind_and_key = file.with_name(f"{name}.pub").read_text(encoding="utf-8").split()[:2]
    return Key(file, " ".join(kind_and_key))
