"""A question as a noun phrase: "Where was X born?" becomes "the place where X was born".

MuSiQue's questions were made so: people took a question, and put another question's words in the place of
a name in it. No grammar is parsed; a question that fits none of the forms below has no phrase.
"""

from __future__ import annotations

import re

_BE = "is|was|are|were"
_AUXILIARY = rf"{_BE}|did|does|do|has|have|had|can|could|will|would|may|might|must|should"
# A name, or a slot that stands for one.
_X = r"(?:the |a |an )?(?:\{\d\}|(?:[A-Z0-9][\w.&'’-]*)(?: (?:of|the|de|and|von|van|[A-Z0-9][\w.&'’-]*))*)"
_PAST = dict(
    pair.split(":") for pair in (
        "become:became begin:began bring:brought build:built buy:bought choose:chose come:came cut:cut do:did draw:drew fall:fell "
        "fight:fought find:found fly:flew get:got give:gave go:went grow:grew have:had hold:held keep:kept know:knew lead:led leave:left "
        "lose:lost make:made marry:married meet:met pay:paid put:put read:read reign:reigned run:ran say:said see:saw sell:sold send:sent "
        "set:set sing:sang speak:spoke spend:spent stand:stood study:studied swear:swore take:took teach:taught tell:told think:thought "
        "throw:threw understand:understood wear:wore win:won write:wrote carry:carried try:tried bury:buried beat:beat eat:ate sign:signed "
        "stop:stopped plan:planned ban:banned drop:dropped refer:referred transfer:transferred occur:occurred"
    ).split()
)
_KINDS = {
    "place": "country city state county region province town village district place area island continent municipality location birthplace territory capital river sea ocean",
    "group": "company team band label school university network college party league church organization organisation club group studio station airline army navy",
    "person": "actor actress person man woman singer king queen president director artist author player character writer leader",
    "work": "film movie song album book novel show series game play opera magazine newspaper",
    "date": "year date month day time century season",
    "number": "percentage number size population",
}
_KIND_OF = {word: kind for kind, words in _KINDS.items() for word in words.split()}


def past(verb: str) -> str:
    if verb in _PAST:
        return _PAST[verb]
    if verb.endswith("e"):
        return verb + "d"
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return verb + "ed"


def third(verb: str) -> str:
    return verb + "es" if re.search(r"(?:s|x|ch|sh|o)$", verb) else re.sub(r"([^aeiou])y$", r"\1ie", verb) + "s"


def kind_of(question: str) -> str:
    """What sort of thing answers it, by its first words."""
    low = question.lower()
    if re.match(r"(?:who|whom|whose)\b", low):
        return "person"
    if low.startswith("where"):
        return "place"
    if low.startswith(("when", "how long ago")):
        return "date"
    if low.startswith("how"):
        return "number"
    named = re.match(rf"(?:(?:in|on|at|to|from|of|for|by) )?(?:what|which)(?: (?:{_BE}) (?:the|\S+['’]s?))?((?: [\w-]+){{1,3}})", low)
    for word in named[1].split() if named else []:
        if word in _KIND_OF:
            return _KIND_OF[word]
    return "thing"


def phrases(question: str) -> list[str]:
    """Noun phrases for what the question asks for; none if it fits no form."""
    text = question.strip().rstrip(" ?.")
    for pattern, forms in _FORMS:
        m = re.fullmatch(pattern, text)
        if m:
            return [" ".join(f(m).split()) for f in forms]
    return []


def _finite(m: re.Match, verb: str = "verb") -> str:
    """The verb of a question with did, does or do, as it is without."""
    word, helper = m[verb], m["aux"].lower()
    return past(word) if helper == "did" else third(word) if helper == "does" else word


