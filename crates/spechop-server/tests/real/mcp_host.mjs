// The unmodified MCP client of Vercel's AI SDK, as its hosts use it, against our server.
//
//     NODE_TOOLS=FOLDER node mcp_host.mjs BASE_URL QUESTION
//
// FOLDER has the package. Prints one JSON object: what it was told.

import { createRequire } from "node:module";
import { join } from "node:path";

const { experimental_createMCPClient: connect } = createRequire(join(process.env.NODE_TOOLS, "package.json"))("@ai-sdk/mcp");
const [base, question] = process.argv.slice(2);
const client = await connect({ transport: { type: "http", url: `${base}/mcp` } });
const tools = await client.tools();
const call = (name, input) => tools[name].execute(input, { messages: [], toolCallId: name });
const text = (result) => result.content[0].text;

const searched = JSON.parse(text(await call("search", { query: question })));
const fetched = JSON.parse(text(await call("fetch", { id: searched.results[0].id })));
const asked = await call("ask", { question, k: 2 });
const wrong = await call("ask", { question: "" });
await client.close();
console.log(JSON.stringify({
  tools: Object.keys(tools),
  searched: searched.results,
  fetched,
  answer: text(asked),
  structured: asked.structuredContent,
  wrong: [wrong.isError, text(wrong)],
}));
