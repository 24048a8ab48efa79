"""The direction of a metric, by its name."""

import pytest

from fairseq_odeformers.checkpoints.best import check_direction, rises

RISING = (
    "accuracy avg_accuracy next_sentence_accuracy acc BLEU sacrebleu chrf f1 macro_f1 acc_and_f1 "
    "mcc pearson pearson_and_spearman rouge_l rouge2 avg_precision n_correct M_pred_acc "
    "f1_positive f1_error f1_loss"  # of classes
).split()
FALLING = (
    "loss nll_loss rdrop_kl_loss ppl perplexity rmse nll bpc bpb wer raw_wer uer cer avg_eer kl "
    "mae latency arclength reconstruction"
).split()
OTHER = "delays_var wps code_size lossless macro frob".split()


@pytest.mark.parametrize("names, rising", [(RISING, True), (FALLING, False), (OTHER, None)])
def test_direction_of_a_metric_follows_from_its_name(names, rising):
    """Known names have a direction.

    For others fairseq's option decides, which may contradict no known name.
    """
    for name in names:
        assert rises(name) is rising, name
        assert check_direction(name, None) is bool(rising)
        for maximize in (True, False):
            if rising in (None, maximize):
                assert check_direction(name, maximize) is maximize
            else:
                with pytest.raises(ValueError, match=f"the best {name} is the "):
                    check_direction(name, maximize)
