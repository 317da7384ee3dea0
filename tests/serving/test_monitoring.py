"""Health checks and metrics of a server."""

import http.client
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from covalt_git.errors import CovaltError
from covalt_git.serving.monitoring import METRICS_VARIABLE, Readiness, monitoring
from covalt_git.serving.router import router
from covalt_git.system import metrics
from covalt_git.system.metrics import Counter, Histogram
from tests.uvicorn_server import TOKEN, running_app, served


class Client:
    """A load balancer, or Prometheus."""

    def __init__(self, port: int) -> None:
        self._port = port

    def text(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Return the status and the text of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request("GET", path, headers=dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Return the status and the JSON value of an answer."""
        status, text = self.text(path, headers)
        return status, json.loads(text)


@pytest.fixture(scope="module")
def server(sample_project: Path) -> Iterator[Client]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(METRICS_VARIABLE, "token-for-metrics")
        with served(sample_project) as port:
            yield Client(port)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_load_balancer_learns_without_a_token_that_a_server_is_ready(server: Client) -> None:
    assert server.get("/healthz") == (200, {"alive": True})
    assert server.get("/readyz") == (200, {"ready": True, "not_ready": {}})
    # By its IP address: a load balancer does not know the names of the server.
    assert server.get("/readyz", {"Host": "10.1.2.3"})[0] == 200


@pytest.mark.parametrize("token", ["", "wrong", "TOKEN-FOR-METRICS"])
def test_metrics_need_a_token(server: Client, token: str) -> None:
    status, body = server.get("/metrics", bearer(token))
    assert (status, body["error"]) == (401, "no_token")


@pytest.mark.parametrize("token", [TOKEN, "token-for-metrics"])
def test_the_token_of_the_server_and_the_one_for_metrics_read_them(
    server: Client, token: str
) -> None:
    status, text = server.text("/metrics", bearer(token))
    assert status == 200
    assert "# TYPE covalt_git_calls_total counter\n" in text
    assert "# TYPE covalt_git_refused_pushes_total counter\n" in text


@pytest.mark.parametrize("path", ["/api/list_chats", "/mcp", "/"])
def test_the_token_for_metrics_gives_access_to_nothing_else(server: Client, path: str) -> None:
    assert server.text(path, bearer("token-for-metrics"))[0] in {401, 403}


def test_what_is_not_ready_is_named_and_its_reason_needs_a_token() -> None:
    def fail() -> None:
        raise CovaltError("the queue at redis://10.0.0.5 does not answer")

    readiness = Readiness({"queue": fail, "storage": lambda: None})
    watched = router(monitoring(readiness, token=TOKEN), {})
    with running_app(lambda _: watched) as running:
        app = Client(running.port)
        assert app.get("/readyz") == (503, {"ready": False, "not_ready": {"queue": None}})
        status, body = app.get("/readyz", bearer(TOKEN))
        assert (status, json.dumps(body["not_ready"])) == (
            503,
            '{"queue": "the queue at redis://10.0.0.5 does not answer"}',
        )
        assert app.text("/healthz/other")[0] == 404


def test_checks_run_once_for_many_requests() -> None:
    checks: list[int] = []
    readiness = Readiness({"queue": lambda: checks.append(1)})
    assert [readiness.problems() for _ in range(100)] == [{}] * 100
    assert len(checks) == 1


@pytest.fixture
def _no_other_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_METRICS", [])


@pytest.mark.usefixtures("_no_other_metrics")
def test_metrics_have_the_format_of_prometheus() -> None:
    counter = Counter("a_total", "About a.", ("tool", "status"))
    counter.add('say "hi"\n', "a\\b")
    counter.add("x", "y", amount=2)
    times = Histogram("b_seconds", "About b.", (0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7):
        times.observe(seconds)

    assert metrics.text([("c", "About c.", 3)]) == (
        "# HELP covalt_git_a_total About a.\n"
        "# TYPE covalt_git_a_total counter\n"
        'covalt_git_a_total{tool="say \\"hi\\"\\n",status="a\\\\b"} 1\n'
        'covalt_git_a_total{tool="x",status="y"} 2\n'
        "# HELP covalt_git_b_seconds About b.\n"
        "# TYPE covalt_git_b_seconds histogram\n"
        'covalt_git_b_seconds_bucket{le="0.1"} 2\n'
        'covalt_git_b_seconds_bucket{le="1"} 3\n'
        'covalt_git_b_seconds_bucket{le="+Inf"} 4\n'
        "covalt_git_b_seconds_sum 7.65\n"
        "covalt_git_b_seconds_count 4\n"
        "# HELP covalt_git_c About c.\n"
        "# TYPE covalt_git_c gauge\n"
        "covalt_git_c 3\n"
    )


@pytest.mark.usefixtures("_no_other_metrics")
def test_the_number_of_series_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_SERIES", 2)
    counter = Counter("a_total", "About a.", ("tool",))
    for tool in "abcdab":
        counter.add(tool)
    assert [counter.value(tool) for tool in ("a", "b", "c", "other")] == [2, 2, 0, 2]
