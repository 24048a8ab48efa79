# Sourced by the run.sh of an experiment: several architectures and seeds by one command.

SEEDS=${SEEDS:-${SEED:-1}}

# Split the arguments: architectures go to the array archs, what follows them, options of fairseq-train,
# to the array extra.
take_archs() {
    archs=()
    while [ $# -gt 0 ] && [[ $1 != -* ]]; do archs+=("$1"); shift; done
    extra=("$@")
}

# Split the arguments: of the names of all runs, those that begin with what an option --part says, or all
# if there is none, go to the array parts; the rest, options of fairseq-train, to the array extra.
#
#     take_parts "NAME ..." ARGUMENT ...
take_parts() {
    local names=$1 name part asked=()
    parts=() extra=()
    shift
    while [ $# -gt 0 ]; do
        if [ "$1" != --part ]; then extra+=("$1"); shift; continue; fi
        part=${2:-}
        if [[ -z $part || " $names" != *" $part"* ]]; then
            echo "--part $part: give the start of one or several of $names" >&2
            exit 2
        fi
        asked+=("$part")
        shift 2
    done
    for name in $names; do
        for part in "${asked[@]:-}"; do
            if [[ $name = "$part"* ]]; then parts+=("$name"); break; fi
        done
    done
}

# Call `experiment ARCH SEED FOLDER` for each architecture and seed, one after the other.
#
#     all_runs DATA PREFIX ARCH ...
#
# FOLDER is PREFIX, ARCH and the seed. A run that another process is at is left to it: the same command
# started twice shares the work. A run that fails, or has begun with other options than those in the array
# extra, or on DATA of another name, does not stop the others; the status is then 1.
all_runs() {
    local trained_on=$1 prefix=$2 arch seed folder failed=0
    shift 2
    for seed in $SEEDS; do
        for arch in "$@"; do
            folder=$prefix$arch-seed$seed
            mkdir -p "$folder"
            set +e  # in a condition, bash would not stop the run at what fails
            (
                flock --nonblock 9 || { echo "$folder: another process is at it"; exit 0; }
                set -e
                keep "$folder/options" "${extra[*]@Q}"
                keep "$folder/data" "$(basename "$trained_on")"
                experiment "$arch" "$seed" "$folder"
            ) 9> "$folder/lock"
            [ $? = 0 ] || { echo "$folder: failed" >&2; failed=1; }
            set -e
        done
    done
    return $failed
}

# Keep in a file of a run's folder what its name does not say; once the folder has a checkpoint, refuse
# anything else. The first runs kept nothing.
#
#     keep FILE TEXT
keep() {
    local file=$1 own=$2 folder=${1%/*} what=${1##*/}
    if ! compgen -G "$folder/*.pt" > /dev/null; then
        echo "$own" > "$file"
    elif [ -e "$file" ] && [ "$(< "$file")" != "$own" ]; then
        echo "$folder: begun with the $what '$(< "$file")', not '$own'; give these another RUNS or SAVE_DIR" >&2
        return 1
    fi
}

# Run a command whose output goes to the end of a file, and show the end of that if it fails.
logged() {
    local log=$1
    shift
    "$@" >> "$log" 2>&1 || { tail -n 20 "$log" >&2; return 1; }
}

# Write the output of a command to a file, which appears complete or not at all.
complete() {
    local file=$1
    shift
    rm -f "$file.tmp"
    logged "$file.tmp" "$@"
    mv "$file.tmp" "$file"
}

# Train a classifier, and predict the test set with the checkpoint that is best on the held-out examples:
# by their loss, or with the options in the array by_accuracy by their accuracy.
#
#     train_classifier ARCH SEED FOLDER DATA_BIN OPTION ...
by_accuracy=(--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric)
train_classifier() {
    local arch=$1 seed=$2 folder=$3 data=$4
    shift 4
    if [ ! -e "$folder/test.tsv" ]; then
        echo "$arch, seed $seed: training, see $folder/train.log"
        logged "$folder/train.log" \
            fairseq-train "$data" --user-dir fairseq_odeformers --arch "$arch" --seed "$seed" \
            --num-batch-buckets 8 --criterion sequence_classification --optimizer adam \
            --no-epoch-checkpoints --save-dir "$folder" --log-format json "$@"
        logged "$folder/train.log" \
            python -m fairseq_odeformers predict "$data" --path "$folder/checkpoint_best.pt" \
            --output "$folder/test.tsv"
    fi
    rm -f "$folder"/checkpoint_[0-9]*.pt "$folder/checkpoint_last.pt"
    echo "$arch, seed $seed: $(grep '^test: accuracy' "$folder/train.log" | tail -n 1)"
}
