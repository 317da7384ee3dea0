"""Measurements beside others, in one run: ratios and not times, for no machine is like the next."""

import os

# An installed program has what Python compiled of it, also in a container where Python may not keep it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
