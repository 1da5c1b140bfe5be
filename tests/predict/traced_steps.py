"""The same training step under fake tensors, as `../shared/lab` traces it: real shapes with three blocks, batch 1.

In: nothing. Out: (shape, method, checkpointing, dtype of adapters, optimizer kernel, length, attention, modules, bytes before
the first step, bytes between steps, peak bytes), traced with torch 2.13, transformers 5.24, peft 0.21, trl 1.16, bitsandbytes
0.50 and stand-ins for the kernels of Triton, flash attention and 4-bit products.
"""

from __future__ import annotations

SHAPES = {
    "l8": ("llama", 128256, 4096, 14336, 32, 8, 128, False),
    "l1": ("llama", 128256, 2048, 8192, 32, 8, 64, True),
    "q4": ("qwen3", 151936, 2560, 9728, 32, 8, 128, True),
    "l70": ("llama", 128256, 8192, 28672, 64, 8, 128, False),
}
"""Family, vocabulary, widths of model and MLP, heads, key-value heads, width of a head, tied embeddings."""

TRACED = (
    ("l8", "full", True, "bfloat16", "foreach", 2048, "sdpa", "all", 3410027008, 10230096504, 17050149496),
    ("l8", "full", False, "bfloat16", "foreach", 2048, "sdpa", "all", 3410027008, 10230096504, 17050149496),
    ("l8", "lora", True, "bfloat16", "foreach", 2048, "sdpa", "all", 3417891328, 3433636520, 3997999816),
    ("l8", "lora", False, "bfloat16", "foreach", 2048, "sdpa", "all", 3417891328, 3433636520, 4770636516),
    ("l8", "lora", True, "float32", "foreach", 2048, "sdpa", "all", 3425755648, 3457229480, 4331774664),
    ("l8", "lora", False, "float32", "foreach", 2048, "sdpa", "all", 3425755648, 3457229480, 5475082980),
    ("l8", "qlora", True, "float32", "foreach", 2048, "sdpa", "all", 2454695828, 2486169660, 3343937628),
    ("l8", "qlora", False, "float32", "foreach", 2048, "sdpa", "all", 2454695828, 2486169660, 4504023160),
    ("l8", "qlora", True, "bfloat16", "foreach", 2048, "sdpa", "all", 2446831508, 2462576700, 3085660252),
    ("l8", "qlora", False, "bfloat16", "foreach", 2048, "sdpa", "all", 2446831508, 2462576700, 3799576696),
    ("l8", "full", True, "bfloat16", "fused", 2048, "sdpa", "all", 3410027008, 10230096504, 13685129836),
    ("q4", "lora", False, "float32", "foreach", 2048, "sdpa", "all", 1394512896, 1416549544, 2988701924),
    ("q4", "lora", True, "float32", "foreach", 2048, "sdpa", "all", 1394512896, 1416549544, 2056541384),
    ("q4", "full", False, "bfloat16", "foreach", 2048, "sdpa", "all", 1383502848, 4150524044, 7739096264),
    ("l1", "full", False, "bfloat16", "foreach", 2048, "sdpa", "all", 890269952, 2670825844, 5107999152),
    ("l1", "lora", False, "bfloat16", "foreach", 2048, "sdpa", "all", 894497024, 902967720, 1690001892),
    ("l1", "lora", True, "bfloat16", "foreach", 2048, "sdpa", "all", 894497024, 902967720, 1210692040),
    ("l70", "qlora", True, "bfloat16", "foreach", 2048, "sdpa", "all", 5542555540, 5573636156, 7056224348),
    ("l8", "lora", False, "float32", "foreach", 2048, "sdpa", "q_proj,v_proj", 3412582912, 3417711152, 4678623852),
    ("l8", "qlora", True, "bfloat16", "foreach", 2048, "sdpa", "q_proj,k_proj,v_proj,o_proj", 2441523092, 2446651380, 3034411028),
    ("l8", "lora", False, "bfloat16", "foreach", 2048, "eager", "all", 3417891328, 3433636520, 7548281520),
    ("l8", "lora", True, "bfloat16", "foreach", 8192, "sdpa", "all", 3417891328, 3433685672, 5689369288),
)
