/**
 * Every runner that this daemon can use: those that joined the fleet, by their ids, and the configured runner or the one on this
 * machine.
 *
 * I1  A daemon that shares its store starts no runner: another daemon could not reach it.
 * I2  A runner that joined is found by its registration. Configured addresses do not apply to it.
 */
import { Fault } from '@breakfall/faults'
import type { RunnerClient } from '@breakfall/runner/client'
import type { BoxCreate } from '@breakfall/wire'
import type { Log } from '../log.ts'
import type { Clock } from '../clock.ts'
import type { EngineLimits, RunnerConfig } from '../options.ts'
import type { LeftBox, RunnerRow } from '../store/sharing.ts'
import { isConfigured, isOnThisMachine, type RunnerAddress, type RunnerEndpoint } from './endpoint.ts'
import { type JoinedRunners } from './joined-runners.ts'
import { ANYWHERE, type Wanted } from './placement.ts'

export type ConnectedRunner = { readonly client: RunnerClient; readonly address: RunnerAddress }

type RunnersParts = Pick<Runners, 'clock' | 'limits' | 'log' | 'signed'> & {
  readonly endpoint: RunnerEndpoint
  /** Undefined: this daemon shares no store. */
  readonly joined: JoinedRunners | undefined
  /** The configuration that was read last. */
  readonly config: () => RunnerConfig
}

export class Runners {
  readonly #endpoint: RunnerEndpoint
  readonly #joined: JoinedRunners | undefined
  readonly #config: () => RunnerConfig
  /** Boxes of earlier versions name their folders without a signature. */
  readonly signed: (box: BoxCreate, createdAt: string) => BoxCreate
  readonly clock: Clock
  readonly log: Log
  readonly limits: Pick<EngineLimits, 'checkMs' | 'killMsMax'>
  #makeRoom: () => Promise<boolean> = () => Promise.resolve(false)

  constructor(parts: RunnersParts) {
    this.#endpoint = parts.endpoint
    this.#joined = parts.joined
    this.#config = parts.config
    this.signed = parts.signed
    this.clock = parts.clock
    this.log = parts.log
    this.limits = parts.limits
  }

