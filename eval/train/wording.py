"""How a relation is asked: the canonical wording first, then paraphrases.

The planner is trained to write the canonical one (a single target per state learns fastest and
reads best downstream); paraphrases appear as earlier lines, as the reader's questions, and count as
right in the evaluation. `{x}` is the subject, `{k}` a noun such as "film " where the question names
one. Wordings are ours; relation names come from the data sets (Wikidata property labels).
"""

from __future__ import annotations

import re

from .records import Hop, Question, normal

WORDINGS: dict[str, list[str]] = {
    # 2WikiMultihopQA
    "director": ["Who is the director of {k}{x}?", "Who directed {k}{x}?", "{x} was directed by whom?"],
    "date of birth": ["When was {x} born?", "What is {x}'s date of birth?", "What is the date of birth of {x}?", "What is the birth date of {x}?"],
    "date of death": ["When did {x} die?", "What is {x}'s date of death?", "What is the date of death of {x}?", "On what date did {x} die?"],
    "father": ["Who is the father of {x}?", "Who is {x}'s father?", "Who was {x}'s father?", "Who was the father of {x}?"],
    "mother": ["Who is the mother of {x}?", "Who is {x}'s mother?", "Who was {x}'s mother?", "Who was the mother of {x}?"],
    "spouse": ["Who is the spouse of {x}?", "Who is {x}'s spouse?", "Who was {x} married to?", "Who did {x} marry?", "Who is the husband or wife of {x}?"],
    "sibling": ["Who is the sibling of {x}?", "Who is {x}'s brother or sister?", "Who is {x}'s sibling?"],
    "child": ["Who is the child of {x}?", "Who is {x}'s child?", "Who is the son or daughter of {x}?"],
    "country of citizenship": ["What is the nationality of {x}?", "What is {x}'s nationality?", "Which country is {x} from?", "What country is {x} a citizen of?", "What nationality is {x}?"],
    "publication date": ["When was {k}{x} released?", "What is the release date of {k}{x}?", "When did {k}{x} come out?", "In what year was {k}{x} released?"],
    "place of birth": ["Where was {x} born?", "What is {x}'s place of birth?", "What is the place of birth of {x}?", "In what place was {x} born?"],
    "place of death": ["Where did {x} die?", "What is {x}'s place of death?", "What is the place of death of {x}?", "In what place did {x} die?"],
    "place of burial": ["Where is {x} buried?", "Where was {x} buried?", "What is the burial place of {x}?"],
    "country": ["Which country is {x} located in?", "What country is {x} in?", "In which country is {x}?"],
    "country of origin": ["Which country is {k}{x} from?", "What is the country of origin of {k}{x}?", "What country does {k}{x} come from?"],
    "performer": ["Who is the performer of {k}{x}?", "Who performed {k}{x}?", "Who sang {k}{x}?"],
    "composer": ["Who is the composer of {k}{x}?", "Who composed {k}{x}?", "Who composed the music for {k}{x}?"],
    "educated at": ["Where was {x} educated?", "Where did {x} study?", "Which school did {x} attend?", "Where did {x} graduate from?"],
    "employer": ["Where does {x} work?", "Who is the employer of {x}?", "Who employed {x}?", "Where did {x} work?"],
    "inception": ["When was {x} founded?", "When was {x} established?", "When was {x} formed?"],
    "award received": ["What award did {x} receive?", "Which award did {x} win?", "What award was given to {x}?"],
    "cause of death": ["What was the cause of death of {x}?", "What did {x} die of?", "How did {x} die?", "Why did {x} die?"],
    "founded by": ["Who founded {x}?", "Who is the founder of {x}?", "Who established {x}?"],
    "producer": ["Who is the producer of {k}{x}?", "Who produced {k}{x}?"],
    "publisher": ["Who is the publisher of {x}?", "Who published {x}?"],
    "creator": ["Who is the creator of {x}?", "Who created {x}?"],
    "editor": ["Who is the editor of {x}?", "Who edits {x}?"],
    "occupation": ["What is the occupation of {x}?", "What is {x}'s occupation?"],
    "place of detention": ["Where was {x} imprisoned?", "Where was {x} detained?"],
    "student of": ["Who was the teacher of {x}?", "Who taught {x}?"],
    "doctoral advisor": ["Who was the doctoral advisor of {x}?"],
    "presenter": ["Who is the presenter of {x}?", "Who presents {x}?"],
    "has part": ["Who is a member of {x}?", "Who is part of {x}?"],
    # MuSiQue
    "located in the administrative territorial entity": ["In which administrative region is {x} located?", "Which county or state is {x} in?", "What administrative territorial entity is {x} located in?", "Where is {x} located?"],
    "headquarters location": ["Where is the headquarters of {x}?", "Where is {x} headquartered?", "In which city is {x} headquartered?"],
    "author": ["Who is the author of {x}?", "Who wrote {x}?"],
    "record label": ["What is the record label of {x}?", "Which record label is {x} signed to?"],
    "shares border with": ["What shares a border with {x}?", "Which place borders {x}?"],
    "member of sports team": ["Which sports team does {x} play for?", "What team is {x} a member of?"],
    "platform": ["What platform is {x} on?", "On which platform does {x} run?"],
    "cast member": ["Who is a cast member of {x}?", "Who starred in {x}?"],
    "owned by": ["Who owns {x}?", "Who is the owner of {x}?"],
    "contains administrative territorial entity": ["What administrative entity does {x} contain?", "Which place lies in {x}?"],
    "capital": ["What is the capital of {x}?", "What is {x}'s capital?"],
    "member of": ["What is {x} a member of?", "Which group is {x} a member of?"],
    "location of formation": ["Where was {x} formed?", "In what place was {x} formed?"],
    "location": ["Where is {x} located?", "What is the location of {x}?"],
    "mouth of the watercourse": ["What body of water does {x} flow into?", "Where is the mouth of {x}?"],
    "operator": ["Who operates {x}?", "Who is the operator of {x}?"],
    "capital of": ["What is {x} the capital of?", "{x} is the capital of what?"],
    "located on terrain feature": ["On which terrain feature is {x} located?", "What landform is {x} on?"],
    "manufacturer": ["Who is the manufacturer of {x}?", "Who manufactured {x}?", "Who makes {x}?"],
    "part of": ["What is {x} a part of?", "What does {x} belong to?"],
    "licensed to broadcast to": ["Which city is {x} licensed to broadcast to?", "What place is {x} licensed in?"],
    "work location": ["Where did {x} work?", "In which city did {x} work?"],
    "instance of": ["What is {x}?", "What kind of thing is {x}?"],
    "member of political party": ["Which political party is {x} a member of?", "What party does {x} belong to?"],
    "named after": ["What is {x} named after?", "Who is {x} named after?"],
    "screenwriter": ["Who is the screenwriter of {x}?", "Who wrote the screenplay of {x}?"],
    "original language of film or TV show": ["What is the original language of {x}?", "In what language is {x}?"],
    "participant in": ["What did {x} participate in?", "Which event did {x} take part in?"],
    "conflict": ["Which war did {x} fight in?", "What conflict was {x} involved in?"],
    "located in or next to body of water": ["Which body of water is {x} next to?", "What body of water is {x} located in?"],
    "distributed by": ["Who distributed {x}?", "Who is the distributor of {x}?"],
    "notable work": ["What is a notable work of {x}?", "What is {x} known for?"],
    "followed by": ["What follows {x}?", "What came after {x}?"],
    "participant": ["Who participated in {x}?", "Who took part in {x}?"],
    "league": ["Which league does {x} play in?", "What league is {x} in?"],
    "follows": ["What does {x} follow?", "What came before {x}?"],
    "original broadcaster": ["What network originally aired {x}?", "Which channel broadcast {x}?"],
    "continent": ["Which continent is {x} on?", "On what continent is {x}?"],
    "part of the series": ["What series is {x} part of?", "Which series does {x} belong to?"],
    "present in work": ["Which work does {x} appear in?", "What work is {x} a character in?"],
    "winner": ["Who won {x}?", "Who is the winner of {x}?"],
    "developer": ["Who developed {x}?", "Who is the developer of {x}?"],
    "occupant": ["Who occupies {x}?", "What team plays at {x}?"],
    "movement": ["Which movement is {x} associated with?", "What movement did {x} belong to?"],
    "field of work": ["What is {x}'s field of work?", "In what field did {x} work?"],
    "instrument": ["What instrument does {x} play?", "Which instrument did {x} play?"],
    "place served by transport hub": ["Which place does {x} serve?", "What city is served by {x}?"],
    "position held": ["What position does {x} hold?", "What office did {x} hold?"],
    "crosses": ["What does {x} cross?", "Which river does {x} cross?"],
    "based on": ["What is {x} based on?"],
    "languages spoken, written or signed": ["What language does {x} speak?"],
    "applies to jurisdiction": ["Which jurisdiction does {x} apply to?"],
    "sport": ["What sport does {x} play?"],
    "native language": ["What is {x}'s native language?"],
}
_KINDS = ("film", "song", "album", "movie", "magazine", "novel", "book")


