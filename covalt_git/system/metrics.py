"""Metrics of this process, in the text format of Prometheus.

Metrics are created where they are counted, and all of them are printed by :func:`text`.  The format is short, so it needs
no library: https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_SERIES = 2000
"""Number of combinations of labels of a metric; further ones are counted as those of the label ``other``."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0)
"""Upper limits of the buckets of times, in seconds."""

_METRICS: list[Counter | Histogram] = []


class _Metric:
    kind = ""

    def __init__(self, name: str, about: str, labels: Iterable[str] = ()) -> None:
        self.name = f"covalt_git_{name}"
        self.about = about
        self.labels = tuple(labels)
        self._lock = threading.Lock()


class Counter(_Metric):
    """Number that only grows."""

    kind = "counter"

    def __init__(self, name: str, about: str, labels: Iterable[str] = ()) -> None:
        super().__init__(name, about, labels)
        self._values: dict[tuple[str, ...], float] = {} if self.labels else {(): 0.0}
        _METRICS.append(self)

    def add(self, *labels: str, amount: float = 1) -> None:
        """Add to the number with these values of the labels."""
        with self._lock:
            key = labels
            if key not in self._values and len(self._values) >= MOST_SERIES:
                key = ("other",) * len(labels)
            self._values[key] = self._values.get(key, 0) + amount

    def value(self, *labels: str) -> float:
        """Return the number."""
        with self._lock:
            return self._values.get(labels, 0)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the metric."""
        with self._lock:
            values = sorted(self._values.items())
        for key, value in values:
            yield f"{self.name}{_labels(self.labels, key)} {_number(value)}"


class Histogram(_Metric):
    """Distribution of times in seconds."""

    kind = "histogram"

    def __init__(self, name: str, about: str, limits: tuple[float, ...] = SECONDS) -> None:
        super().__init__(name, about)
        self._limits = limits
        self._counts = [0] * (len(limits) + 1)
        self._sum = 0.0
        _METRICS.append(self)

    def observe(self, seconds: float) -> None:
        """Add a time."""
        with self._lock:
            self._counts[bisect_left(self._limits, seconds)] += 1
            self._sum += seconds

    def lines(self) -> Iterator[str]:
        """Yield the lines of the metric."""
        with self._lock:
            counts, total = [*self._counts], self._sum
        sum_so_far = 0
        for limit, count in zip((*map(_number, self._limits), "+Inf"), counts, strict=True):
            sum_so_far += count
            yield f'{self.name}_bucket{{le="{limit}"}} {sum_so_far}'
        yield f"{self.name}_sum {_number(total)}"
        yield f"{self.name}_count {sum_so_far}"


def text(gauges: Iterable[tuple[str, str, float]] = ()) -> str:
    """Return all metrics; ``gauges`` are the name, the meaning and the value of numbers that are read now."""
    lines: list[str] = []
    for metric in sorted(_METRICS, key=lambda metric: metric.name):
        lines += [f"# HELP {metric.name} {metric.about}", f"# TYPE {metric.name} {metric.kind}"]
        lines += metric.lines()
    for name, about, value in gauges:
        full = f"covalt_git_{name}"
        lines += [f"# HELP {full} {about}", f"# TYPE {full} gauge", f"{full} {_number(value)}"]
    return "\n".join(lines) + "\n"


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not names:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{','.join(pairs)}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return f"{value:.10g}"
