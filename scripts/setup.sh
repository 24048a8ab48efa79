#!/usr/bin/env bash
# Make .venv with everything that the project and its tests need: what `make setup` runs.
#
# PYTHON=...   the interpreter to make it with; by default the first on PATH that fairseq runs on, of
#              python3, python3.13, ... and python3.10, and where there is none, what uv downloads
# VENV=...     where to make it, instead of .venv
# WHEEL=...    what to install in it, instead of the checkout with all extras
# TORCH=...    the requirements of torch and what goes with it, instead of the version of the constraints
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${VENV:-.venv}

fail() { echo "make setup: $1" >&2; exit 1; }

runs_fairseq() {
    "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

# The stamp is written last, so an interrupted set-up starts afresh.
[ -e "$venv/complete" ] || [ -e "$venv/setup.log" ] || [ "$venv" = .venv ] || [ ! -e "$venv" ] ||
    fail "$venv was not made by make setup; remove it, or choose another VENV"
[ -e "$venv/complete" ] || rm -rf "$venv"

python=${PYTHON:-}
if [ -z "$python" ]; then
    for candidate in python3 python3.{13,12,11,10}; do
        ! runs_fairseq $candidate || { python=$candidate; break; }
    done
fi
if [ -z "$python" ]; then
    command -v uv >/dev/null || fail "no Python 3.10-3.13 on PATH; install one (python3.12-venv, \
python3.12-dev), or uv, which downloads one"
    [ -d "$venv" ] || uv venv --quiet --python 3.12 --seed "$venv" || fail "uv has no Python 3.12"
    python=$venv/bin/python
fi
version=$("$python" --version 2>&1) || fail "$python not found; set PYTHON to a Python 3.10-3.13"
runs_fairseq "$python" || fail "$python is $version; set PYTHON to a Python 3.10-3.13"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$python lacks the modules venv and ensurepip; install them (python3-venv)"

takes="a few minutes, most of it downloads"
# The one platform that fairseq-fixed has a wheel for.
has_wheel='import sys, sysconfig as s
sys.exit((sys.version_info[:2], s.get_platform()) != ((3, 12), "linux-x86_64"))'
if ! "$python" -c "$has_wheel"; then
    takes="several minutes, most of them to compile fairseq; none for Python 3.12 on x86-64"
    "$python" -c 'import os, sysconfig as s; open(os.path.join(s.get_path("include"), "Python.h"))' \
        2>/dev/null || fail "$python lacks its C headers; install them (python3-dev)"
    for compiler in gcc g++; do
        command -v $compiler >/dev/null || fail "$compiler not found; install it (build-essential)"
    done
fi

log=$venv/setup.log
echo "Making $venv with $version, about 2 GB (with CUDA several more): $takes. Log: $log"
rm -f "$venv/complete"
[ -d "$venv" ] || "$python" -m venv "$venv"
mkdir -p "$venv/wheels"
sed "${TORCH:+/^torch\(audio\)\?=/d}" constraints/ci.txt > "$venv/constraints.txt"
: > $log
clear=""
[ ! -t 1 ] || clear=$'\r\e[K'
elapsed() { printf '%d:%02d' $((SECONDS / 60)) $((SECONDS % 60)); }
step() { echo "$clear$(elapsed)  step $1 ..."; }
pip() {
    "$venv/bin/python" -m pip "$1" --constraint "$venv/constraints.txt" "${@:2}" >> $log 2>&1 ||
        { echo; tail -n 30 $log >&2; fail "pip failed; all that it said is in $log"; }
}
# How many packages are installed, and what pip does: on a terminal in one line, elsewhere in a line
# every half minute.
progress() {
    echo "$(ls "$venv"/lib/python3*/site-packages | grep -c dist-info) of about" \
        "$(grep -c == "$venv/constraints.txt") packages," \
        "$(grep -oE '(Collecting|Building [a-z]+ for) [^ ]+|Installing' $log | tail -n 1)"
}
watch() { while sleep "$1" &> /dev/null; do printf "$2" "$(progress)"; done; }
if [ "$clear" ]; then watch 1 "$clear      %s" & else watch 30 '      %s\n' & fi
trap "kill $!" EXIT
step "1 of 3: build tools"
pip install pip
pip install cython numpy setuptools wheel
# Debug information takes two fifths of the time to compile a file that includes torch. CFLAGS and
# CXXFLAGS would replace Python's own options; these are added to them.
export CPPFLAGS="${CPPFLAGS:-} -g0"
# fairseq builds without torch only (its source distribution lacks the files of the extensions that
# need torch), fairseq-fixed with torch only; pip skips the one that is not for this Python. With
# build isolation, fairseq-fixed would download and build against another torch.
step "2 of 3: torch"
pip wheel --no-build-isolation --no-deps --wheel-dir "$venv/wheels" 'fairseq; python_version < "3.11"'
pip install ${TORCH:-torch}  # several words
step "3 of 3: fairseq, the project and what its commands and tests need"
what=(--editable '.[analysis,compare,corpora,docs,export,plots,test]')
pip install --no-build-isolation --find-links "$venv/wheels" ${WHEEL:-"${what[@]}"}
# fairseq-fixed requires hydra-core 1.3.2, which can run code of a YAML file (docs/security.md); pip
# alone refuses another.
sed -i.old 's/^hydra-core==1.3.2/hydra-core==1.3.8/' "$venv/constraints.txt"
rm "$venv/constraints.txt.old"
pip install --no-deps 'hydra-core; python_version >= "3.11"'
touch "$venv/complete"
echo "$clear$(elapsed)  done. Next: make demo, or . $venv/bin/activate"
