"""The options of ``odeformers benchmark`` for sizes of models and batches."""

from odeformers.parser import positive_int

NUMBER = {"metavar": "N", "type": positive_int}
NUMBERS = {**NUMBER, "nargs": "+"}
PROBABILITY = {"metavar": "P", "type": float}
LAYERS = "numbers of layers; a block counts as many layers as its depth"
LENGTHS = "lengths of the sequences in tokens, measured one after another"
BEAM = "--beam"  # only for generation
PRECISIONS = ("float32", "bf16", "fp16")
PRECISION = "number format of parameters and states"

# The arguments of argparse for each option, its default, and its help.
SIZES = {
    "--embed-dim": (NUMBER, 256, "width of the states"),
    "--layers": (NUMBERS, [4], LAYERS),
    "--device": ({"choices": ("cpu", "cuda")}, "cpu", "where the models run"),
    "--lengths": (NUMBERS, [16], LENGTHS),
    "--ffn-embed-dim": (NUMBER, 1024, "inner width of a Transformer's FFN"),
    "--heads": (NUMBER, 4, "attention heads per layer"),
    "--dropout": (PROBABILITY, 0.3, "dropout probability"),
    "--attention-dropout": (PROBABILITY, 0.0, "dropout probability of attention weights"),
    "--vocabulary": (NUMBER, 8000, "words of the dictionary"),
    "--batch": (NUMBER, 256, "sequences per batch"),
    BEAM: (NUMBER, 5, "beam size of the generator"),
    "--precision": ({"choices": PRECISIONS}, "float32", PRECISION),
}
