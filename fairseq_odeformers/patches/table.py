"""The list of all changes: what changes, the function that changes it, why, and until when."""

import fairseq

from . import (
    checkpoints,
    command_line,
    data,
    half_precision,
    models,
    sampling,
    validation,
    versions,
    warnings,
)
from .patch import Patch, Replacement

PATCHES: list[Patch] = [
    # Reading and writing of checkpoints.
    Replacement(
        "fairseq.checkpoint_utils.load_checkpoint_to_cpu",
        checkpoints.load_checkpoint_to_cpu,
        "torch's errors name no file and advise switching off its safe loader. torch compares no "
        "checksums, so damaged weights load silently (pytorch #126952). fairseq 0.12.2 refuses "
        "task options that later versions have added (fairseq #4905, merged).",
        "torch names the file and compares checksums, and support for Python 3.10 is dropped",
    ),
    Replacement(
        "fairseq.checkpoint_utils.load_checkpoint",
        checkpoints.load_checkpoint,
        "If the file given by --restore-file is missing, fairseq starts from scratch and "
        "overwrites what is there; for a model of this package, that is an error. If a training "
        "run resumes with a different model or criterion, fairseq ends in tracebacks that name no "
        "option. It keeps the lowest accuracy if --maximize-best-checkpoint-metric is forgotten.",
        "fairseq refuses a missing --restore-file, names the option that differs, and knows the "
        "directions of metrics",
    ),
    Replacement(
        "fairseq.checkpoint_utils.torch_persistent_save",
        checkpoints.torch_persistent_save,
        "After a failure, for example on a full disk, fairseq tries again and appends to the "
        "incomplete file.",
        "fairseq begins a new file",
    ),
    Replacement(
        "fairseq.file_io.PathManager.copy",
        checkpoints.copy,
        "A training run that is killed while it copies a checkpoint leaves an incomplete file.",
        "fairseq copies to a temporary name first",
    ),
    Replacement(
        "fairseq.checkpoint_utils.save_checkpoint",
        validation.save_checkpoint,
        "If two validations are equal, as accuracies on a few texts may be, fairseq keeps the last "
        "one, whatever its loss; a model of this package keeps the one with the lower loss.",
        "fairseq breaks ties",
    ),
    *(
        Replacement(
            f"fairseq.trainer.Trainer.{name}",
            function,
            "A training run that resumes forgets the best value that --patience compares with, and "
            "how long ago it was reached.",
            "fairseq saves it",
        )
        for name, function in (
            ("begin_valid_epoch", validation.begin_valid_epoch),
            ("valid_step", validation.valid_step),
            ("save_checkpoint", validation.save_state),
        )
    ),
    Patch(
        "eval in the modules that fairseq imports",
        checkpoints.replace_eval,
        "fairseq evaluates some options in a checkpoint as Python code, such as encoder_layers of "
        "fconv, xformers_att_config of every Transformer and wer_args of the criterion ctc.",
        "fairseq evaluates only literals",
    ),
    Patch(
        "torch in fairseq.checkpoint_utils",
        checkpoints.replace_torch,
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 switches torch's safe loader off, because fairseq does "
        "not ask for it. OmegaConf calls the functions that a configuration names, such as oc.env, "
        "which reads the environment.",
        "fairseq asks for the safe loader, and refuses such names",
    ),
    Patch(
        "safe globals of torch",
        versions.add_safe_globals,
        "torch >= 2.6 unpickles only types that it trusts. A checkpoint of fairseq contains "
        "argparse.Namespace and, after validation with --eval-bleu or a correlation, numpy's "
        "numbers and arrays, under their names in numpy 1 or 2. A checkpoint of Macaron Net's "
        "authors contains the meters of fairseq 0.6. fairseq #5603, #5610.",
        "fairseq adds them",
    ),
    # Resuming in half precision.
    Replacement(
        "fairseq.trainer.Trainer.state_dict",
        half_precision.trainer_state_dict,
        "With --fp16 and --bf16, a checkpoint contains neither the float32 weights nor the age of "
        "the loss scale. A training run that resumes starts from the rounded weights.",
        "fairseq saves both",
    ),
    *(
        Replacement(
            f"fairseq.optim.{optimizer}.load_state_dict",
            half_precision.load_state_dict,
            "fairseq ignores the entry that the patched Trainer.state_dict saves.",
            "fairseq saves float32 weights and the age of the loss scale",
        )
        for optimizer in ("FP16Optimizer", "MemoryEfficientFP16Optimizer")
    ),
    # Segments of texts.
    *(
        Replacement(
            f"fairseq.models.roberta.{name}",
            function,
            "Next-sentence prediction needs --segment-embeddings to tell two texts apart. Without "
            "the option, nothing changes.",
            "fairseq has the option",
        )
        for name, function in (
            ("RobertaModel.add_args", models.add_segment_args),
            ("model.RobertaEncoder.build_embedding", models.build_embedding),
            ("RobertaModel.upgrade_state_dict_named", models.upgrade_state_dict_named),
        )
    ),
    # The command line.
    Replacement(
        "fairseq.options.parse_args_and_arch",
        command_line.parse_args_and_arch,
        "fairseq does not check that task, criterion and model fit together, and fails with a "
        "traceback during training. It accepts any number for --label-smoothing and the like. "
        'fairseq-validate without --task ends in "KeyError: None". fairseq treats --bf16 as --tpu '
        "even where there is no TPU. For a misspelt name, it prints 200 others.",
        "fairseq checks all of these, and lets argparse suggest names (Python 3.14 or later)",
    ),
    # Generation.
    Replacement(
        "fairseq.tasks.fairseq_task.FairseqTask.build_generator",
        sampling.build_generator,
        "If --sampling-topk exceeds the vocabulary, torch raises an error that names no option. A "
        "--sampling-topp above 1 is accepted silently.",
        "fairseq checks both",
    ),
    # Names of files.
    Replacement(
        "fairseq.data.data_utils.infer_language_pair",
        data.infer_language_pair,
        "Without --source-lang and --target-lang, fairseq mistakes dict.pt-br.txt, or a test set "
        "called test.2017-06, for a pair of languages. If a folder has no sentence pairs, the "
        "error does not name the folder.",
        "fairseq compares the names with its dictionaries",
    ),
    Replacement(
        "fairseq.data.fasta_dataset.FastaDataset._build_index",
        data.build_index,
        "Where PREFIX.fasta takes the place of PREFIX.idx, fairseq runs a shell command that "
        "contains the path. Its main branch has removed the method (commit d13e14a8).",
        "a release of fairseq lacks the method",
    ),
    # Subwords.
    Replacement(
        "fairseq.data.encoders.subword_nmt_bpe.SubwordNMTBPE.__init__",
        data.read_subwords,
        "fairseq reads BPE codes in the encoding of the locale, which may be ASCII. If another "
        "program wrote them, subword-nmt ends the program without naming the file.",
        "fairseq opens the codes as UTF-8, and subword-nmt raises an error",
    ),
    # Classes.
    Replacement(
        "fairseq.tasks.sentence_prediction.SentencePredictionTask.load_dataset",
        data.load_dataset,
        "If a label has two words, fairseq uses the first as the class. If --num-classes is too "
        "large, the model may predict <mask>; if it is too small, training fails with an "
        "IndexError.",
        "fairseq checks both",
    ),
    # Names of models.
    Replacement(
        "fairseq.models.register_model",
        models.register_model,
        "If a name is taken, fairseq silently drops the new model and trains the other one, as it "
        "does with the edited class of a notebook's cell that runs again.",
        "fairseq refuses the name, and replaces an edited class",
    ),
    Patch(
        "register_model in modules that imported it before",
        models.replace_imported_register_model,
        "A plugin may import fairseq's decorator before this package.",
        "fairseq refuses the name",
    ),
    # Versions of numpy and Python.
    Patch(
        "numpy.compat",
        versions.add_numpy_compat,
        "fairseq's text data sets use numpy.compat.long, but numpy 2 lacks it.",
        "fairseq writes int",
    ),
    Replacement(
        "fairseq.data.bucket_pad_length_dataset.get_buckets",
        versions.get_buckets,
        "--num-batch-buckets uses percentile(interpolation=), but numpy 2.4 lacks this argument.",
        "fairseq writes method=",
    ),
    # Training on several CPUs.
    Replacement(
        "fairseq.distributed.utils.call_main",
        versions.call_main,
        "Without a GPU and --distributed-world-size, each process of torchrun trains a separate "
        "model, and they overwrite each other's checkpoints. fairseq #2879. Errors for bad input "
        "end in tracebacks.",
        "fairseq trains on several CPUs, and catches such errors",
    ),
    Replacement(
        "fairseq.distributed.utils._infer_torch_distributed_launch_init",
        versions.infer_torch_distributed_launch_init,
        "fairseq divides by the number of GPUs, even if that is 0. fairseq #2879.",
        "fairseq trains on several CPUs",
    ),
    Replacement(
        "fairseq.models.distributed_fairseq_model.DistributedDataParallel",
        versions.DistributedDataParallel,
        "It accepts no device_ids for a CPU model, but fairseq passes one. fairseq #2879.",
        "fairseq trains on several CPUs",
    ),
    Replacement(
        "fairseq.optim.fp16_optimizer.FP16Optimizer.build_optimizer",
        versions.build_optimizer,
        "With --fp16, fairseq keeps the gradients in one tensor on a GPU. With --cpu beside a GPU, "
        "this tensor is never filled. If the model is not on a GPU, the patch sets "
        "--fp16-no-flatten-grads.",
        "fairseq checks where the parameters are",
    ),
    Replacement(
        "fairseq.distributed.utils._broadcast_object_slow",
        versions.broadcast_object_slow,
        "When a run resumes, the first process sends a configuration that the others cannot "
        "unpickle with torch's safe loader.",
        "fairseq sends plain dictionaries",
    ),
    Replacement(
        "fairseq.utils.replace_unk",
        versions.replace_unk,
        "--replace-unk expects a number where --print-alignment gives a pair. fairseq #3533.",
        "the issue is closed",
    ),
    Replacement(
        "fairseq.trainer.Trainer.train_step",
        data.train_step,
        "With --update-freq, a process that lacks the epoch's last batch adds the gradients of its "
        "other batches but does not count their texts, so the update is too large.",
        "fairseq counts them",
    ),
    # torch_xla.
    Replacement(
        "fairseq.utils.tpu_data_loader",
        versions.tpu_data_loader,
        "In TPU mode, fairseq reads the number of consumed batches after torch_xla has started to "
        "prefetch, and loses the prefetched batches.",
        "fairseq reads the number before",
    ),
    # Logging, and warnings that users cannot act on.
    Patch(
        "filters of warnings",
        warnings.filter_warnings,
        "fairseq calls functions of hydra and torch that have been renamed, and passes masks of "
        "two types to torch's attention. Warnings about the plugin, torch and a user's code are "
        "shown as before.",
        "fairseq calls the new functions, with masks of one type",
    ),
]

