"""Secrets, agent tokens and leaked credentials."""
