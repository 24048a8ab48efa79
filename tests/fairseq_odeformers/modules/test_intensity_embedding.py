import torch

from fairseq_odeformers.data.classification import make_dictionary
from fairseq_odeformers.modules.intensity_embedding import IntensityEmbedding


def test_intensities_are_scaled_like_symbols():
    """Scaled embeddings have the size of symbols', beside positions of about 0.7."""
    torch.manual_seed(0)
    dictionary = make_dictionary(map(str, range(256)))
    embedded = IntensityEmbedding(dictionary, 1024)(torch.randint(4, 260, (1, 500)))
    assert 0.8 < 1024**0.5 * embedded.square().mean().sqrt() < 1.5
