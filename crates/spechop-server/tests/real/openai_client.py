"""The unmodified client of OpenAI for Python, against our server.

    openai_client.py BASE_URL QUESTION

Prints one JSON object: what it was told.
"""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
messages = [{"role": "user", "content": sys.argv[2]}]


def asked(**fields):
    return client.chat.completions.create(**({"model": "spechop-k1", "messages": messages} | fields))


def refused(**fields):
    try:
        asked(**fields)
    except openai.APIStatusError as error:
        return {"status": error.status_code, "param": error.param, "code": error.code, "kind": type(error).__name__}
    return {"status": 200}


whole = asked()
message = whole.choices[0].message
chunks = list(asked(stream=True, stream_options={"include_usage": True}))
deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
wide = asked(extra_body={"spechop": {"k": 2, "hop_budget": 1}})
image = [{"type": "image_url", "image_url": {"url": "https://a.example/"}}]

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
    "refused": {
        "tools": refused(tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]),
        "n": refused(n=2),
        "image": refused(messages=[{"role": "user", "content": image}]),
        "option": refused(extra_body={"spechop": {"kk": 2}}),
        "k": refused(extra_body={"spechop": {"k": 9999}}),
        "model": refused(model="gpt"),
    },
}))
