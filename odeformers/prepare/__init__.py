"""Preparation of the corpora for the experiments, by ``odeformers prepare``.

Each file is a command for one corpus. A :class:`~.common.corpus.Corpus` consists of downloads
(URLs, files, checksums), a function that reads the examples of each split, and one of three
writers: :class:`~.common.pairs.Pairs`, :class:`~.common.labels.Labels` or
:class:`~.common.lines.Lines`. Shared code is in ``common``.

An interrupted preparation resumes with the interrupted step. A step is only repeated if its inputs
have changed. No result depends on the number of workers. A file that is missing, damaged, not
UTF-8 or not as published raises an InputError that names the file.
"""

# The description of each corpus; `odeformers prepare NAME` is the module NAME.
CORPORA = {
    "glue": "GLUE (Wang et al., 2019): the eight tasks that pretrained models are fine-tuned on",
    "iwslt14": "IWSLT14 German-English (Cettolo et al., 2014): TED talks",
    "listops": "ListOps (Nangia and Bowman, 2018), with the Long Range Arena's lengths",
    "lm": "Your own tokenised text for a language model, one sentence or paragraph per line",
    "lra": "The Long Range Arena (Tay et al., 2021): six tasks that classify long sequences",
    "multi30k": "Multi30k, task 1 (Elliott et al., 2016): image captions in German and English",
    "parallel": "Your parallel text: two files per split, or one table of pairs",
    "ptb": "The Penn Treebank as Mikolov et al. (2011) prepared it, for language models",
    "text-classification": "Labelled text in word pieces: IMDb, AG News, and your tables",
    "wikitext103": "WikiText-103 (Merity et al., 2017), for language models",
    "wmt14": "WMT14 English-German (4.5M pairs) and English-French (36M)",
}
