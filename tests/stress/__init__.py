"""Longer proofs than a test may be: ``make stress``.  Their figures are in ``docs/project/stress.md``."""
