/**
 * What Ollama prints when it or its runner fails. Its lines quote those of llama.cpp, so they are tried first.
 * Order matters: the first row that matches a line wins, so specific rows come before general ones.
 */
import { portIn, type Signature } from './row.ts'

export const OLLAMA_SIGNATURES: readonly Signature[] = [
  {
    id: 'ollama.runner_cuda_oom',
    rank: 'cause',
    retry: 'after_change',
    pattern: /llama runner process has terminated: .{0,400}CUDA error: out of memory/,
    message: 'GPU out of memory',
    advice: 'The GPU is out of memory. Lower num_ctx / num_gpu or use a smaller model.',
  },
  {
    id: 'ollama.runner_sigill',
    rank: 'cause',
    retry: 'never',
    pattern: /llama runner process has terminated: signal: illegal instruction/,
    message: 'this build needs a newer CPU',
    advice: 'This build needs a newer CPU.',
  },
  {
    id: 'ollama.runner_killed',
    rank: 'cause',
    retry: 'after_change',
    pattern: /llama runner process has terminated: signal: killed/,
    message: 'the model was killed, probably because memory ran out',
    advice: 'The model was killed because the machine ran out of memory. Use a smaller model.',
  },
  {
    id: 'ollama.runner_backend_buffer',
    rank: 'cause',
    retry: 'after_change',
    pattern: /llama runner process has terminated: .{0,400}unable to allocate backend buffer/,
    message: 'not enough memory for the model',
    advice: 'Not enough memory for this model.',
  },
  {
    id: 'ollama.runner_terminated',
    rank: 'cause',
    retry: 'after_backoff',
    pattern: /llama runner process has terminated: signal: terminated/,
    message: 'the model process was stopped from outside',
    advice: 'The model process was stopped from outside. Retry the request.',
  },
  {
    id: 'ollama.win_stack_overrun',
    rank: 'cause',
    retry: 'after_backoff',
    pattern:
      /llama runner process (?:has terminated|no longer running): (?:exit status )?(?:0xc0000409|3221226505|-1073740791)\b/i,
    message: 'the model process aborted',
    advice: 'The model process aborted. Update Ollama and the GPU driver.',
  },
  {
    id: 'ollama.win_dll_missing',
    rank: 'cause',
    retry: 'after_change',
    pattern:
      /llama runner process (?:has terminated|no longer running): (?:exit status )?(?:0xc0000135|3221225781|-1073741515)\b/i,
    message: 'a DLL of the model process is missing',
    advice: 'A DLL is missing. Reinstall, and install the Visual C++ redistributable / CUDA runtime.',
  },
  {
    id: 'ollama.win_illegal_instruction',
    rank: 'cause',
    retry: 'never',
    pattern:
      /llama runner process (?:has terminated|no longer running): (?:exit status )?(?:0xc000001d|3221225501|-1073741795)\b/i,
    message: 'this build needs a newer CPU',
    advice: 'This build needs a newer CPU.',
  },
  {
    id: 'ollama.win_entrypoint',
    rank: 'cause',
    retry: 'after_change',
    pattern:
      /llama runner process (?:has terminated|no longer running): (?:exit status )?(?:0xc0000139|3221225785|-1073741511)\b/i,
    message: 'DLL versions are mixed',
    advice: 'DLL versions are mixed. Remove and reinstall the program.',
  },
  {
    id: 'ollama.runner_exit2',
    rank: 'consequence',
    retry: 'after_backoff',
    pattern: /llama runner process has terminated: exit status \d+\b/,
    message: 'the model process crashed',
    advice: 'The model process crashed; open the Ollama server log for the reason.',
  },
  {
    id: 'ollama.needs_more_memory',
    rank: 'cause',
    retry: 'after_change',
    pattern: /\bmodel requires more system memory \([^)]*\) than is available/,
    message: 'not enough memory for the model',
    advice: 'Free memory or choose a smaller model (numbers in the message).',
  },
  {
    id: 'ollama.load_timeout',
    rank: 'cause',
    retry: 'after_backoff',
    pattern: /\btimed out waiting for llama runner to start/,
    message: 'loading the model took too long',
    advice: 'Loading took too long. Retry once (file cache is warm) or raise OLLAMA_LOAD_TIMEOUT.',
  },
  {
    id: 'ollama.port_in_use',
    rank: 'cause',
    retry: 'never',
    pattern: /\blisten tcp \S{1,100}:(\d+): bind: address already in use/,
    detail: portIn,
    message: 'the port is taken',
    advice: 'Ollama is already running. Use that one instead of starting another.',
  },
  {
    id: 'ollama.port_in_use_windows',
    rank: 'cause',
    retry: 'never',
    detail: portIn,
    pattern: /\blisten tcp \S{1,100}:(\d+): bind: Only one usage of each socket address/,
    message: 'the port is taken',
    advice: 'Ollama is already running (tray icon). Use that one.',
  },
  {
    id: 'ollama.kv_slot_panic',
    rank: 'cause',
    retry: 'after_backoff',
    pattern: /^panic: failed to decode batch: could not find a kv cache slot/,
    message: 'the model process crashed on a long prompt',
    advice: 'The model process crashed on a long prompt. Reduce num_ctx / parallel requests or update Ollama.',
  },
  {
    id: 'ollama.app_respawn',
    rank: 'consequence',
    retry: 'after_backoff',
    pattern: /\bserver crash \d+ - exit code \d+ - respawning/,
    message: 'the Ollama server crashed and restarts itself',
    advice: 'The Ollama server crashed and is restarting.',
  },
]
