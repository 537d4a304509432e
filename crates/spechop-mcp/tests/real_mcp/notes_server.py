"""A server of MCP with the official SDK: searches a folder of texts by the words of the query.

Usage: notes_server.py FOLDER [PORT]: over standard input and output, or over streamable HTTP. The texts are
`title.txt`. The same finds come in three forms: `search` has them structured, `search_text` as one text each,
`search_json` as JSON within a text.
"""

import json
import re
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp.types import TextContent, ToolAnnotations

folder = Path(sys.argv[1])
server = MCPServer("notes")
reads = ToolAnnotations(read_only_hint=True)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w{4,}", text.lower()))


def find(query: str, limit: int) -> list[dict]:
    notes = [(path, path.read_text()) for path in sorted(folder.glob("*.txt"))]
    ranked = sorted(notes, key=lambda note: -len(words(query) & words(note[1])))
    return [
        {"id": path.stem.lower(), "title": path.stem, "text": text.strip(), "url": path.as_uri()}
        for path, text in ranked[:limit]
        if words(query) & words(text)
    ]


@server.tool(annotations=reads)
def search(query: str, limit: int = 5) -> list[dict]:
    """Searches the notes."""
    return find(query, limit)


@server.tool(annotations=reads, structured_output=False)
def search_text(query: str) -> list[TextContent]:
    """Searches the notes."""
    return [TextContent(type="text", text=note["text"]) for note in find(query, 5)]


@server.tool(annotations=reads)
def search_json(query: str) -> str:
    """Searches the notes."""
    return json.dumps({"results": find(query, 5)})


@server.tool()
def forget(query: str) -> str:
    """Deletes notes."""
    raise RuntimeError("nobody should call this")


if len(sys.argv) > 2:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
else:
    server.run("stdio")
