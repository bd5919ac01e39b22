/**
 * What GPU stacks and their transports print when they fail: Metal and MLX, the MLX ring, CUDA, ROCm, Vulkan, NCCL.
 * Order matters: the first row that matches a line wins, so specific rows come before general ones.
 */
import { errnoOf } from './errno.ts'
import type { Signature } from './row.ts'

export const GPU_SIGNATURES: readonly Signature[] = [
  {
    id: 'mlx.metal_gpu_timeout',
    rank: 'cause',
    fatal: true,
    retry: 'after_backoff',
    pattern: /kIOGPUCommandBufferCallbackErrorTimeout|Command buffer execution failed:\s+Caused GPU Timeout/,
    message: 'the Metal GPU timed out',
    advice:
      'The GPU gave up on one long step. If it happens again, lower the context or prefill chunk size, or close other GPU apps.',
  },
  {
    id: 'mlx.metal_oom',
    rank: 'cause',
    fatal: true,
    retry: 'after_change',
    pattern: /kIOGPUCommandBufferCallbackErrorOutOfMemory|Command buffer execution failed:\s+Insufficient Memory/,
    message: 'GPU out of memory (Metal)',
    advice:
      'Not enough memory for this model and context. Use a smaller model/quant, a shorter context, or free memory. Restarting alone will crash again at the same prompt length.',
  },
  {
    id: 'mlx.metal_interactivity',
    rank: 'cause',
    fatal: true,
    retry: 'after_change',
    pattern:
      /kIOGPUCommandBufferCallbackErrorImpactingInteractivity|Command buffer execution failed:\s+Impacting Interactivity/,
    message: 'macOS stopped the GPU work to keep the screen responsive',
    advice:
      'macOS stopped the GPU work to keep the screen responsive. Reduce prefill chunk size or context, or run headless.',
  },
  {
    id: 'mlx.metal_submissions_ignored',
    rank: 'consequence',
    fatal: true,
    retry: 'after_backoff',
    pattern: /kIOGPUCommandBufferCallbackErrorSubmissionsIgnored/,
    message: 'Metal ignores this process after an earlier GPU error',
    advice: 'An earlier GPU error poisoned this process. It has to be restarted.',
  },
  {
    id: 'mlx.metal_malloc_limit',
    rank: 'cause',
    retry: 'after_change',
    pattern: /\[metal::malloc\] Attempting to allocate \d+ bytes which is greater than/,
    message: 'one GPU buffer would be larger than Metal allows',
    advice: 'The prompt is too long for one GPU buffer on this Mac. Use a smaller prefill step or a shorter prompt.',
  },
  {
    id: 'ggml.metal_command_buffer_failed',
    rank: 'cause',
    fatal: true,
    retry: 'after_change',
    pattern: /\bggml_metal_graph_compute: command buffer \d+ failed with status \d+/,
    message: 'a Metal command buffer failed while the server stayed up',
    advice:
      'The GPU failed while the server stayed up; answers after this line cannot be trusted. Restart the server with a smaller context.',
  },
  {
    id: 'exo.ring_recv_econnreset',
    rank: 'cause',
    retry: 'after_backoff',
    pattern: /\[ring\] Receiving from socket \d+ failed with errno (54|104)\b/,
    detail: errnoOf,
    message: 'a ring neighbour reset the connection',
    advice: 'The other machine in the ring closed the connection. Check its log first: the cause is there.',
  },
  {
    id: 'exo.ring_recv_errno',
    rank: 'cause',
    retry: 'after_backoff',
    pattern: /\[ring\] Receiving from socket \d+ failed with errno (\d+)/,
    detail: errnoOf,
    message: 'receiving from a ring neighbour failed',
    advice:
      'A cluster peer dropped out or the link is bad. Check the other machine and the cable, then restart the instance.',
  },
  {
    id: 'exo.ring_abort',
    rank: 'consequence',
    fatal: true,
    retry: 'after_backoff',
    pattern: /\[ring\] Too many send\/recv errors\. Aborting/,
    message: 'the ring transport gave up',
    advice: 'The ring is dead even if the process still runs. Kill and restart all members of this instance.',
  },
  {
    id: 'exo.ring_connect_failed',
    rank: 'cause',
    retry: 'after_change',
    pattern: /\[ring\] Couldn't connect \(error: \d+\)/,
    message: 'a ring neighbour could not be reached',
    advice:
      'A cluster member cannot be reached. Check that all machines use the same network interface and that nothing blocks the port.',
  },
  {
    id: 'exo.jaccl_rtr',
    rank: 'cause',
    retry: 'after_change',
    pattern: /\[jaccl\] Changing queue pair to RTR failed with errno \d+/,
    message: 'RDMA could not be set up',
    advice:
      'RDMA over Thunderbolt could not be set up. Switch the instance to TCP ring or re-enable RDMA on every node.',
  },
  {
    id: 'vulkan.radv_context_lost',
    rank: 'cause',
    retry: 'after_backoff',
    pattern: /\bradv\/amdgpu: The CS has been cancelled because the context is lost/,
    message: 'the AMD GPU was reset because of another job',
    advice: 'The AMD GPU was reset because of another job. Restart the server.',
  },
  {
    id: 'cuda.no_kernel_image_ggml',
    rank: 'cause',
    retry: 'after_change',
    pattern: /\bCUDA error \d+ at .{1,400}: no kernel image is available/,
    message: 'this build does not support the GPU',
    advice: 'This build does not support your GPU generation. Install a build for it.',
  },
  {
    id: 'cuda.no_kernel_image_torch',
    rank: 'cause',
    retry: 'never',
    pattern: /\bCUDA error: no kernel image is available/,
    message: 'this build does not support the GPU',
    advice: 'This version does not support your GPU. Install a build for it.',
  },
  {
    id: 'rocm.memory_fault',
    rank: 'cause',
    fatal: true,
    retry: 'after_backoff',
    pattern: /\bMemory access fault by GPU node-\d+/,
    message: 'the AMD GPU faulted',
    advice: 'The AMD driver crashed. Restart; if it repeats check HSA_OVERRIDE_GFX_VERSION and driver version.',
  },
  {
    id: 'rocm.hsa_aperture',
    rank: 'cause',
    fatal: true,
    retry: 'after_change',
    pattern: /\bHSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION\b/,
    message: 'an AMD GPU kernel accessed invalid memory',
    advice: 'The AMD GPU kernel accessed invalid memory. Use another build or backend (Vulkan).',
  },
  {
    id: 'nccl.watchdog_timeout',
    rank: 'cause',
    retry: 'after_backoff',
    pattern: /\bWatchdog caught collective operation timeout\b/,
    message: 'one GPU stopped responding',
    advice:
      "One GPU stopped answering. The server is restarted; if it repeats check the other ranks' logs, cables, and NCCL settings.",
  },
  {
    id: 'nccl.takedown',
    rank: 'consequence',
    fatal: true,
    retry: 'after_backoff',
    pattern: /\bTo avoid data inconsistency, we are taking the entire process down/,
    message: 'NCCL aborted the process after a timeout',
    advice: 'A GPU did not answer the others in time, so this process ended itself.',
  },
  {
    id: 'cuda.illegal_memory',
    rank: 'cause',
    fatal: true,
    retry: 'after_backoff',
    pattern: /\bCUDA error: an illegal memory access was encountered/,
    message: 'the GPU program accessed invalid memory',
    advice:
      'The GPU program crashed and the server must restart. If it happens again with the same prompt, it is a bug in this server version.',
  },
]
