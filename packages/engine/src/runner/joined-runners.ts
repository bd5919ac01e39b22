/**
 * The runners that joined the fleet, by their ids. Their addresses come from the shared store and from nowhere else.
 *
 * I1  No address is kept longer than it works: a call that fails reads the runner's row again.
 * I2  A runner that is declared lost is not called any more, and calls in flight to it end.
 * I3  Another runner at the same address is never used: every request names the runner it means.
 * I4  An unreachable store ends no turn: known runners stay in use, and unknown ones count as unreachable.
 */
import { Fault } from '@breakfall/faults'
import { createRunnerClient, type RunnerClient } from '@breakfall/runner/client'
import type { FleetKey } from '@breakfall/wire/node'
import type { Clock } from '../clock.ts'
import { Poll } from '../poll.ts'
import type { Hints, LeftBox, RunnerRegistry, RunnerRow } from '../store/sharing.ts'
import { hasRoom, lossOf, placed, type Wanted } from './placement.ts'
import type { RunnerAddress } from './endpoint.ts'

type JoinedParts = {
  readonly registry: RunnerRegistry
  readonly hints: Hints
  readonly key: FleetKey | undefined
  readonly clock: Clock
  /** A token that must never be shown. */
  readonly onToken: (runnerId: string, token: string) => void
}

type Known = { readonly row: RunnerRow; readAt: number; readonly called: Called | undefined }

type Called = { readonly address: RunnerAddress; readonly client: RunnerClient }

type CallUnderWay = { readonly wanted: Wanted; readonly ending: AbortController }

export class JoinedRunners {
  readonly #parts: JoinedParts
  readonly #known = new Map<string, Known>()
  /** Runners that had not joined when they were last looked for. */
  readonly #strangers = new Set<string>()
  /** Calls under way, by runner. */
  readonly #calls = new Map<string, Set<CallUnderWay>>()
  readonly #poll: Poll
  readonly #unlisten: () => void

