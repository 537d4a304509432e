"""The methods of the service: path, how a request is written, how a response is read."""

from spechop.v1 import spechop_pb2 as wire

_SERVICE = "/spechop.v1.SpecHop/"

ASK = (_SERVICE + "Ask", wire.AskRequest.SerializeToString, wire.AskResponse.FromString)
ASK_STREAM = (_SERVICE + "AskStream", wire.AskRequest.SerializeToString, wire.AskEvent.FromString)
RESUME = (_SERVICE + "Resume", wire.ResumeRequest.SerializeToString, wire.AskEvent.FromString)
GET_ANSWER = (_SERVICE + "GetAnswer", wire.GetAnswerRequest.SerializeToString, wire.AskResponse.FromString)
CANCEL = (_SERVICE + "Cancel", wire.CancelRequest.SerializeToString, wire.CancelResponse.FromString)
FINISH_NOW = (_SERVICE + "FinishNow", wire.FinishNowRequest.SerializeToString, wire.FinishNowResponse.FromString)
