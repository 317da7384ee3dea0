"""Longer proofs than a test may be: ``make proof``.  Their figures are kept in ``docs/proof.md``."""