  constructor(parts: JoinedParts) {
    this.#parts = parts
    this.#poll = new Poll(
      () => LOOK_MS,
      () => this.#look(),
      parts.clock,
    )
    this.#poll.start()
    this.#unlisten = parts.hints.on((hint) => {
      if (hint.kind === 'runner') this.changed(hint.runnerId)
    })
    this.list().catch(() => undefined) // the store is away: what is needed is read when it is needed
  }

  /** Its row has changed. */
  changed(runnerId: string): void {
    const known = this.#known.get(runnerId)
    if (known === undefined) this.find(runnerId).catch(() => undefined) // as above
    else known.readAt = 0
    if (this.#calls.has(runnerId)) this.#poll.now()
  }

  /** Those that joined and are not lost, as far as this daemon knows. */
  get known(): readonly string[] {
    return [...this.#known.values()].flatMap(({ row }) => (row.state === 'lost' ? [] : [row.runnerId]))
  }

  /** Every runner that has joined, as the store knows it now. */
  async list(): Promise<readonly RunnerRow[]> {
    const rows = await this.#parts.registry.list()
    for (const row of rows) this.#learn(row)
    return rows
  }

  leave(boxes: readonly LeftBox[]): Promise<void> {
    return this.#parts.registry.leave(boxes)
  }

  async close(): Promise<void> {
    this.#unlisten()
    await this.#poll.close()
    await Promise.all([...this.#known.values()].flatMap(({ called }) => called?.client.close() ?? []))
  }

  /** The runner, if it has joined. */
  async find(runnerId: string): Promise<RunnerRow | undefined> {
    const known = this.#known.get(runnerId)
    if (known !== undefined && this.#parts.clock.elapsed() - known.readAt < FRESH_MS) return known.row
    return this.#reread(runnerId)
  }

  /** The runner for a session that has none. Undefined if none fits. */
  async place(wanted: Wanted): Promise<RunnerRow | undefined> {
    const rows = await this.list().catch((cause: unknown) => Promise.reject(storeAway(cause))) // I4
    return placed(rows, wanted, this.#parts.clock.dice)
  }

  /** I2 */
  connect(row: RunnerRow, epoch: number, wanted: Wanted): { client: RunnerClient; address: RunnerAddress } {
    const isUsable = row.state !== 'lost' || wanted.isReturning === true
    if (!isUsable && lossOf(row, wanted) !== undefined) throw lostFault(row.runnerId)
    if (!isUsable)
      throw new Fault('runner_unreachable', { errorRaw: `runner ${row.runnerId} was not heard of for a long time` })
    const { client, address } = this.#called(row)
    return { client: client.withEpoch(epoch), address }
  }

  /** Whether the runner is at another address now (I1). */
  async hasMoved({ runnerId, url }: RunnerAddress): Promise<boolean> {
    const row = await this.#reread(runnerId)
    return row !== undefined && row.state !== 'lost' && row.url !== url
  }

  has({ runnerId }: { readonly runnerId: string }): boolean {
    return this.#known.has(runnerId)
  }

  /** Whether a session that waits can continue: its runner answers, or it is lost and another one fits. */
  async probe(expect: string | null, wanted: Wanted): Promise<boolean> {
    try {
      const row = expect === null ? undefined : await this.#reread(expect)
      if (expect !== null && row === undefined) return false
      if (row === undefined || lossOf(row, wanted) !== undefined) {
        const rows = (await this.list()).filter(hasRoom)
        return placed(rows, wanted, this.#parts.clock.dice) !== undefined
      }
      if (row.state === 'lost') return false
      const { runnerId } = await this.#called(row).client.health({ signal: this.#parts.clock.timeout(PROBE_MS) })
      return runnerId === row.runnerId
    } catch {
      return false // whatever the problem is, the runner is not usable yet
    }
  }

  /** Runs a call that ends when the runner is declared lost (I2). */
  async during<T>(runnerId: string, wanted: Wanted, call: (lost: AbortSignal) => Promise<T>): Promise<T> {
    const underWay: CallUnderWay = { wanted, ending: new AbortController() }
    const calls = this.#calls.get(runnerId) ?? new Set()
    this.#calls.set(runnerId, calls.add(underWay))
    try {
      return await call(underWay.ending.signal)
    } catch (thrown) {
      if (underWay.ending.signal.aborted) throw lostFault(runnerId)
      throw thrown
    } finally {
      calls.delete(underWay)
      if (calls.size === 0) this.#calls.delete(runnerId)
    }
  }

  // ---- details, in the order they are used above ----

  async #look(): Promise<void> {
    try {
      for (const runnerId of this.#calls.keys()) {
        const row = await this.#reread(runnerId)
        if (row?.state !== 'lost') continue
        for (const { wanted, ending } of this.#calls.get(runnerId) ?? [])
          if (lossOf(row, wanted) !== undefined) ending.abort()
      }
    } catch {
      // The store is away: the next look is in a second.
    }
  }

  async #reread(runnerId: string): Promise<RunnerRow | undefined> {
    try {
      const row = await this.#parts.registry.get(runnerId)
      if (row !== undefined) this.#learn(row)
      else this.#strangers.add(runnerId)
      return row
    } catch (thrown) {
      const known = this.#known.get(runnerId)
      if (known === undefined && !this.#strangers.has(runnerId)) throw storeAway(thrown)
      return known?.row // I4
    }
  }

  #learn(row: RunnerRow): Known {
    const before = this.#known.get(row.runnerId)?.called
    const known = {
      row,
      readAt: this.#parts.clock.elapsed(),
      called: before?.address.url === row.url ? before : undefined,
    }
    this.#known.set(row.runnerId, known)
    return known
  }

  /** Only a runner that is called costs a connection and a token to keep secret. */
  #called(row: RunnerRow): Called {
    const known = this.#learn(row)
    if (known.called !== undefined) return known.called
    const { runnerId, url } = row
    const token = this.#parts.key?.tokenOf(runnerId) ?? ''
    this.#parts.onToken(runnerId, token)
    const called = { address: { url, runnerId, token }, client: createRunnerClient({ url, token, runnerId }) } // I3
    this.#known.set(runnerId, { ...known, called })
    return called
  }
}

const storeAway = (cause: unknown): Fault =>
  new Fault('runner_unreachable', { errorRaw: 'the store that knows where runners are does not answer', cause })

/** The turn continues on another runner: see `moveBox`. */
const lostFault = (runnerId: string): Fault =>
  new Fault('runner_not_available', {
    reason: LOST,
    facts: { detail: `its runner ${runnerId} was declared lost` },
    errorRaw: `runner ${runnerId} was declared lost`,
  })

export const LOST = 'runner_lost'

const LOOK_MS = 1_000
const FRESH_MS = 1_000
const PROBE_MS = 5_000
