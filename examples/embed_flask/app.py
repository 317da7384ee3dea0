"""A Flask application with a covalt-git project in it: it lists tools, calls them and shows files.

Run it in a project: ``flask --app app run``.
"""

from __future__ import annotations

from http import HTTPStatus

from flask import Flask, Response, jsonify, request

from covalt_git import CovaltError, Project, open_project


def create_app(project: Project | None = None) -> Flask:
    """Return the application; by default with the project of the current folder."""
    app = Flask(__name__)
    opened = project or open_project()

    @app.get("/tools")
    def tools() -> Response:
        return jsonify([{"id": tool.tool_id, "about": tool.description} for tool in opened.tools])

    @app.post("/chats/<chat_id>/calls/<tool_id>")
    def call(chat_id: str, tool_id: str) -> Response:
        result = opened.chat(chat_id).call(tool_id, request.get_json())
        return jsonify(status=result.status, value=result.value, approval=result.execution_id)

    @app.get("/chats/<chat_id>/files/<path:path>")
    def file(chat_id: str, path: str) -> Response:
        return Response(opened.chat(chat_id).read(path), mimetype="text/plain")

    @app.errorhandler(CovaltError)
    def refused(error: CovaltError) -> tuple[Response, HTTPStatus]:
        is_unknown = error.code.startswith("unknown_")
        status = HTTPStatus.NOT_FOUND if is_unknown else HTTPStatus.BAD_REQUEST
        return jsonify(error=error.code, message=error.message, hint=error.hint), status

    return app
