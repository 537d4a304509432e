from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VerifierMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERIFIER_MODE_UNSPECIFIED: _ClassVar[VerifierMode]
    VERIFIER_MODE_EXACT: _ClassVar[VerifierMode]
    VERIFIER_MODE_RULE: _ClassVar[VerifierMode]
    VERIFIER_MODE_PAPER: _ClassVar[VerifierMode]

class Effort(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EFFORT_UNSPECIFIED: _ClassVar[Effort]
    EFFORT_LOW: _ClassVar[Effort]
    EFFORT_NORMAL: _ClassVar[Effort]
    EFFORT_HIGH: _ClassVar[Effort]

class CommitKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMMIT_KIND_UNSPECIFIED: _ClassVar[CommitKind]
    COMMIT_KIND_OBSERVED: _ClassVar[CommitKind]
    COMMIT_KIND_ACCEPTED: _ClassVar[CommitKind]
    COMMIT_KIND_REJECTED: _ClassVar[CommitKind]

class StopReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP_REASON_UNSPECIFIED: _ClassVar[StopReason]
    STOP_REASON_ANSWERED: _ClassVar[StopReason]
    STOP_REASON_HOP_BUDGET: _ClassVar[StopReason]
    STOP_REASON_REPEATED: _ClassVar[StopReason]
    STOP_REASON_NOT_FOUND: _ClassVar[StopReason]
    STOP_REASON_BUDGET: _ClassVar[StopReason]

class Activity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTIVITY_UNSPECIFIED: _ClassVar[Activity]
    ACTIVITY_PREFILL: _ClassVar[Activity]
    ACTIVITY_DECODE: _ClassVar[Activity]
    ACTIVITY_READ: _ClassVar[Activity]
    ACTIVITY_ENCODE: _ClassVar[Activity]
    ACTIVITY_SCAN: _ClassVar[Activity]
    ACTIVITY_EXTRACT: _ClassVar[Activity]
    ACTIVITY_FETCH: _ClassVar[Activity]
    ACTIVITY_SEARCH: _ClassVar[Activity]
    ACTIVITY_GENERATE: _ClassVar[Activity]
    ACTIVITY_INJECTED: _ClassVar[Activity]
    ACTIVITY_JOIN: _ClassVar[Activity]
    ACTIVITY_QUEUE: _ClassVar[Activity]
    ACTIVITY_TURN: _ClassVar[Activity]

class Refusal(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFUSAL_UNSPECIFIED: _ClassVar[Refusal]
    REFUSAL_DENIED: _ClassVar[Refusal]
    REFUSAL_NO_PLACE: _ClassVar[Refusal]
    REFUSAL_PREEMPTED: _ClassVar[Refusal]
    REFUSAL_PUSHED_BACK: _ClassVar[Refusal]
    REFUSAL_BUDGET: _ClassVar[Refusal]
    REFUSAL_UNLIKELY: _ClassVar[Refusal]
    REFUSAL_NO_CORE: _ClassVar[Refusal]

class Stage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STAGE_UNSPECIFIED: _ClassVar[Stage]
    STAGE_SEGMENT: _ClassVar[Stage]
    STAGE_TARGET: _ClassVar[Stage]
    STAGE_SPECULATION: _ClassVar[Stage]
    STAGE_DRAFT: _ClassVar[Stage]
VERIFIER_MODE_UNSPECIFIED: VerifierMode
VERIFIER_MODE_EXACT: VerifierMode
VERIFIER_MODE_RULE: VerifierMode
VERIFIER_MODE_PAPER: VerifierMode
EFFORT_UNSPECIFIED: Effort
EFFORT_LOW: Effort
EFFORT_NORMAL: Effort
EFFORT_HIGH: Effort
COMMIT_KIND_UNSPECIFIED: CommitKind
COMMIT_KIND_OBSERVED: CommitKind
COMMIT_KIND_ACCEPTED: CommitKind
COMMIT_KIND_REJECTED: CommitKind
STOP_REASON_UNSPECIFIED: StopReason
STOP_REASON_ANSWERED: StopReason
STOP_REASON_HOP_BUDGET: StopReason
STOP_REASON_REPEATED: StopReason
STOP_REASON_NOT_FOUND: StopReason
STOP_REASON_BUDGET: StopReason
ACTIVITY_UNSPECIFIED: Activity
ACTIVITY_PREFILL: Activity
ACTIVITY_DECODE: Activity
ACTIVITY_READ: Activity
ACTIVITY_ENCODE: Activity
ACTIVITY_SCAN: Activity
ACTIVITY_EXTRACT: Activity
ACTIVITY_FETCH: Activity
ACTIVITY_SEARCH: Activity
ACTIVITY_GENERATE: Activity
ACTIVITY_INJECTED: Activity
ACTIVITY_JOIN: Activity
ACTIVITY_QUEUE: Activity
ACTIVITY_TURN: Activity
REFUSAL_UNSPECIFIED: Refusal
REFUSAL_DENIED: Refusal
REFUSAL_NO_PLACE: Refusal
REFUSAL_PREEMPTED: Refusal
REFUSAL_PUSHED_BACK: Refusal
REFUSAL_BUDGET: Refusal
REFUSAL_UNLIKELY: Refusal
REFUSAL_NO_CORE: Refusal
STAGE_UNSPECIFIED: Stage
STAGE_SEGMENT: Stage
STAGE_TARGET: Stage
STAGE_SPECULATION: Stage
STAGE_DRAFT: Stage

class ResumeRequest(_message.Message):
    __slots__ = ("question_id", "after")
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    question_id: str
    after: int
    def __init__(self, question_id: _Optional[str] = ..., after: _Optional[int] = ...) -> None: ...

class GetAnswerRequest(_message.Message):
    __slots__ = ("question_id",)
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    question_id: str
    def __init__(self, question_id: _Optional[str] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("question_id",)
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    question_id: str
    def __init__(self, question_id: _Optional[str] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FinishNowRequest(_message.Message):
    __slots__ = ("question_id",)
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    question_id: str
    def __init__(self, question_id: _Optional[str] = ...) -> None: ...

class FinishNowResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AskRequest(_message.Message):
    __slots__ = ("question", "options", "deadline_ms", "budget", "question_id", "linger_ms")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    LINGER_MS_FIELD_NUMBER: _ClassVar[int]
    question: str
    options: Options
    deadline_ms: int
    budget: Budget
    question_id: str
    linger_ms: int
    def __init__(self, question: _Optional[str] = ..., options: _Optional[_Union[Options, _Mapping]] = ..., deadline_ms: _Optional[int] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., question_id: _Optional[str] = ..., linger_ms: _Optional[int] = ...) -> None: ...

class Options(_message.Message):
    __slots__ = ("k", "unbounded", "auto", "hop_budget", "top_passages", "verifier", "speculator", "salvage", "plan_ahead", "guesses", "chance_min", "not_found_max", "drafts", "fresh", "quiet", "effort")
    K_FIELD_NUMBER: _ClassVar[int]
    UNBOUNDED_FIELD_NUMBER: _ClassVar[int]
    AUTO_FIELD_NUMBER: _ClassVar[int]
    HOP_BUDGET_FIELD_NUMBER: _ClassVar[int]
    TOP_PASSAGES_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    SPECULATOR_FIELD_NUMBER: _ClassVar[int]
    SALVAGE_FIELD_NUMBER: _ClassVar[int]
    PLAN_AHEAD_FIELD_NUMBER: _ClassVar[int]
    GUESSES_FIELD_NUMBER: _ClassVar[int]
    CHANCE_MIN_FIELD_NUMBER: _ClassVar[int]
    NOT_FOUND_MAX_FIELD_NUMBER: _ClassVar[int]
    DRAFTS_FIELD_NUMBER: _ClassVar[int]
    FRESH_FIELD_NUMBER: _ClassVar[int]
    QUIET_FIELD_NUMBER: _ClassVar[int]
    EFFORT_FIELD_NUMBER: _ClassVar[int]
    k: int
    unbounded: Unbounded
    auto: Auto
    hop_budget: int
    top_passages: int
    verifier: VerifierMode
    speculator: str
    salvage: bool
    plan_ahead: bool
    guesses: int
    chance_min: float
    not_found_max: int
    drafts: int
    fresh: bool
    quiet: bool
    effort: Effort
    def __init__(self, k: _Optional[int] = ..., unbounded: _Optional[_Union[Unbounded, _Mapping]] = ..., auto: _Optional[_Union[Auto, _Mapping]] = ..., hop_budget: _Optional[int] = ..., top_passages: _Optional[int] = ..., verifier: _Optional[_Union[VerifierMode, str]] = ..., speculator: _Optional[str] = ..., salvage: bool = ..., plan_ahead: bool = ..., guesses: _Optional[int] = ..., chance_min: _Optional[float] = ..., not_found_max: _Optional[int] = ..., drafts: _Optional[int] = ..., fresh: bool = ..., quiet: bool = ..., effort: _Optional[_Union[Effort, str]] = ...) -> None: ...

class Unbounded(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Auto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Budget(_message.Message):
    __slots__ = ("time_ms", "target_calls", "tokens", "money_micros")
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    TARGET_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    MONEY_MICROS_FIELD_NUMBER: _ClassVar[int]
    time_ms: int
    target_calls: int
    tokens: int
    money_micros: int
    def __init__(self, time_ms: _Optional[int] = ..., target_calls: _Optional[int] = ..., tokens: _Optional[int] = ..., money_micros: _Optional[int] = ...) -> None: ...

class AskResponse(_message.Message):
    __slots__ = ("answer", "hops", "stop_reason", "elapsed_ms", "final_segment_ms", "usage", "applied", "injected_latency", "refused", "provider_changes", "first_answer", "activities", "confidence", "plans", "handed_over")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    FINAL_SEGMENT_MS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    INJECTED_LATENCY_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_CHANGES_FIELD_NUMBER: _ClassVar[int]
    FIRST_ANSWER_FIELD_NUMBER: _ClassVar[int]
    ACTIVITIES_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    PLANS_FIELD_NUMBER: _ClassVar[int]
    HANDED_OVER_FIELD_NUMBER: _ClassVar[int]
    answer: str
    hops: _containers.RepeatedCompositeFieldContainer[Hop]
    stop_reason: StopReason
    elapsed_ms: float
    final_segment_ms: float
    usage: Usage
    applied: Applied
    injected_latency: InjectedLatency
    refused: _containers.RepeatedCompositeFieldContainer[Refused]
    provider_changes: _containers.RepeatedCompositeFieldContainer[ProviderChange]
    first_answer: FirstAnswer
    activities: _containers.RepeatedCompositeFieldContainer[ActivityTime]
    confidence: Confidence
    plans: int
    handed_over: HandedOver
    def __init__(self, answer: _Optional[str] = ..., hops: _Optional[_Iterable[_Union[Hop, _Mapping]]] = ..., stop_reason: _Optional[_Union[StopReason, str]] = ..., elapsed_ms: _Optional[float] = ..., final_segment_ms: _Optional[float] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., applied: _Optional[_Union[Applied, _Mapping]] = ..., injected_latency: _Optional[_Union[InjectedLatency, _Mapping]] = ..., refused: _Optional[_Iterable[_Union[Refused, _Mapping]]] = ..., provider_changes: _Optional[_Iterable[_Union[ProviderChange, _Mapping]]] = ..., first_answer: _Optional[_Union[FirstAnswer, _Mapping]] = ..., activities: _Optional[_Iterable[_Union[ActivityTime, _Mapping]]] = ..., confidence: _Optional[_Union[Confidence, _Mapping]] = ..., plans: _Optional[int] = ..., handed_over: _Optional[_Union[HandedOver, _Mapping]] = ...) -> None: ...

class HandedOver(_message.Message):
    __slots__ = ("of_form",)
    OF_FORM_FIELD_NUMBER: _ClassVar[int]
    of_form: float
    def __init__(self, of_form: _Optional[float] = ...) -> None: ...

class Confidence(_message.Message):
    __slots__ = ("chance", "supported", "withheld", "of_form")
    CHANCE_FIELD_NUMBER: _ClassVar[int]
    SUPPORTED_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    OF_FORM_FIELD_NUMBER: _ClassVar[int]
    chance: float
    supported: bool
    withheld: str
    of_form: float
    def __init__(self, chance: _Optional[float] = ..., supported: bool = ..., withheld: _Optional[str] = ..., of_form: _Optional[float] = ...) -> None: ...

class FirstAnswer(_message.Message):
    __slots__ = ("at_ms", "chance", "confirmed_ms")
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    CHANCE_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_MS_FIELD_NUMBER: _ClassVar[int]
    at_ms: float
    chance: float
    confirmed_ms: float
    def __init__(self, at_ms: _Optional[float] = ..., chance: _Optional[float] = ..., confirmed_ms: _Optional[float] = ...) -> None: ...

class ProviderChange(_message.Message):
    __slots__ = ("to", "why", "times")
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    to: str
    why: str
    times: int
    def __init__(self, to: _Optional[str] = ..., why: _Optional[str] = ..., times: _Optional[int] = ..., **kwargs) -> None: ...

class Hop(_message.Message):
    __slots__ = ("sub_question", "sub_answer", "kind", "guess", "verdict", "observation", "times", "salvaged", "guess_by", "foreseen_ms", "stall_ms", "right_guess")
    SUB_QUESTION_FIELD_NUMBER: _ClassVar[int]
    SUB_ANSWER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    GUESS_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    SALVAGED_FIELD_NUMBER: _ClassVar[int]
    GUESS_BY_FIELD_NUMBER: _ClassVar[int]
    FORESEEN_MS_FIELD_NUMBER: _ClassVar[int]
    STALL_MS_FIELD_NUMBER: _ClassVar[int]
    RIGHT_GUESS_FIELD_NUMBER: _ClassVar[int]
    sub_question: str
    sub_answer: str
    kind: CommitKind
    guess: str
    verdict: Verdict
    observation: Observation
    times: StageTimes
    salvaged: bool
    guess_by: str
    foreseen_ms: float
    stall_ms: float
    right_guess: int
    def __init__(self, sub_question: _Optional[str] = ..., sub_answer: _Optional[str] = ..., kind: _Optional[_Union[CommitKind, str]] = ..., guess: _Optional[str] = ..., verdict: _Optional[_Union[Verdict, _Mapping]] = ..., observation: _Optional[_Union[Observation, _Mapping]] = ..., times: _Optional[_Union[StageTimes, _Mapping]] = ..., salvaged: bool = ..., guess_by: _Optional[str] = ..., foreseen_ms: _Optional[float] = ..., stall_ms: _Optional[float] = ..., right_guess: _Optional[int] = ...) -> None: ...

class Observation(_message.Message):
    __slots__ = ("answer", "found", "evidence")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    answer: str
    found: bool
    evidence: _containers.RepeatedCompositeFieldContainer[Passage]
    def __init__(self, answer: _Optional[str] = ..., found: bool = ..., evidence: _Optional[_Iterable[_Union[Passage, _Mapping]]] = ...) -> None: ...

class Passage(_message.Message):
    __slots__ = ("passage_id", "title", "text", "score", "cut", "url")
    PASSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    CUT_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    passage_id: str
    title: str
    text: str
    score: float
    cut: bool
    url: str
    def __init__(self, passage_id: _Optional[str] = ..., title: _Optional[str] = ..., text: _Optional[str] = ..., score: _Optional[float] = ..., cut: bool = ..., url: _Optional[str] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("accepted", "rule", "coverage", "jaccard")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    JACCARD_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    rule: str
    coverage: float
    jaccard: float
    def __init__(self, accepted: bool = ..., rule: _Optional[str] = ..., coverage: _Optional[float] = ..., jaccard: _Optional[float] = ...) -> None: ...

class StageTimes(_message.Message):
    __slots__ = ("segment_ms", "target_ms", "read_ms", "speculation_ms")
    SEGMENT_MS_FIELD_NUMBER: _ClassVar[int]
    TARGET_MS_FIELD_NUMBER: _ClassVar[int]
    READ_MS_FIELD_NUMBER: _ClassVar[int]
    SPECULATION_MS_FIELD_NUMBER: _ClassVar[int]
    segment_ms: float
    target_ms: float
    read_ms: float
    speculation_ms: float
    def __init__(self, segment_ms: _Optional[float] = ..., target_ms: _Optional[float] = ..., read_ms: _Optional[float] = ..., speculation_ms: _Optional[float] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("segments", "targets", "speculations", "salvaged", "drafted", "foreseen", "hidden_ms", "drafts")
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    SPECULATIONS_FIELD_NUMBER: _ClassVar[int]
    SALVAGED_FIELD_NUMBER: _ClassVar[int]
    DRAFTED_FIELD_NUMBER: _ClassVar[int]
    FORESEEN_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_MS_FIELD_NUMBER: _ClassVar[int]
    DRAFTS_FIELD_NUMBER: _ClassVar[int]
    segments: Calls
    targets: Calls
    speculations: Calls
    salvaged: int
    drafted: int
    foreseen: int
    hidden_ms: float
    drafts: Calls
    def __init__(self, segments: _Optional[_Union[Calls, _Mapping]] = ..., targets: _Optional[_Union[Calls, _Mapping]] = ..., speculations: _Optional[_Union[Calls, _Mapping]] = ..., salvaged: _Optional[int] = ..., drafted: _Optional[int] = ..., foreseen: _Optional[int] = ..., hidden_ms: _Optional[float] = ..., drafts: _Optional[_Union[Calls, _Mapping]] = ...) -> None: ...

class Calls(_message.Message):
    __slots__ = ("started", "wasted", "prompt_tokens", "completion_tokens", "wasted_prompt_tokens", "wasted_completion_tokens", "time_ms", "wasted_time_ms", "money_micros", "wasted_money_micros")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    WASTED_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    WASTED_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    WASTED_COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    WASTED_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    MONEY_MICROS_FIELD_NUMBER: _ClassVar[int]
    WASTED_MONEY_MICROS_FIELD_NUMBER: _ClassVar[int]
    started: int
    wasted: int
    prompt_tokens: int
    completion_tokens: int
    wasted_prompt_tokens: int
    wasted_completion_tokens: int
    time_ms: float
    wasted_time_ms: float
    money_micros: int
    wasted_money_micros: int
    def __init__(self, started: _Optional[int] = ..., wasted: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., wasted_prompt_tokens: _Optional[int] = ..., wasted_completion_tokens: _Optional[int] = ..., time_ms: _Optional[float] = ..., wasted_time_ms: _Optional[float] = ..., money_micros: _Optional[int] = ..., wasted_money_micros: _Optional[int] = ...) -> None: ...

class ActivityTime(_message.Message):
    __slots__ = ("stage", "activity", "time_ms", "wasted_time_ms")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    WASTED_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    stage: Stage
    activity: Activity
    time_ms: float
    wasted_time_ms: float
    def __init__(self, stage: _Optional[_Union[Stage, str]] = ..., activity: _Optional[_Union[Activity, str]] = ..., time_ms: _Optional[float] = ..., wasted_time_ms: _Optional[float] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("reason", "times", "stage")
    REASON_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    reason: Refusal
    times: int
    stage: Stage
    def __init__(self, reason: _Optional[_Union[Refusal, str]] = ..., times: _Optional[int] = ..., stage: _Optional[_Union[Stage, str]] = ...) -> None: ...

class Applied(_message.Message):
    __slots__ = ("options", "tuned")
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    TUNED_FIELD_NUMBER: _ClassVar[int]
    options: Options
    tuned: Tuned
    def __init__(self, options: _Optional[_Union[Options, _Mapping]] = ..., tuned: _Optional[_Union[Tuned, _Mapping]] = ...) -> None: ...

class InjectedLatency(_message.Message):
    __slots__ = ("mean_ms", "sigma_ms", "seed")
    MEAN_MS_FIELD_NUMBER: _ClassVar[int]
    SIGMA_MS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    mean_ms: float
    sigma_ms: float
    seed: int
    def __init__(self, mean_ms: _Optional[float] = ..., sigma_ms: _Optional[float] = ..., seed: _Optional[int] = ...) -> None: ...

class AskEvent(_message.Message):
    __slots__ = ("sequence", "at_ms", "branch", "hop", "provisional", "launched", "planned", "drafted", "guessed", "observed", "verified", "committed", "promoted", "rolled_back", "failed", "salvaged", "answer", "tuned", "not_speculated", "provider_changed", "asked_ahead", "foreseen", "handed_over")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    HOP_FIELD_NUMBER: _ClassVar[int]
    PROVISIONAL_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    DRAFTED_FIELD_NUMBER: _ClassVar[int]
    GUESSED_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    PROMOTED_FIELD_NUMBER: _ClassVar[int]
    ROLLED_BACK_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    SALVAGED_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    TUNED_FIELD_NUMBER: _ClassVar[int]
    NOT_SPECULATED_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_CHANGED_FIELD_NUMBER: _ClassVar[int]
    ASKED_AHEAD_FIELD_NUMBER: _ClassVar[int]
    FORESEEN_FIELD_NUMBER: _ClassVar[int]
    HANDED_OVER_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    at_ms: float
    branch: int
    hop: int
    provisional: bool
    launched: Launched
    planned: Planned
    drafted: Drafted
    guessed: Guessed
    observed: Observed
    verified: Verified
    committed: Committed
    promoted: Promoted
    rolled_back: RolledBack
    failed: Failed
    salvaged: Salvaged
    answer: AskResponse
    tuned: Tuned
    not_speculated: NotSpeculated
    provider_changed: ProviderChange
    asked_ahead: AskedAhead
    foreseen: Foreseen
    handed_over: HandedOver
    def __init__(self, sequence: _Optional[int] = ..., at_ms: _Optional[float] = ..., branch: _Optional[int] = ..., hop: _Optional[int] = ..., provisional: bool = ..., launched: _Optional[_Union[Launched, _Mapping]] = ..., planned: _Optional[_Union[Planned, _Mapping]] = ..., drafted: _Optional[_Union[Drafted, _Mapping]] = ..., guessed: _Optional[_Union[Guessed, _Mapping]] = ..., observed: _Optional[_Union[Observed, _Mapping]] = ..., verified: _Optional[_Union[Verified, _Mapping]] = ..., committed: _Optional[_Union[Committed, _Mapping]] = ..., promoted: _Optional[_Union[Promoted, _Mapping]] = ..., rolled_back: _Optional[_Union[RolledBack, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ..., salvaged: _Optional[_Union[Salvaged, _Mapping]] = ..., answer: _Optional[_Union[AskResponse, _Mapping]] = ..., tuned: _Optional[_Union[Tuned, _Mapping]] = ..., not_speculated: _Optional[_Union[NotSpeculated, _Mapping]] = ..., provider_changed: _Optional[_Union[ProviderChange, _Mapping]] = ..., asked_ahead: _Optional[_Union[AskedAhead, _Mapping]] = ..., foreseen: _Optional[_Union[Foreseen, _Mapping]] = ..., handed_over: _Optional[_Union[HandedOver, _Mapping]] = ...) -> None: ...

class Tuned(_message.Message):
    __slots__ = ("k", "reason", "p", "alpha", "beta")
    K_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    P_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    k: int
    reason: str
    p: float
    alpha: float
    beta: float
    def __init__(self, k: _Optional[int] = ..., reason: _Optional[str] = ..., p: _Optional[float] = ..., alpha: _Optional[float] = ..., beta: _Optional[float] = ...) -> None: ...

class Launched(_message.Message):
    __slots__ = ("stage",)
    STAGE_FIELD_NUMBER: _ClassVar[int]
    stage: Stage
    def __init__(self, stage: _Optional[_Union[Stage, str]] = ...) -> None: ...

class Planned(_message.Message):
    __slots__ = ("sub_question", "took_ms")
    SUB_QUESTION_FIELD_NUMBER: _ClassVar[int]
    TOOK_MS_FIELD_NUMBER: _ClassVar[int]
    sub_question: str
    took_ms: float
    def __init__(self, sub_question: _Optional[str] = ..., took_ms: _Optional[float] = ...) -> None: ...

class Drafted(_message.Message):
    __slots__ = ("answer", "took_ms", "chance")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    TOOK_MS_FIELD_NUMBER: _ClassVar[int]
    CHANCE_FIELD_NUMBER: _ClassVar[int]
    answer: str
    took_ms: float
    chance: float
    def __init__(self, answer: _Optional[str] = ..., took_ms: _Optional[float] = ..., chance: _Optional[float] = ...) -> None: ...

class Guessed(_message.Message):
    __slots__ = ("guess", "took_ms", "others", "confidence", "by")
    GUESS_FIELD_NUMBER: _ClassVar[int]
    TOOK_MS_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    guess: str
    took_ms: float
    others: _containers.RepeatedScalarFieldContainer[str]
    confidence: float
    by: str
    def __init__(self, guess: _Optional[str] = ..., took_ms: _Optional[float] = ..., others: _Optional[_Iterable[str]] = ..., confidence: _Optional[float] = ..., by: _Optional[str] = ...) -> None: ...

class Observed(_message.Message):
    __slots__ = ("observation", "took_ms")
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    TOOK_MS_FIELD_NUMBER: _ClassVar[int]
    observation: Observation
    took_ms: float
    def __init__(self, observation: _Optional[_Union[Observation, _Mapping]] = ..., took_ms: _Optional[float] = ...) -> None: ...

class Verified(_message.Message):
    __slots__ = ("verdict",)
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    verdict: Verdict
    def __init__(self, verdict: _Optional[_Union[Verdict, _Mapping]] = ...) -> None: ...

class Committed(_message.Message):
    __slots__ = ("hop", "usage")
    HOP_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    hop: Hop
    usage: Usage
    def __init__(self, hop: _Optional[_Union[Hop, _Mapping]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ...) -> None: ...

class Promoted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AskedAhead(_message.Message):
    __slots__ = ("sub_question", "chance")
    SUB_QUESTION_FIELD_NUMBER: _ClassVar[int]
    CHANCE_FIELD_NUMBER: _ClassVar[int]
    sub_question: str
    chance: float
    def __init__(self, sub_question: _Optional[str] = ..., chance: _Optional[float] = ...) -> None: ...

class Foreseen(_message.Message):
    __slots__ = ("saved_ms",)
    SAVED_MS_FIELD_NUMBER: _ClassVar[int]
    saved_ms: float
    def __init__(self, saved_ms: _Optional[float] = ...) -> None: ...

class Salvaged(_message.Message):
    __slots__ = ("saved_ms",)
    SAVED_MS_FIELD_NUMBER: _ClassVar[int]
    saved_ms: float
    def __init__(self, saved_ms: _Optional[float] = ...) -> None: ...

class RolledBack(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NotSpeculated(_message.Message):
    __slots__ = ("stage", "reason")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    stage: Stage
    reason: Refusal
    def __init__(self, stage: _Optional[_Union[Stage, str]] = ..., reason: _Optional[_Union[Refusal, str]] = ...) -> None: ...

class Failed(_message.Message):
    __slots__ = ("stage", "reason")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    stage: Stage
    reason: str
    def __init__(self, stage: _Optional[_Union[Stage, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class GetTuningRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetTuningResponse(_message.Message):
    __slots__ = ("tunings", "audit")
    TUNINGS_FIELD_NUMBER: _ClassVar[int]
    AUDIT_FIELD_NUMBER: _ClassVar[int]
    tunings: _containers.RepeatedCompositeFieldContainer[Tuning]
    audit: AuditFindings
    def __init__(self, tunings: _Optional[_Iterable[_Union[Tuning, _Mapping]]] = ..., audit: _Optional[_Union[AuditFindings, _Mapping]] = ...) -> None: ...

class AuditFindings(_message.Message):
    __slots__ = ("audits", "differing", "divergence", "accepts", "false_accepts", "false_acceptance")
    AUDITS_FIELD_NUMBER: _ClassVar[int]
    DIFFERING_FIELD_NUMBER: _ClassVar[int]
    DIVERGENCE_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_FIELD_NUMBER: _ClassVar[int]
    FALSE_ACCEPTS_FIELD_NUMBER: _ClassVar[int]
    FALSE_ACCEPTANCE_FIELD_NUMBER: _ClassVar[int]
    audits: int
    differing: int
    divergence: Estimate
    accepts: int
    false_accepts: int
    false_acceptance: Estimate
    def __init__(self, audits: _Optional[int] = ..., differing: _Optional[int] = ..., divergence: _Optional[_Union[Estimate, _Mapping]] = ..., accepts: _Optional[int] = ..., false_accepts: _Optional[int] = ..., false_acceptance: _Optional[_Union[Estimate, _Mapping]] = ...) -> None: ...

class Tuning(_message.Message):
    __slots__ = ("speculator", "choice", "p", "alpha", "beta", "nu", "hops", "promises", "plan_ahead", "members", "drafts", "calls")
    SPECULATOR_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    P_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    NU_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    PROMISES_FIELD_NUMBER: _ClassVar[int]
    PLAN_AHEAD_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    DRAFTS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    speculator: str
    choice: Tuned
    p: Estimate
    alpha: Estimate
    beta: Estimate
    nu: float
    hops: int
    promises: _containers.RepeatedCompositeFieldContainer[Promise]
    plan_ahead: PlanAhead
    members: _containers.RepeatedCompositeFieldContainer[Member]
    drafts: Drafts
    calls: float
    def __init__(self, speculator: _Optional[str] = ..., choice: _Optional[_Union[Tuned, _Mapping]] = ..., p: _Optional[_Union[Estimate, _Mapping]] = ..., alpha: _Optional[_Union[Estimate, _Mapping]] = ..., beta: _Optional[_Union[Estimate, _Mapping]] = ..., nu: _Optional[float] = ..., hops: _Optional[int] = ..., promises: _Optional[_Iterable[_Union[Promise, _Mapping]]] = ..., plan_ahead: _Optional[_Union[PlanAhead, _Mapping]] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., drafts: _Optional[_Union[Drafts, _Mapping]] = ..., calls: _Optional[float] = ...) -> None: ...

class Drafts(_message.Message):
    __slots__ = ("pay", "rel_lat_without", "rel_lat_with")
    PAY_FIELD_NUMBER: _ClassVar[int]
    REL_LAT_WITHOUT_FIELD_NUMBER: _ClassVar[int]
    REL_LAT_WITH_FIELD_NUMBER: _ClassVar[int]
    pay: bool
    rel_lat_without: float
    rel_lat_with: float
    def __init__(self, pay: bool = ..., rel_lat_without: _Optional[float] = ..., rel_lat_with: _Optional[float] = ...) -> None: ...

class PlanAhead(_message.Message):
    __slots__ = ("pays", "rel_lat_without", "rel_lat_with")
    PAYS_FIELD_NUMBER: _ClassVar[int]
    REL_LAT_WITHOUT_FIELD_NUMBER: _ClassVar[int]
    REL_LAT_WITH_FIELD_NUMBER: _ClassVar[int]
    pays: bool
    rel_lat_without: float
    rel_lat_with: float
    def __init__(self, pays: bool = ..., rel_lat_without: _Optional[float] = ..., rel_lat_with: _Optional[float] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("speculator", "guesses", "accepted")
    SPECULATOR_FIELD_NUMBER: _ClassVar[int]
    GUESSES_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    speculator: str
    guesses: int
    accepted: int
    def __init__(self, speculator: _Optional[str] = ..., guesses: _Optional[int] = ..., accepted: _Optional[int] = ...) -> None: ...

class Estimate(_message.Message):
    __slots__ = ("value", "low", "high")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    value: float
    low: float
    high: float
    def __init__(self, value: _Optional[float] = ..., low: _Optional[float] = ..., high: _Optional[float] = ...) -> None: ...

class Promise(_message.Message):
    __slots__ = ("k", "rel_lat", "extra_targets")
    K_FIELD_NUMBER: _ClassVar[int]
    REL_LAT_FIELD_NUMBER: _ClassVar[int]
    EXTRA_TARGETS_FIELD_NUMBER: _ClassVar[int]
    k: int
    rel_lat: float
    extra_targets: float
    def __init__(self, k: _Optional[int] = ..., rel_lat: _Optional[float] = ..., extra_targets: _Optional[float] = ...) -> None: ...

class WhatIfRequest(_message.Message):
    __slots__ = ("k", "options")
    K_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    k: _containers.RepeatedScalarFieldContainer[int]
    options: Options
    def __init__(self, k: _Optional[_Iterable[int]] = ..., options: _Optional[_Union[Options, _Mapping]] = ...) -> None: ...

class WhatIfResponse(_message.Message):
    __slots__ = ("questions", "filled_in", "outcomes")
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    FILLED_IN_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    questions: int
    filled_in: float
    outcomes: _containers.RepeatedCompositeFieldContainer[Outcome]
    def __init__(self, questions: _Optional[int] = ..., filled_in: _Optional[float] = ..., outcomes: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("k", "mean_ms", "rel_lat", "segments", "targets", "speculations", "salvaged", "foreseen")
    K_FIELD_NUMBER: _ClassVar[int]
    MEAN_MS_FIELD_NUMBER: _ClassVar[int]
    REL_LAT_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    SPECULATIONS_FIELD_NUMBER: _ClassVar[int]
    SALVAGED_FIELD_NUMBER: _ClassVar[int]
    FORESEEN_FIELD_NUMBER: _ClassVar[int]
    k: int
    mean_ms: float
    rel_lat: float
    segments: float
    targets: float
    speculations: float
    salvaged: float
    foreseen: float
    def __init__(self, k: _Optional[int] = ..., mean_ms: _Optional[float] = ..., rel_lat: _Optional[float] = ..., segments: _Optional[float] = ..., targets: _Optional[float] = ..., speculations: _Optional[float] = ..., salvaged: _Optional[float] = ..., foreseen: _Optional[float] = ...) -> None: ...

class GetBackendsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetBackendsResponse(_message.Message):
    __slots__ = ("backends", "cores")
    BACKENDS_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    backends: _containers.RepeatedCompositeFieldContainer[Backend]
    cores: Cores
    def __init__(self, backends: _Optional[_Iterable[_Union[Backend, _Mapping]]] = ..., cores: _Optional[_Union[Cores, _Mapping]] = ...) -> None: ...

class GetConfigurationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetConfigurationResponse(_message.Message):
    __slots__ = ("generation", "taken_up_at_s", "refusals", "refused_at_s", "refusal", "waiting_keys")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TAKEN_UP_AT_S_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_AT_S_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    WAITING_KEYS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    taken_up_at_s: float
    refusals: int
    refused_at_s: float
    refusal: str
    waiting_keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, generation: _Optional[int] = ..., taken_up_at_s: _Optional[float] = ..., refusals: _Optional[int] = ..., refused_at_s: _Optional[float] = ..., refusal: _Optional[str] = ..., waiting_keys: _Optional[_Iterable[str]] = ...) -> None: ...

class Cores(_message.Message):
    __slots__ = ("count", "authoritative", "speculative")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    AUTHORITATIVE_FIELD_NUMBER: _ClassVar[int]
    SPECULATIVE_FIELD_NUMBER: _ClassVar[int]
    count: float
    authoritative: float
    speculative: float
    def __init__(self, count: _Optional[float] = ..., authoritative: _Optional[float] = ..., speculative: _Optional[float] = ...) -> None: ...

class Backend(_message.Message):
    __slots__ = ("name", "capacity", "speculative_places", "running_authoritative", "running_speculative", "waiting_authoritative", "waiting_speculative", "started", "preempted", "promoted", "pushed_back", "joined", "refused")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    SPECULATIVE_PLACES_FIELD_NUMBER: _ClassVar[int]
    RUNNING_AUTHORITATIVE_FIELD_NUMBER: _ClassVar[int]
    RUNNING_SPECULATIVE_FIELD_NUMBER: _ClassVar[int]
    WAITING_AUTHORITATIVE_FIELD_NUMBER: _ClassVar[int]
    WAITING_SPECULATIVE_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    PREEMPTED_FIELD_NUMBER: _ClassVar[int]
    PROMOTED_FIELD_NUMBER: _ClassVar[int]
    PUSHED_BACK_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    name: str
    capacity: int
    speculative_places: int
    running_authoritative: int
    running_speculative: int
    waiting_authoritative: int
    waiting_speculative: int
    started: int
    preempted: int
    promoted: int
    pushed_back: int
    joined: int
    refused: _containers.RepeatedCompositeFieldContainer[Refused]
    def __init__(self, name: _Optional[str] = ..., capacity: _Optional[int] = ..., speculative_places: _Optional[int] = ..., running_authoritative: _Optional[int] = ..., running_speculative: _Optional[int] = ..., waiting_authoritative: _Optional[int] = ..., waiting_speculative: _Optional[int] = ..., started: _Optional[int] = ..., preempted: _Optional[int] = ..., promoted: _Optional[int] = ..., pushed_back: _Optional[int] = ..., joined: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[Refused, _Mapping]]] = ...) -> None: ...
