"""The unmodified client of OpenAI for Python, against our server.

    openai_client.py BASE_URL BROKEN_BASE_URL QUESTION

Prints one JSON object: what it was told. openai_client.mjs prints the same of the client for Node.
"""

import json
import sys

import openai

base_url, broken_url, question = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key="none", max_retries=0)
broken = openai.OpenAI(base_url=broken_url, api_key="none", max_retries=0)
messages = [{"role": "user", "content": question}]
texts = ["The Seine flows through Paris.", "Solaris is a film of 1972."]


def asked(**fields):
    return client.chat.completions.create(**({"model": "spechop-k1", "messages": messages} | fields))


def embedded(**fields):
    return client.embeddings.create(**({"model": "spechop-passage", "input": texts} | fields))


def refused(call=asked, **fields):
    try:
        call(**fields)
    except openai.APIStatusError as error:
        return {"status": error.status_code, "param": error.param, "code": error.code}
    return {"status": 200}


def cut_off():
    """What is heard of a question that fails after its first hop."""
    heard = []
    try:
        for chunk in broken.chat.completions.create(model="spechop-k1", messages=messages, stream=True):
            heard.append(getattr(chunk.choices[0].delta, "reasoning_content", None) or "")
    except openai.APIError as error:
        return {"reasoning": "".join(heard), "code": error.code, "type": error.type}
    return {"reasoning": "".join(heard)}


whole = asked()
message = whole.choices[0].message
chunks = list(asked(stream=True, stream_options={"include_usage": True}))
deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
wide = asked(extra_body={"spechop": {"options": {"k": 2, "hop_budget": 1}}})
image = [{"type": "image_url", "image_url": {"url": "https://a.example/"}}]
tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
passages = embedded()

print(json.dumps({
    "models": [model.id for model in client.models.list()],
    "model": client.models.retrieve("spechop-auto").id,
    "content": message.content,
    "reasoning": message.reasoning_content,
    "annotations": [annotation.model_dump() for annotation in message.annotations],
    "finish_reason": whole.choices[0].finish_reason,
    "tokens": whole.usage.total_tokens,
    "streamed": {
        "content": "".join(delta.content or "" for delta in deltas),
        "reasoning": "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas),
        "finish_reasons": [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1],
        "usage": chunks[-1].usage.total_tokens,
        "choices_at_the_end": len(chunks[-1].choices),
    },
    "one hop": wide.choices[0].message.reasoning_content.count("\n"),
    "cut off": cut_off(),
    "embeddings": {
        "texts": texts,
        "model": passages.model,
        "tokens": passages.usage.total_tokens,
        "passages": [item.embedding for item in passages.data],
        "floats": embedded(encoding_format="float").data[1].embedding,
        "query": embedded(model="spechop-query", input=texts[0]).data[0].embedding,
        "as query": embedded(input=texts[0], extra_body={"spechop": {"as": "query"}}).data[0].embedding,
    },
    "refused": {
        "offered tools": refused(tools=tools),
        "tools": refused(tools=tools, tool_choice="required"),
        "n": refused(n=2),
        "image": refused(messages=[{"role": "user", "content": image}]),
        "option": refused(extra_body={"spechop": {"options": {"kk": 2}}}),
        "k": refused(extra_body={"spechop": {"options": {"k": 9999}}}),
        "model": refused(model="gpt"),
        "input": refused(embedded, input=[]),
        "dimensions": refused(embedded, dimensions=7),
        "embedding model": refused(embedded, model="spechop-k1"),
    },
}))
