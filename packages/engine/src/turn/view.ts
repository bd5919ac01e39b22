/** What the API shows of a session and its turns. Derived from the fold, so it cannot disagree with the journal. */
import { FAULTS, isFaultCategory } from '@breakfall/faults'
import type {
  ProviderView,
  Session,
  SessionList,
  SessionState,
  Turn,
  TurnProvider,
  TurnState,
  TurnSummary,
} from '@breakfall/wire'
import { questionOf, type TurnRecord } from '@breakfall/wire/turn'
import type { SessionPage, SessionRow } from '../rows.ts'
import { totalCost } from './cost.ts'
import { type EndedTurn, NO_USAGE, type Parked, type QueuedTurn, type SessionFold, type TurnFold } from './state.ts'

/** `provider`: its current state; by default, the state that the session remembers. */
export function sessionView(row: SessionRow, model: string, provider = providerView(row.data.provider)): Session {
  return {
    id: row.id,
    title: row.data.title,
    state: row.state,
    turnId: row.turnId,
    model: row.data.model ?? model,
    provider,
    boxId: row.data.box.id ?? row.id,
    workspace: row.data.box.workspace ?? null,
    createdAt: row.createdAt,
    lastSeq: row.lastSeq,
    tools: [...row.data.tools, ...(row.data.outside ?? [])],
    policy: row.data.policy,
    instructions: row.data.instructions ?? [],
    quarantined: row.quarantined,
    updatedAt: row.updatedAt,
    turn: row.turn,
    runnerId: row.data.runnerId,
    owner: row.owner === null ? null : { name: row.owner.name, since: row.owner.since },
  }
}

export function providerView(provider: TurnProvider | null | undefined): ProviderView | null {
  if (provider == null) return null
  const { name, baseUrl, api } = provider
  return { name, baseUrl, api }
}

/** One page of a list: `views` has one more than the limit if there is another page. */
export function sessionPage(views: readonly Session[], limit: number, counts: SessionPage['counts']): SessionList {
  const sessions = views.slice(0, limit)
  const next = views.length > limit ? sessions.at(-1)?.id : undefined
  return { sessions, ...(next === undefined ? {} : { next }), ...(counts === undefined ? {} : { counts }) }
}

export function sessionState(fold: SessionFold, memoryPark: Parked | null = null): SessionState {
  if (fold.turn === null) return fold.queue.length === 0 ? 'idle' : 'busy'
  return fold.turn.parked === null && memoryPark === null ? 'busy' : 'parked'
}

/** The turn that a list shows: the current turn, else the next, else the last. */
export function turnSummary(fold: SessionFold, sessionId: string, inMemory: Parked | null = null): TurnSummary | null {
  const shown = fold.turn ?? fold.queue[0] ?? fold.ended?.turn
  const view = shown === undefined ? undefined : turnView(fold, sessionId, shown.id, inMemory)
  if (shown === undefined || view === undefined) return null
  return summaryOf(view, 'status' in shown ? shown : undefined)
}

/** The row of a list. */
export function summaryOf(turn: Turn, begun: Pick<TurnFold, 'status' | 'record'> | undefined): TurnSummary {
  const { id, state, prompt, steps, attempts, faultsSurvived = 0, startedAt, endedAt, fault, parked } = turn
  const { finish, unproven } = turn
  return {
    id,
    state,
    prompt: prompt.slice(0, PROMPT_CHARS).toWellFormed(),
    steps,
    attempts,
    faultsSurvived,
    unknownOutcomes: begun?.status.unknownOutcomes ?? 0,
    startedAt,
    endedAt,
    fault:
      fault === null
        ? null
        : { category: fault.category, class: fault.class, title: titleOf(fault.category), error: fault.error },
    parked,
    retry: state === 'retrying' ? (begun?.status.retry ?? null) : null,
    marks: begun?.record.marks ?? '',
    ...(finish === undefined ? {} : { finish }),
    ...(unproven === undefined ? {} : { unproven }),
  }
}

export function turnView(
  fold: SessionFold,
  sessionId: string,
  turnId: string,
  inMemory: Parked | null,
): Turn | undefined {
  if (fold.turn?.id === turnId) return runningView(fold.turn, sessionId, inMemory)
  const queued = fold.queue.find((entry) => entry.id === turnId)
  if (queued !== undefined) return queuedView(queued, sessionId)
  const { ended } = fold
  return ended?.turn.id === turnId ? endedView(ended, sessionId) : undefined
}

