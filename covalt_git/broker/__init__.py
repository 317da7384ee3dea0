"""Broker that the nodes of a project share: Redis for messages and short-lived state, Celery for the queue of calls.

Only this package imports redis and celery, which the extra ``scale`` installs, and only when a broker is used.
"""
