"""Server of a project: pages, an HTTP API and git over HTTP, which call the operations of ``covalt_git``.

:func:`covalt_server.app.create_app` creates the app.
"""
