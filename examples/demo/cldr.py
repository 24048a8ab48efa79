"""A German-English corpus made from the Unicode CLDR, for demonstrations and tests.

A small synchronous grammar, ``grammar.json``, is expanded at random: each production is a pair of a
German and an English text, and a field such as ``{country}`` stands for the same thing on both
sides. The fields end in what the CLDR says in both languages, read through Babel: dates and times
in several formats, durations, quantities with their units, amounts of money, countries and
languages. So the pairs are translations of each other, and they differ as German and English do:
the verb at the end of the clause, separable verbs, the order of time, object and place, the order
within a date, the 24-hour clock, the decimal comma.

The same seed, sizes and version of Babel give the same files on every machine::

    python examples/demo/cldr.py --out DIR --train 20000 --valid 500 --test 500
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import random
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from string import Formatter
from typing import Callable

from babel import Locale
from babel.dates import format_date, format_time, format_timedelta
from babel.lists import format_list
from babel.numbers import format_compact_decimal, format_currency, format_percent
from babel.units import format_unit

from fairseq_odeformers.files import replacing

Pair = tuple[str, str]  # a German text and the same in English

MAX_PAIRS = 500_000  # beyond it the pairs differ in little more than their numbers

# Countries whose bare name follows "in", "aus", "nach" and "von" in German, without an article, and
# that are not so small an island that German says "auf".
COUNTRIES = """
    AD AF AL AM AO AR AT AU AZ BD BE BF BG BH BI BJ BO BR BT BW BY BZ CA CL CM CN CO CR CZ DE DJ
    DK DZ EC EE EG ER ES ET FI FR GA GE GH GL GN GR GT GW GY HN HR HT HU ID IE IL IN IS IT JO JP
    KE KG KH KP KR KW KZ LA LI LK LR LS LT LU LV LY MA MC ME MK ML MR MW MX MY MZ NA NG NI NO NP
    NZ OM PA PE PG PK PL PT PY QA RO RS RU RW SA SE SG SI SL SM SO SR SV SY SZ TG TH TJ TL TM TN
    TW TZ UG UY UZ VE VN ZA ZM ZW
""".split()
LANGUAGES = """
    ar az be bg bs ca cs cy da de el en es et eu fa fi fr ga he hi hr hu hy id is it ja ka kk km
    ko ky lb lt lv mk mn mt nl pl pt ro ru sk sl sq sr sv ta tg th tk tr uk ur uz vi zh
""".split()
CURRENCIES = """
    AUD CAD CHF CZK DKK EGP EUR GBP HUF INR ISK JPY KRW MXN NOK NZD PLN SEK SGD TRY USD
""".split()
CURRENCIES_WITH_SYMBOL = ["EUR", "GBP", "JPY", "USD"]


def _both(render: Callable[[str], str]) -> Pair:
    """What *render* makes of the locales "de" and "en"; CLDR's special spaces become plain ones."""
    de, en = (" ".join(render(locale).split()) for locale in ("de", "en"))
    return de, en


def _date(rng: random.Random, formats: Sequence[str]) -> Pair:
    """A day as the German and the English one of *formats* (or both the same) write it."""
    day = datetime.date(1960, 1, 1) + datetime.timedelta(days=rng.randrange(90 * 365))
    return _both(lambda locale: format_date(day, formats[locale != "de"], locale))


def _time(rng: random.Random) -> Pair:
    time = datetime.time(rng.randrange(24), rng.choice([0, 15, 30, 45, rng.randrange(60)]))
    return _both(lambda locale: format_time(time, "short", locale=locale))


def _relative(rng: random.Random, direction: int) -> Pair:
    unit, seconds, most = rng.choice(
        [("minute", 60, 59), ("hour", 3600, 23), ("day", 86400, 30), ("week", 604800, 12)]
    )
    delta = datetime.timedelta(seconds=direction * seconds * rng.randint(1, most))
    return _both(
        lambda locale: format_timedelta(
            delta, granularity=unit, threshold=float("inf"), add_direction=True, locale=locale
        )
    )


def _duration(rng: random.Random) -> Pair:
    large, small = rng.choice([("year", "month"), ("day", "hour"), ("hour", "minute")])
    parts = [(rng.randint(1, 11), f"duration-{large}"), (rng.randint(1, 11), f"duration-{small}")]
    parts = rng.choice([parts, parts[:1], parts[1:]])
    return _both(
        lambda locale: format_list(
            [format_unit(number, unit, locale=locale) for number, unit in parts], locale=locale
        )
    )


