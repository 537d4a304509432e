"""Dates and countries: parsing, comparing, and the many ways a reader may spell them."""

from __future__ import annotations

import random
import re
from pathlib import Path

MONTHS = (
    "January February March April May June July August September October November December".split()
)
_MONTH = {m.lower(): i + 1 for i, m in enumerate(MONTHS)} | {
    m[:3].lower(): i + 1 for i, m in enumerate(MONTHS)
}
Date = tuple[int, int, int]  # year, month, day; 0 for what is not known

# Name, adjective, further spellings. Only what the data sets' countries are commonly called. The program computes by them
# what a comparison concludes.
_TABLE = Path(__file__).resolve().parents[2] / "crates/spechop-llm/src/steps/countries.txt"
COUNTRIES: tuple[tuple[str, ...], ...] = tuple(tuple(line.split("|")) for line in _TABLE.read_text(encoding="utf-8").splitlines())
_COUNTRY = {name.lower(): group[0] for group in COUNTRIES for name in group}


def canonical_country(text: str) -> str:
    """"American" and "U.S." both give "United States"; an unknown name gives itself."""
    low = text.lower().strip(" .")
    low = low.removeprefix("the ")
    return _COUNTRY.get(low) or _COUNTRY.get(low + ".") or low


def judged(note: str) -> str:
    """A note of the planner with the verdict that follows from its two countries, if both are known (`steps/closing.rs`)."""
    compared, found, said = note.removeprefix("Compare:").rpartition(": ")
    sides = [side.lower().strip(" .").removeprefix("the ") for side in compared.split(" / ")]
    if not found or len(sides) != 2 or not all(side in _COUNTRY or side + "." in _COUNTRY for side in sides):
        return note
    verdict = "same" if canonical_country(sides[0]) == canonical_country(sides[1]) else "different"
    return note if said == verdict else f"Compare:{compared}: {verdict}"


def spell_country(name: str, rng: random.Random, adjective: float = 0.5) -> str:
    """One of a country's names or its adjective."""
    group = next((g for g in COUNTRIES if g[0] == name), (name,))
    if len(group) > 1 and rng.random() < adjective:
        return group[1]
    return rng.choice([group[0], group[0], rng.choice(group)])


def parse_date(text: str) -> Date | None:
    """Reads "8 October 1848", "October 8, 1848", "October 1848", "1848", "1848-10-08"."""
    text = text.strip(" .,()")
    iso = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text)
    if iso:
        return int(iso[1]), int(iso[2]), int(iso[3])
    day, month, year = 0, 0, None
    for word in re.findall(r"[A-Za-z]+|\d+", text):
        if word.isdigit():
            if len(word) >= 3:
                if year is not None:
                    return None
                year = int(word)
            elif day == 0:
                day = int(word)
            else:
                return None
        elif word.lower() in _MONTH:
            month = _MONTH[word.lower()]
        elif word.lower() not in {"c", "circa", "about", "ad", "of", "st", "nd", "rd", "th"}:
            return None
    return None if year is None else (year, month, day)


def spell_date(date: Date, rng: random.Random, noise: bool = True) -> str:
    """One of the ways Wikipedia and our reader write a date."""
    year, month, day = date
    if not month:
        return str(year)
    name = MONTHS[month - 1]
    if not day:
        return rng.choice([f"{name} {year}", f"{name}, {year}"])
    forms = [f"{day} {name} {year}", f"{name} {day}, {year}"]
    if noise and rng.random() < 0.15:
        short = name[:3]
        forms = [
            f"{name} {day} {year}", f"{short} {day}, {year}", f"{day} {short} {year}",
            f"{year}-{month:02d}-{day:02d}", f"{day}{_ordinal(day)} {name} {year}",
        ]
    return rng.choice(forms)


def _ordinal(day: int) -> str:
    return "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def random_date(rng: random.Random, low: int = 1500, high: int = 2015) -> Date:
    """Mostly modern, as in an encyclopaedia; now and then medieval, now and then the year alone."""
    if low <= 1500 and rng.random() < 0.04:
        low = 900
    elif rng.random() < 0.75:
        low = max(low, 1860)
    date = (rng.randint(low, high), rng.randint(1, 12), rng.randint(1, 28))
    roll = rng.random()
    return (date[0], 0, 0) if roll < 0.1 else (date[0], date[1], 0) if roll < 0.13 else date


def date_pair(rng: random.Random, years_only: bool = False) -> tuple[Date, Date]:
    """Two dates of which one is certainly earlier, as written; close ones on purpose."""
    while True:
        a, b = random_date(rng), random_date(rng)
        roll = rng.random()
        if roll < 0.35:  # within a lifetime, where most real questions lie
            b = (max(400, a[0] + rng.randint(-40, 40)), b[1], b[2])
        elif roll < 0.50:  # same decade
            b = (a[0] + rng.randint(-6, 6), b[1], b[2])
        elif roll < 0.57 and a[1] and b[1]:  # same year: the month decides
            b = (a[0], b[1], b[2])
        elif roll < 0.59 and a[2] and b[2]:  # same month: the day decides
            b = (a[0], a[1], b[2])
        if years_only:
            a, b = (a[0], 0, 0), (b[0], 0, 0)
        if earlier(a, b) is not None:
            return a, b


def earlier(a: Date, b: Date) -> bool | None:
    """Whether a is before b; None where what is written does not decide."""
    for x, y in zip(a, b):
        if x == 0 or y == 0:
            return None
        if x != y:
            return x < y
    return None
