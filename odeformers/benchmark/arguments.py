"""The options of ``odeformers benchmark`` for sizes of models and batches."""

from odeformers.parser import positive_int

NUMBER = {"metavar": "N", "type": positive_int}
NUMBERS = {**NUMBER, "nargs": "+"}
PROBABILITY = {"metavar": "P", "type": float}
LAYERS = "numbers of layers to measure; a block of depth L counts as L layers"
LENGTHS = "numbers of tokens per text to measure, one after another"
BEAM = "--beam"  # only for generation
PRECISIONS = ("float32", "bf16", "fp16")
PRECISION = "number format of parameters and states"

# The arguments of argparse for each option, its default, and its help.
SIZES = {
    "--embed-dim": (NUMBER, 256, "width of the states"),
    "--layers": (NUMBERS, [4], LAYERS),
    "--device": ({"choices": ("cpu", "cuda")}, "cpu", "device that runs the models"),
    "--lengths": (NUMBERS, [16], LENGTHS),
    "--ffn-embed-dim": (NUMBER, 1024, "inner width of a Transformer's FFN"),
    "--heads": (NUMBER, 4, "number of attention heads per layer"),
    "--dropout": (PROBABILITY, 0.3, "dropout probability"),
    "--attention-dropout": (PROBABILITY, 0.0, "dropout probability of attention weights"),
    "--vocabulary": (NUMBER, 8000, "number of words in the dictionary"),
    "--batch": (NUMBER, 256, "number of texts per batch"),
    BEAM: (NUMBER, 5, "beam size of the generator"),
    "--precision": ({"choices": PRECISIONS}, "float32", PRECISION),
}
