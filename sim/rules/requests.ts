/**
 * What the model was asked, and when.
 *
 * U9  The model reads one result for each call. A turn ends with one whole answer, never with two that were joined.
 * U10 Each request to the model has a reason in the journal that no earlier request used up: a step that began, an attempt that failed, a
 *     turn that was resumed or taken over. Attempts and waits stay within the policy.
 * U11 No request leaves sooner than the server asked. Excuses: a person resumed the turn; the daemon died or stopped before it could
 *     write down what the server said; the clock of a single daemon was set.
 * U13 No request leaves after the turn's cancel was stored. Excuse: the process that stored it, until it has the database's answer.
 */
import { POLICY_DEFAULTS } from '../../packages/faults/src/index.ts'
import type { SessionEvent, SessionEventOf } from '../../packages/wire/src/index.ts'
import { askedOf, keyIn, type Message } from '../world/model.ts'
import { START } from '../host/time.ts'
import type { Exchange } from '../world/network.ts'
import { MODEL } from '../world/weather.ts'
import { POLICY } from '../plan.ts'
import type { Facts, Turn } from './facts.ts'

type Account = {
  /** The journal has a reason for one more request. */
  mayAsk: boolean
  /** Attempts of this step that failed, those of them that count, and the time it has waited for retries. */
  attempts: number
  failures: number
  waitedMs: number
  /** Since when attempts fail before the model answers anything. */
  awaySince: number | null
  /** What the server asked for last. */
  wait: { readonly until: number; readonly by: string; isWritten: boolean } | null
}

export class Requests {
  readonly #facts: Facts
  readonly #accounts = new Map<Turn, Account>()

  constructor(facts: Facts) {
    this.#facts = facts
    const { network, model, world } = facts.parts
    network.observers.push({
      sent: (origin, exchange) => {
        if (origin === MODEL && exchange.method === 'POST') this.#sent(exchange)
      },
    })
    model.onRefused = (exchange, seconds) => {
      const turn = facts.turnOfKey.get(askedOf(exchange).key)
      if (turn === undefined) return
      this.#account(turn).wait = { until: world.now + seconds * 1_000, by: exchange.from.name, isWritten: false }
    }
  }

  /** An event of the turn was committed. */
  note(turn: Turn, event: SessionEvent): void {
    const account = this.#account(turn)
    const { type } = event
    if (type === 'step-start') Object.assign(account, NEW_STEP)
    if (type === 'retry') this.#failed(account, event)
    if (type === 'text-delta' || type === 'tool-draft') account.awaySince = null
    if (type === 'parked' && event.fault.boundary === 'model' && account.wait !== null) account.wait.isWritten = true
    if (type === 'taken-over') {
      if (account.wait?.isWritten === false) account.wait = null
      account.mayAsk = true
    }
    if (type === 'resumed') {
      const isBound = event.because === 'time' || event.because === 'restart'
      if (!isBound || account.wait?.isWritten === false) account.wait = null
      Object.assign(account, { mayAsk: true, attempts: 0, failures: 0, awaySince: null })
    }
    if (type === 'turn-end' && !isOneAnswer(event.text, turn.key))
      this.#facts.broken('U9 a turn ends with one whole answer', `${turn.id}: ${event.text}`)
  }

  // ---- details ----

