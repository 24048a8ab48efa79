"""Text comes back from its tokens where a rule is clear; elsewhere references are as tokens."""

import pytest

from fairseq_odeformers.text.detokenize import choose_references, make_detokenizer
from fairseq_odeformers.text.moses import make_moses_tokenizer

CLEAR = {
    "ar": ["مرحبا، كيف حالك؟", "قال: «نعم»؛ ثم ذهب."],
    "ca": ["L'home d'or.", "Il·lusió: COL·LECCIÓ a les 14:30, 3:1."],
    "de": ["Er sagte: „Hallo“.", "»Ja«, rief sie.", "‚Nein‘, so Peter's Auto (rot)."],
    "en": [
        "He said “hello” to me.",
        "It’s John’s dog’s bone, the dogs’ bone.",
        "‘Yes, it’s ‹here›,’ she said.",
        "“Quotes (in) here”, the Jones' house, don't; rock 'n' roll.",
        '"Hi," he said, "it\'s 5 & 6 < 7 | 8."',
    ],
    "es": ["¿Qué? ¡Hola! «Sí», dijo."],
    "fr": ["L'été, j'ai vu l'homme : « bien » !"],
    "hi": ["यह एक किताब है।", "क्‍या पढ़ाई हुई?", '"नमस्ते", उसने कहा।'],
    "it": ["Dammi l'altra.", "Un po' d'acqua all'una, va' via!", "L'80 percento."],
    "nl": ["De auto's van Jan's broer.", "'s Avonds is 't koud.", "Hij zei: 'ja' (twee foto's)."],
    "pl": ["Powiedział: „tak”."],
    "pt": ["Um copo d'água.", "Ele disse: “sim”."],
    "ru": ["Он сказал: «да»."],
    "sv": ["Han sa ”hej” till mig."],
    "tr": ["Türkiye'nin başkenti Ankara'dır."],
    "uk": ["Він має п'ять яблук і м'яч.", "«Привіт», — сказав об’єкт."],
    "zh": ["你好，世界。", "他说：“好”。"],
}
UNCLEAR = {
    "de": ["50 % von 5 €", "Ein Satz, dessen Zitat“ woanders beginnt."],
    "en": ["a/b, and a / b", "x - y – z"],
    "he": ['צה"ל'],
    "es": ["Dijo d'Artagnan."],
}


@pytest.mark.parametrize("lang", CLEAR)
def test_detokenization_inverts_tokenization(lang):
    tokenize, detokenize = make_moses_tokenizer(lang), make_detokenizer(lang)
    for text in CLEAR[lang]:
        assert detokenize(tokenize(text)) == text


def test_unclosed_quotes_take_linear_time():
    """Detokenising many unclosed quotes, and quotes that close all of them, is fast."""
    tokens = " ".join(["«", "„"] * 20_000 + ["”"] * 10)
    assert make_detokenizer("de")(tokens).count("„") == 20_000


@pytest.mark.parametrize("lang", sorted({*CLEAR, *UNCLEAR}))
@pytest.mark.parametrize("lowercase", [False, True])
def test_references_can_be_reached_by_detokenization(lang, lowercase):
    """A reference that cannot be restored is replaced by the detokenised tokens."""
    published = [*CLEAR.get(lang, []), *UNCLEAR.get(lang, [])]
    tokenize, detokenize = make_moses_tokenizer(lang), make_detokenizer(lang)
    tokens = [tokenize(text).lower() if lowercase else tokenize(text) for text in published]
    references, changed = choose_references(tokens, published, detokenize)
    assert references[: len(CLEAR.get(lang, []))] == CLEAR.get(lang, [])
    assert changed == sum(map(str.__ne__, references, published))
    assert changed == (len(UNCLEAR.get(lang, [])) if lang != "en" else 1)
    for text, reference in zip(map(detokenize, tokens), references):
        assert text.lower() == reference.lower()


def test_a_reference_with_other_words_stays_as_published():
    """Only spaces of a reference are changed, not unknown words or another text."""
    tokens = ["the <<unk>> ’ s bone", "a dog", "( a )"]
    published = ["The dog ’s bone", "A cat", "(A)"]
    chosen = choose_references(tokens, published, make_detokenizer("en"))
    assert chosen == (published, 0)
