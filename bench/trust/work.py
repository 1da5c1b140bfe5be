"""The least that a token costs, by counting multiplications.

In: a workload. Out: a floor in floating-point operations a token; None for architectures
whose parameters do not all work on every token (mixtures of experts), or that are not known here.
"""

from __future__ import annotations

from bench.model import count_parameters
from bench.spec import Workload


def flops_per_prompt_token(workload: Workload) -> float | None:
    """A floor under the operations of one prompt position in a prefill, in FLOPs; by the rule of `flops_per_token`.

    Of the last block only keys and values need to be computed for positions before the last, and of the head nothing: MLX, which
    computes what is asked for and no more, leaves both out. So both are left out here, with the embedding.
    """
    config = workload.model.config
    parameters = count_parameters(config)
    if parameters is None:
        return None
    tables = 1 if config.get("tie_word_embeddings") else 2
    blocks = int(config["num_hidden_layers"])
    in_blocks = parameters - tables * int(config["vocab_size"]) * int(config["hidden_size"])
    return 2.0 * in_blocks * (blocks - 1) / blocks


def flops_per_token(workload: Workload) -> float | None:
    """A floor under the operations of one token position, in FLOPs: what any implementation has to multiply.

    A matrix of n parameters takes 2n operations a token forward, 2n for the gradient of its input and 2n for its own (Kaplan
    et al. 2020, arXiv 2001.08361, section 2.1). Parameters that are looked up rather than multiplied, the embedding where the
    head is another matrix, are left out. With adapters the weights are frozen, so the last third falls away, and activations need
    gradients only above the first adapted block. The last position of a sequence predicts nothing, so it need not pass.
    Attention's products, recomputation under gradient checkpointing, the adapters and the optimizer all come on top and are
    left out; norms and biases, well under a hundredth of the parameters, are counted as if they were matrices.
    """
    config = workload.model.config
    parameters = count_parameters(config)
    if parameters is None:
        return None
    looked_up = 0 if config.get("tie_word_embeddings") else int(config["vocab_size"]) * int(config["hidden_size"])
    multiplied = 2.0 * (parameters - looked_up)
    if workload.method == "serve":
        return multiplied
    needed = 1 - 1 / workload.sequence_length
    if not workload.has_adapters:
        return 3 * multiplied * needed
    blocks = int(config["num_hidden_layers"])
    above_first = ((workload.adapter_layers or blocks) - 1) / blocks
    return multiplied * (1 + above_first) * needed