def _number(rng: random.Random) -> Decimal:
    """A number that asks for the plural in both languages."""
    return rng.choice(
        [
            Decimal(rng.randint(2, 20)),
            Decimal(rng.randint(21, 999)),
            Decimal(rng.randint(2, 99) * 500),
            Decimal(rng.randint(21, 999)) / 10,
        ]
    )


def _small_number(rng: random.Random) -> Decimal:
    return rng.choice([Decimal(rng.randint(2, 40)), Decimal(rng.randint(21, 399)) / 10])


def _quantity(
    rng: random.Random,
    units: Sequence[str],
    number: Callable[[random.Random], Decimal] = _number,
) -> Pair:
    amount, unit = number(rng), rng.choice(units)
    return _both(lambda locale: format_unit(amount, unit, locale=locale))


def _money(rng: random.Random) -> Pair:
    number = _number(rng)
    if rng.random() < 0.5:
        currency = rng.choice(CURRENCIES_WITH_SYMBOL)
        return _both(lambda locale: format_currency(number, currency, locale=locale))
    currency = rng.choice(CURRENCIES)
    digits = "#,##0" if number == int(number) else "#,##0.00"
    return _both(
        lambda locale: format_currency(
            number, currency, digits, locale, currency_digits=False, format_type="name"
        )
    )


def _percent(rng: random.Random) -> Pair:
    share = Decimal(rng.randint(11, 999)) / 1000
    return _both(lambda locale: format_percent(share, "#,##0.#%", locale))


def _people(rng: random.Random) -> Pair:
    number = rng.randint(2, 900) * 1_000_000
    return _both(lambda locale: format_compact_decimal(number, format_type="long", locale=locale))


def _name(rng: random.Random, kind: str, codes: Sequence[str]) -> Pair:
    code = rng.choice(codes)
    return _both(lambda locale: getattr(Locale(locale), kind)[code])


def _countries(rng: random.Random) -> Pair:
    codes = rng.sample(COUNTRIES, rng.randint(2, 3))
    return _both(
        lambda locale: format_list(
            [Locale(locale).territories[code] for code in codes], "standard", locale
        )
    )


TERMINALS: dict[str, Callable[[random.Random], Pair]] = {
    "long_date": lambda rng: _date(rng, ["long", "long"]),
    "medium_date": lambda rng: _date(rng, ["medium", "medium"]),
    "short_date": lambda rng: _date(rng, ["short", "short"]),
    "full_date": lambda rng: _date(rng, ["EEEE, 'dem' d. MMMM y", "full"]),
    "day": lambda rng: _date(rng, ["d. MMMM", "MMMM d"]),
    "month": lambda rng: _date(rng, ["MMMM y", "MMMM y"]),
    "quarter": lambda rng: _date(rng, ["QQQQ y", "QQQQ 'of' y"]),
    "time": _time,
    "ago": lambda rng: _relative(rng, -1),
    "from_now": lambda rng: _relative(rng, 1),
    "duration": _duration,
    "mass": lambda rng: _quantity(
        rng, ["mass-tonne", "mass-kilogram", "mass-gram", "mass-pound", "mass-ounce"]
    ),
    "volume": lambda rng: _quantity(
        rng, ["volume-liter", "volume-milliliter", "volume-cubic-meter", "volume-gallon"]
    ),
    "distance": lambda rng: _quantity(rng, ["length-kilometer", "length-mile"]),
    "length": lambda rng: _quantity(
        rng, ["length-meter", "length-centimeter", "length-foot", "length-inch"], _small_number
    ),
    "area": lambda rng: _quantity(
        rng, ["area-square-kilometer", "area-hectare", "area-square-meter", "area-square-mile"]
    ),
    "speed": lambda rng: _quantity(
        rng,
        ["speed-kilometer-per-hour", "speed-meter-per-second", "speed-mile-per-hour"],
        _small_number,
    ),
    "temperature": lambda rng: _quantity(
        rng, ["temperature-celsius", "temperature-fahrenheit"], _small_number
    ),
    "money": _money,
    "percent": _percent,
    "people": _people,
    "country": lambda rng: _name(rng, "territories", COUNTRIES),
    "countries": _countries,
    "language": lambda rng: _name(rng, "languages", LANGUAGES),
}


