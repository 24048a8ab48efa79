"""The labels that fairseq's task for classification reads."""

from pathlib import Path

from fairseq.data import data_utils

from fairseq_odeformers.data.classification import check_labels, class_names, describe_classes


def load_dataset(original, self, split, combine=False, **kwargs):
    """fairseq's method, for labels that are the classes of ``--num-classes``.

    Raises:
        ValueError: there are more or fewer, or a label has several words.
    """
    if not self.cfg.regression_target:
        classes = [name for name in class_names(self.label_dictionary) if name != "<mask>"]
        if self.cfg.num_classes != len(classes):
            raise ValueError(describe_classes(self.cfg.num_classes, self.cfg.data, classes))
        path = Path(self.cfg.data, "label", split)
        labels = data_utils.load_indexed_dataset(str(path), self.label_dictionary, combine=combine)
        check_labels(path, labels, self.label_dictionary)
    return original(self, split, combine, **kwargs)
