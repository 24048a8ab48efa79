"""The command ``odeformers translate``: translation of lines of raw text."""

import torch
from tqdm import tqdm

from fairseq_odeformers.inference.generator import DEFAULTS
from fairseq_odeformers.inference.hub import load_translator
from fairseq_odeformers.inference.texts import encode_lines, read_texts, write_table
from odeformers.parser import (
    DATA,
    Parser,
    add_user_dir,
    check_exists,
    integer,
    non_negative,
    output_file,
    positive_int,
)


def main(arguments=None) -> None:
    """Translate lines of text, and write or print the translations."""
    parser = Parser(
        prog="odeformers translate",
        description="Translate lines of raw text: tokenise them like the prepared data, and "
        "detokenise the translations.",
    )
    parser.add_argument("data", help="folder data-bin that odeformers prepare wrote")
    parser.add_argument(
        "--path",
        required=True,
        help="checkpoint of a translator; several, separated by colons, form an ensemble",
    )
    parser.add_argument(
        "--text",
        metavar="FILE",
        default="-",
        help="file with one sentence per line (default: standard input)",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=output_file,
        help="file to write the translations to (default: standard output)",
    )
    parser.add_argument(
        "--beam", metavar="N", type=positive_int, default=5, help="beam size (default: %(default)s)"
    )
    parser.add_argument(
        "--max-len-a",
        metavar="A",
        type=non_negative,
        default=DEFAULTS["max_len_a"],
        help="a translation has at most A n + B tokens, where n is the number of tokens of the "
        "longest sentence of its batch (default: %(default)s)",
    )
    parser.add_argument(
        "--max-len-b",
        metavar="B",
        type=integer,
        default=DEFAULTS["max_len_b"],
        help="see --max-len-a (default: %(default)s)",
    )
    parser.add_argument(
        "--batch-size",
        metavar="N",
        type=positive_int,
        default=32,
        help="number of sentences per batch (default: %(default)s)",
    )
    parser.add_argument(
        "--tokenized",
        action="store_true",
        help="read and write tokens with spaces between them, instead of raw text",
    )
    parser.add_argument(
        "--truncate",
        action="store_true",
        help="truncate sentences that are too long for the model (default: print a warning and an "
        "empty translation)",
    )
    parser.add_argument("--cpu", action="store_true", help="run on the CPU even if there is a GPU")
    add_user_dir(parser)
    args = parser.parse_args(arguments)
    check_exists(args.data, DATA)
    name, texts = read_texts(args.text)
    options = {"truncate_source": True} if args.truncate else {}
    translator = load_translator(args.path, args.data, tokenized=args.tokenized, **options)
    if torch.cuda.is_available() and not args.cpu:
        translator.cuda()
    fitted = encode_lines(
        lambda text, place: translator.fit(translator.encode(text), place), texts, name
    )
    texts = ["" if tokens is None else text for text, tokens in zip(texts, fitted)]
    translations, lengths = [], {"max_len_a": args.max_len_a, "max_len_b": args.max_len_b}
    for start in tqdm(range(0, len(texts), args.batch_size), unit=" batches", disable=None):
        batch = texts[start : start + args.batch_size]
        translations += translator.translate(batch, beam=args.beam, **lengths)
    write_table(([translation] for translation in translations), args.output)
