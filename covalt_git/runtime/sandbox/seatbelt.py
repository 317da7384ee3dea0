"""Seatbelt: macOS's own sandbox, by a profile in its language (SBPL).

There is no test of this level on a Mac behind it yet.  The call is ``sandbox_init_with_parameters``, as
Chromium declares it; paths are parameters, so none is ever part of the profile's text.  The rules
follow the base policies that Chromium and Codex run programs under.
"""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Final

from covalt_git.runtime.sandbox import system_files
from covalt_git.runtime.sandbox.policy import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.runtime.sandbox.policy import Policy

_BASE: Final = """
(version 1)
(deny default)

(allow process-exec process-fork)
(allow process-info* signal (target same-sandbox))
(allow mach-priv-task-port (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))

; Whether a file exists, which every path look-up asks on its way; not what is in it.
(allow file-read-metadata)
(allow file-read* (literal "/"))
(allow file-read*
  (subpath "/usr") (subpath "/bin") (subpath "/sbin") (subpath "/System")
  (subpath "/Library/Apple") (subpath "/Library/Frameworks") (subpath "/opt/homebrew")
  (subpath "/private/var/db/dyld") (subpath "/private/var/db/timezone")
  (subpath "/private/etc/ssl") (literal "/private/etc/localtime")
  (literal "/dev/autofs_nowait"))
(allow file-read* file-write-data
  (literal "/dev/null") (literal "/dev/zero"))
(allow file-read* (literal "/dev/random") (literal "/dev/urandom"))
(allow file-ioctl (literal "/dev/null"))
"""


def profile(policy: Policy) -> tuple[str, Mapping[str, str]]:
    """Return the profile and its parameters.

    What it does not name is denied, the network and every terminal with it.
    """
    rules, parameters = [_BASE], {}
    own = (*system_files.interpreter_paths(), *policy.readable)
    readable = [*own, policy.toolset, policy.workspace, policy.scratch, *policy.writable]
    for number, path in enumerate(readable):
        parameters[f"READABLE_{number}"] = str(path)
        rules.append(f'(allow file-read* (subpath (param "READABLE_{number}")))')
    for number, path in enumerate((policy.scratch, policy.workspace, *policy.writable)):
        parameters[f"WRITABLE_{number}"] = str(path)
        rules.append(f'(allow file-write* (subpath (param "WRITABLE_{number}")))')
    return "\n".join(rules), parameters


def is_here() -> bool:
    return sys.platform == "darwin" and hasattr(_library(), "sandbox_init_with_parameters")


def restrict(policy: Policy) -> None:
    """Hold this process and its children to the profile.

    Raises:
        SandboxError: the system refused the profile.
    """
    text, parameters = profile(policy)
    pairs = [part.encode() for pair in parameters.items() for part in pair]
    array = (ctypes.c_char_p * (len(pairs) + 1))(*pairs, None)
    message = ctypes.c_char_p()
    if _library().sandbox_init_with_parameters(
        text.encode(), ctypes.c_uint64(0), array, ctypes.byref(message)
    ):
        why = (message.value or b"no reason given").decode("utf-8", "replace")
        raise SandboxError("enter Seatbelt", why)


def _library() -> ctypes.CDLL:
    return ctypes.CDLL("/usr/lib/libSystem.B.dylib")
