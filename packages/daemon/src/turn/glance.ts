/**
 * What a list shows of a turn besides its state: its events in the journal, what went wrong, which tools it used and which files
 * they changed. Pure and bounded, however long the turn is.
 */
import { FAULTS, isFaultCategory } from '@breakfall/faults'
import { isHandover } from '@breakfall/model'
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
  readonly filesChanged: readonly string[]
  /** Calls without a result that will have changed a file if they succeed. */
  readonly writing: Readonly<Record<string, string>>
}

export const firstGlance = (seq: number): Glance => ({
  firstSeq: seq,
  lastSeq: seq,
  unknownOutcomes: 0,
  marks: '',
  retry: null,
  tools: {},
  filesChanged: [],
  writing: {},
})

export function glanced(glance: Glance, event: SessionEvent): Glance {
  const change = changeOf(glance, event)
  return change === null ? glance : { ...glance, ...change, lastSeq: event.seq }
}

/** The row of a list. */
export function summaryOf(turn: Turn, glance: Glance | undefined): TurnSummary {
  const { id, state, prompt, steps, attempts, faultsSurvived = 0, startedAt, endedAt, fault, parked } = turn
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
  }
}

/** The fields of a turn's view that come from the glance. */
export function glanceFields(glance: Glance): Partial<Turn> {
  const { firstSeq, lastSeq, unknownOutcomes, tools, filesChanged } = glance
  return { firstSeq, lastSeq, unknownOutcomes, tools, filesChanged }
}

// ---- details, in the order they are used above ----

const PROMPT_CHARS = 200
const MARKS_MAX = 64
const FILES_MAX = 100

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
      const { tool, callId } = event
      const { path } = event.arguments
      const writes = (tool === 'write' || tool === 'edit') && typeof path === 'string'
      return {
        tools: { ...glance.tools, [tool]: (glance.tools[tool] ?? 0) + 1 },
        ...(writes ? { writing: { ...glance.writing, [callId]: path } } : {}),
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
  const { [callId]: path, ...writing } = glance.writing
  const isNew = path !== undefined && outcome === 'ok' && !glance.filesChanged.includes(path)
  return {
    writing,
    ...(isNew && glance.filesChanged.length < FILES_MAX ? { filesChanged: [...glance.filesChanged, path] } : {}),
    ...(outcome === 'unknown' ? { unknownOutcomes: glance.unknownOutcomes + 1, marks: marked(glance, '?') } : {}),
  }
}

const marked = ({ marks }: Glance, mark: string): string => (marks + mark).slice(-MARKS_MAX)

const titleOf = (category: string): string => (isFaultCategory(category) ? FAULTS[category].title : category)
