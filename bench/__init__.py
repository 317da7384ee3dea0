"""Benchmarks compared with other programs in the same run: ratios, because times differ between machines."""

import os

# An installed program has what Python compiled of it, also in a container where Python may not keep it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
