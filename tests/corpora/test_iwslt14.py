"""The markup of IWSLT14 is stripped, and texts that do not pair up are reported."""

import pytest

from fairseq_odeformers.corpora.iwslt14 import CORPUS, NAMES


def test_documents_that_do_not_pair_up_are_an_error_that_names_them(tmp_path):
    for name in NAMES:
        (tmp_path / name).write_text('<seg id="1"> Danke. </seg>\n<seg id="2"> Danke. </seg>\n')
    # Two sets that are wrong in opposite ways have the right number of sentences together.
    (tmp_path / "IWSLT14.TED.tst2010.de-en.de.xml").write_text('<seg id="1"> Danke. </seg>\n')
    (tmp_path / "IWSLT14.TED.tst2011.de-en.en.xml").write_text('<seg id="1"> Thanks. </seg>\n')
    message = r"tst2010.de-en.de.xml has 1, .*tst2010.de-en.en.xml has 2"
    with pytest.raises(ValueError, match=message):
        CORPUS.write_text(tmp_path, tmp_path / "plain")
