/**
 * Interprets an exit status, for programs that printed no reason: signals by name, 128+N from a shell, Windows codes.
 * The raw values are always kept as well.
 */
import { constants } from 'node:os'
import path from 'node:path'
import type { Diagnosis } from './diagnostics.ts'
import type { RetryVerdict } from './signatures/row.ts'

export type ExitStatus = {
  readonly code: number | null
  readonly signal: string | null
  readonly rawCode: number | null
  readonly rawSignal: string | null
  /** Set if the code is a Windows status. `approximate`: a JavaScript number rounded it. */
  readonly ntstatus?: { readonly hex: string; readonly name: string; readonly approximate: boolean }
}

/** `command` identifies wrappers: a shell reports the signal that ended its child as 128+N, and so do npx and uv. */
export function readExit(rawCode: number | null, rawSignal: string | null, command = ''): ExitStatus {
  const raw = { rawCode, rawSignal }
  if (rawSignal !== null) return { code: null, signal: rawSignal, ...raw }
  if (rawCode === null) return { code: null, signal: null, ...raw }
  const ntstatus = ntstatusOf(rawCode)
  if (ntstatus !== undefined) return { code: rawCode, signal: null, ...raw, ntstatus }
  const wrapped = isWrapper(command) ? signalOfShellCode(rawCode) : undefined
  return wrapped === undefined ? { code: rawCode, signal: null, ...raw } : { code: null, signal: wrapped, ...raw }
}

/** For a sentence: `ended by SIGSEGV (segmentation fault)`, `exited with code 1`. */
export function describeExit(status: ExitStatus): string {
  if (status.ntstatus !== undefined) return `exited with ${status.ntstatus.hex} (${status.ntstatus.name})`
  if (status.signal !== null) {
    const meaning = SIGNAL_MEANINGS[status.signal]
    return `was ended by ${status.signal}${meaning === undefined ? '' : ` (${meaning})`}`
  }
  return status.code === null ? 'ended without an exit status' : `exited with code ${status.code}`
}

/** What the status alone says, if the program printed nothing that we recognise. */
export function diagnoseExit(status: ExitStatus, command = '', nowMs = 0): Diagnosis | undefined {
  const row = ROWS.find((candidate) => candidate.when(status, commandName(command)))
  if (row === undefined) return undefined
  const { id, message, advice, retry } = row
  const seen = { firstSeenMs: nowMs, lastSeenMs: nowMs }
  return {
    id,
    rank: 'cause',
    message,
    advice,
    retry,
    evidence: [describeExit(status)],
    count: 1,
    fatal: false,
    ...seen,
  }
}

// ---- details, in the order they are used above ----

const WRAPPERS =
  /^(?:(?:ba|da|z|k|a|fi)?sh|npx|npm|pnpm|yarn|bunx|uvx?|env|docker|podman|sudo|nice|nohup|timeout|stdbuf)$/

const commandName = (command: string): string => path.basename(command).replace(/\.(?:exe|cmd|bat)$/i, '')
const isWrapper = (command: string): boolean => WRAPPERS.test(commandName(command))

function signalOfShellCode(code: number): string | undefined {
  if (code <= 128 || code > 128 + 64) return undefined
  return Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0]
}

const NTSTATUS: Readonly<Record<number, string>> = {
  0xc0000005: 'access violation',
  0xc0000017: 'no memory',
  0xc000001d: 'illegal instruction',
  0xc00000fd: 'stack overflow',
  0xc0000135: 'DLL not found',
  0xc0000139: 'DLL entry point not found',
  0xc0000142: 'DLL initialisation failed',
  0xc000013a: 'ended by Ctrl-C',
  0xc0000374: 'heap corruption',
  0xc0000409: 'stack buffer overrun or abort',
}

/** Windows codes may be unsigned, signed, or sign-extended to 64 bits and then rounded by a JavaScript number. */
function ntstatusOf(code: number): ExitStatus['ntstatus'] {
  if (!Number.isFinite(code)) return undefined
  if (code >= 2 ** 63) {
    const found = Object.keys(NTSTATUS).find((known) => Number(BigInt(known) | 0xffffffff00000000n) === code)
    return found === undefined ? undefined : named(Number(found), true)
  }
  const word = code < 0 ? code + 2 ** 32 : code
  return word >= 0xc0000000 && word < 2 ** 32 ? named(word, false) : undefined
}

