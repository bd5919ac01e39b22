/** Explains an exit code or a signal: what a shell means by it, and what it means if a breakfall command printed it. Pure. */
import { EXIT_CODES, Fault, type FaultCategory, type FaultReport } from '@breakfall/faults'
import { describeExit, diagnoseExit, readExit } from '@breakfall/supervisor'
import { toDiagnostic } from '@breakfall/supervisor/internal'
import { cmd } from '../../process/command-name.ts'

export type ExitExplanation = {
  readonly report: FaultReport
  readonly by: 'an exit status' | 'one of our exit codes'
}

/** A code on its own. */
export function explainExitCode(text: string, code: number): ExitExplanation {
  const explained = explainExit(text, code, null)
  const isOnlyOurs = OUR_EXITS.has(code) && explained.report.diagnostics.length === 0
  return isOnlyOurs ? { ...explained, by: 'one of our exit codes' } : explained
}

/** A code or a signal somewhere in a text. */
export function fromExit(text: string): ExitExplanation | undefined {
  const found = /\b(?:exit(?:ed)?(?: with)?(?: code| status)?|code)[:= ]+(\d{1,3})\b/i.exec(text)
  const signal =
    /\b(?:signal|killed by)[:= ]+(SIG[A-Z]+)\b/i.exec(text)?.[1] ?? SHELL_MESSAGES[SHELL_LINE.exec(text)?.[1] ?? '']
  const code = found === null || Number(found[1]) > 255 ? null : Number(found[1])
  if (code === null && signal === undefined) return undefined
  return explainExit(text, code, signal?.toUpperCase() ?? null)
}

// ---- details ----

/** What a shell prints when a signal kills a child. */
const SHELL_MESSAGES: Readonly<Record<string, string>> = {
  Killed: 'SIGKILL',
  'Segmentation fault': 'SIGSEGV',
  Aborted: 'SIGABRT',
  'Bus error': 'SIGBUS',
  'Illegal instruction': 'SIGILL',
  'Floating point exception': 'SIGFPE',
}
const SHELL_LINE = new RegExp(
  `^(?:\\S+: line \\d+: +\\d+ )?(${Object.keys(SHELL_MESSAGES).join('|')})(?: \\(core dumped\\))?(?:$| {2,})`,
  'm',
)

/** Reads the code as a shell reports it: above 128 it names the signal that killed the program. */
function explainExit(text: string, code: number | null, signal: string | null): ExitExplanation {
  const status = readExit(signal === null ? code : null, signal, 'sh')
  const diagnosis = diagnoseExit(status, 'sh') ?? diagnoseExit(status)
  const ours = signal === null ? OUR_EXITS.get(code) : undefined
  const sentences = [
    status.signal === null ? '' : `the program ${describeExit(status)}.`,
    diagnosis?.advice.replace(/^Exit code \d+: /, '') ?? '',
    ours === undefined ? '' : `From a breakfall command it means: ${ours.means}.`,
  ].filter((sentence) => sentence !== '')
  if (sentences.length === 0) sentences.push('the code alone does not say why; look at the end of the output.')
  const report = new Fault(ours?.category ?? 'process_failed', {
    error: (signal === null ? `exit code ${code}: ` : '') + sentences.join(' '),
    errorRaw: text,
    next: ours !== undefined || diagnosis?.retry === 'never' ? 'never' : undefined,
    diagnostics: diagnosis === undefined ? [] : [toDiagnostic(diagnosis)],
  }).report
  return { report, by: 'an exit status' }
}

const OUR_EXITS: ReadonlyMap<number | null, { readonly means: string; readonly category: FaultCategory }> = new Map([
  [EXIT_CODES.finished, { means: 'finished', category: 'other' }],
  [EXIT_CODES.failed, { means: 'the turn failed, and a retry would not help', category: 'process_failed' }],
  [EXIT_CODES.usage, { means: 'wrong usage or configuration; see --help', category: 'invalid_request' }],
  [
    EXIT_CODES.transient,
    {
      means: `the turn is parked, or the problem is temporary; continue later with: ${cmd('run')} --continue`,
      category: 'process_failed',
    },
  ],
  [
    EXIT_CODES.credentials,
    {
      means: 'credentials are missing or were rejected; set the key or the token, then continue',
      category: 'process_failed',
    },
  ],
  [
    EXIT_CODES.budget,
    {
      means:
        "a budget is used up (attempts, waiting, steps, a quota or a deadline), or the answer stopped at the model's token limit",
      category: 'process_failed',
    },
  ],
  [
    EXIT_CODES.unreachable,
    { means: `the daemon or the runner is unreachable; ${cmd('doctor')} says why`, category: 'daemon_unreachable' },
  ],
  [EXIT_CODES.cancelled, { means: 'it was cancelled', category: 'cancelled' }],
])
