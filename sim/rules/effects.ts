/**
 * What ran, and what was said about it.
 *
 * U1  A command starts at most once.
 * U2  An owner that was replaced has no more effects, once its successor has spoken to the runner. Who owned what is the database's
 *     word, so a request that carries no epoch is judged, too.
 * U3  What was reported as not run has not run, and never runs.
 * U4  What was reported as run has run, and its output is there once and whole, or the result says that it is not.
 * U5  An outcome is unknown only if it cannot be known: the command's machine restarted, its record is past its days, or the turn
 *     gave up waiting for the runner. A cancel is unsure only if its last kill was not answered, or its runner was away.
 * U10 A start whose answer was lost is repeated only after the journal says so.
 * U13 No command starts that was sent after its turn's cancel was stored, by a process that could know. Excuse: the process that
 *     stored it, until it has the database's answer.
 */
import { START } from '../host/time.ts'
import type { FaultKind } from '../plan.ts'
import type { Effect } from '../world/runner.ts'
import { workIn } from '../world/runner.ts'
import { boxIn, type Exchange } from '../world/network.ts'
import { RUNNER } from '../world/weather.ts'
import type { Call, Facts, Turn } from './facts.ts'

type Claim = { readonly at: number; readonly nr: number }

export class Effects {
  readonly #facts: Facts
  readonly #ran = new Map<string, string>()
  /** The claims of a session by a process, in their order. */
  readonly #claims = new Map<string, Claim[]>()
  /** The latest claim whose owner the runner has heard, by box. */
  readonly #spoken = new Map<string, number>()
  /** The last kill of each call, and whether it was answered. */
  readonly #kills = new Map<string, { readonly exchange: Exchange; isAnswered: boolean }>()
  /** The last start of each exec by a process, and how many events its session had then. */
  readonly #starts = new Map<string, { readonly exchange: Exchange; readonly events: number; isAnswered: boolean }>()
  #claimed = 0

