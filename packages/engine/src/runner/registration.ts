/**
 * Lets runners join, and keeps what is known about them up to date.
 *
 * I1  An address is used only after the runner itself has answered there with the same id and boot. Until then the old one stays.
 * I2  A runner needs its own token. Without it, nothing is registered and nothing is called.
 * I3  A runner that was declared lost and comes back removes the boxes that have moved away before it is used again.
 */
import { Fault } from '@breakfall/faults'
import type { RunnerJoin, RunnerJoined } from '@breakfall/wire'
import { type FleetKey, sameToken } from '@breakfall/wire/node'
import type { Log } from '../log.ts'
import type { Clock } from '../clock.ts'
import { Poll } from '../poll.ts'
import type { Hints, RunnerFacts, RunnerRegistry, RunnerRow, RunnerState } from '../store/sharing.ts'
import { callBack } from './call-back.ts'
import { hasRoom } from './placement.ts'

type RegistrationParts = {
  readonly registry: RunnerRegistry
  readonly hints: Hints
  /** Undefined: no runner can join. */
  readonly key: FleetKey | undefined
  readonly log: Log
  readonly clock: Clock
  /** A runner that is silent for this long is declared lost. Undefined: only a person can do that. */
  readonly replaceAfterMs: number | undefined
  /** Removes the boxes that a runner still has although their sessions are elsewhere. True if none is left. */
  readonly sweep: (runnerId: string) => Promise<boolean>
  /** Its row has changed; sessions that waited for it are due. */
  readonly onChange: (runnerId: string) => void
}

export class Registration {
  readonly #parts: RegistrationParts
  readonly #poll: Poll

  constructor(parts: RegistrationParts) {
    this.#parts = parts
    this.#poll = new Poll(
      () => Math.min(LOOK_MS, (parts.replaceAfterMs ?? LOOK_MS) / 4),
      () => this.#dropSilent(),
      parts.clock,
    )
    if (parts.replaceAfterMs !== undefined) this.#poll.start()
  }

  close(): Promise<void> {
    return this.#poll.close()
  }

  /** I2 */
  authorize(runnerId: string, token: string | undefined): void {
    const { key, log } = this.#parts
    if (key === undefined) log.warn({ runnerId }, 'a runner tries to join, but [fleet] keyFile is not set')
    if (key === undefined || token === undefined || !sameToken(token, key.tokenOf(runnerId)))
      throw new Fault('unauthorized')
  }

  /** The runner's token, once for each code. */
  async enroll(runnerId: string, code: string | undefined): Promise<string> {
    const { key, registry, clock } = this.#parts
    const nonce = code === undefined ? undefined : key?.nonceOf(code, clock.now())
    if (key === undefined || nonce === undefined || !(await registry.enroll(nonce, runnerId)))
      throw new Fault('unauthorized')
    return key.tokenOf(runnerId)
  }

  /** Called by the runner every few seconds, and by any host that knows its current address. */
  async join(runnerId: string, request: RunnerJoin): Promise<RunnerJoined> {
    const { registry } = this.#parts
    const before = await registry.get(runnerId)
    const facts = factsOf(runnerId, request, before)
    const isKnown = before !== undefined && before.url === facts.url && before.bootId === facts.bootId
    const row = isKnown ? await registry.seen(facts) : undefined
    if (row !== undefined && row.state !== 'lost') {
      if (!hasRoom(before ?? row) && hasRoom(row)) await this.#wake(runnerId, row) // it was full
      else if ((await registry.leftBoxes(runnerId)).length > 0) void this.#parts.sweep(runnerId)
      return { reachable: true, againMs: this.#againMs, runner: row }
    }
    return this.#verify(facts, request.bootId, before)
  }

  /** False if there is no such runner. */
  async setState(runnerId: string, state: RunnerState): Promise<boolean> {
    const isSet = await this.#parts.registry.setState(runnerId, state, state === 'lost' ? 'dropped' : undefined)
    if (isSet) this.#changed(runnerId)
    return isSet
  }

  // ---- details, in the order they are used above ----

  /** Often enough that one or two registrations may get lost. */
  get #againMs(): number {
    return Math.min(AGAIN_MS, Math.round((this.#parts.replaceAfterMs ?? AGAIN_MS * 4) / 4))
  }

  /** I1 */
  async #verify(facts: RunnerFacts, bootId: string | undefined, before: RunnerRow | undefined): Promise<RunnerJoined> {
    const { registry, log } = this.#parts
    const { runnerId, url } = facts
    try {
      const found = await callBack(url)
      if (found.runnerId !== runnerId) throw new Error('another runner answers there')
      if (bootId !== undefined && found.bootId !== bootId) throw new Error('another boot of it answers there')
      const row = await registry.verified({ ...facts, bootId: found.bootId })
      this.#changed(runnerId)
      if (before?.url !== url) log.info({ runnerId, runner: url, from: before?.url }, 'runner joined')
      const runner = row.state === 'lost' ? await this.#returned(row) : row
      return { reachable: true, againMs: this.#againMs, runner }
    } catch (thrown) {
      if (!(thrown instanceof Error) || thrown.name === 'Fault') throw thrown
      log.debug({ runnerId, runner: url, err: thrown }, 'a runner does not answer at the address it gave')
      return { reachable: false, because: thrown.message, runner: before ?? null }
    }
  }

  /** I3 */
  async #returned(row: RunnerRow): Promise<RunnerRow> {
    const { runnerId } = row
    if (!(await this.#parts.sweep(runnerId))) return row // it is tried again with its next registration
    await this.#parts.registry.setState(runnerId, 'live')
    this.#changed(runnerId)
    return (await this.#parts.registry.get(runnerId)) ?? row
  }

  async #wake(runnerId: string, row: RunnerRow): Promise<void> {
    await this.#parts.registry.verified(row)
    this.#changed(runnerId)
  }

  async #dropSilent(): Promise<void> {
    const { registry, replaceAfterMs, log } = this.#parts
    if (replaceAfterMs === undefined) return
    try {
      for (const runnerId of await registry.dropSilent(replaceAfterMs)) {
        log.warn({ runnerId, replaceAfterMs }, 'runner declared lost: it was not heard of for too long')
        this.#changed(runnerId)
      }
    } catch (err) {
      log.debug({ err }, 'cannot look for silent runners now')
    }
  }

  #changed(runnerId: string): void {
    const { hints, onChange } = this.#parts
    hints.send({ kind: 'runner', runnerId })
    hints.send({ kind: 'work' })
    onChange(runnerId)
  }
}

const LOOK_MS = 5_000
const AGAIN_MS = 10_000

/** Fields that the request leaves out keep their last value, or the default. */
function factsOf(runnerId: string, request: RunnerJoin, before: RunnerRow | undefined): RunnerFacts {
  const usual = { ...USUAL, ...before }
  return {
    runnerId,
    url: request.url.replace(/\/+$/, ''),
    bootId: request.bootId ?? usual.bootId,
    capacity: request.capacity ?? usual.capacity,
    boxes: request.boxes ?? usual.boxes,
    labels: request.labels ?? usual.labels,
    workspaces: request.workspaces ?? usual.workspaces,
    isolation: request.isolation ?? usual.isolation,
    version: request.version ?? usual.version,
    machine: request.machine ?? usual.machine,
  }
}

const USUAL = {
  bootId: '',
  capacity: 1_000,
  boxes: 0,
  labels: [],
  workspaces: [],
  isolation: 'bwrap',
  version: '',
  machine: '',
} as const
