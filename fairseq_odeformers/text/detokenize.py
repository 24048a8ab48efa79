"""Detokenisation of Moses' tokens: Moses' own rules for spaces and additional unambiguous rules.

Moses' tokeniser divides text at all quotes, brackets and apostrophes. Its detokeniser only knows
the ASCII ones and the contractions of a few languages.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence

LEFT, RIGHT = "\ufdd0", "\ufdd1"  # no space before LEFT, none after RIGHT; texts contain neither
GLUE = re.compile(f" ?{LEFT}|{RIGHT} ?")

CLOSING_MARKS = {  # each key opens a quote, and its value closes it
    **{"“": "”", "„": "“”", "‘": "’", "‚": "‘’"},
    **{"«": "»", "»": "«", "‹": "›", "›": "‹"},
}
NORDIC_LANGUAGES = ("fi", "sv")  # languages with ” on both sides of a quote
SPACED_LANGUAGES = ("fr",)  # languages with spaces inside « quotes »
NO_SPACE_AFTER = "（「『【《〈〔"  # these marks have no space after them
NO_SPACE_BEFORE = "।॥،؛؟۔։。，、；：！？）」』】》〉〕"  # these marks have no space before them
JOINERS = "\u200b\u200c\u200d\u2060"
UNSPACED_LANGUAGES = ("ja", "zh")
INNER_MARKS = {":": r"\d\d", "·": "ll"}  # no space around a mark between these: 14:30, col·lecció

RESTORED = "restored"  # in signatures of scores: the share that choose_references replaced

APOSTROPHES = "'’"
ELIDED = r"[bcçdghjklmnrstvxz]|(?:.*qu|aujourd|grand|un|(?:.*[^\W\d_])?(?:ll|st|nt))"
# The words before and after an apostrophe that joins them, by language.
JOINED = {
    **dict.fromkeys(("be", "uk"), (r".*[^\W\d_]", "[яюєїеёіию].*")),
    **dict.fromkeys(("de", "da", "sv", "no", "nb", "nn"), (r".*\w", "s")),
    **dict.fromkeys(("fr", "it", "ga", "ca", "oc", "pt", "gl"), (ELIDED, r"\w.*")),
    **dict.fromkeys(("tr", "az", "uz"), (r".*\w", r"[^\W\d_]+")),
    "nl": (r".*\w", "s|tje|tjes|er|en"),
}
CONTRACTIONS = "s|t|re|ve|ll|d|m|em"  # in English, after ’; Moses itself knows those after '
CUT_AFTER = {"it": "po|mo|va|fa|da|di|sta|to|be"}  # words that end in an apostrophe
CUT_BEFORE = {"nl": "t|n|k|s (?:avonds|morgens|middags|nachts|ochtends|winters|zomers)"}


def make_detokenizer(lang: str) -> Callable[[str], str]:
    """Make a function that turns Moses' tokens, separated by spaces, into text."""
    from sacremoses import MosesDetokenizer

    moses = MosesDetokenizer(lang)
    base = re.split("[^a-z]", lang.lower())[0]

    def detokenize(text: str) -> str:
        tokens = moses.unescape_xml(text.replace(" @-@ ", "-")).split()
        return GLUE.sub("", moses.detokenize(glue(tokens, base), unescape=False))

    return detokenize


def glue(tokens: Sequence[str], lang: str) -> list[str]:
    """Add marks to the tokens where a space is missing and Moses does not know it."""
    apostrophes = dict(find_apostrophes(tokens, lang))
    opening, closing = find_quotes(tokens, lang, apostrophes)
    glued = []
    for index, token in enumerate(tokens):
        left, right = apostrophes.get(index, (token in JOINERS, token in JOINERS))
        left |= index in closing or token in NO_SPACE_BEFORE
        right |= index in opening or token in NO_SPACE_AFTER
        if token in INNER_MARKS and 0 < index < len(tokens) - 1:
            around = tokens[index - 1][-1] + tokens[index + 1][0]
            left = right = left or bool(re.fullmatch(INNER_MARKS[token], around, re.IGNORECASE))
        if lang in UNSPACED_LANGUAGES and (token in NO_SPACE_BEFORE or token in NO_SPACE_AFTER):
            left |= index > 0 and unicodedata.east_asian_width(tokens[index - 1][-1]) in "FW"
            right = True
        glued.append(LEFT * left + token + RIGHT * right)
    return glued


