"""The modern layer and language model compute what Hugging Face's Llama computes.

``llama.npz`` has the weights, inputs and outputs of a small Llama; ``make_llama.py`` wrote it.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import LanguageModelling, make_model

TOLERANCE = 1e-6  # Llama computes norms, softmax and angles in float32
OUR_NAMES = {
    "model.": "decoder.",
    "lm_head": "decoder.output_projection",
    "decoder.norm": "decoder.layer_norm",
    "input_layernorm": "self_attn_layer_norm",
    "o_proj": "out_proj",
    "post_attention_layernorm": "final_layer_norm",
    "mlp": "feed_forward",
}
WIDTH = 16
SIZES = (
    f"--decoder-layers 2 --decoder-embed-dim {WIDTH} --decoder-ffn-embed-dim 24 "
    "--decoder-attention-heads 2"
).split()


@pytest.fixture(scope="module")
def llama():
    arrays = np.load(Path(__file__).with_name("llama.npz"))
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


@pytest.fixture
def model(llama, float64):
    """Our model with Llama's weights.

    Both rotate the features i and i + h/2 of a head. fairseq multiplies embeddings by the root of
    their width, so ours are divided by it.
    """
    weights = {"decoder.version": torch.tensor([3])}  # fairseq would drop the last norm without it
    for name, weight in llama.items():
        if name.endswith(".weight"):
            for theirs, ours in OUR_NAMES.items():
                name = name.replace(theirs, ours)
            weights[name] = weight
    weights["decoder.embed_tokens.weight"] = weights["decoder.embed_tokens.weight"] / WIDTH**0.5
    model = make_model("transformer_lm_modern", task=LanguageModelling(words=11), sizes=SIZES)
    model.load_state_dict(weights)
    return model.eval()


@torch.no_grad()
def test_layer_equals_llamas(llama, model):
    x = llama["inputs"].transpose(0, 1)
    out, *_ = model.decoder.layers[0](x, self_attn_mask=torch.empty(0))
    assert (out.transpose(0, 1) - llama["outputs"]).abs().max() < TOLERANCE


@torch.no_grad()
def test_language_model_equals_llama(llama, model):
    """The whole model, with embeddings, last norm and output projection, gives Llama's logits."""
    logits, _ = model(llama["tokens"])
    assert (logits - llama["logits"]).abs().max() < TOLERANCE
