"""An unmodified gRPC client: what it knows of the server it asks the server, by reflection.

    unmodified_client.py HOST:PORT

Prints one JSON object: what it was told.
"""

import json
import sys

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

QUESTION = "What comes of it?"

# gRPC asks the proxy of the environment even for this machine.
channel = grpc.insecure_channel(sys.argv[1], options=[("grpc.enable_http_proxy", 0)])
database = ProtoReflectionDescriptorDatabase(channel)
pool = descriptor_pool.DescriptorPool(database)


def method(service, name):
    """The method as a callable, and the class of its requests."""
    described = pool.FindServiceByName(service).FindMethodByName(name)
    request, response = (message_factory.GetMessageClass(kind) for kind in (described.input_type, described.output_type))
    make = channel.unary_stream if described.server_streaming else channel.unary_unary
    path = f"/{service}/{name}"
    call = make(path, request_serializer=request.SerializeToString, response_deserializer=response.FromString)
    return call, request


def status_of(call, request):
    try:
        call(request, timeout=300)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


check, HealthCheckRequest = method("grpc.health.v1.Health", "Check")
ask, AskRequest = method("spechop.v1.SpecHop", "Ask")
ask_stream, _ = method("spechop.v1.SpecHop", "AskStream")
ask_bytes = channel.unary_unary("/spechop.v1.SpecHop/Ask")

health = check(HealthCheckRequest(service="spechop.v1.SpecHop"), timeout=300)
answer = ask(AskRequest(question=QUESTION, options={"k": 3}), timeout=300)
events = list(ask_stream(AskRequest(question=QUESTION, options={"k": 3}), timeout=300))
kinds = answer.DESCRIPTOR.file.enum_types_by_name["CommitKind"].values_by_number

print(json.dumps({
    "services": list(database.get_services()),
    "health": health.DESCRIPTOR.enum_types_by_name["ServingStatus"].values_by_number[health.status].name,
    "answer": answer.answer,
    "hops": [
        {"kind": kinds[hop.kind].name, "passage_id": hop.observation.evidence[0].passage_id} for hop in answer.hops
    ],
    "streamed": {
        "events": len(events),
        "last_sequence": events[-1].sequence,
        "answer": events[-1].answer.answer,
    },
    "bad": {
        "k = 0": status_of(ask, AskRequest(question=QUESTION, options={"k": 0})),
        "empty": status_of(ask, AskRequest(question="")),
        "not utf-8": status_of(ask_bytes, b"\x0a\x04caf\xe9"),
    },
}))
