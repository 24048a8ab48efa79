"""A German-English corpus made from the Unicode CLDR, for demonstrations and tests.

A small synchronous grammar is expanded at random: each production is a pair of a German and an
English text, and a field such as ``{country}`` stands for the same thing on both sides. The fields
end in what the CLDR says in both languages, read through Babel: dates and times in several formats,
durations, quantities with their units, amounts of money, countries and languages. So the pairs are
translations of each other, and they differ as German and English do: the verb at the end of the
clause, separable verbs, the order of time, object and place, the order within a date, the 24-hour
clock, the decimal comma.

The same seed, sizes and version of Babel give the same files on every machine::

    python examples/demo/cldr.py --out DIR --train 20000 --valid 500 --test 500
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import random
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

MEN = [
    ("Arzt", "doctor"),
    ("Bäcker", "baker"),
    ("Bruder", "brother"),
    ("Fahrer", "driver"),
    ("Freund", "friend"),
    ("Händler", "trader"),
    ("Lehrer", "teacher"),
    ("Vater", "father"),
]
WOMEN = [
    ("Ärztin", "doctor"),
    ("Chefin", "boss"),
    ("Forscherin", "researcher"),
    ("Ingenieurin", "engineer"),
    ("Köchin", "cook"),
    ("Mutter", "mother"),
    ("Nachbarin", "neighbor"),
    ("Schwester", "sister"),
]
# A verb has two lines: what stands with it, participle and auxiliary, infinitive; and in English
# what stands with it, past, base form.
VERBS = """
    {goods} nach {country} | geliefert hat | liefern
    {goods} to {country} | delivered | deliver
    {goods} aus {country} | importiert hat | importieren
    {goods} from {country} | imported | import
    {goods} für {money} | gekauft hat | kaufen
    {goods} for {money} | bought | buy
    {goods} für {money} | verkauft hat | verkaufen
    {goods} for {money} | sold | sell
    {money} nach {country} | überwiesen hat | überweisen
    {money} to {country} | transferred | transfer
    in {country} {money} | bezahlt hat | bezahlen
    {money} in {country} | paid | pay
    {duration} in {country} | gearbeitet hat | arbeiten
    in {country} for {duration} | worked | work
    in {country} {language} | gelernt hat | lernen
    {language} in {country} | learned | learn
    einen Brief auf {language} | geschrieben hat | schreiben
    a letter in {language} | wrote | write
    {area} Land in {country} | gepachtet hat | pachten
    {area} of land in {country} | leased | lease
    von {country} nach {country2} | gereist ist | reisen
    from {country} to {country2} | traveled | travel
    {distance} durch {country} | gefahren ist | fahren
    {distance} through {country} | drove | drive