function named(word: number, approximate: boolean): NonNullable<ExitStatus['ntstatus']> {
  return { hex: `0x${word.toString(16).toUpperCase()}`, name: NTSTATUS[word] ?? 'a Windows error', approximate }
}

const SIGNAL_MEANINGS: Readonly<Record<string, string>> = {
  SIGABRT: 'it aborted itself',
  SIGBUS: 'a mapped file or memory disappeared',
  SIGFPE: 'arithmetic error',
  SIGHUP: 'its terminal was closed',
  SIGILL: 'illegal instruction',
  SIGINT: 'interrupted',
  SIGKILL: 'killed',
  SIGPIPE: 'the reader of its output was gone',
  SIGQUIT: 'asked to quit',
  SIGSEGV: 'segmentation fault',
  SIGSYS: 'forbidden system call',
  SIGTERM: 'asked to terminate',
  SIGTRAP: 'trap',
  SIGXCPU: 'CPU limit exceeded',
  SIGXFSZ: 'file size limit exceeded',
}

type ExitRow = {
  readonly id: string
  readonly when: (status: ExitStatus, name: string) => boolean
  readonly message: string
  readonly advice: string
  readonly retry: RetryVerdict
}

const ended = (signal: string) => (status: ExitStatus) => status.signal === signal

const ROWS: readonly ExitRow[] = [
  {
    id: 'python.segfault_silent',
    when: (status, name) => status.signal === 'SIGSEGV' && /^(?:python|uv|vllm|$)/.test(name),
    message: 'it crashed without a message (segmentation fault)',
    advice: 'The process crashed without a message (segmentation fault). Set PYTHONFAULTHANDLER=1 to see where.',
    retry: 'after_backoff',
  },
  {
    id: 'exit.segfault',
    when: ended('SIGSEGV'),
    message: 'it crashed without a message (segmentation fault)',
    advice: 'Native code in the program crashed. If it happens again, update the program and its drivers.',
    retry: 'after_backoff',
  },
  {
    id: 'linux.sigbus_silent',
    when: ended('SIGBUS'),
    message: 'a mapped file disappeared or changed while in use',
    advice:
      'A mapped file disappeared or changed while in use. Do not replace model files while the server runs; check disk and shared memory.',
    retry: 'after_change',
  },
  {
    id: 'native.sigill',
    when: ended('SIGILL'),
    message: 'this program needs a newer CPU',
    advice: 'This program was built for a newer CPU. Install a build without AVX2/AVX-512.',
    retry: 'never',
  },
  {
    id: 'exit.killed',
    when: ended('SIGKILL'),
    message: 'it was killed from outside',
    advice: 'Another process or the system killed it, usually because memory ran out. Check how much memory it needs.',
    retry: 'after_backoff',
  },
  {
    id: 'node.unsettled_tla',
    when: (status, name) => status.code === 13 && /^(?:node|npx|tsx|$)/.test(name),
    message: 'the program exited while still waiting for something',
    advice:
      'The program exited while still waiting for something (exit code 13). Usually a dependency did not respond at startup.',
    retry: 'after_backoff',
  },
  {
    id: 'win.access_violation',
    when: (status) => status.ntstatus?.hex === '0xC0000005',
    message: 'the program crashed (invalid memory access)',
    advice: 'The program crashed (invalid memory access). Update it and the drivers.',
    retry: 'after_backoff',
  },
  {
    id: 'exit.command_not_found',
    when: (status, name) => status.code === 127 && WRAPPERS.test(name),
    message: 'a command it runs was not found',
    advice: 'Exit code 127: a program or library was not found. Install it or use its full path.',
    retry: 'never',
  },
  {
    id: 'exit.not_executable',
    when: (status, name) => status.code === 126 && WRAPPERS.test(name),
    message: 'a command it runs is not executable',
    advice: 'Exit code 126: a file is not executable. Check its permissions.',
    retry: 'never',
  },
]