// ---- details, in the order they are used above ----

const PROMPT_CHARS = 200

const titleOf = (category: string): string => (isFaultCategory(category) ? FAULTS[category].title : category)

function queuedView(queued: QueuedTurn, sessionId: string): Turn {
  return {
    id: queued.id,
    sessionId,
    state: 'queued',
    prompt: queued.prompt,
    steps: 0,
    attempts: 0,
    parked: null,
    fault: null,
    result: null,
    usage: NO_USAGE,
    startedAt: null,
    endedAt: null,
    firstSeq: queued.seq,
    lastSeq: queued.seq,
  }
}

function runningView(turn: TurnFold, sessionId: string, inMemory: Parked | null): Turn {
  const parked = turn.parked ?? inMemory
  const cost = totalCost(turn.cost)
  return {
    id: turn.id,
    sessionId,
    state: parked !== null ? 'parked' : turn.status.state,
    prompt: turn.prompt,
    steps: turn.step,
    attempts: turn.answer.attemptsTotal,
    parked: parked === null ? null : parkedView(parked),
    fault: parked === null ? null : parked.fault,
    result: null,
    faultsSurvived: turn.status.faults.met - turn.status.faults.open,
    usage: turn.usage,
    startedAt: turn.startedAt,
    ...(turn.model === null ? {} : { model: turn.model }),
    ...(turn.provider === null ? {} : { provider: providerView(turn.provider) }),
    endedAt: null,
    unknownOutcomes: turn.status.unknownOutcomes,
    ...recordView(turn.record),
    ...(cost === undefined ? {} : { cost }),
    ...approvalView(turn),
  }
}

function recordView(record: TurnRecord): Partial<Turn> {
  const { firstSeq, lastSeq, tools, filesChanged, filesUnknown, longOutputs } = record
  return {
    firstSeq,
    lastSeq,
    tools,
    filesChanged: [...filesChanged],
    ...(filesUnknown ? { filesUnknown } : {}),
    ...(longOutputs.length === 0 ? {} : { longOutputs: [...longOutputs] }),
  }
}

/** The call that waits for a person. */
function approvalView({ calls, parked }: TurnFold): Pick<Turn, 'approval'> {
  const call = calls.find(({ result, approval }) => result === null && approval?.decision === null)
  if (parked === null || questionOf(parked) !== 'approval' || call?.approval == null) return {}
  const { callId, tool, arguments: given, approval } = call
  const { why, expiresAt, question } = approval
  return {
    approval: { callId, tool, arguments: given, why, expiresAt, ...(question === undefined ? {} : { question }) },
  }
}

function parkedView({ fault: { category }, since, resumeAt, because, wait }: Parked): NonNullable<Turn['parked']> {
  return {
    category,
    since,
    resumeAt,
    ...(because === undefined ? {} : { because }),
    ...(wait === undefined ? {} : { wait }),
  }
}

function endedView({ turn, end }: EndedTurn, sessionId: string): Turn {
  const base = 'step' in turn ? runningView(turn, sessionId, null) : queuedView(turn, sessionId)
  if (end.type === 'turn-end') {
    const { text, usage, steps, faultsSurvived, cost, finish, unproven, at: endedAt } = end
    const finished = {
      result: { text },
      usage,
      steps,
      faultsSurvived,
      endedAt,
      ...(cost === undefined ? {} : { cost }),
      ...(finish === undefined ? {} : { finish }),
      ...(unproven === undefined ? {} : { unproven }),
    }
    return { ...base, state: 'finished', parked: null, fault: null, ...finished }
  }
  const state: TurnState = end.category === 'cancelled' ? 'cancelled' : 'failed'
  const { type: _type, seq: _seq, sessionId: _session, filesChanged: _files, filesUnknown: _unknown, ...rest } = end
  const { usage = base.usage, cost = base.cost, ...fault } = rest
  const used = { usage, ...(cost === undefined ? {} : { cost }) }
  return { ...base, state, parked: null, fault, ...used, endedAt: end.at, lastSeq: end.seq }
}
