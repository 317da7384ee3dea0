"""Decorators of a toolset: a wrapper that functools.wraps makes keeps the signature; any other may not."""

import re
from pathlib import Path

import pytest

from tests.python_reader.comparison import plain
from tests.python_reader.conftest import Described
from tests.python_reader.test_modules import read

WRAPPERS = """
import functools
from functools import wraps
from collections.abc import Callable
from typing import Any


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    '''Log each call.'''

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def retried(times: int = 3):
    def decorate(f, /):
        @wraps(f)
        async def again(*args, **kwargs):
            return f(*args, **kwargs)
        return again
    return decorate
"""
FUNCTION = """
def f(name: str, size: int = 3) -> list[str]:
    return [name] * size
"""


@pytest.mark.parametrize(
    "head",
    [
        "from tools.wrappers import logged\n@logged",
        "from tools.wrappers import retried\n@retried(times=5)",
        "from covalt_toolset import tool\nimport tools.wrappers as w\n@tool(name='Say')\n@w.logged\n@w.retried()",
        "from covalt_toolset import tool\nfrom .wrappers import *\n@logged\n@tool",
        f"{WRAPPERS}\n@logged",
    ],
)
def test_a_wrapper_by_wraps_keeps_the_signature(
    described: Described, head: str, tmp_path: Path
) -> None:
    files = {"tools/wrappers.py": WRAPPERS, "tools/echo.py": f"{head}{FUNCTION}"}

    found = read(files)

    assert plain([found.input_schema, found.output_schema]) == plain(described(tmp_path, files))
    assert (found.unread, found.requires_confirmation) == ({}, False)
    if "import" in head.partition("\n")[0] and head.startswith("from"):
        assert "tools.wrappers" in found.modules


def test_a_marked_function_in_a_wrapper_still_asks() -> None:
    head = "from covalt_toolset import tool\nfrom tools.wrappers import logged\n@logged\n@tool(requires_confirmation=True)"
    files = {"tools/wrappers.py": WRAPPERS, "tools/echo.py": f"{head}{FUNCTION}"}

    assert read(files).requires_confirmation


@pytest.mark.parametrize(
    "decorator",
    [
        # no functools.wraps, that of something else, or not of the argument
        "def d(f):\n    def w(name: str): return f(name)\n    return w",
        "def d(f):\n    @functools.wraps(print)\n    def w(*a, **k): return f(*a, **k)\n    return w",
        "def d(f):\n    @functools.wraps(f, assigned=(), updated=())\n    def w(*a, **k): return f(*a)\n    return w",
        "from other import wraps\ndef d(f):\n    @wraps(f)\n    def w(*a, **k): return f(*a)\n    return w",
        "def e(functools):\n    def d(f):\n        @functools.wraps(f)\n        def w(*a, **k): return f(*a)\n        return w\n    return d\nd = e(object)",
        "def made(functools):\n    def d(f):\n        @functools.wraps(f)\n        def w(*a, **k): return f(*a)\n        return w\n    return d\ndef d(f): return made(object)(f)",
        # a wrapper whose own parameters have other defaults than those of the function
        "def d(f):\n    @functools.wraps(f)\n    def w(size: int = 9, **k): return f(size=size, **k)\n    return w",
        "def d(f):\n    @functools.wraps(f)\n    def w(*, size=9, **k): return f(size=size, **k)\n    return w",
        "def d(f):\n    @functools.wraps(f)\n    def w(name): return f(name)\n    return w",
        # more than the wrapper
        "def d(f):\n    f = print\n    @functools.wraps(f)\n    def w(*a, **k): return f(*a)\n    return w",
        "def d(f):\n    @functools.wraps(f)\n    def w(*a, **k): return f(*a)\n    del w.__wrapped__\n    return w",
        "def d(f):\n    @functools.wraps(f)\n    def w(*a, **k): return f(*a)\n    return f2",
        "def d(f):\n    @other\n    @functools.wraps(f)\n    def w(*a, **k): return f(*a)\n    return w",
        "def d(f, g=None):\n    @functools.wraps(f)\n    def w(*a, **k): return f(*a)\n    return w",
        "@other\ndef d(f):\n    @functools.wraps(f)\n    def w(*a, **k): return f(*a)\n    return w",
        # another definition may apply
        "if other:\n    def d(f):\n        @functools.wraps(f)\n        def w(*a, **k): return f(*a)\n        return w\nelse:\n    from other import d",
        "if other:\n    def d(f):\n        @functools.wraps(f)\n        def w(*a, **k): return f(*a)\n        return w",
        "class d:\n    def __init__(self, f): self.f = f",
        "from other import d",
    ],
)
def test_any_other_decorator_leaves_the_signature_unread(decorator: str) -> None:
    text = f"import functools\nimport other\n{decorator}\n@d{FUNCTION}"

    found = read({"tools/echo.py": text})

    assert [*found.unread] == [""]
    assert re.fullmatch(r"the signature, which @d in line \d+ may change", found.unread[""])
    assert found.requires_confirmation, "it may apply @tool(requires_confirmation=True)"


