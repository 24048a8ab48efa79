import os
import re
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "demo" / "demo.py"


def demo(*options):
    return subprocess.run(
        [sys.executable, str(DEMO), *options],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
    )


def test_demo_ends_with_a_table_and_repeats_no_step(tmp_path):
    sizes = ["--train", "200", "--valid", "20", "--test", "20", "--minutes", "0.05"]
    first = demo("--out", str(tmp_path / "out"), *sizes)
    assert first.returncode == 0, first.stderr
    result = (tmp_path / "out" / "result.md").read_text("utf-8")
    assert first.stdout.endswith(result)
    assert re.search(r"BLEU on the held-out pairs \| \*\*\d+\.\d\*\*", result)
    assert result.count("  - translation: ") == 5
    assert "fairseq-train" in first.stdout and "fairseq-generate" in first.stdout

    second = demo("--out", str(tmp_path / "out"), *sizes)
    assert second.returncode == 0, second.stderr
    assert second.stdout.endswith(result)
    assert "fairseq-train" not in second.stdout and "fairseq-generate" not in second.stdout


def test_bad_sizes_are_refused_before_work_starts(tmp_path):
    refused = demo("--out", str(tmp_path / "out"), "--test", "0")
    assert refused.returncode == 1
    assert refused.stderr.endswith("demo: --test 0: each split needs at least one pair\n")
    assert not (tmp_path / "out").exists()
