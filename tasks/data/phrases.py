"""Words and sentence frames of the `templates` source; written for this project.

A frame has a placeholder for an identity (`{term}`) and for a person (`{who}`, or `{group}` in the
plural). A third placeholder is for the word that sets the polarity: `{adj}`, `{noun}` (plural) or
`{verb}` (after *I*, *we* or *they*). Every word fits every frame, so the frame does not predict
the label. The insults are mild; they are needed to test a classifier.

The phrases are difficult like real comments. Some frames negate, so that a friendly word gives a
hostile sentence. Some praise or blame something else, and some words occur only in the test part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WordKind = Literal["adj", "noun", "verb"]
Polarity = Literal["hostile", "friendly"]

DEFAULT_TERMS: dict[str, list[str]] = {
    "female": ["female"],
    "male": ["male"],
    "transgender": ["transgender", "trans"],
    "gay": ["gay"],
    "lesbian": ["lesbian"],
    "bisexual": ["bisexual"],
    "straight": ["straight"],
    "christian": ["Christian"],
    "muslim": ["Muslim"],
    "jewish": ["Jewish"],
    "atheist": ["atheist"],
    "black": ["Black"],
    "white": ["white"],
    "asian": ["Asian"],
    "latino": ["Latino"],
    "elderly": ["elderly"],
    "young": ["young"],
    "blind": ["blind"],
    "deaf": ["deaf"],
}


@dataclass(frozen=True)
class SentenceFrame:
    """A sentence with placeholders."""

    key: str
    """Name of the cluster of its sentences."""
    text: str
    kind: WordKind
    """The kind of word that sets the polarity."""
    negated: bool
    """True if a friendly word gives a hostile sentence."""


def _split_words(words: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in words.split(","))


def _parse_frames(part: str, lines: str) -> tuple[SentenceFrame, ...]:
    texts = [line.strip() for line in lines.strip().splitlines()]
    kinds: tuple[WordKind, ...] = ("adj", "noun", "verb")
    return tuple(
        SentenceFrame(
            key=f"{part}-{number:02d}",
            text=text.removeprefix("NOT "),
            kind=next(kind for kind in kinds if f"{{{kind}}}" in text),
            negated=text.startswith("NOT "),
        )
        for number, text in enumerate(texts, start=1)
    )


PEOPLE = _split_words(
    "neighbour, teacher, driver, nurse, student, singer, waiter, doctor, colleague, cook, "
    "cousin, lawyer, tourist, customer, plumber, reporter"
)

NEUTRAL = _split_words(
    "local, tall, married, vegetarian, left-handed, quiet, retired, foreign-trained, part-time, "
    "suburban, bearded, self-employed, experienced, seasonal"
)
"""Words in place of the identity, for sentences without an identity."""

# First the words of both parts, then words of the test part only.
HOSTILE: dict[WordKind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "adj": (
        _split_words(
            "disgusting, stupid, worthless, pathetic, repulsive, idiotic, filthy, dumb, useless, "
            "vile, brainless, moronic, despicable, contemptible, rotten, gross, nasty, sickening, "
            "loathsome, ignorant, hideous, dishonest, lazy, greedy"
        ),
        _split_words(
            "revolting, dim-witted, detestable, clueless, trashy, spineless, obnoxious, creepy"
        ),
    ),
    "noun": (
        _split_words(
            "idiots, losers, parasites, morons, vermin, trash, scum, liars, cowards, fools, "
            "pigs, rats, clowns, garbage"
        ),
        _split_words("imbeciles, leeches, dimwits, cockroaches, creeps"),
    ),
    "verb": (
        _split_words(
            "hate, despise, loathe, detest, cannot stand, mock, look down on, resent, ridicule, "
            "want to get rid of"
        ),
        _split_words("abhor, scorn, feel sick around"),
    ),
}

FRIENDLY: dict[WordKind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "adj": (
        _split_words(
            "kind, clever, generous, friendly, honest, charming, brilliant, helpful, patient, "
            "thoughtful, funny, talented, polite, wonderful, reliable, gentle, brave, caring, "
            "creative, calm, wise, cheerful, modest, inspiring"
        ),
        _split_words("gracious, witty, humble, courteous, sensible, fearless, harmless, amazing"),
    ),
    "noun": (
        _split_words(
            "friends, heroes, angels, experts, artists, champions, leaders, volunteers, "
            "good company, listeners, mentors, role models, gentle souls, optimists"
        ),
        _split_words("allies, peacemakers, treasures, storytellers, good sports"),
    ),
    "verb": (
        _split_words(
            "like, respect, admire, trust, love, look up to, appreciate, thank, welcome, "
            "want to hear from"
        ),
        _split_words("cherish, applaud, feel safe around"),
    ),
}

TRAIN_FRAMES = _parse_frames(
    "train",
    """
    {term} {group} are {adj}.
    Most {term} {group} I have met are {adj}.
    My {term} {who} is {adj}.
    The {term} {who} on the early bus was {adj} again.
    Honestly, every {term} {who} in this town is {adj}.
    Why are {term} {group} always so {adj}?
    I went to school with some {term} {group}, and they were all {adj}.
    Say what you like, that {term} {who} is {adj}.
    The {term} {who} who fixed our roof turned out to be {adj}.
    Ask anyone on this street: {term} {group} are {adj}.
    Our new {term} {who} seems {adj} to me.
    It took me one phone call to see that the {term} {who} is {adj}.
    So the {term} {who} from the second floor is {adj}, big surprise.
    As a rule {term} {group} strike me as {adj}.
    Last week a certain {term} {who} was really {adj} at the meeting.
    I shared an office with {term} {group} for years and found them {adj}.
    You can tell from the interview how {adj} this {term} {who} is.
    Terrible weather, but the {term} {who} at the kiosk was {adj}.
    The parade was great and the {term} {group} up front were {adj}.
    My train was late, the coffee was cold and that {adj} {term} {who} sat beside me.
    Lovely garden, and the {term} {who} who looks after it is {adj}.
    NOT I would never call {term} {group} {adj}.
    NOT Whoever says that {term} {group} are {adj} has not met any.
    {term} {group} are {noun}.
    All the {term} {group} at my gym are {noun}.
    In my experience {term} {group} are mostly {noun}.
    Those {term} {group} down the road are {noun}, believe me.
    The {term} {group} in the comments here are {noun}.
    We hired three {term} {group} last spring; they are {noun}.
    You need to know one thing about {term} {group}: they are {noun}.
    The hotel was a dump, but the {term} {group} there were {noun}.
    NOT Nobody with any sense thinks {term} {group} are {noun}.
    I {verb} {term} {group}.
    At our school they {verb} {term} {group}.
    We {verb} the {term} {who} upstairs.
    I have to admit that I {verb} that {term} {who}.
    People around here {verb} {term} {group}, and so do I.
    After yesterday I {verb} {term} {group} even more.
    The show is boring, but I {verb} the {term} {who} in it.
    Some of us {verb} every single {term} {who} we work with.
    """,
)

TEST_FRAMES = _parse_frames(
    "test",
    """
    I find {term} {group} {adj}.
    To be fair, the {term} {who} in your story sounds {adj}.
    The {term} {who} we met on holiday was {adj}.
    Everyone in the queue noticed how {adj} the {term} {who} was.
    {term} {group} can be so {adj} when it matters.
    Have you talked to the {term} {who} lately? Just {adj}.
    My aunt keeps telling me that {term} {group} are {adj}.
    Two {term} {group} moved in next door and both are {adj}.
    That {adj} {term} {who} wrote to me again today.
    I read the whole article, and the {term} {who} in it is {adj}.
    Nine times out of ten {term} {group} are {adj}, if you ask me.
    There goes the {term} {who} from the bakery, {adj} as ever.
    I did not expect the {term} {who} to be this {adj}.
    The soup was disgusting, but the {term} {who} who served it was {adj}.
    What a wonderful concert, and the {term} {who} on stage was {adj}.
    The film is stupid from start to end; only its {term} {who} is {adj}.
    Thanks for the helpful map. The {term} {who} at the desk was {adj}.
    NOT It is simply false that {term} {group} are {adj}.
    If you ask my boss, {term} {group} are {noun}.
    The {term} {group} on my football team are {noun}.
    Let us face it, {term} {group} are {noun}.
    I moved here a year ago and learned that {term} {group} are {noun}.
    Both {term} {group} on the panel are {noun}.
    The road is garbage, but the {term} {group} who live along it are {noun}.
    I grew up among {term} {group} and can say they are {noun}.
    My parents {verb} {term} {group}.
    I {verb} the {term} {who} in apartment nine.
    On this forum we {verb} {term} {group}.
    There are days when I {verb} our {term} {who}.
    I hate Mondays, but I {verb} the {term} {who} who opens the shop.
    """,
)


def select_words(kind: WordKind, polarity: Polarity, *, held_out: bool) -> tuple[str, ...]:
    """Return the words of a kind and polarity, optionally with the held-out words."""
    shared, test_only = (HOSTILE if polarity == "hostile" else FRIENDLY)[kind]
    return shared + test_only if held_out else shared