def _productions(grammar: dict[str, list]) -> dict[str, list[Pair]]:
    """The productions of each symbol: of ``grammar.json``, and those that its words make."""
    men, women = grammar.pop("men"), grammar.pop("women")
    verbs, clauses = grammar.pop("verbs"), grammar.pop("clauses")
    return {
        **{symbol: [(de, en) for de, en in pairs] for symbol, pairs in grammar.items()},
        "clause": [
            (_fill(de, german), _fill(en, english))
            for german, english in verbs
            for de, en in clauses
        ],
        "person": [(f"der {de}", f"the {en}") for de, en in men]
        + [(f"die {de}", f"the {en}") for de, en in women],
        "acquaintance": [(f"den {de}, der", f"the {en} who") for de, en in men]
        + [(f"die {de}, die", f"the {en} who") for de, en in women],
    }


def _fill(clause: str, verb: dict[str, str]) -> str:
    """A clause with the forms of a verb for ``<participle>`` and the like."""
    return re.sub(r"<(\w+)>", lambda form: verb[form[1]], clause)


GRAMMAR = Path(__file__).with_name("grammar.json")
PRODUCTIONS = _productions(json.loads(GRAMMAR.read_text(encoding="utf-8")))


def fields(text: str) -> list[str]:
    """The distinct fields of *text*, in their order."""
    return list(dict.fromkeys(name for _, name, _, _ in Formatter().parse(text) if name))


def expand(symbol: str, rng: random.Random) -> Pair:
    """A random German text for a symbol of the grammar, and its English translation."""
    if symbol in TERMINALS:
        return TERMINALS[symbol](rng)
    de, en = rng.choice(PRODUCTIONS[symbol])
    values: dict[str, Pair] = {}
    for field in fields(de):
        value = expand(field.rstrip("2"), rng)
        while value in values.values():  # from one country to another one
            value = expand(field.rstrip("2"), rng)
        values[field] = value
    return (
        de.format(**{field: value[0] for field, value in values.items()}),
        en.format(**{field: value[1] for field, value in values.items()}),
    )


def pairs(seed: int) -> Iterator[Pair]:
    """Sentence pairs without end; no sentence comes twice, in upper or lower case."""
    rng = random.Random(seed)
    seen = set()
    while True:
        de, en = (text[0].upper() + text[1:] for text in expand("sentence", rng))
        sides = {("de", de.lower()), ("en", en.lower())}
        if seen.isdisjoint(sides):
            seen |= sides
            yield de, en


def check_sizes(sizes: dict[str, int]) -> None:
    """Raises ValueError if a corpus with these numbers of pairs cannot be made."""
    for split, size in sizes.items():
        if size < 1:
            raise ValueError(f"--{split} {size}: each split needs at least one pair")
    total = sum(sizes.values())
    if total > MAX_PAIRS:
        split = max(sizes, key=lambda name: sizes[name])
        raise ValueError(
            f"--{split} {sizes[split]}: {total:,} pairs in all are more than the {MAX_PAIRS:,} "
            f"that the grammar is made for; ask for at most {MAX_PAIRS - total + sizes[split]:,}"
        )


def write_corpus(folder: Path, train: int, valid: int, test: int, seed: int) -> None:
    """Write ``{train,valid,test}.{de,en}`` of the given numbers of pairs, one sentence a line.

    No sentence of either language occurs twice in the corpus. The held-out pairs are drawn first:
    they are the same for every size of the training split.

    Raises:
        ValueError: a size is not positive, or the sizes are more than ``MAX_PAIRS`` in all.
    """
    sizes = {"test": test, "valid": valid, "train": train}
    check_sizes(sizes)
    folder.mkdir(parents=True, exist_ok=True)
    source = pairs(seed)
    for split, size in sizes.items():
        sides = zip(*itertools.islice(source, size))
        for language, lines in zip(("de", "en"), sides):
            with replacing(folder / f"{split}.{language}") as path:
                with open(path, "w", encoding="utf-8", newline="\n") as file:
                    file.writelines(f"{line}\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Make a German-English parallel corpus from the Unicode CLDR.",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of train.de, train.en, ...")
    parser.add_argument("--train", type=int, default=20000, metavar="N", help="training pairs")
    parser.add_argument("--valid", type=int, default=500, metavar="N", help="validation pairs")
    parser.add_argument("--test", type=int, default=500, metavar="N", help="test pairs")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    try:
        write_corpus(args.out, args.train, args.valid, args.test, args.seed)
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
