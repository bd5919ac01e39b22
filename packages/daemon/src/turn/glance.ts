/**
 * What a list shows of a turn besides its state: its events in the journal, what went wrong, which tools it used and which files
 * they changed. Pure and bounded, however long the turn is.
 */
import { FAULTS, isFaultCategory } from '@breakfall/faults'
import { isHandover } from '@breakfall/wire/turn'
import type { SessionEvent, Turn, TurnSummary } from '@breakfall/wire'

export type Glance = {
  readonly firstSeq: number
  readonly lastSeq: number
  readonly unknownOutcomes: number
  /** One character per step, fault, park, takeover and unknown outcome: the newest ones. */
  readonly marks: string
  /** The retry that the turn waits for, or waited for last. */
  readonly retry: TurnSummary['retry']
  readonly tools: Readonly<Record<string, number>>
  /** By the tools that name the file. */
  readonly filesChanged: readonly string[]
  /** Execs whose output the model read only in part: the newest ones. */
  readonly longOutputs: readonly string[]
  /** Calls without a result, and the file that a call will have changed if it succeeds. */
  readonly open: Readonly<Record<string, { readonly execId: string; readonly path?: string }>>
}

export const firstGlance = (seq: number): Glance => ({
  firstSeq: seq,
  lastSeq: seq,
  unknownOutcomes: 0,
  marks: '',
  retry: null,
  tools: {},
  filesChanged: [],
  longOutputs: [],
  open: {},
})

/** Whether a tool was called that may change files without naming them. */
export const hasRunCommands = ({ tools }: Pick<Glance, 'tools'>): boolean =>
  Object.keys(tools).some((tool) => !HIDES_NO_CHANGE.has(tool))

export function glanced(glance: Glance, event: SessionEvent): Glance {
  const change = changeOf(glance, event)
  return change === null ? glance : { ...glance, ...change, lastSeq: event.seq }
}

/** The row of a list. */
export function summaryOf(turn: Turn, glance: Glance | undefined): TurnSummary {
  const { id, state, prompt, steps, attempts, faultsSurvived = 0, startedAt, endedAt, fault, parked } = turn
  const { finish, unproven } = turn
  return {
    id,
    state,
    prompt: prompt.slice(0, PROMPT_CHARS).toWellFormed(),
    steps,
    attempts,
    faultsSurvived,
    unknownOutcomes: glance?.unknownOutcomes ?? 0,
    startedAt,
    endedAt,
    fault:
      fault === null
        ? null
        : { category: fault.category, class: fault.class, title: titleOf(fault.category), error: fault.error },
    parked,
    retry: state === 'retrying' ? (glance?.retry ?? null) : null,
    marks: glance?.marks ?? '',
    ...(finish === undefined ? {} : { finish }),
    ...(unproven === undefined ? {} : { unproven }),
  }
}

/** The fields of a turn's view that come from the glance. */
export function glanceFields(glance: Glance): Partial<Turn> {
  const { firstSeq, lastSeq, unknownOutcomes, tools, filesChanged, longOutputs } = glance
  const known = { firstSeq, lastSeq, unknownOutcomes, tools, filesChanged }
  return {
    ...known,
    ...(hasRunCommands(glance) ? { filesUnknown: true } : {}),
    ...(longOutputs.length === 0 ? {} : { longOutputs }),
  }
}

// ---- details, in the order they are used above ----

const PROMPT_CHARS = 200
const MARKS_MAX = 64
export const FILES_MAX = 100
const LONG_OUTPUTS_MAX = 10
const HIDES_NO_CHANGE: ReadonlySet<string> = new Set(['read', 'write', 'edit', 'process'])

/** Null for events that come by the hundred, and change nothing that is shown. */
function changeOf(glance: Glance, event: SessionEvent): Partial<Glance> | null {
  switch (event.type) {
    case 'step-start':
      return { marks: marked(glance, '-'), retry: null }
    case 'retry': {
      const { attempt, max, nextAt, fault } = event
      return { marks: marked(glance, 'x'), retry: { attempt, max, nextAt, category: fault.category } }
    }
    case 'parked':
      return isHandover(event.fault.category) ? { retry: null } : { marks: marked(glance, 'p'), retry: null }
    case 'taken-over':
      return { marks: marked(glance, 'k') }
    case 'tool-call': {
      const { tool, callId, execId } = event
      const { path } = event.arguments
      const writes = (tool === 'write' || tool === 'edit') && typeof path === 'string'
      return {
        tools: { ...glance.tools, [tool]: (own(glance.tools, tool) ?? 0) + 1 },
        open: { ...glance.open, [callId]: writes ? { execId, path } : { execId } },
      }
    }
    case 'tool-result':
      return resultOf(glance, event)
    case 'turn-queued':
    case 'approval-requested':
    case 'approval':
    case 'compacted':
    case 'turn-start':
    case 'part-discarded':
    case 'resumed':
    case 'box-moved':
    case 'turn-end':
    case 'turn-error':
      return {}
    case 'text-delta':
    case 'reasoning-delta':
    case 'tool-draft':
    case 'tool-output':
    case 'model-server':
      return null
  }
}

function resultOf(glance: Glance, event: Extract<SessionEvent, { type: 'tool-result' }>): Partial<Glance> {
  const { callId, outcome } = event
  const call = own(glance.open, callId)
  const { [callId]: _, ...open } = glance.open
  const path = call?.path
  const isNew = path !== undefined && outcome === 'ok' && !glance.filesChanged.includes(path)
  return {
    open,
    ...(call !== undefined && isLong(event)
      ? { longOutputs: [...glance.longOutputs, call.execId].slice(-LONG_OUTPUTS_MAX) }
      : {}),
    ...(isNew && glance.filesChanged.length < FILES_MAX ? { filesChanged: [...glance.filesChanged, path] } : {}),
    ...(outcome === 'unknown' ? { unknownOutcomes: glance.unknownOutcomes + 1, marks: marked(glance, '?') } : {}),
  }
}

/** Models choose the names of tools and calls, and `constructor` is one. */
const own = <T>(entries: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(entries, name) ? entries[name] : undefined

/** As the daemon marks what the model does not read. */
const isLong = ({ exit, text }: Extract<SessionEvent, { type: 'tool-result' }>): boolean =>
  exit != null && /\n\[… \d+ bytes left out …\]\n/.test(text)

const marked = ({ marks }: Glance, mark: string): string => (marks + mark).slice(-MARKS_MAX)

const titleOf = (category: string): string => (isFaultCategory(category) ? FAULTS[category].title : category)
