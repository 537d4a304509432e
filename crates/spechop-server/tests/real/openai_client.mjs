// The unmodified client of OpenAI for Node, against our server.
//
//     NODE_TOOLS=FOLDER node openai_client.mjs BASE_URL BROKEN_BASE_URL QUESTION
//
// FOLDER has the package. Prints one JSON object: what it was told. openai_client.py prints the same of the
// client for Python.

import { createRequire } from "node:module";
import { join } from "node:path";

const { OpenAI } = createRequire(join(process.env.NODE_TOOLS, "package.json"))("openai");
const [baseURL, brokenURL, question] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const broken = new OpenAI({ baseURL: brokenURL, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: question }];
const texts = ["The Seine flows through Paris.", "Solaris is a film of 1972."];

const asked = (fields = {}) => client.chat.completions.create({ model: "spechop-k1", messages, ...fields });
const embedded = (fields = {}) => client.embeddings.create({ model: "spechop-passage", input: texts, ...fields });

async function refused(call, fields) {
  try {
    await call(fields);
  } catch (error) {
    return { status: error.status, param: error.param, code: error.code };
  }
  return { status: 200 };
}

// What is heard of a question that fails after its first hop.
async function cutOff() {
  let reasoning = "";
  try {
    for await (const chunk of await broken.chat.completions.create({ model: "spechop-k1", messages, stream: true })) {
      reasoning += chunk.choices[0].delta.reasoning_content ?? "";
    }
  } catch (error) {
    return { reasoning, code: error.code, type: error.type };
  }
  return { reasoning };
}

const whole = await asked();
const { message, finish_reason } = whole.choices[0];
const chunks = [];
for await (const chunk of await asked({ stream: true, stream_options: { include_usage: true } })) chunks.push(chunk);
const told = chunks.filter((chunk) => chunk.choices.length > 0).map((chunk) => chunk.choices[0]);
const joined = (field) => told.map(({ delta }) => delta[field] ?? "").join("");
const wide = await asked({ spechop: { options: { k: 2, hop_budget: 1 } } });
const image = [{ type: "image_url", image_url: { url: "https://a.example/" } }];
const tools = [{ type: "function", function: { name: "f", parameters: {} } }];
const passages = await embedded();
const models = [];
for await (const model of client.models.list()) models.push(model.id);

console.log(JSON.stringify({
  models,
  model: (await client.models.retrieve("spechop-auto")).id,
  content: message.content,
  reasoning: message.reasoning_content,
  annotations: message.annotations,
  finish_reason,
  tokens: whole.usage.total_tokens,
  streamed: {
    content: joined("content"),
    reasoning: joined("reasoning_content"),
    finish_reasons: told.at(-1).finish_reason,
    usage: chunks.at(-1).usage.total_tokens,
    choices_at_the_end: chunks.at(-1).choices.length,
  },
  "one hop": wide.choices[0].message.reasoning_content.split("\n").length - 1,
  "cut off": await cutOff(),
  embeddings: {
    texts,
    model: passages.model,
    tokens: passages.usage.total_tokens,
    passages: passages.data.map((item) => item.embedding),
    floats: (await embedded({ encoding_format: "float" })).data[1].embedding,
    query: (await embedded({ model: "spechop-query", input: texts[0] })).data[0].embedding,
    "as query": (await embedded({ input: texts[0], spechop: { as: "query" } })).data[0].embedding,
  },
  refused: {
    "offered tools": await refused(asked, { tools }),
    tools: await refused(asked, { tools, tool_choice: "required" }),
    n: await refused(asked, { n: 2 }),
    image: await refused(asked, { messages: [{ role: "user", content: image }] }),
    option: await refused(asked, { spechop: { options: { kk: 2 } } }),
    k: await refused(asked, { spechop: { options: { k: 9999 } } }),
    model: await refused(asked, { model: "gpt" }),
    input: await refused(embedded, { input: [] }),
    dimensions: await refused(embedded, { dimensions: 7 }),
    "embedding model": await refused(embedded, { model: "spechop-k1" }),
  },
}));
