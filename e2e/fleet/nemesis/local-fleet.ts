/** A whole fleet for a nemesis: PostgreSQL, three daemons, two runners, a balancer and a scripted model, each breakable on its own. */
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { startRehearsalModel, startTcpProxy, type TcpProxy } from '@breakfall/chaos'
import { DaemonClient } from '@breakfall/client'
import { checkStore } from '@breakfall/engine'
import { sleep } from '@breakfall/faults'
import { newFolder, removeFolder } from '../../../test/kit/folder.ts'
import { type HoldingProxy, holdingProxy } from '../../../test/kit/holding-proxy.ts'
import { type Cluster, startCluster } from '../../../test/kit/postgres-cluster.ts'
import { Place } from '../../breakfall.ts'
import { type Checked, check } from './check.ts'
import { type FrontDoor, openFrontDoor } from './front-door.ts'
import { lateCommand, StartHold } from './late-command.ts'
import { Member } from './member.ts'
import { DAEMONS, type FleetAction, RUNNERS } from './script.ts'
import { eventsAt, type FollowedTurn, startTurn } from './turns.ts'

export type LocalFleetOptions = {
  readonly isolation: 'bwrap' | 'process'
  /** An empty database to use instead of the PostgreSQL that the fleet starts. */
  readonly store?: string | undefined
  readonly turns: number
  /** Commands of each turn. */
  readonly steps: number
}

const LEASE_MS = 3_000
const BACK_MS = 2 * LEASE_MS // a killed daemon comes back after others have taken over
const CHUNK_MS = 30
const END_MS_MAX = 300_000

type Daemon = { readonly member: Member; readonly toStore: TcpProxy; isCut: boolean }

type Parts = {
  readonly stack: AsyncDisposableStack
  readonly options: LocalFleetOptions
  readonly cluster: Cluster | undefined
  readonly storeUrl: string
  readonly front: FrontDoor
  readonly token: string
  readonly daemons: readonly Daemon[]
  readonly runners: readonly Member[]
  readonly hold: StartHold
}

export class LocalFleet implements AsyncDisposable {
  readonly #parts: Parts
  readonly #client: DaemonClient
  readonly #turns: FollowedTurn[] = []
  readonly #late = { late: 0, refused: 0 }
  readonly #returning = new Set<Promise<void>>()
  readonly #ending = new AbortController()