  constructor(facts: Facts) {
    this.#facts = facts
    const { database, disk, network, sharing } = facts.parts
    disk.observers.push({ started: (effect) => this.#note(effect) })
    database.observers.push({
      claimed: ({ id }, bootId) => this.#own(id, sharing.boots.get(bootId) ?? ''),
    })
    network.observers.push({
      sent: (origin, exchange) => {
        if (origin === RUNNER && exchange.method === 'POST' && START_EXEC.test(exchange.path)) this.#starting(exchange)
        const [, execId] = KILL.exec(exchange.path) ?? []
        if (origin === RUNNER && execId !== undefined) this.#kills.set(callOf(execId), { exchange, isAnswered: false })
      },
      arrived: (origin, { from, method, path, sentAt }) => {
        const box = boxIn(path)
        if (origin !== RUNNER || method === 'GET' || path.includes('/checkpoints')) return
        this.#spoken.set(box, Math.max(this.#spoken.get(box) ?? 0, this.claimOf(box, from.name, sentAt)))
      },
      answered: (exchange) => {
        for (const start of this.#starts.values()) if (start.exchange === exchange) start.isAnswered = true
        const [, execId = ''] = KILL.exec(exchange.path) ?? []
        const kill = this.#kills.get(callOf(execId))
        if (kill?.exchange === exchange) kill.isAnswered = true
      },
    })
  }

  /** U3, U4, U5 */
  atEnd(): void {
    const { fenced, burned } = this.#facts.parts.disk.refused
    if (fenced > 0) this.#facts.reach('a fenced start is refused')
    if (burned > 0) this.#facts.reach('a burned start is refused')
    for (const turn of this.#facts.turns.values()) {
      for (const call of turn.calls.values()) if (call.command !== '') this.#judge(turn, call)
      this.#judgeCancel(turn)
    }
  }

  /** It came from an owner whose successor had spoken to the runner by then. */
  isFenced({ boxId, exchange, epoch, epochSeen }: Pick<Effect, 'boxId' | 'exchange' | 'epoch' | 'epochSeen'>): boolean {
    const mine = this.claimOf(boxId, exchange.from.name, exchange.sentAt)
    return mine < (this.#spoken.get(boxId) ?? 0) || (epoch !== undefined && epoch < epochSeen)
  }

  /** Which claim a process acted on at that time. */
  claimOf(sessionId: string, process: string, at: number): number {
    return this.#claims.get(`${sessionId} ${process}`)?.findLast((claim) => claim.at <= at)?.nr ?? 0
  }

  // ---- details ----

  /** U10 */
  #starting(exchange: Exchange): void {
    const { body, from, path, sentAt } = exchange
    const { execId }: { readonly execId: string } = JSON.parse(body)
    const key = `${execId} ${from.name}`
    const events = this.#facts.events.get(boxIn(path))?.length ?? 0
    const last = this.#starts.get(key)
    if (last?.isAnswered === false && last.events === events)
      this.#facts.broken('U10 a failed call is in the journal before it is repeated', `${key} at ${sentAt}`)
    this.#starts.set(key, { exchange, events, isAnswered: false })
  }

  /** U1, U2, U13 */
  #note(effect: Effect): void {
    const { execId, command, exchange } = effect
    const { name } = workIn(command)
    const { from, sentAt } = exchange
    if (this.#ran.has(name))
      this.#facts.broken('U1 a command starts at most once', `${command} (${execId}), before as ${this.#ran.get(name)}`)
    this.#ran.set(name, execId)
    if (this.isFenced(effect))
      this.#facts.broken('U2 no effect of a fenced owner', `${command} of ${from.name}, sent at ${sentAt}`)
    const turn = this.#facts.turns.get(execId.slice(0, UUID_LENGTH))
    if (turn !== undefined && this.#facts.knewOfCancel(turn, from.name, sentAt))
      this.#facts.broken('U13 a cancelled turn starts nothing', `${command} of ${from.name}, sent at ${sentAt}`)
  }

  #own(sessionId: string, process: string): void {
    const key = `${sessionId} ${process}`
    const claims = this.#claims.get(key) ?? []
    this.#claims.set(key, claims)
    this.#claimed += 1
    claims.push({ at: this.#facts.parts.world.now, nr: this.#claimed })
  }

  #judge(turn: Turn, call: Call): void {
    const { callId, command, execId, result } = call
    if (result === null) return
    const { outcome, exit = null, text } = result
    const { name, lines } = workIn(command)
    const hasRun = this.#ran.has(name)
    const isUnsure = outcome === 'unknown' || isUnsureCall(turn, callId)
    if (hasRun && exit === null && !isUnsure)
      this.#facts.broken('U3 what was said not to have run has not run', `${command} of ${turn.id}: ${text}`)
    if (!hasRun && exit?.cause === 'exited')
      this.#facts.broken('U4 what is said to have run has run', `${command} of ${turn.id}: ${text}`)
    if (
      outcome === 'unknown' &&
      !this.#facts.parts.disk.lost.has(this.#ran.get(name) ?? execId) &&
      !hasGivenUp(turn, call)
    )
      this.#facts.broken('U5 unknown only if it cannot be known', `${command} of ${turn.id}: ${text}`)
    if (outcome === 'unknown' || exit === null || INCOMPLETE.test(text)) return
    const printed = this.#facts.parts.disk.printed.get(this.#ran.get(name) ?? execId) ?? ''
    const linesIn = (output: string): readonly string[] =>
      output.split('\n').filter((line) => line.startsWith(`${name} line `))
    if (
      linesIn(text).join('\n') !== linesIn(printed).join('\n') ||
      (outcome === 'ok' && linesIn(text).length !== lines)
    )
      this.#facts.broken('U4 output is there once and whole', `${command} of ${turn.id}: ${text}`)
  }

  #judgeCancel(turn: Turn): void {
    if (turn.end?.type !== 'turn-error' || turn.end.category !== 'cancelled' || !isUnsureEnd(turn)) return
    this.#facts.reach('unsure cancel')
    const endedAt = Date.parse(turn.end.at) - START
    const isAway = this.#facts.parts.faults.some(
      ({ kind, at, ms }) => RUNNER_AWAY.has(kind) && at < endedAt && at + ms > endedAt - KILL_MS,
    )
    if (isAway) return // it may not have come to the last kill
    const stopped = [...turn.calls.values()].filter(({ result }) => result?.outcome === 'cancelled')
    const isKnown = ({ name, execId }: Call): boolean =>
      this.#kills.get(execId)?.isAnswered === true && !this.#facts.parts.disk.lost.has(this.#ran.get(name) ?? execId)
    if (stopped.every(isKnown))
      this.#facts.broken('U5 unsure only if the kill was not answered', `${turn.id} of ${turn.sessionId}`)
  }
}

/** A kill is tried for ten seconds, and under three ids. */
const KILL_MS = 12_000
const RUNNER_AWAY: ReadonlySet<FaultKind> = new Set(['runner-kill', 'runner-machine', 'cut-runner'])

const START_EXEC = /\/exec$/
const KILL = /\/execs\/([^/]+)\/kill/
const UUID_LENGTH = 36

/** A command may run under a second and a third id of its call. */
const callOf = (execId: string): string => execId.replace(/\.[23]$/, '')

const isUnsureEnd = ({ end }: Turn): boolean => end?.type === 'turn-error' && end.sideEffects === 'unknown'

/** Calls run in order: of those that a cancel ended, only the first may have run without its outcome being known. */
export const isUnsureCall = (turn: Turn, callId: string): boolean =>
  isUnsureEnd(turn) && [...turn.calls.values()].find(({ result }) => result?.outcome === 'cancelled')?.callId === callId

/** The turn ended with this call because its runner could not be reached for too long. A lost answer alone is no reason. */
export const hasGivenUp = ({ end, endedAt }: Turn, call: Call): boolean =>
  end?.type === 'turn-error' &&
  endedAt === call.endedAt &&
  (end.boundary === 'runner' || end.boundary === 'box') &&
  end.stopped !== 'side_effects_unknown'

const INCOMPLETE = /not all of its output is here|some of its output may be missing/
