# Sourced by the run.sh of an experiment: several architectures and seeds by one command.

SEEDS=${SEEDS:-${SEED:-1}}

# Call `experiment ARCH SEED FOLDER` for each architecture and seed, one after the other.
#
#     all_runs PREFIX ARCH ...
#
# FOLDER is PREFIX, ARCH and the seed. A run that another process is at is left to it: the same command
# started twice shares the work. A run that fails does not stop the others; the status is then 1.
all_runs() {
    local prefix=$1 arch seed folder failed=0
    shift
    for seed in $SEEDS; do
        for arch in "$@"; do
            folder=$prefix$arch-seed$seed
            mkdir -p "$folder"
            set +e  # in a condition, bash would not stop the run at what fails
            (
                flock --nonblock 9 || { echo "$folder: another process is at it"; exit 0; }
                set -e
                experiment "$arch" "$seed" "$folder"
            ) 9> "$folder/lock"
            [ $? = 0 ] || { echo "$folder: failed" >&2; failed=1; }
            set -e
        done
    done
    return $failed
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
