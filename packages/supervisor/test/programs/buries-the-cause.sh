#!/bin/sh
# Names the cause first and then talks about other things.
echo "loading model" >&2
echo "vllm-1  | ERROR 03-13 09:00:43 [core.py:330] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB." >&2
echo "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_0': 1}" >&2
echo "MCP error -32000: Connection closed" >&2
echo "[rank0]:[W914 04:53:45.615225908 ProcessGroupNCCL.cpp:1476] Warning: WARNING: destroy_process_group() was not called" >&2
exit 1