def find_apostrophes(tokens: Sequence[str], lang: str) -> Iterator[tuple[int, tuple[bool, bool]]]:
    """Yield the place of each apostrophe and whether spaces are missing before and after it."""
    words = [token.lower() for token in tokens]
    for index, token in enumerate(tokens[:-1]):
        if token not in APOSTROPHES:
            continue
        before, after = words[index - 1] if index else "", words[index + 1]
        following = " ".join(words[index + 1 : index + 3])
        if lang == "en":
            if token == "’" and re.fullmatch(CONTRACTIONS, after) and before[-1:].isalpha():
                yield index, (True, True)
            elif token == "’" and before.endswith("s") and "‘" not in tokens[:index]:
                yield index, (True, False)
        elif re.match(f"(?:{CUT_BEFORE.get(lang, '-')})\\b", following) and before != "zo":
            yield index, (False, True)
        elif re.fullmatch(CUT_AFTER.get(lang, "-"), before):
            yield index, (True, False)
        elif lang in JOINED:
            first, second = JOINED[lang]
            if re.fullmatch(first, before) and re.fullmatch(second, after):
                yield index, (True, True)


def find_quotes(
    tokens: Sequence[str], lang: str, others: Collection[int]
) -> tuple[set[int], set[int]]:
    """Find the places of marks that open a quote and the places of marks that close one.

    Since languages differ in the direction of some marks, the first mark opens the quote. A quote
    that is not closed in the same text is left out, since its direction is unclear.

    Args:
        others: places of marks that belong to no quote.
    """
    closers = {**CLOSING_MARKS, "”": "”"} if lang in NORDIC_LANGUAGES else CLOSING_MARKS
    closers = {
        mark: closers[mark]
        for mark in closers
        if lang not in SPACED_LANGUAGES or mark not in "«»‹›"
    }
    opening: set[int] = set()
    closing: set[int] = set()
    waiting: dict[str, list[int]] = {mark: [] for mark in closers}  # places of marks not yet closed
    for index, token in enumerate(tokens):
        if index in others:
            continue
        closed = [waiting[mark][-1] for mark in closers if token in closers[mark] and waiting[mark]]
        if closed:
            opening.add(max(closed))
            closing.add(index)
            for places in waiting.values():
                while places and places[-1] >= max(closed):
                    places.pop()
        elif token in closers:
            waiting[token].append(index)
    return opening, closing


def choose_references(
    tokens: Sequence[str], published: Sequence[str], detokenize: Callable[[str], str]
) -> tuple[list[str], int]:
    """Choose the references against which detokenised translations are scored.

    They are the published texts, with one exception: if the detokenised tokens of a reference
    differ from it only in spaces, the detokenised text replaces it. Then the same rules place the
    spaces of translations and references, and a translation with exactly these tokens is perfect.

    Args:
        tokens: tokens of each reference, as in translations; they may be in lower case.
        published: the references as published.

    Returns:
        The references, and the number of those that differ from the published ones.
    """
    references = []
    for text, reference in zip(map(detokenize, tokens), published, strict=True):
        same = remove_spaces(text) == remove_spaces(reference)
        exact = text.casefold() == " ".join(reference.casefold().split())
        references.append(text if same and not exact else reference)
    return references, sum(map(str.__ne__, references, published))


def remove_spaces(text: str) -> str:
    """Remove case, spaces and control characters from a text, since tokens have none of them."""
    characters = (char for char in text.casefold() if not char.isspace())
    return "".join(char for char in characters if unicodedata.category(char) != "Cc")
