/** Judges one run of an agent under one fault. Pure. */
import { LAST_STEP, PLAIN_STEP, STEPS, WORDS, wordsOf } from './script.ts'

export const VERDICTS = ['exact', 'echo', 'wrong', 'error', 'hang'] as const
export type Verdict = (typeof VERDICTS)[number]

/** With a shell tool the commands are judged too. */
export type TrialMode = 'tools' | 'text'

export type AgentRun = {
  readonly mode: TrialMode
  /** Everything it printed. */
  readonly output: string
  /** The lines that its commands added to the ledger. */
  readonly ledger: readonly string[]
  readonly end:
    | { readonly kind: 'exit'; readonly code: number | null; readonly said: string }
    | { readonly kind: 'timeout'; readonly ms: number }
}

/** How often the agent prints each word of a step when nothing fails. An agent may print only its last answer, or each text several times. */
export type Baseline = ReadonlyMap<number, number>

export function baselineOf(run: AgentRun): Baseline {
  return new Map(judgedSteps(run.mode).map((step) => [step, fewestOf(takesOf(run.output, step).get(1) ?? [])]))
}

export function verdictOf(run: AgentRun, baseline: Baseline): { readonly verdict: Verdict; readonly why: string } {
  const { end, ledger } = run
  const steps = Array.from({ length: run.mode === 'tools' ? STEPS : 0 }, (_, i) => String(i + 1))
  const twice = steps.find((step) => ledger.filter((line) => line === step).length > 1)
  if (twice !== undefined) return { verdict: 'wrong', why: `The command of step ${twice} ran more than once.` }
  if (ledger.join() !== steps.filter((step) => ledger.includes(step)).join())
    return { verdict: 'wrong', why: `The commands ran in the wrong order: ${ledger.join(', ')}.` }
  if (end.kind === 'timeout')
    return { verdict: 'hang', why: `It was still running after ${Math.round(end.ms / 1000)} s.` }
  if (end.code !== 0) {
    const status = end.code === null ? 'It was killed' : `It gave up with exit code ${end.code}`
    return { verdict: 'error', why: end.said === '' ? `${status}.` : `${status}: ${end.said}` }
  }
  const missing = steps.find((step) => !ledger.includes(step))
  if (missing !== undefined)
    return { verdict: 'wrong', why: `It reported success, but the command of step ${missing} never ran.` }
  return textVerdict(run, baseline)
}

// ---- details ----

const judgedSteps = (mode: TrialMode): number[] =>
  mode === 'text' ? [PLAIN_STEP] : Array.from({ length: LAST_STEP }, (_, i) => i + 1)

function textVerdict(run: AgentRun, baseline: Baseline): { readonly verdict: Verdict; readonly why: string } {
  let echo: string | undefined
  for (const step of judgedSteps(run.mode)) {
    const expected = baseline.get(step) ?? 0
    if (expected === 0) continue // it does not print this step's text
    const takes = [...takesOf(run.output, step).values()]
    const name = step === LAST_STEP || step === PLAIN_STEP ? 'the last answer' : `step ${step}`
    const whole = takes.find((counts) => fewestOf(counts) >= expected)
    if (whole === undefined) return { verdict: 'wrong', why: `It reported success, but text of ${name} is missing.` }
    if (takes.length > 1) echo ??= `It shows parts of a broken answer beside the whole one (${name}).`
    else if (whole.some((count) => count > expected)) echo ??= `It shows text of ${name} twice.`
  }
  if (echo !== undefined) return { verdict: 'echo', why: echo }
  const commands = run.mode === 'tools' ? ', every command once and in order' : ''
  return { verdict: 'exact', why: `Every text once${commands}.` }
}

/** By take: how often each of its words was printed. */
function takesOf(output: string, step: number): Map<number, number[]> {
  const takes = new Map<number, number[]>()
  for (const { take, index } of wordsOf(output, step)) {
    const counts = takes.get(take) ?? Array.from({ length: WORDS }, () => 0)
    counts[index - 1] = (counts[index - 1] ?? 0) + 1
    takes.set(take, counts)
  }
  return takes
}

const fewestOf = (counts: readonly number[]): number => (counts.length === 0 ? 0 : Math.min(...counts))
