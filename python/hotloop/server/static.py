"""The built dashboard: hashed assets for ever, the page for every other address, and a hint where it is not built."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response

from hotloop.server.problems import problem

FOLDER: Final = Path(__file__).parent / "static"
_PAGE: Final = "index.html"
_UNBUILT: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Hotloop</title>
<h1>The API is running; the dashboard is not built</h1>
<p>In a checkout, <code>make dashboard</code> builds it (Node 20 or newer); wheels have it. Then reload this page.</p>
<p>The API is at <a href="/api/rl/status">/api/rl/status</a>, its description at
<a href="/openapi.json">/openapi.json</a>.</p></html>
"""


def serve_static(request: Request, folder: Path = FOLDER) -> Response:
    """The file of the dashboard at an address, or its page."""
    name = request.path_params.get("path", "")
    # Only names that a listing has: nothing that is written in an address reaches the file system.
    files = _listing(folder)
    if (path := files.get(name)) is not None and name != "report.html":
        media = mimetypes.guess_type(name)[0] or "application/octet-stream"
        cache = "public, max-age=31536000, immutable" if name.startswith("assets/") else "no-cache"
        return FileResponse(path, media_type=media, headers={"Cache-Control": cache})
    if name.startswith(("assets/", "api/")) or name == "api":
        return problem(request.scope, 404, f"there is nothing at {request.url.path!r}")
    if (page := files.get(_PAGE)) is not None:
        return FileResponse(page, media_type="text/html", headers={"Cache-Control": "no-cache"})
    return HTMLResponse(_UNBUILT, headers={"Cache-Control": "no-cache"})


def _listing(folder: Path) -> dict[str, Path]:
    """The files of the dashboard by their addresses; links are none."""
    if not folder.is_dir():
        return {}
    return {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