  #account(turn: Turn): Account {
    const account = this.#accounts.get(turn) ?? { ...NEW_STEP, mayAsk: false, wait: null }
    this.#accounts.set(turn, account)
    return account
  }

  /** U10 */
  #failed(account: Account, { action, at, delayMs, fault, free, turnId }: SessionEventOf<'retry'>): void {
    if (fault.boundary === 'model' && account.wait !== null) account.wait.isWritten = true
    account.waitedMs += delayMs
    if (action !== 'resolve') {
      account.mayAsk = true
      account.attempts += 1
      account.failures += free === true ? 0 : 1
      account.awaySince = free === true ? (account.awaySince ?? Date.parse(at)) : null
    }
    const awayMs = Date.parse(at) - (account.awaySince ?? Date.parse(at))
    // A server that says when to ask again gets as many attempts as any other.
    const isAsked = fault.retryAfterMs !== undefined && account.attempts < POLICY_DEFAULTS.attemptsMax
    const stoodMs = this.#stoodStillMs(Date.parse(at) - awayMs - START, Date.parse(at) - START)
    if (awayMs > POLICY.patienceMs + POLICY.headersMs + stoodMs + JOURNAL_MS && !isAsked && !this.#isClockOff)
      this.#facts.broken('U10 patience is spent once', `${turnId}: ${awayMs} ms`)
    if (account.failures >= POLICY_DEFAULTS.attemptsMax || account.waitedMs > POLICY_DEFAULTS.waitMsMax)
      this.#facts.broken(
        'U10 attempts and waits stay within the policy',
        `${turnId}: ${account.failures} failures, ${account.waitedMs} ms`,
      )
  }

  /** For how long some daemon did nothing at that time: it could not notice that its patience was spent. */
  #stoodStillMs(from: number, to: number): number {
    return this.#facts.parts.faults
      .filter(({ kind }) => kind === 'freeze' || kind === 'stall')
      .reduce((sum, { at, ms }) => sum + Math.max(0, Math.min(to, at + ms) - Math.max(from, at)), 0)
  }

  /** Without a shared store, times in the journal are those of the daemon's own clock. */
  get #isClockOff(): boolean {
    const { faults, plan } = this.#facts.parts
    return !plan.isShared && faults.some(({ kind }) => kind === 'skew')
  }

  #sent(exchange: Exchange): void {
    const { key, messages } = askedOf(exchange)
    const turn = this.#facts.turnOfKey.get(key)
    const { from, sentAt } = exchange
    if (turn === undefined) this.#facts.broken('U10 each request has a reason in the journal', `${key}: no such turn`)
    if (this.#facts.deleted.has(turn.sessionId)) return
    const account = this.#account(turn)
    if (!account.mayAsk)
      this.#facts.broken('U10 each request has a reason in the journal', `${turn.id} of ${from.name} at ${sentAt}`)
    account.mayAsk = false
    const { wait } = account
    if (wait !== null && sentAt < wait.until && (wait.isWritten || wait.by === from.name) && !this.#isClockOff)
      this.#facts.broken(
        'U11 no request sooner than the server asked',
        `${turn.id} at ${sentAt}, not before ${wait.until}`,
      )
    if (this.#facts.knewOfCancel(turn, from.name, sentAt))
      this.#facts.broken('U13 a cancelled turn asks nothing', `${turn.id} of ${from.name} at ${sentAt}`)
    this.#answers(key, messages)
    const results = messages.flatMap(({ role, tool_call_id: id }) => (role === 'tool' ? [id] : []))
    const calls = messages.flatMap(({ tool_calls: made = [] }) => made.map(({ id }) => id))
    if (new Set(results).size !== results.length || calls.length !== results.length)
      this.#facts.broken(
        'U9 the model reads one result for each call',
        `${key}: calls ${calls.join(' ')}, results ${results.join(' ')}`,
      )
  }

  /** Each answer of the turn has all its calls. */
  #answers(key: string, messages: readonly Message[]): void {
    const steps = this.#facts.parts.plan.sessions.flatMap(({ turns }) => turns).find((turn) => turn.key === key)?.steps
    const from = messages.findLastIndex(({ role, content }) => role === 'user' && keyIn(content) === key)
    const answers = messages.slice(from + 1).filter(({ role }) => role === 'assistant')
    for (const [at, { tool_calls: calls = [] }] of answers.entries())
      if (calls.length !== steps?.[at]?.calls)
        this.#facts.broken('U9 an answer has all its calls', `${key}, answer ${at + 1}: ${calls.length}`)
  }
}

/** An attempt ends that much later in the journal than on the wire. */
const JOURNAL_MS = 1_000

const NEW_STEP = { mayAsk: true, attempts: 0, failures: 0, waitedMs: 0, awaySince: null } as const

/** The model ends each answer with the turn's key in brackets. */
const isOneAnswer = (text: string, key: string): boolean =>
  text.indexOf(`[${key} `) === text.lastIndexOf('[') && text.endsWith(']') && WORDS_ONCE.test(text)

const WORDS_ONCE = /^[A-Z][^[\]]* \[[^[\]]+ \d+\]$/
