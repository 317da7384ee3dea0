"""Server process of a project: pages and git in Flask, and MCP in ASGI, on one uvicorn.

``server`` assembles the apps, ``listen_socket`` binds the port, ``uvicorn_server`` starts and stops,
``router`` forwards requests by their paths, and ``wsgi_bridge`` runs Flask.  Nothing here prints.
"""
