"""Writes a small Llama of Hugging Face, and what it computes, for ``test_llama.py``.

    pip install transformers==5.24.0
    python make_llama.py

make ``llama.npz`` beside this file: the weights by Hugging Face's names, ``tokens``, ``inputs`` and
``outputs`` of the first layer, and ``logits``. The model is in float64, except that its norms, the
softmax and the angles of the rotation are in float32 whatever its precision.
"""

from pathlib import Path

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = {
    "vocab_size": 11,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}
LLAMA_2 = {"rms_norm_eps": 1e-5, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}


@torch.no_grad()
def main():
    torch.manual_seed(0)
    config = LlamaConfig(**SIZES, **LLAMA_2, attn_implementation="eager")
    model = LlamaForCausalLM(config).double().eval()
    for name, parameter in model.named_parameters():
        # Embeddings are so small that the norm's eps shows.
        scale = 0.02 if "embed" in name else 0.25
        changed = scale * torch.randn_like(parameter) + ("norm" in name)
        parameter.copy_(changed.bfloat16())  # most of the bytes are zero, and compress
    tokens = torch.randint(4, SIZES["vocab_size"], (2, 16))  # fairseq's dictionaries begin with 4
    out = model(tokens, output_hidden_states=True)
    inputs, outputs, _ = out.hidden_states
    arrays = {"tokens": tokens, "inputs": inputs, "outputs": outputs, "logits": out.logits}
    arrays = {**model.state_dict(), **arrays}
    path = Path(__file__).with_name("llama.npz")
    np.savez_compressed(path, **{name: array.numpy() for name, array in arrays.items()})


if __name__ == "__main__":
    main()
