"""What any test may ask for."""

import gc
import os
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from flask import Flask
from playwright.sync_api import Browser, expect, sync_playwright

import covalt_git
from covalt_git.calls.background import BackgroundCalls
from covalt_git.cli import main
from covalt_git.index import database
from covalt_git.trust import trust_folder
from covalt_server.pages import elicitation, index_building
from covalt_server.request_context import open_feed
from tests.api_client import Api, make_project
from tests.browser import launched
from tests.compiled_apps import share
from tests.copied import copied
from tests.examples import examples
from tests.mcp_client import talk
from tests.operations_client import Operations

# A shell that runs the tests behind it has its programs ignore Ctrl-C, and they hand that on to
# what they start: the tests press Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Each import makes the collector look at all that was imported before, which is a fourth of the collection.
gc.disable()

# Git's unused sample hooks are half the files of a small project, and projects are copied.
os.environ["GIT_TEMPLATE_DIR"] = ""

# No test cuts the power: what a killed process wrote is in the cache of the kernel.  A fifth of the run would wait for
# the disk.  Programs that tests start flush as for users; `make stress` cuts the power (tests/stress/power_cuts.py).
os.fsync = os.fdatasync = lambda fd: None  # noqa: ARG005 - as the type checker compares the names
database.SYNCHRONOUS = "OFF"

# Most tests write grants and rules as files, as a user who trusts every project on the machine.  Each process of
# pytest has a configuration folder of its own, so that no test reads or changes the configuration of the developer.
_CONFIG = tempfile.TemporaryDirectory(prefix="covalt-config-")
os.environ["XDG_CONFIG_HOME"] = _CONFIG.name
_CACHE = tempfile.TemporaryDirectory(prefix="covalt-git-tests-cache-")
os.environ["XDG_CACHE_HOME"] = _CACHE.name
trust_folder(Path("/"))

share()

# How fast this machine makes examples is no fact about us.
slow = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile(
    "covalt", max_examples=examples(60), deadline=None, suppress_health_check=slow
)
hypothesis.settings.load_profile("covalt")


# On a machine that does other work, a page may need longer than the 5 s that playwright waits.
expect.set_options(timeout=20_000)

SLOW = Path(__file__).with_name("slow.txt")
SLOW_S = 0.4
took: defaultdict[str, float] = defaultdict(float)
"""Seconds of each test function, with all its parameters."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that rewrite expected outputs, such as those of fixtures/cli, and the list of slow tests."""
    parser.addoption("--update-golden", action="store_true", help="write expected.txt anew")
    parser.addoption("--update-slow", action="store_true", help="update tests/slow.txt")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use a browser, and those that are slow."""
    slow = set(SLOW.read_text(encoding="utf-8").splitlines())
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker("slow")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the time of a test to that of its function."""
    if not {"browser", "servers"} & report.keywords.keys():
        took[report.nodeid.partition("[")[0]] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Update the tests that ran in the list of slow tests, if it was asked for."""
    if session.config.option.update_slow and not hasattr(session.config, "workerinput"):
        others = set(SLOW.read_text(encoding="utf-8").splitlines()) - took.keys()
        slow = others | {name for name in took if took[name] > SLOW_S}
        SLOW.write_text("".join(f"{name}\n" for name in sorted(slow)), encoding="utf-8")


def pytest_collection_finish() -> None:
    """Have garbage collection skip what was imported and collected: it would take a tenth of the run.

    After every 700 new objects, as by default, it takes a tenth of what is left.
    """
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _no_page_says_that_it_waits() -> None:
    """On a busy machine, the index and a call may take long; tests of the pages that say so set shorter times."""
    index_building.PATIENCE_S = 60
    elicitation.WAIT_S = 60


@pytest.fixture(scope="module", autouse=True)
def _connections_end() -> Iterator[None]:
    """Have no module leave a thread to the next: a process that has threads does not fork."""
    yield
    if (live := sys.modules.get("covalt_git.connections.pool")) is not None:
        live.CONNECTIONS.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Headless Chromium, started once a module: while it runs, this process has an event loop."""
    with sync_playwright() as driver, launched(driver) as browser:
        yield browser


@pytest.fixture(scope="session")
def sample_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a project with the sample toolsets and no chat; not to be changed."""
    return make_project(tmp_path_factory.mktemp("sample") / "project")


@pytest.fixture
def root(sample_project: Path, tmp_path: Path) -> Path:
    """The folder of a project of this test's own; a module that wants other content overrides it."""
    return copied(sample_project, tmp_path / "project")


@pytest.fixture
def project(root: Path) -> Iterator[covalt_git.Project]:
    """The project in ``root``, opened with the Python API."""
    with covalt_git.open_project(root) as opened:
        yield opened


@pytest.fixture
def operate(root: Path) -> Operations:
    """The operations on the project, performed in this process."""
    return Operations(root)


@pytest.fixture
def chat(project: covalt_git.Project) -> covalt_git.Chat:
    """A new chat, c1, of the project."""
    return project.create_chat("c1", title="A chat")


@pytest.fixture
def cli(root: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run a command in the project, in this process; return its exit status and all it printed."""

    def run(*args: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["-C", str(root), *args])
        assert isinstance(ended.value.code, int)
        printed = capsys.readouterr()
        return ended.value.code, printed.out + printed.err

    return run


@pytest.fixture(scope="session")
def sample_app(sample_project: Path) -> Flask:
    """The app of a project without roles; its two hundred routes take 40 ms to make."""
    return Api.of(sample_project).app


@pytest.fixture
def app(root: Path, sample_app: Flask) -> Flask:
    """The app of the project."""
    sample_app.config.update(
        COVALT_ROOT=root, COVALT_STREAMS=BackgroundCalls(), COVALT_FEED=open_feed(root, None)
    )
    return sample_app


@pytest.fixture
def api(root: Path, app: Flask) -> Api:
    """The HTTP API of the project, with one chat, c1, in which nothing has happened."""
    made = Api(root, app)
    made.post("create_chat", chat_id="c1", title="A chat")
    return made


@pytest.fixture
def mcp(root: Path) -> partial[Any]:
    """Talk to an MCP server of the project: ``mcp(say)`` returns what ``await say(client)`` returns."""
    return partial(talk, root)
