"""The program that runs one Python tool once: the other side of :mod:`covalt_git.runtime.python_tool`.

It is started as a script in an isolated interpreter and imports nothing of ``covalt_git``.  It reads
one JSON request from a pipe, imports the tool, checks the arguments, calls the function and writes one
JSON answer to another pipe.  What the tool prints goes to the standard streams, never into the answer.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import traceback
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import covalt_toolset

if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_MIB = 1 << 20


def main() -> None:
    """Answer the request whose pipe ends are the first two arguments; the third is the parent."""
    request_end, answer_end = int(sys.argv[1]), int(sys.argv[2])
    _die_with_parent(int(sys.argv[3]))
    own = os.getpid()
    with open(request_end, "rb") as pipe:
        request = json.load(pipe)
    os.set_inheritable(answer_end, False)
    _set_limits(request["limits"])
    answer = _answer(request)
    if os.getpid() != own:
        os._exit(0)  # a fork that the tool let run on: only the process that was asked answers
    with contextlib.suppress(Exception):  # whatever the tool put in the place of its streams
        sys.stdout.flush()
        sys.stderr.flush()
    with open(answer_end, "wb") as pipe:
        # Half of a surrogate pair, as in the text of an exception, becomes a question mark.
        pipe.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace"))
    # A tool's threads and exit handlers do not get to hold the call up once it is answered.
    os._exit(0)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    folder = Path(request["toolset_dir"])
    try:
        function = _load(folder, request["module"], request["function"])
        description = covalt_toolset.describe(function)
    except BaseException as error:  # noqa: BLE001 - whatever somebody's module raises on import
        return _failure("cannot_load", error, folder)
    if description.requires_confirmation and not request["confirmed"]:
        return {"status": "confirmation"}
    context = covalt_toolset.ToolContext(
        workspace=Path(request["workspace"]),
        chat_id=request["chat_id"],
        toolset_id=request["toolset_id"],
        toolset_dir=folder,
        call_id=request["call_id"],
        message_id=request["message_id"],
    )
    with covalt_toolset.set_context(context):
        return _call(function, request["args"], folder)


def _call(function: Callable[..., object], args: dict[str, Any], folder: Path) -> dict[str, Any]:
    try:
        result = covalt_toolset.invoke(function, args)
    except covalt_toolset.InvalidToolArguments as error:
        if _own_frames(error, folder):  # the tool had begun and raised it itself
            return _failure("tool_raised", error, folder)
        problems = [[problem.path, problem.message] for problem in error.problems]
        return {"status": "invalid_arguments", "problems": problems}
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt of a tool too
        return _failure("tool_raised", error, folder)
    try:
        return {"status": "success", "result": covalt_toolset.to_json(result)}
    except covalt_toolset.ResultNotJson as error:
        return {"status": "error", "code": "result_not_json", "message": str(error)}
    except BaseException as error:  # noqa: BLE001 - a value's own methods ran
        return _failure("result_not_json", error, folder)


def _load(folder: Path, module: str, function: str) -> Callable[..., object]:
    """Import the entrypoint so that the toolset's own packages win over installed ones of a name."""
    sys.path.append(str(folder))
    top = module.partition(".")[0]
    spec = PathFinder.find_spec(top, [str(folder)])
    if spec is not None:
        package = module_from_spec(spec)
        sys.modules[top] = package
        if spec.loader is not None:
            spec.loader.exec_module(package)
        else:
            # A folder without an __init__.py: Python would look for others of its name as well.
            package.__path__ = [str(folder / top)]
    found = getattr(importlib.import_module(module), function)
    if not callable(found):
        raise TypeError(f"{module}:{function} is not a function")
    return cast("Callable[..., object]", found)


def _failure(code: str, error: BaseException, folder: Path) -> dict[str, Any]:
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an exception's own __str__ ran
        text = "(its text cannot be shown)"
    return {
        "status": "error",
        "code": code,
        "message": f"{kind}: {text}" if text else kind,
        "traceback": "\n".join(_own_frames(error, folder)),
    }


def _own_frames(error: BaseException, folder: Path) -> list[str]:
    """Return the lines of the traceback that lie in the toolset, innermost last."""
    lines = []
    for frame in traceback.extract_tb(error.__traceback__):
        with contextlib.suppress(ValueError):
            path = Path(frame.filename).relative_to(folder)
            lines.append(f"{path}:{frame.lineno} in {frame.name}: {frame.line or ''}".rstrip(": "))
    return lines


def _set_limits(limits: dict[str, Any]) -> None:
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_AS: limits.get("memory_mb") and limits["memory_mb"] * _MIB,
        resource.RLIMIT_FSIZE: limits.get("written_mb") and limits["written_mb"] * _MIB,
        resource.RLIMIT_CPU: limits.get("cpu_s") and max(1, round(limits["cpu_s"])),
    }
    if sys.platform == "darwin":
        del wanted[resource.RLIMIT_AS]  # macOS does not hold it, and may refuse to set it
    for kind, value in wanted.items():
        if value is not None:
            _, hard = resource.getrlimit(kind)
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (most, hard))
    if hasattr(signal, "SIGXFSZ"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit raises instead


def _die_with_parent(parent: int) -> None:
    """Ask the kernel to end this process when its parent ends, however that ends."""
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - Linux only

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    main()