def kind_noun(question: str, relation: str) -> str:
    """"the film " where the question itself calls its subject a film, else nothing."""
    if "{k}" not in WORDINGS.get(relation, [""])[0]:
        return ""
    low = question.lower()
    for kind in _KINDS:
        if re.search(rf"\b{kind}s?\b", low):
            return f"the {'film' if kind == 'movie' else kind} "
    return ""


def tidy(template: str) -> str:
    """MuSiQue's hop questions were typed by many hands: mend spacing, capital and question mark."""
    text = " ".join(template.split())
    text = re.sub(r"\s+([?,.'’])", r"\1", text).replace(" 's", "'s")
    text = text.rstrip(" ?.") + "?"
    return text[0].upper() + text[1:]


def ask(hop: Hop, question: str, known: list[str], which: int = 0) -> str:
    """Wording number `which` of the hop, with known answers filled in."""
    if hop.template is not None:
        text = tidy(hop.template)
        for i, answer in enumerate(known):
            text = text.replace(f"#{i + 1}", answer)
        return text
    subject = hop.subject if hop.ref is None else known[hop.ref]
    forms = WORDINGS.get(hop.relation or "") or ["What is the {r} of {x}?".replace("{r}", hop.relation or "")]
    noun = kind_noun(question, hop.relation or "") if hop.ref is None else ""
    return forms[which % len(forms)].replace("{k}", noun).replace("{x}", subject or "")


def wordings(hop: Hop) -> int:
    """How many ways there are to ask this hop."""
    return 1 if hop.template is not None else len(WORDINGS.get(hop.relation or "", [""]))


def accepted(hop: Hop, question: Question, known: list[str]) -> set[str]:
    """Everything that counts as asking this hop, normalised; with and without the noun."""
    forms = set()
    for which in range(wordings(hop)):
        text = ask(hop, question.text, known, which)
        forms.add(normal(text))
        for kind in _KINDS:
            forms.add(normal(text.replace(f"the {kind} ", "")))
    return forms
