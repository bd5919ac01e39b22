/** What all rules know: every event that was committed, turn by turn, and what became of each call. And how a rule breaks. */
import type { SessionEvent, SessionEventOf } from '../../packages/wire/src/index.ts'
import type { World } from '../host/time.ts'
import type { Plan } from '../plan.ts'
import type { Database } from '../world/database.ts'
import { keyIn, lastWorkIn, type Model } from '../world/model.ts'
import type { Network } from '../world/network.ts'
import { type RunnerDisk, workIn } from '../world/runner.ts'
import type { Sharing } from '../world/store.ts'

export class BrokenRule extends Error {
  readonly rule: string

  constructor(rule: string, what: string, cause?: unknown) {
    super(`${rule}: ${what}`, { cause })
    this.rule = rule
  }
}

export type Parts = {
  readonly plan: Plan
  /** Those of the plan, and those that came at commits. */
  readonly faults: Plan['faults']
  readonly world: World
  readonly database: Database
  readonly sharing: Sharing
  readonly disk: RunnerDisk
  readonly model: Model
  readonly network: Network
}

export type Call = {
  readonly callId: string
  /** What it does: each piece of work is in one call. */
  readonly name: string
  /** Empty: it writes a file. */
  readonly command: string
  readonly execId: string
  /** What the journal says that its file was and becomes. */
  file: SessionEventOf<'tool-output'>['file']
  madeAt: number
  endedAt: number
  result: SessionEventOf<'tool-result'> | null
}

export type Turn = {
  readonly id: string
  readonly sessionId: string
  /** The key that its prompt names. */
  readonly key: string
  end: SessionEventOf<'turn-end'> | SessionEventOf<'turn-error'> | null
  endedAt: number
  readonly calls: Map<string, Call>
  /** The cancel that was stored with it, by whom, and since when that process knows that it is. */
  cancel: { readonly at: number; readonly by: string; heardAt: number } | null
}

export class Facts {
  readonly parts: Parts
  readonly events = new Map<string, SessionEvent[]>()
  readonly bodies = new Map<string, string[]>()
  /** When each event was committed. */
  readonly times = new Map<string, number[]>()
  readonly turns = new Map<string, Turn>()
  readonly turnOfKey = new Map<string, Turn>()
  readonly callOfWork = new Map<string, { readonly turn: Turn; readonly call: Call }>()
  readonly deleted = new Set<string>()
  readonly reached = new Map<string, number>()

  constructor(parts: Parts) {
    this.parts = parts
  }

  broken(rule: string, what: string): never {
    const failure = new BrokenRule(rule, what)
    this.parts.world.fail(failure)
    throw failure
  }

  /** Says that a universe got here: a world that never does proves nothing. */
  reach(what: string): void {
    this.reached.set(what, (this.reached.get(what) ?? 0) + 1)
  }

  opened(event: SessionEventOf<'turn-queued'> | SessionEventOf<'turn-start'>): Turn {
    const { turnId: id, sessionId, prompt } = event
    const key = keyIn(prompt) ?? ''
    const same = this.turnOfKey.get(key)
    if (same !== undefined) this.broken('U6 one key makes one turn', `${key} made ${same.id} and ${id}`)
    const turn: Turn = {
      id,
      sessionId,
      key,
      end: null,
      endedAt: Number.POSITIVE_INFINITY,
      calls: new Map(),
      cancel: null,
    }
    this.turns.set(id, turn)
    this.turnOfKey.set(key, turn)
    return turn
  }

  called(turn: Turn, { callId, execId, arguments: given }: SessionEventOf<'tool-call'>): void {
    const { command = '', content, new: added }: Readonly<Record<string, string | undefined>> = Object(given)
    const name = command === '' ? lastWorkIn(content ?? added ?? '') : workIn(command).name
    const madeAt = this.parts.world.now
    const call: Call = {
      callId,
      name,
      command,
      execId,
      file: undefined,
      madeAt,
      endedAt: Number.POSITIVE_INFINITY,
      result: null,
    }
    turn.calls.set(callId, call)
    this.callOfWork.set(name, { turn, call })
  }

  /** A session that was deleted promises nothing more, but nothing of it may run either. */
  forget(sessionId: string): void {
    this.deleted.add(sessionId)
    this.events.delete(sessionId)
    this.bodies.delete(sessionId)
    this.times.delete(sessionId)
    for (const [id, turn] of this.turns) if (turn.sessionId === sessionId) this.turns.delete(id)
  }

  /** Whether that process has known for certain, when it sent something, that the turn is cancelled. */
  knewOfCancel({ cancel }: Turn, sentBy: string, sentAt: number): boolean {
    if (cancel === null || sentAt <= cancel.at) return false
    return sentBy !== cancel.by || sentAt > cancel.heardAt
  }
}
