/** The sentences of the thread: accessible names of its bars, and the first line of the inspector. */
import { FAULTS, isFaultCategory } from '@breakfall/faults'
import type { Call, Step, WireFault } from '../fold/view.ts'
import { jsonOf, textOf } from '../fold/shapes.ts'
import { counted, length } from '../text/format.ts'
import { oneLine, reveal } from '../text/reveal.ts'
import type { Words } from './segments.ts'

export const happened = (fault: WireFault): string => fault.message?.happened ?? fault.error

export const faultTitle = ({ category }: { readonly category: string }): string =>
  isFaultCategory(category) ? FAULTS[category].title : category.replaceAll('_', ' ')

export const ACTIONS = {
  retry: 'asked again',
  resume: 'continued from the break',
  fallback: 'asked another model',
  resolve: 'looked for the runner again',
} as const

export const RESUMED_BY: Readonly<Record<string, string>> = {
  time: 'its time came',
  signal: 'what it waited for came back',
  person: 'a person resumed it',
  restart: 'the daemon restarted',
}

/** Everything that a call was given: what a person allows. */
export const givenTo = ({ arguments: given }: Pick<Call, 'arguments'>): string => reveal(JSON.stringify(given, null, 2))

/** What a call does, in one line. For a tool of somebody else that is everything it was given: a person may have to allow it. */
export function callLine({ tool, arguments: given }: Call): string {
  const { command, path } = jsonOf(given)
  if (tool === 'bash') return textOf(command)
  if (FILE_TOOLS.includes(tool)) return textOf(path)
  return Object.keys(given).length === 0 ? '' : JSON.stringify(given)
}

/** The rest of what they were given is shown as a diff or as a text. */
const FILE_TOOLS: readonly string[] = ['read', 'write', 'edit']

/** The scars of a step in a few words, for the line under its lane. */
export function laneNotes(step: Step): readonly string[] {
  const notes: { readonly at: number; readonly text: string }[] = []
  for (const { fault, wait, spans } of step.attempts) {
    if (fault === null || wait === null) continue
    const ms = spans.reduce((sum, { from, to }) => sum + (to ?? from) - from, 0)
    notes.push({
      at: wait.at,
      text: `✕ ${faultTitle(fault).toLowerCase()} after ${length(ms)}, then ${length(wait.delayMs)} wait`,
    })
  }
  for (const { lookups } of step.calls) {
    const [first] = lookups
    if (first !== undefined)
      notes.push({ at: first.at, text: `↻ looked for the runner ${counted(lookups.length, 'time')}` })
  }
  for (const gap of step.takeovers) notes.push({ at: gap.from, text: `⌇ no daemon for ${length(gap.to - gap.from)}` })
  for (const park of step.parks) notes.push({ at: park.at, text: `◔ parked: ${faultTitle(park.fault).toLowerCase()}` })
  return notes.sort((a, b) => a.at - b.at).map(({ text }) => text)
}

export const WORDS: Words = {
  attempt: (attempt, ms) => {
    const start = `Step ${attempt.step}, attempt ${attempt.n}${attempt.wait === null ? '' : ` of ${attempt.wait.max}`}`
    if (attempt.fault !== null) {
      const wait = attempt.wait === null || attempt.wait.delayMs === 0 ? '' : `; waited ${length(attempt.wait.delayMs)}`
      return `${start}, failed after ${length(ms)}: ${faultTitle(attempt.fault)}${wait}`
    }
    if (attempt.state === 'running') return `${start}, answering for ${length(ms)}`
    return attempt.state === 'cut' ? `${start}, cut off after ${length(ms)}` : `${start}, answered in ${length(ms)}`
  },
  silent: (attempt, ms) => `Step ${attempt.step}, attempt ${attempt.n}: the model was silent for ${length(ms)}`,
  wait: ({ step, wait }) => {
    if (wait === null) return ''
    const asked = wait.fault.retryAfterMs === undefined ? '' : `, as the provider asked`
    const next = wait.action === 'fallback' && wait.to !== null ? ` and then asked ${wait.to}` : ''
    return `Step ${step}: waited ${length(wait.delayMs)}${asked}${next}`
  },
  call: (call, ms) => {
    const looks = call.lookups.length === 0 ? '' : `, looked for the runner ${counted(call.lookups.length, 'time')}`
    return `Step ${call.step}, ${call.tool} ${oneLine(callLine(call), 60)}: ${OUTCOMES[call.outcome].name} after ${length(ms)}${looks}`
  },
  park: ({ step, fault }, ms) => `Step ${step}: parked for ${length(ms)}: ${faultTitle(fault)}`,
  gone: (gap) => `No daemon ran it for ${length(gap.to - gap.from)}: ${whoContinued(gap)} (epoch ${gap.epoch})`,
}

export const whoContinued = ({ daemon }: Step['takeovers'][number]): string =>
  daemon === null ? 'it was killed and restarted' : `${daemon} took it over`

/** How a call ended. Unknown is neither good nor bad: its own glyph, its own sentence. */
export const OUTCOMES = {
  running: { glyph: '●', word: 'running', tone: 'running', name: 'running' },
  ok: { glyph: '✓', word: 'ok', tone: 'finished', name: 'succeeded' },
  failed: { glyph: '✗', word: 'exit', tone: 'failed', name: 'exited with an error' },
  unknown: { glyph: '?', word: 'outcome unknown', tone: 'unknown', name: 'unknown whether it ran' },
  cancelled: { glyph: '⊘', word: 'cancelled', tone: 'cancelled', name: 'cancelled' },
} as const
