"""Longer proofs than a test may be: ``make stress``.  Their figures are kept in ``docs/stress.md``."""
