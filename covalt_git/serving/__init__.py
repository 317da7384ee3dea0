"""The one process that serves a project: Flask's pages on uvicorn, with places for other faces.

``server`` puts it together, ``listening`` finds the port, ``uvicorn_server`` starts and stops,
``places`` tells requests apart by their paths, and ``wsgi_bridge`` runs Flask.  What is said to the
person who started it is the command line's.
"""