if versions.xm is not None:
    PATCHES += [
        Patch(
            "xrt_world_size and get_ordinal of torch_xla.core.xla_model",
            versions.add_xla_names,
            "torch_xla 2.7 removed both. xla #7654.",
            "fairseq calls torch_xla.runtime",
        ),
        Patch(
            "aten::elu_backward of torch_xla",
            versions.add_elu_gradient,
            "torch_xla 2.9 treats the input of an out-of-place ELU as if it were the output: where "
            "x is negative, the gradient is 1 + x instead of exp(x).",
            "torch_xla checks is_result",
        ),
        Replacement(
            "torch_xla.core.xla_model.get_memory_info",
            versions.get_memory_info,
            "torch_xla has renamed the keys of the result. xla #7655.",
            "fairseq calls torch_xla.runtime",
        ),
    ]
if fairseq.__version__ == "0.12.2":  # sentence_prediction has no correlations in this version
    PATCHES += [
        Replacement(
            "fairseq.modules.SinusoidalPositionalEmbedding.__init__",
            versions.require_no_float_tensor,
            "fairseq 0.12.2 expects a number in the checkpoint that later versions do not save. "
            "fairseq #5213, merged.",
            "support for Python 3.10 is dropped",
        ),
    ]
else:
    PATCHES += [
        Replacement(
            f"fairseq.criterions.sentence_prediction.SentencePredictionCriterion.{name}",
            function,
            "If all predictions are equal, as they may be at first, correlations are NaN. No later "
            "validation compares as better than NaN, so the first checkpoint stays the best. The "
            "correlations of a model of this package are 0.",
            "fairseq returns a number",
        )
        for name, function in (
            ("forward", validation.sentence_prediction),
            ("reduce_metrics", validation.log_correlations),
        )
    ]
