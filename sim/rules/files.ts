/**
 * What became of files.
 *
 * U2  An owner that was replaced writes nothing, once its successor has looked at the file for the same call.
 * U19 Each `write` and `edit` changes its file once, from what the journal says that it was to what the journal says that it becomes. One
 *     that was reported as done has changed it, and a call that was reported as not done never does. It is unknown only if it cannot be
 *     known: something else changed the file meanwhile, or the turn ended and its last look at the runner was not answered. Excuse: the
 *     database was away, so the turn could not get the higher epoch that keeps late requests out.
 */
import { createHash } from 'node:crypto'
import type { FaultKind } from '../plan.ts'
import { boxIn, type Exchange } from '../world/network.ts'
import { FILE, lastWorkIn } from '../world/model.ts'
import type { Written } from '../world/runner.ts'
import { RUNNER } from '../world/weather.ts'
import { type Effects, hasGivenUp, isUnsureCall } from './effects.ts'
import type { Call, Facts, Turn } from './facts.ts'

export class Files {
  readonly #facts: Facts
  readonly #effects: Effects
  /** What each piece of work changed. */
  readonly #changed = new Map<string, Written>()
  /** The latest claim whose owner has looked at the file, by box. */
  readonly #looked = new Map<string, number>()
  /** The last request about each box, and whether it was answered. */
  readonly #asked = new Map<string, { readonly exchange: Exchange; isAnswered: boolean }>()
  /** Turns that ended without an answer to their last look, or while the database was away. */
  readonly #endedBlind = new Set<string>()

  constructor(facts: Facts, effects: Effects) {
    this.#facts = facts
    this.#effects = effects
    facts.parts.disk.observers.push({ written: (written) => this.#note(written) })
    facts.parts.database.observers.push({
      appended: ({ sessionId, events }) => {
        for (const { type, turnId } of events)
          if (type === 'turn-error' && this.#isBlind(sessionId)) this.#endedBlind.add(turnId)
      },
    })
    facts.parts.network.observers.push({
      sent: (origin, exchange) => {
        if (origin === RUNNER) this.#asked.set(boxIn(exchange.path), { exchange, isAnswered: false })
      },
      answered: (exchange) => {
        const asked = this.#asked.get(boxIn(exchange.path))
        if (asked?.exchange === exchange) asked.isAnswered = true
      },
      arrived: (origin, { from, method, path, sentAt }) => {
        if (origin !== RUNNER || method !== 'GET' || !path.endsWith(`/files/${FILE}`)) return
        const box = boxIn(path)
        this.#looked.set(box, Math.max(this.#looked.get(box) ?? 0, effects.claimOf(box, from.name, sentAt)))
      },
    })
  }

  atEnd(): void {
    for (const turn of this.#facts.turns.values())
      for (const call of turn.calls.values()) if (call.command === '') this.#judge(turn, call)
  }

  // ---- details ----

  #note(written: Written): void {
    const { boxId, exchange, before, after, at } = written
    const name = lastWorkIn(after)
    const { turn, call } = this.#facts.callOfWork.get(name) ?? {}
    if (turn === undefined || call === undefined || before === after) return
    const what = `${name} of ${exchange.from.name} at ${at}, sent at ${exchange.sentAt}`
    const first = this.#changed.get(name)
    if (first !== undefined) this.#facts.broken('U19 a call changes its file once', `${what}, before at ${first.at}`)
    this.#changed.set(name, written)
    const isNoted = call.file?.after === hashOf(after) && call.file.before === hashOf(before)
    if (!isNoted) this.#facts.broken('U19 the journal has each change first', what)
    const isReplaced =
      this.#effects.claimOf(boxId, exchange.from.name, exchange.sentAt) < (this.#looked.get(boxId) ?? 0)
    if (this.#effects.isFenced(written) || (isReplaced && call.result === null))
      this.#facts.broken('U2 no effect of a fenced owner', what)
    if (this.#facts.knewOfCancel(turn, exchange.from.name, exchange.sentAt))
      this.#facts.broken('U13 a cancelled turn writes nothing', what)
  }

  #judge(turn: Turn, call: Call): void {
    const { callId, name, result, madeAt, endedAt } = call
    if (result === null) return
    const change = this.#changed.get(name)
    const { outcome, text } = result
    const isUnsure = outcome === 'unknown' || (outcome === 'cancelled' && isUnsureCall(turn, callId))
    this.#facts.reach(`file ${outcome}`)
    if (outcome === 'ok' && (change === undefined || change.at > endedAt))
      this.#facts.broken('U19 what is said to be written is', `${name}: ${text}`)
    if (change !== undefined && outcome !== 'ok' && !isUnsure)
      this.#facts.broken('U19 what is said not to be written is not', `${name}: ${text}`)
    if (!isUnsure || hasGivenUp(turn, call) || (turn.endedAt === endedAt && this.#endedBlind.has(turn.id))) return
    const isOthers = [...this.#changed].some(
      ([other, { boxId, at }]) => other !== name && boxId === turn.sessionId && at > madeAt && at < endedAt,
    )
    if (!isOthers) this.#facts.broken('U19 unknown only if it cannot be known', `${name}: ${text}`)
  }

  /** A turn that ends now can know nothing more of its files. */
  #isBlind(sessionId: string): boolean {
    const { world, plan, faults } = this.#facts.parts
    const isStoreAway = faults.some(
      ({ kind, at, ms }) => STORE_AWAY.has(kind) && at < world.now && at + ms > world.now - LOOK_MS,
    )
    const { lostStatement, lostStatementAnswer } = plan.rates
    return isStoreAway || lostStatement + lostStatementAnswer > 0 || this.#asked.get(sessionId)?.isAnswered !== true
  }
}

/** A cancelled write is looked up for ten seconds. */
const LOOK_MS = 12_000
const STORE_AWAY: ReadonlySet<FaultKind> = new Set(['partition', 'database-down', 'freeze', 'stall', 'skew'])

const hashOf = (text: string | undefined): string | null =>
  text === undefined ? null : createHash('sha256').update(text).digest('hex')
