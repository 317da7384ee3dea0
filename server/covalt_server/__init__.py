"""The preview server: pages and an HTTP API over the engine of the command line, and nothing else.

:func:`covalt_server.app.create_app` puts it together.
"""
