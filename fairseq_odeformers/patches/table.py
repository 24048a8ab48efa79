"""The list of all changes to fairseq: function, replacement, reason, and when it can go."""

import fairseq

from . import (
    checkpoints,
    command_line,
    correlations,
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
    # Checkpoints: run no code of one, name one that cannot be read, and write whole ones.
    Replacement(
        "fairseq.checkpoint_utils.load_checkpoint_to_cpu",
        checkpoints.load_checkpoint_to_cpu,
        "Errors of torch name no file, and advise to switch its safe loader off. torch compares no "
        "checksums, so that damaged weights load in silence (pytorch #126952). fairseq 0.12.2 "
        "refuses options that later versions have given to a task (fairseq #4905, merged).",
        "torch does both, and Python 3.10 goes",
    ),
    Replacement(
        "fairseq.checkpoint_utils.load_checkpoint",
        checkpoints.load_checkpoint,
        "If the file of --restore-file is missing, fairseq begins anew and saves over what is "
        "there; a model of this package does not. If a training resumes with another model or "
        "criterion, it ends in tracebacks that name no option.",
        "fairseq refuses the one and explains the other",
    ),
    Replacement(
        "fairseq.checkpoint_utils.torch_persistent_save",
        checkpoints.torch_persistent_save,
        "After a failure, as on a full disk, fairseq tries again and appends to what the failure "
        "has left in the file.",
        "fairseq stops",
    ),
    Replacement(
        "fairseq.file_io.PathManager.copy",
        checkpoints.copy,
        "A training that is killed while it copies leaves half a checkpoint.",
        "fairseq copies to another name first",
    ),
    Replacement(
        "fairseq.checkpoint_utils.save_checkpoint",
        validation.save_checkpoint,
        "Of equal validations, such as accuracies on a few texts, fairseq keeps the last one, "
        "whatever its loss; a model of this package keeps the one with the lower loss.",
        "fairseq breaks ties",
    ),
    *(
        Replacement(
            f"fairseq.trainer.Trainer.{name}",
            function,
            "A training that resumes forgets how long --patience has waited, and for what.",
            "fairseq saves it",
        )
        for name, function in (
            ("begin_valid_epoch", validation.begin_valid_epoch),
            ("valid_step", validation.valid_step),
            ("save_checkpoint", validation.save_state),
        )
    ),
    Patch(
        "eval in fairseq.models and fairseq.utils",
        checkpoints.replace_eval,
        "fairseq evaluates options of a checkpoint as Python, such as encoder_layers of fconv and "
        "xformers_att_config of every Transformer.",
        "fairseq reads literals",
    ),
    Patch(
        "safe globals of torch",
        versions.add_safe_globals,
        "torch >= 2.6 unpickles only types that it trusts. A checkpoint of fairseq has "
        "argparse.Namespace; after validation with --eval-bleu or a correlation, numbers and "
        "arrays of numpy, by their names in numpy 1 or 2; and a checkpoint of the Macaron Net's "
        "authors, the meters of fairseq 0.6. fairseq #5603, #5610.",
        "fairseq adds them",
    ),
    # Resuming in half precision.
    Replacement(
        "fairseq.trainer.Trainer.state_dict",
        half_precision.trainer_state_dict,
        "A checkpoint of --fp16 and --bf16 has neither the float32 weights, which a training that "
        "resumes makes of the rounded ones, nor the age of the loss scale.",
        "fairseq saves both",
    ),
    *(
        Replacement(
            f"fairseq.optim.{optimizer}.load_state_dict",
            half_precision.load_state_dict,
            "fairseq leaves what the patched Trainer.state_dict has saved where it is.",
            "fairseq saves float32 weights and the age of the loss scale",
        )
        for optimizer in ("FP16Optimizer", "MemoryEfficientFP16Optimizer")
    ),
    # Segments of texts.
    *(
        Replacement(
            f"fairseq.models.roberta.{name}",
            function,
            "Next-sentence prediction needs --segment-embeddings, to tell two texts apart. Without "
            "the option nothing changes.",
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
        "fairseq does not compare the task, the criterion and the model, and ends in a traceback "
        "while it trains. It takes any number for --label-smoothing and the like. fairseq-validate "
        'without --task ends in "KeyError: None". fairseq takes --bf16 for --tpu, also where there '
        "is no TPU. For a misspelt name it prints 200 others.",
        "fairseq checks all, and asks argparse to suggest names (from Python 3.14 on)",
    ),
    # Generation.
    Replacement(
        "fairseq.search.Sampling.__init__",
        sampling.check_bounds,
        "A --sampling-topk beyond the vocabulary ends in an error of torch that names no "
        "option, and a --sampling-topp above 1 is taken in silence.",
        "fairseq checks both",
    ),
    # Names of files.
    Replacement(
        "fairseq.data.data_utils.infer_language_pair",
        data.infer_language_pair,
        "Without --source-lang and --target-lang fairseq takes dict.pt-br.txt, or a test set "
        "called test.2017-06, for a pair of languages. Of a folder without pairs it does not say "
        "which folder it is.",
        "fairseq compares the names with its dictionaries",
    ),
    Replacement(
        "fairseq.data.fasta_dataset.FastaDataset._build_index",
        data.build_index,
        "Where PREFIX.fasta takes the place of PREFIX.idx, fairseq runs a shell command that has "
        "the path in it. Its main branch has removed the method (commit d13e14a8).",
        "a release of fairseq lacks the method",
    ),
    # Classes.
    Replacement(
        "fairseq.tasks.sentence_prediction.SentencePredictionTask.load_dataset",
        data.load_dataset,
        "Of a label of two words fairseq takes the first as the class. With a larger --num-classes "
        "than there are, predictions may be <mask>; with a smaller one training ends in an "
        "IndexError.",
        "fairseq checks both",
    ),
    # Names of models.
    Replacement(
        "fairseq.models.register_model",
        models.register_model,
        "For a name that is taken, fairseq drops the new model in silence, and trains the other.",
        "fairseq refuses the name",
    ),
    # Configurations.
    Patch(
        "hydra.core.config_store.ConfigStore.__deepcopy__",
        versions.share_config_store,
        "Hydra copies all registered options for each configuration, to protect a list of places "
        "that it reads: half of the time that it takes to compose one.",
        "Hydra copies the list",
    ),
    # Versions of numpy and Python.
    Patch(
        "numpy.compat",
        versions.add_numpy_compat,
        "fairseq's data sets of text use numpy.compat.long, which numpy 2 lacks.",
        "fairseq writes int",
    ),
    Replacement(
        "fairseq.data.bucket_pad_length_dataset.get_buckets",
        versions.get_buckets,
        "--num-batch-buckets uses percentile(interpolation=), which numpy 2.4 lacks.",
        "fairseq writes method=",
    ),
    # Trainings on several CPUs.
    Replacement(
        "fairseq.distributed.utils.call_main",
        versions.call_main,
        "Without a GPU and --distributed-world-size each process of torchrun trains alone, and all "
        "save over each other's checkpoints. fairseq #2879.",
        "fairseq trains on several CPUs",
    ),
    Replacement(
        "fairseq.distributed.utils._infer_torch_distributed_launch_init",
        versions.infer_torch_distributed_launch_init,
        "fairseq divides by the number of GPUs, which may be 0. fairseq #2879.",
        "fairseq trains on several CPUs",
    ),
    Replacement(
        "fairseq.models.distributed_fairseq_model.DistributedDataParallel",
        versions.DistributedDataParallel,
        "It takes no devices for a model on the CPU, and fairseq gives it one. fairseq #2879.",
        "fairseq trains on several CPUs",
    ),
    Replacement(
        "fairseq.optim.fp16_optimizer.FP16Optimizer.build_optimizer",
        versions.build_optimizer,
        "It keeps the gradients of --fp16 in one tensor of a GPU; on a CPU "
        "--fp16-no-flatten-grads is set.",
        "fairseq asks where the parameters are",
    ),
    Replacement(
        "fairseq.distributed.utils._broadcast_object_slow",
        versions.broadcast_object_slow,
        "The other processes of a training that resumes unpickle, with the safe loader, a "
        "configuration that the first one sends.",
        "fairseq sends plain dictionaries",
    ),
    Replacement(
        "fairseq.utils.replace_unk",
        versions.replace_unk,
        "--replace-unk expects a number where --print-alignment makes a pair. fairseq #3533.",
        "the issue is closed",
    ),
    Replacement(
        "fairseq.trainer.Trainer.train_step",
        data.train_step,
        "With --update-freq, a process whose last batch of an epoch is missing does not count the "
        "texts of its other batches, whose gradients it adds: the update is too long.",
        "fairseq counts them",
    ),
    # torch_xla.
    Replacement(
        "fairseq.utils.tpu_data_loader",
        versions.tpu_data_loader,
        "fairseq's TPU mode asks how many batches are behind it after torch_xla has begun to read "
        "ahead, and loses these.",
        "fairseq asks before",
    ),
    # Logging and warnings, which nobody can act on.
    Patch(
        "filters of warnings",
        warnings.filter_warnings,
        "fairseq calls functions of hydra and torch that were renamed since, and gives torch's "
        "attention masks of two types. Warnings of the plugin, of torch and of a user's code are "
        "shown as before.",
        "fairseq calls the new ones, with masks of one type",
    ),
]

if versions.xm is not None:
    PATCHES += [
        Patch(
            "xrt_world_size and get_ordinal of torch_xla.core.xla_model",
            versions.add_xla_names,
            "torch_xla 2.7 has dropped both. xla #7654.",
            "fairseq calls torch_xla.runtime",
        ),
        Patch(
            "aten::elu_backward of torch_xla",
            versions.add_elu_gradient,
            "torch_xla 2.9 takes the input of an ELU that is not in place for its result: where x "
            "is negative the gradient is 1 + x instead of exp(x).",
            "torch_xla reads is_result",
        ),
        Replacement(
            "torch_xla.core.xla_model.get_memory_info",
            versions.get_memory_info,
            "It has other keys today. xla #7655.",
            "fairseq calls torch_xla.runtime",
        ),
    ]
if fairseq.__version__ == "0.12.2":  # its sentence_prediction reports no correlations
    PATCHES += [
        Replacement(
            "fairseq.modules.SinusoidalPositionalEmbedding.__init__",
            versions.require_no_float_tensor,
            "fairseq 0.12.2 loads with it a number that later versions do not save. fairseq #5213, "
            "merged.",
            "Python 3.10 goes",
        ),
    ]
else:
    PATCHES += [
        Replacement(
            "fairseq.criterions.sentence_prediction.pearson_and_spearman",
            correlations.pearson_and_spearman,
            "Correlations of equal predictions, with which a model may begin, are NaN. No later "
            "validation is better than NaN, so the first checkpoint stays the best.",
            "fairseq returns a number",
        ),
    ]
