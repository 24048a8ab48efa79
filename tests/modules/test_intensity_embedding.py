import torch

from fairseq_odeformers.data.classification import make_dictionary
from fairseq_odeformers.modules.intensity_embedding import IntensityEmbedding


def test_as_large_as_an_embedding_of_symbols():
    """fairseq's encoder multiplies by the root of the width, and adds positions of about 0.7."""
    torch.manual_seed(0)
    dictionary = make_dictionary(map(str, range(256)))
    embedded = IntensityEmbedding(dictionary, 1024)(torch.randint(4, 260, (1, 500)))
    assert 0.8 < 1024**0.5 * embedded.square().mean().sqrt() < 1.5


def test_affine_in_the_intensity():
    """0 and 255 are -1 and 1, whatever their place in the dictionary."""
    dictionary = make_dictionary(map(str, reversed(range(256))))
    embedding = IntensityEmbedding(dictionary, 5)
    tokens = torch.tensor([[dictionary.index(str(value)) for value in (0, 51, 255)]])
    weight, bias = embedding.proj.weight[:, 0], embedding.proj.bias
    expected = torch.stack([bias - weight, bias - 0.6 * weight, bias + weight])
    assert torch.allclose(embedding(tokens)[0], expected, atol=1e-6)
