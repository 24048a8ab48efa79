"""Byte pairs of rows."""

from fairseq_odeformers.corpora import text


def test_encoding_does_not_depend_on_the_cache(tmp_path, monkeypatch):
    rows = [("low lower newest", "low"), ("widest lowest low", "newer wider"), ("", "low")] * 3
    codes = tmp_path / "code"
    text.learn_codes((line for row in rows for line in row), 8, codes)
    segment = text.load_codes(codes).segment
    expected = [tuple(map(segment, row)) for row in rows]
    monkeypatch.setattr(text, "MAX_CACHED_WORDS", 2)
    encode = text.bpe_encoder(codes)
    assert [encode(row) for row in rows] == expected
    assert any("@@" in line for row in expected for line in row)