  static async start(options: LocalFleetOptions): Promise<LocalFleet> {
    await using stack = new AsyncDisposableStack()
    const folder = newFolder('nemesis')
    stack.defer(() => removeFolder(folder))
    chmodSync(folder, 0o711) // PostgreSQL runs as another user if we are root
    const cluster = options.store === undefined ? await startCluster(join(folder, 'postgres')) : undefined
    if (cluster !== undefined) stack.defer(() => cluster.stop())
    const storeUrl = options.store ?? cluster?.url() ?? ''
    const model = await startRehearsalModel({ chunkDelayMs: CHUNK_MS })
    stack.defer(() => model.close())
    const place = stack.use(new Place({}, undefined, { ownGroup: true })) // Ctrl-C at the terminal is for us
    const token = randomBytes(24).toString('base64url')
    const keyFile = join(place.home, 'fleet.key')
    writeFileSync(keyFile, `${randomBytes(32).toString('base64url')}\n`, { mode: 0o600 })
    const env = {
      BREAKFALL_MODEL_BASE_URL: `${new URL(model.url).origin}/v1`,
      BREAKFALL_MODEL_NAME: `rehearsal/steps-${options.steps}`,
      BREAKFALL_MODEL_PROFILE: 'generic',
    }
    const loose = options.isolation === 'process' ? ['--allow-isolation', 'process'] : []
    const daemons: Daemon[] = []
    for (let nr = 1; nr <= DAEMONS; nr += 1) {
      const store = new URL(storeUrl)
      const upstream = { host: store.hostname, port: Number(store.port === '' ? 5432 : store.port) }
      const toStore = await startTcpProxy({ upstream })
      stack.defer(() => toStore.close())
      store.hostname = '127.0.0.1'
      store.port = String(toStore.port)
      const stateDir = join(place.home, `daemon-${nr}`)
      mkdirSync(stateDir, { mode: 0o700 })
      writeFileSync(join(stateDir, 'daemon.token'), `${token}\n`, { mode: 0o600 })
      const args = ['up', '--json', '--quiet', '--until-input-ends', '--port', '0', '--state-dir', stateDir, ...loose]
      args.push('--name', `daemon ${nr}`, '--lease-ms', String(LEASE_MS), '--fleet-key-file', keyFile)
      const member = new Member(`daemon ${nr}`, async () => {
        const program = place.start(args, { ...env, BREAKFALL_DAEMON_STORE: store.href }, null)
        return { program, url: String((await program.listening()).url) }
      })
      stack.defer(() => member.stop())
      daemons.push({ member, toStore, isCut: false })
    }
    await Promise.all(daemons.map(({ member }) => member.start()))
    const front = await openFrontDoor(() =>
      daemons.flatMap(({ member: { url } }) => (url === undefined ? [] : [Number(new URL(url).port)])),
    )
    stack.defer(() => front.close())
    const hold = new StartHold()
    const runners = Array.from({ length: RUNNERS }, (_, at) => {
      const args = ['runner', '--json', '--port', '0', '--state-dir', join(place.home, `runner-${at + 1}`), ...loose]
      args.push('--join', front.url, '--fleet-key-file', keyFile, '--idle-exit-ms', '120000')
      let door: HoldingProxy | undefined
      const runner = new Member(`runner ${at + 1}`, async () => {
        await door?.close()
        const opened = (door = await holdingProxy('')) // every start is at another address, and so is its door
        const target = Promise.withResolvers<void>()
        opened.holds = (request) => opened.target === '' || hold.wants(request)
        opened.onHeld = (held) => {
          if (opened.target === '') void target.promise.then(() => held.release())
          else hold.take(held)
        }
        const program = place.start([...args, '--advertise', opened.url], env, null)
        opened.target = String((await program.listening()).url)
        target.resolve()
        await program.seen(({ event }) => event === 'joined') // before that, daemons place no box there
        return { program, url: opened.url }
      })
      stack.defer(async () => {
        await runner.stop()
        await door?.close()
      })
      return runner
    })
    await Promise.all(runners.map((runner) => runner.start()))
    const parts = { options, cluster, storeUrl, front, token, daemons, runners, hold }
    const fleet = new LocalFleet({ ...parts, stack: stack.move() })
    await Promise.all(Array.from({ length: options.turns }, () => fleet.#newTurn()))
    return fleet
  }

  constructor(parts: Parts) {
    this.#parts = parts
    this.#client = new DaemonClient({ url: parts.front.url, token: parts.token })
  }

  /** Resolves when it is done. A killed daemon comes back later, without another call. */
  async act(action: FleetAction): Promise<void> {
    switch (action.do) {
      case 'wait':
        return pause(action.ms)
      case 'restart-database':
        await this.#parts.cluster?.stop('fast')
        return this.#parts.cluster?.start()
      case 'hold-back':
        return this.#holdBack()
      case 'new-turn':
        return this.#newTurn()
      case 'kill-runner':
      case 'move':
        return this.#actOnRunner(action.do, action.which)
      case 'kill':
      case 'stop':
      case 'drain':
      case 'cut':
        return this.#actOnDaemon(action.do, action.which)
    }
  }

  /** Repairs what was broken, waits for the turns, and compares what every daemon says. */
  async end(): Promise<Checked> {
    const { daemons, runners, token, storeUrl } = this.#parts
    this.#ending.abort()
    await Promise.all(this.#returning)
    for (const daemon of daemons) {
      daemon.member.thaw()
      if (daemon.isCut) await daemon.toStore.up()
      daemon.isCut = false
    }
    await Promise.all([...daemons.map(({ member }) => member), ...runners].map((each) => each.start()))
    const enough = new AbortController()
    const tooLong = pause(END_MS_MAX, undefined, { signal: enough.signal }).then(() => {
      throw new Error('Turns of the fleet did not end within five minutes.')
    })
    tooLong.catch(() => undefined) // aborted, or the race has it
    try {
      await Promise.race([Promise.all(this.#turns.map(({ ended }) => ended)), tooLong])
      const clients = daemons.flatMap(({ member: { url } }) =>
        url === undefined ? [] : [new DaemonClient({ url, token })],
      )
      const reading = this.#turns.map(({ sessionId }) =>
        Promise.all(clients.map((client) => eventsAt(client, sessionId))),
      )
      const tails = await Promise.race([Promise.all(reading), tooLong])
      const { problems } = await checkStore({ url: storeUrl })
      return check(tails, { damaged: problems.length, ...this.#late })
    } finally {
      enough.abort()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort()
    await Promise.all(this.#returning)
    await this.#parts.stack.disposeAsync()
  }

  // ---- details ----

  async #newTurn(): Promise<void> {
    this.#turns.push(await startTurn(this.#client, this.#parts.options))
  }

  async #actOnDaemon(what: 'kill' | 'stop' | 'drain' | 'cut', which: number): Promise<void> {
    const daemon = this.#parts.daemons[which - 1]
    if (daemon === undefined) return
    const { member, toStore } = daemon
    if (what === 'stop') return member.stopOrContinue()
    if (what === 'cut') {
      daemon.isCut = !daemon.isCut
      if (daemon.isCut) return toStore.down()
      await toStore.up()
      return this.#comesBack(member, 0) // without its database it may have ended, or not started
    }
    if (what === 'kill') await member.kill()
    else await member.stop()
    this.#comesBack(member, BACK_MS)
  }

  /** Starts a turn: its command is held back. */
  async #holdBack(): Promise<void> {
    await this.#newTurn()
    const late = await lateCommand({
      client: this.#client,
      hold: this.#parts.hold,
      isAlone: (name) => !this.#parts.daemons.some((each) => each.member.name !== name && canTakeOver(each)),
      cut: (name) => this.#cutFor(name),
      signal: this.#ending.signal,
    })
    if (late === undefined || late === 'undelivered') return
    this.#late.late += 1
    if (late === 'refused') this.#late.refused += 1
  }

  async #cutFor(name: string): Promise<() => Promise<void>> {
    const daemon = this.#parts.daemons.find(({ member }) => member.name === name)
    if (daemon === undefined || daemon.isCut) return () => Promise.resolve()
    daemon.isCut = true
    await daemon.toStore.down()
    return async () => {
      if (!daemon.isCut) return // `end` was faster
      daemon.isCut = false
      await daemon.toStore.up()
    }
  }

  async #actOnRunner(what: 'kill-runner' | 'move', which: number): Promise<void> {
    const runner = this.#parts.runners[which - 1]
    if (runner === undefined) return
    if (what === 'kill-runner') await runner.kill()
    else await runner.stop()
    this.#comesBack(runner, 0) // at another port: it chooses a free one
  }

  /** As a service manager would do. What does not come back now, `end` starts again. */
  #comesBack(member: Member, afterMs: number): void {
    const back = (async () => {
      await sleep(afterMs, this.#ending.signal)
      await member.start()
    })()
      .catch(() => undefined)
      .finally(() => this.#returning.delete(back))
    this.#returning.add(back)
  }
}

// ---- details ----

/** A killed daemon counts: it comes back. */
const canTakeOver = ({ member, isCut }: Daemon): boolean => !isCut && !member.isFrozen