_WHO, _WHAT, _WHERE, _WHEN = (f"(?i:{w})" for w in ("who", "what", "where", "when"))
_FORMS = (
    # Who is the father of X? What was X's wettest year?
    (rf"(?i:who|what|which)(?i: (?:{_BE})) (?P<np>(?:the|{_X}(?:'s|’s|s'| 's)) .+)", [lambda m: m["np"]]),
    # Who was elected in 1990? Who wrote X?
    (rf"{_WHO} (?P<rest>(?!(?:did|does|do)\b).+)", [lambda m: f"the person who {m['rest']}", lambda m: f"the person that {m['rest']}"]),
    (rf"{_WHO}m? (?P<aux>did|does|do) (?P<x>{_X}) (?P<verb>[a-z]+)(?P<rest>.*)",
     [lambda m: f"the person {m['x']} {_finite(m)}{m['rest']}", lambda m: f"the person whom {m['x']} {_finite(m)}{m['rest']}"]),
    (rf"{_WHERE} (?P<be>{_BE}) (?P<x>{_X})(?P<rest>(?: .+)?)",
     [lambda m: f"the place where {m['x']} {m['be']}{m['rest']}", lambda m: f"the location where {m['x']} {m['be']}{m['rest']}"]),
    (rf"{_WHERE} (?P<aux>did|does|do) (?P<x>{_X}) (?P<verb>[a-z]+)(?P<rest>.*)",
     [lambda m: f"the place where {m['x']} {_finite(m)}{m['rest']}", lambda m: f"where {m['x']} {_finite(m)}{m['rest']}"]),
    (rf"{_WHEN} (?P<be>{_BE}) (?P<x>{_X})(?P<rest> .+)", [lambda m: f"the time when {m['x']} {m['be']}{m['rest']}", lambda m: f"the year {m['x']} {m['be']}{m['rest']}"]),
    (rf"{_WHEN} (?P<aux>did) (?P<x>{_X}) (?P<verb>[a-z]+)(?P<rest>.*)", [lambda m: f"the year {m['x']} {_finite(m)}{m['rest']}"]),
    # Which city is X in? What team did X play for? In which country does X lie?
    (rf"(?P<prep>(?i:in|on|at|to|from|of|for|by)) (?i:what|which) (?P<np>[a-z-]+(?: [a-z-]+)?) (?P<be>{_BE}) (?P<x>{_X})(?P<rest>(?: .+)?)",
     [lambda m: f"the {m['np']} {m['prep'].lower()} which {m['x']} {m['be']}{m['rest']}", lambda m: f"the {m['np']} where {m['x']} {m['be']}{m['rest']}"]),
    (rf"(?P<prep>(?i:in|on|at|to|from|of|for|by)) (?i:what|which) (?P<np>[a-z-]+(?: [a-z-]+)?) (?P<aux>did|does|do) (?P<x>{_X}) (?P<verb>[a-z]+)(?P<rest>.*)",
     [lambda m: f"the {m['np']} {m['prep'].lower()} which {m['x']} {_finite(m)}{m['rest']}"]),
    (rf"(?i:what|which) (?P<np>(?!(?:{_AUXILIARY})\b)[a-z-]+(?: (?!(?:{_AUXILIARY})\b)[a-z-]+)?) (?P<be>{_BE}) (?P<x>{_X})(?P<rest>(?: .+)?)",
     [lambda m: f"the {m['np']} {m['x']} {m['be']}{m['rest']}", lambda m: f"the {m['np']} that {m['x']} {m['be']}{m['rest']}"]),
    (rf"(?i:what|which) (?P<np>(?!(?:{_AUXILIARY})\b)[a-z-]+(?: (?!(?:{_AUXILIARY})\b)[a-z-]+)?) (?P<aux>did|does|do) (?P<x>{_X}) (?P<verb>[a-z]+)(?P<rest>.*)",
     [lambda m: f"the {m['np']} {m['x']} {_finite(m)}{m['rest']}", lambda m: f"the {m['np']} that {m['x']} {_finite(m)}{m['rest']}"]),
    (rf"(?i:what|which) (?P<np>(?!(?:{_AUXILIARY})\b)[a-z-]+) (?P<rest>(?:{_BE}|has|had|[a-z]+(?:ed|s)) .+)", [lambda m: f"the {m['np']} that {m['rest']}"]),
    (rf"{_WHAT} (?P<aux>did|does|do) (?P<x>{_X}) (?P<verb>[a-z]+)(?P<rest>.*)",
     [lambda m: f"what {m['x']} {_finite(m)}{m['rest']}", lambda m: f"the thing that {m['x']} {_finite(m)}{m['rest']}"]),
    (rf"{_WHAT} (?P<rest>(?:{_BE}|has|had|[a-z]+(?:ed|s)) .+)", [lambda m: f"the thing that {m['rest']}"]),
)