""".strip().splitlines()


def _clauses(german: str, english: str) -> list[Pair]:
    """The sentences that a verb makes; in German its place depends on the clause."""
    rest, perfect, infinitive = german.strip().split(" | ")
    participle, auxiliary = perfect.split()
    english_rest, past, base = english.strip().split(" | ")
    return [
        (
            f"{{person}} {auxiliary} {{past}} {rest} {participle}.",
            f"{{person}} {past} {english_rest} {{past}}.",
        ),
        (
            f"{{past}} {auxiliary} {{person}} {rest} {participle}.",
            f"{{past}}, {{person}} {past} {english_rest}.",
        ),
        (
            f"{{person}} {{says}}, dass {{person2}} {{past}} {rest} {participle} {auxiliary}.",
            f"{{person}} {{says}} that {{person2}} {past} {english_rest} {{past}}.",
        ),
        (
            f"Kennst du {{acquaintance}} {{past}} {rest} {participle} {auxiliary}?",
            f"Do you know {{acquaintance}} {past} {english_rest} {{past}}?",
        ),
        (
            f"Wann {auxiliary} {{person}} {rest} {participle}?",
            f"When did {{person}} {base} {english_rest}?",
        ),
        (
            f"{{person}} {{will}} {{future}} {rest} {infinitive}.",
            f"{{person}} {{will}} {base} {english_rest} {{future}}.",
        ),
    ]


PRODUCTIONS: dict[str, list[Pair]] = {
    "sentence": [("{clause}", "{clause}"), ("{clause}", "{clause}"), ("{fact}", "{fact}")],
    "clause": [pair for verb in zip(VERBS[::2], VERBS[1::2]) for pair in _clauses(*verb)],
    "fact": [
        ("Heute sind es in {country} {temperature}.", "It is {temperature} in {country} today."),
        (
            "In {country} wird auch {language} gesprochen.",
            "{language} is also spoken in {country}.",
        ),
        (
            "In {country} leben {people} Menschen, die {language} sprechen.",
            "{people} people who speak {language} live in {country}.",
        ),
        (
            "Der Flug von {country} nach {country2} dauert {duration}.",
            "The flight from {country} to {country2} takes {duration}.",
        ),
        ("{goods} kosten {money}.", "{goods} cost {money}."),
        ("Wie viel kosten {goods} in {country}?", "How much do {goods} cost in {country}?"),
        (
            "Das Paket, das {mass} wiegt, ist {past} in {country} angekommen.",
            "The package, which weighs {mass}, arrived in {country} {past}.",
        ),
        (
            "Der Zug, der um {time} Uhr abfährt, kommt am {date} in {country} an.",
            "The train that leaves at {time} arrives in {country} on {date}.",
        ),
        (
            "Das Geschäft ist von {time} Uhr bis {time2} Uhr geöffnet.",
            "The shop is open from {time} to {time2}.",
        ),
        (
            "Wenn es in {country} {time} Uhr ist, ist es in {country2} {time2} Uhr.",
            "When it is {time} in {country}, it is {time2} in {country2}.",
        ),
        (
            "Die Straße, die {length} breit ist, wurde {past} gebaut.",
            "The road, which is {length} wide, was built {past}.",
        ),
        (
            "{past} ist der Preis um {percent} auf {money} gestiegen.",
            "The price rose {percent} to {money} {past}.",
        ),
        (
            "{past} ist der Preis um {percent} auf {money} gefallen.",
            "The price fell {percent} to {money} {past}.",
        ),
        (
            "Das Treffen, das am {date} stattfinden sollte, wurde auf den {date2} verschoben.",
            "The meeting that was supposed to take place on {date} was postponed to {date2}.",
        ),
        (
            "Weil der Zug {speed} gefahren ist, ist er um {time} Uhr angekommen.",
            "Because the train went {speed}, it arrived at {time}.",
        ),
        (
            "{future} fängt die Konferenz in {country} an.",
            "The conference in {country} begins {future}.",
        ),
        (
            "Wir liefern {future} auch nach {countries}.",
            "We will also deliver to {countries} {future}.",
        ),
    ],
    "person": [(f"der {de}", f"the {en}") for de, en in MEN]
    + [(f"die {de}", f"the {en}") for de, en in WOMEN],
    "acquaintance": [(f"den {de}, der", f"the {en} who") for de, en in MEN]
    + [(f"die {de}, die", f"the {en} who") for de, en in WOMEN],
    "says": [
        ("sagt", "says"),
        ("glaubt", "believes"),
        ("hofft", "hopes"),
        ("weiß", "knows"),
        ("behauptet", "claims"),
    ],
    "will": [("wird", "will"), ("kann", "can"), ("soll", "should"), ("muss", "must")],
    "goods": [
        (f"{{mass}} {de}", f"{{mass}} of {en}")
        for de, en in [
            ("Baumwolle", "cotton"),
            ("Honig", "honey"),
            ("Kaffee", "coffee"),
            ("Käse", "cheese"),
            ("Kupfer", "copper"),
            ("Mehl", "flour"),
            ("Papier", "paper"),
            ("Reis", "rice"),
            ("Stahl", "steel"),
            ("Weizen", "wheat"),
            ("Zucker", "sugar"),
        ]
    ]
    + [
        (f"{{volume}} {de}", f"{{volume}} of {en}")
        for de, en in [
            ("Bier", "beer"),
            ("Milch", "milk"),
            ("Öl", "oil"),
            ("Wasser", "water"),
            ("Wein", "wine"),
        ]
    ],
    "date": [("{long_date}", "{long_date}")] * 3
    + [("{medium_date}", "{medium_date}"), ("{short_date}", "{short_date}")],
    "past": [
        ("{ago}", "{ago}"),
        ("am {date}", "on {date}"),
        ("am {date} um {time} Uhr", "at {time} on {date}"),
        ("am {full_date},", "on {full_date}"),
        ("im {month}", "in {month}"),
        ("im {quarter}", "in the {quarter}"),
        ("zwischen dem {day} und dem {day2}", "between {day} and {day2}"),
    ],
    "future": [
        ("{from_now}", "{from_now}"),
        ("am {date}", "on {date}"),
        ("am {day} um {time} Uhr", "at {time} on {day}"),
        ("im {month}", "in {month}"),
    ],
}


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