  /** The runner is on this machine, so the daemon sees the folders that boxes use. */
  get isHere(): boolean {
    return isOnThisMachine(this.#config()) && (this.#joined === undefined || this.#isConfigured)
  }

  /** Releases boxes of idle sessions at runners that are full. True if there is room now. */
  makeRoom(): Promise<boolean> {
    return this.#makeRoom()
  }

  /** Whoever can release boxes does it. */
  roomIsMadeBy(makeRoom: () => Promise<boolean>): void {
    this.#makeRoom = makeRoom
  }

  /** A joined runner removes these when it is back. Others are found by their sessions. */
  async leave(boxes: readonly LeftBox[]): Promise<void> {
    await this.#joined?.leave(boxes)
  }

  /** The last known address of the runner that did not join. */
  get address(): RunnerAddress | undefined {
    return this.#endpoint.address
  }

  get isStarting(): boolean {
    return this.#endpoint.isStarting
  }

  get isLooking(): boolean {
    return this.#endpoint.isLooking
  }

  /** The runners that joined, and the configured runner once it was called. */
  get known(): readonly string[] {
    const { address } = this.#endpoint
    return [...(address === undefined ? [] : [address.runnerId]), ...(this.#joined?.known ?? [])]
  }

  /**
   * Every runner that may have boxes of ours, by its id, with how to reach it. To read the list starts no runner.
   * `finds`: also the runner of this machine if it has not been called yet.
   */
  async all(
    signal: AbortSignal,
    { finds = false }: { readonly finds?: boolean } = {},
  ): Promise<ReadonlyMap<string, () => Promise<ConnectedRunner>>> {
    const joined = this.#joined
    const rows = (await joined?.list()) ?? []
    const found = new Map(
      rows.flatMap((row) =>
        row.state === 'lost' || joined === undefined
          ? []
          : [[row.runnerId, () => Promise.resolve(joined.connect(row, 0, ANYWHERE))] as const],
      ),
    )
    const { address } = this.#endpoint
    const isAsked = address !== undefined || (joined === undefined ? finds : this.#isConfigured) // I1
    const id = address?.runnerId ?? CONFIGURED
    return isAsked && !found.has(id) ? found.set(id, () => this.#endpoint.connect(null, 0, signal)) : found
  }

  isolation(signal: AbortSignal): Promise<string | undefined> {
    return this.#endpoint.isolation(signal)
  }

  /** A client for the session's runner. A session without a runner gets a suitable one. */
  async connect(
    expect: string | null,
    epoch: number,
    signal: AbortSignal,
    wanted: Wanted = ANYWHERE,
  ): Promise<ConnectedRunner> {
    const row = await this.#rowFor(expect, wanted)
    if (row !== undefined && this.#joined !== undefined) return this.#joined.connect(row, epoch, wanted)
    if (this.#joined !== undefined && (!this.#isConfigured || wanted.labels.length > 0))
      throw expect === null ? noneFits(wanted) : unknownRunner(expect)
    return this.#endpoint.connect(expect, epoch, signal)
  }

  /** Whether a runner that joined would get a session that asks for this. */
  async fits(wanted: Wanted): Promise<boolean> {
    const row = await this.#joined?.place(wanted).catch(() => undefined) // the store is away: it is not known
    return row !== undefined
  }

  /** Another runner for a session whose runner was declared lost, and the lost one. */
  async replacement(lost: string, wanted: Wanted): Promise<{ from: RunnerRow | undefined; to: RunnerRow }> {
    const from = await this.#joined?.find(lost)
    const to = await this.#joined?.place(wanted)
    if (to === undefined) throw noneFits(wanted)
    return { from, to }
  }

  /** Runs a call that ends when its runner is declared lost. */
  during<T>(
    { client, address }: ConnectedRunner,
    wanted: Wanted,
    call: (client: RunnerClient) => Promise<T>,
  ): Promise<T> {
    if (this.#joined?.has(address) !== true) return call(client)
    return this.#joined.during(address.runnerId, wanted, (lost) => call(client.withUntil(lost)))
  }

  isJoined({ runnerId }: { readonly runnerId: string }): boolean {
    return this.#joined?.has({ runnerId }) ?? false
  }

  /** The runner is not at this address any more: the next `connect` looks it up again. */
  forget(address?: RunnerAddress): void {
    this.#endpoint.forget(address)
    if (address !== undefined) this.#joined?.changed(address.runnerId)
  }

  /** The same; true if a joined runner is known to be somewhere else by now. */
  async hasMoved(address: RunnerAddress): Promise<boolean> {
    this.forget(address)
    return this.#joined?.has(address) === true && this.#joined.hasMoved(address)
  }

  /** Whether a turn that waits for that runner, or for any, can continue. */
  async probe(expect: string | null, wanted: Wanted = ANYWHERE): Promise<boolean> {
    if (this.#joined === undefined) return this.#endpoint.probe(expect)
    const isJoined = expect !== null && (await this.#joined.find(expect)) !== undefined
    if (isJoined || expect === null) {
      if (await this.#joined.probe(expect, wanted)) return true
    }
    return !isJoined && this.#isConfigured && wanted.labels.length === 0 && this.#endpoint.probe(expect)
  }

  async close(): Promise<void> {
    await Promise.all([this.#endpoint.close(), this.#joined?.close()])
  }

  stopLocal(): Promise<void> {
    return this.#endpoint.stopLocal()
  }

  // ---- details ----

  get #isConfigured(): boolean {
    return isConfigured(this.#config())
  }

  #rowFor(expect: string | null, wanted: Wanted): Promise<RunnerRow | undefined> | undefined {
    return expect === null ? this.#joined?.place(wanted) : this.#joined?.find(expect)
  }
}

/** What the configured runner is called before it has said its id. */
const CONFIGURED = 'configured'

function noneFits({ labels, workspace, without }: Wanted): Fault {
  const asked = [
    ...(labels.length === 0 ? [] : [`with the labels ${labels.join(', ')}`]),
    ...(workspace === undefined ? [] : [`that may use ${workspace}`]),
    ...(without === undefined || without.size === 0 ? [] : ['that has room for another box']),
  ].join(' and ')
  const detail = asked === '' ? 'no runner has joined, or none is alive' : `no live runner ${asked}`
  return new Fault('runner_not_available', { facts: { detail }, errorRaw: detail })
}

const unknownRunner = (runnerId: string): Fault =>
  new Fault('runner_unreachable', { errorRaw: `runner ${runnerId} has not joined this fleet` })
