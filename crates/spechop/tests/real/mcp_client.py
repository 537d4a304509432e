"""The official SDK as a client of our server: over HTTP with and without the handshake, and over `spechop mcp`.

Usage: mcp_client.py ADDRESS PROGRAM. Prints one JSON object for each of the ways.
"""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

address, program = sys.argv[1:]
url = f"http://{address}/mcp"
over_pipes = StdioServerParameters(command=program, args=["mcp", "--addr", address])


async def told(way: str, server, mode: str) -> dict:
    progress = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        progress.append(message)

    async with Client(server, mode=mode) as client:
        tools = (await client.list_tools()).tools
        found = await client.call_tool("search", {"query": "director of Halcón"})
        results = json.loads(found.content[0].text)["results"]
        fetched = await client.call_tool("fetch", {"id": results[0]["id"]})
        asked = {"question": "Where was the director of Halcón born?"}
        answer = await client.call_tool("ask", asked, progress_callback=note)
        wrong = await client.call_tool("fetch", {"id": "nothing"})
        return {
            "way": way,
            "tools": {tool.name: tool.annotations.read_only_hint for tool in tools},
            "items": [len(found.content), len(fetched.content)],
            "results": results,
            "fetched": json.loads(fetched.content[0].text),
            "answer": answer.content[0].text,
            "structured": answer.structured_content,
            "progress": progress,
            "wrong": [wrong.is_error, wrong.content[0].text],
        }


async def main() -> None:
    for way, server, mode in [
        ("handshake", url, "legacy"),
        ("no handshake", url, "2026-07-28"),
        ("either", url, "auto"),
        ("pipes", stdio_client(over_pipes), "legacy"),
        ("pipes, either", stdio_client(over_pipes), "auto"),
    ]:
        print(json.dumps(await told(way, server, mode)), flush=True)


asyncio.run(main())