def test_a_factory_that_shadows_functools_is_not_read() -> None:
    factory = "def d(functools):\n    def decorate(f):\n        @functools.wraps(f)\n        def w(*a, **k): return f(*a)\n        return w\n    return decorate"
    text = f"import functools\n{factory}\n@d(object){FUNCTION}"

    found = read({"tools/echo.py": text})

    assert found.unread == {"": "the signature, which @d(object) in line 8 may change"}


@pytest.mark.parametrize(
    "body",
    [
        "return f(*a, y=5, **k)",
        "return f('x', *a, **k)",
        "return f(*a)",
        "return f(*a, **{**k, 'size': 5})",
        "k['size'] = 5\n        return f(*a, **k)",
        "k.update(size=5)\n        return f(*a, **k)",
        "k = {}\n        return f(*a, **k)",
        "g = f\n        return g(*a, y=5, **k)",
    ],
)
def test_a_wrapper_that_passes_other_arguments_on_is_reported(body: str) -> None:
    wrapper = (
        f"def d(f):\n    @functools.wraps(f)\n    def w(*a, **k):\n        {body}\n    return w"
    )

    found = read({"tools/echo.py": f"import functools\n{wrapper}\n@d{FUNCTION}"})

    assert [*found.unread] == [""]
    assert re.fullmatch(r"the arguments that @d in line \d+ passes on", found.unread[""])
    assert not found.requires_confirmation


@pytest.mark.parametrize(
    "body",
    [
        "return f(**k)",
        "log(f.__name__, k.get('size'), *a)\n        return f(*a, **k)",
        "return asyncio.to_thread(f, *a, **k)",
        "return retry(lambda: f(*a, **k))",
    ],
)
def test_a_wrapper_that_passes_its_arguments_on_is_read(body: str) -> None:
    wrapper = (
        f"def d(f):\n    @functools.wraps(f)\n    def w(*a, **k):\n        {body}\n    return w"
    )

    assert read({"tools/echo.py": f"import functools\n{wrapper}\n@d{FUNCTION}"}).unread == {}


@pytest.mark.parametrize("head", ["@d", "@tool\n@d", "@d\n@tool", "@made(5)"])
def test_no_call_can_run_what_a_wrapper_without_wraps_makes(head: str) -> None:
    bare = "def d(f):\n    def w(*a, **k): return f(*a, **k)\n    return w\ndef made(n):\n    def d(f):\n        def w(*a, **k): return f(*a, **k)\n        return w\n    return d"
    text = f"from covalt_toolset import tool\n{bare}\n{head}{FUNCTION}"

    found = read({"tools/echo.py": text})

    assert "takes '*a', values without names" in found.defect
    assert found.remedy == "write @functools.wraps above def w"
