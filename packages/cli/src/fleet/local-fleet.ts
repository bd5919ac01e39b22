/** A whole fleet on this machine: PostgreSQL, three daemons, two runners, a balancer and a scripted model; everything in one folder. */
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { TcpProxy } from '@breakfall/chaos'
import { DaemonClient } from '@breakfall/client'
import { checkStore, isEmptyStore } from '@breakfall/daemon'
import { Fault, sleep } from '@breakfall/faults'
import type { Env } from '../config/env.ts'
import { makeScratch } from '../rehearsal/scratch.ts'
import { withoutBreakfall } from '../rehearsal/rehearse.ts'
import { DAEMONS, type FleetAction, RUNNERS } from './actions.ts'
import { type Checked, check } from './check.ts'
import { type FrontDoor, openFrontDoor } from './front-door.ts'
import { FleetRunner } from './fleet-runner.ts'
import { lateCommand } from './late-command.ts'
import { Member } from './member.ts'
import { type LocalPostgres, startPostgres } from './postgres.ts'
import { StartHold } from './runner-door.ts'
import type { FleetView } from './table.ts'
import { eventsAt, type FollowedTurn, startTurn } from './turns.ts'

export type LocalFleetOptions = {
  readonly env: Env
  readonly isolation: 'bwrap' | 'process'
  /** An empty database to use instead of the PostgreSQL that we start. */
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

export class LocalFleet implements AsyncDisposable {
  readonly #stack: AsyncDisposableStack
  readonly #options: LocalFleetOptions
  readonly #postgres: LocalPostgres | undefined
  readonly #front: FrontDoor
  readonly #client: DaemonClient
  readonly #token: string
  readonly #daemons: readonly Daemon[]
  readonly #runners: readonly FleetRunner[]
  readonly #turns: FollowedTurn[] = []
  readonly #hold: StartHold
  readonly #storeUrl: string
  readonly #late = { late: 0, refused: 0 }
  readonly #returning = new Set<Promise<void>>()
  readonly #ending = new AbortController()
  #note = ''

  static async start(options: LocalFleetOptions, say: (what: string) => void): Promise<LocalFleet> {
    if (options.store !== undefined && !(await isEmptyStore(options.store))) throw inUse()
    await using started = new AsyncDisposableStack()
    const chaos = await import('@breakfall/chaos')
    const folder = makeScratch('fleet')
    const remove = (): void => rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
    process.once('exit', remove) // a second Ctrl-C ends this process without waiting
    started.defer(() => void process.off('exit', remove))
    started.defer(remove)
    say('starting PostgreSQL')
    const postgres = options.store === undefined ? await startPostgres(shared(folder)) : undefined
    if (postgres !== undefined) started.defer(() => postgres.stop())
    const model = await chaos.startRehearsalModel({ chunkDelayMs: CHUNK_MS })
    started.defer(() => model.close())
    const token = randomBytes(24).toString('base64url')
    const keyFile = join(folder, 'fleet.key')
    writeFileSync(keyFile, `${randomBytes(32).toString('base64url')}\n`, { mode: 0o600 })
    const env = {
      ...withoutBreakfall(options.env),
      BREAKFALL_MODEL_BASE_URL: `${new URL(model.url).origin}/v1`,
      BREAKFALL_MODEL_NAME: `rehearsal/steps-${options.steps}`,
      BREAKFALL_MODEL_PROFILE: 'generic',
    }
    const loose = options.isolation === 'process' ? ['--allow-isolation', 'process'] : []
    const store = new URL(options.store ?? postgres?.url ?? '')
    const daemons: Daemon[] = []
    for (let nr = 1; nr <= DAEMONS; nr += 1) {
      const toStore = await chaos.startTcpProxy({
        upstream: { host: store.hostname, port: Number(store.port === '' ? 5432 : store.port) },
      })
      started.defer(() => toStore.close())
      const stateDir = join(folder, `daemon-${nr}`)
      mkdirSync(stateDir, { mode: 0o700 })
      writeFileSync(join(stateDir, 'daemon.token'), `${token}\n`, { mode: 0o600 })
      const url = new URL(store)
      url.hostname = '127.0.0.1'
      url.port = String(toStore.port)
      const args = ['up', '--json', '--quiet', '--until-input-ends', '--port', '0', '--state-dir', stateDir]
      args.push('--name', `daemon ${nr}`, '--lease-ms', String(LEASE_MS))
      const withStore = { ...env, BREAKFALL_DAEMON_STORE: url.href } // other users can read arguments, and it has a password
      const member = new Member(`daemon ${nr}`, () => [...args, '--fleet-key-file', keyFile, ...loose], withStore)
      started.defer(() => member.stop())
      daemons.push({ member, toStore, isCut: false })
    }
    say(`starting ${DAEMONS} daemons`)
    await Promise.all(daemons.map(({ member }) => member.start()))
    const front = await openFrontDoor(() =>
      daemons.flatMap(({ member: { url } }) => (url === undefined ? [] : portIn(url))),
    )
    started.defer(() => front.close())
    const hold = new StartHold()
    const runners = Array.from({ length: RUNNERS }, (_, at) => {
      const args = ['runner', '--json', '--port', '0', '--state-dir', join(folder, `runner-${at + 1}`), ...loose]
      args.push('--join', front.url, '--fleet-key-file', keyFile, '--idle-exit-ms', '120000')
      const runner = new FleetRunner(`runner ${at + 1}`, args, env, hold)
      started.defer(() => runner.stop())
      return runner
    })
    say(`starting ${RUNNERS} runners`)
    await Promise.all(runners.map((runner) => runner.start()))
    const storeUrl = store.href
    const fleet = new LocalFleet(started.move(), options, { postgres, storeUrl, front, token, daemons, runners, hold })
    await Promise.all(Array.from({ length: options.turns }, () => fleet.#newTurn()))
    return fleet
  }

  constructor(
    stack: AsyncDisposableStack,
    options: LocalFleetOptions,
    parts: {
      postgres: LocalPostgres | undefined
      storeUrl: string
      front: FrontDoor
      token: string
      daemons: readonly Daemon[]
      runners: readonly FleetRunner[]
      hold: StartHold
    },
  ) {
    this.#stack = stack
    this.#options = options
    this.#postgres = parts.postgres
    this.#storeUrl = parts.storeUrl
    this.#front = parts.front
    this.#token = parts.token
    this.#daemons = parts.daemons
    this.#runners = parts.runners
    this.#hold = parts.hold
    this.#client = new DaemonClient({ url: parts.front.url, token: parts.token })
  }

  get url(): string {
    return this.#front.url
  }

  /** Of whichever daemon the front door chooses. */
  get client(): DaemonClient {
    return this.#client
  }

  get pids(): Readonly<Record<string, number | null>> {
    const members = [...this.#daemons, ...this.#runners].map(({ member }) => member)
    return Object.fromEntries(members.map(({ name, pid }) => [name, pid]))
  }

  note(text: string): void {
    this.#note = text
  }

  /** Resolves when it is done. A killed daemon comes back later, without another call. */
  async act(action: FleetAction): Promise<void> {
    switch (action.do) {
      case 'wait':
        return pause(action.ms)
      case 'restart-database':
        return this.#postgres?.restart()
      case 'hold-back':
        return this.#holdBack()
      case 'new-turn':
        return this.#newTurn()
      case 'open-console':
      case 'quit':
        return
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

  async view(): Promise<FleetView> {
    const [sessions, runners] = await Promise.all([
      this.#client.sessions().catch(() => []), // no daemon answers now
      this.#client.runners().then(
        (list) => list.runners,
        () => [],
      ),
    ])
    const known = new Map(sessions.map((session) => [session.id, session]))
    const runnerNames = new Map(
      runners.map(({ runnerId, url }) => [
        runnerId,
        this.#runners.find(({ door }) => door?.url === new URL(url).origin)?.member.name ?? runnerId,
      ]),
    )
    return {
      url: this.#front.url,
      database: this.#postgres === undefined ? 'your own' : this.#postgres.isRunning() ? 'up' : 'down',
      daemons: this.#daemons.map(({ member, isCut }) => ({
        name: member.name,
        pid: member.pid,
        state: stateOf(member, isCut),
        detail: `${sessions.filter(({ owner }) => owner?.name === member.name).length} turns`,
      })),
      runners: this.#runners.map(({ member, door }) => ({
        name: member.name,
        pid: member.pid,
        state: stateOf(member, false),
        detail: door?.url ?? '',
      })),
      turns: this.#turns.map((turn, at) => {
        const session = known.get(turn.sessionId)
        const runner = session?.runnerId ?? ''
        return turn.line(at + 1, { owner: session?.owner?.name ?? '', runner: runnerNames.get(runner) ?? runner })
      }),
      note: this.#note,
    }
  }

  /** Repairs what was broken, waits for the turns, and compares what every daemon says. */
  async end(): Promise<Checked> {
    this.#ending.abort()
    await Promise.all(this.#returning)
    for (const daemon of this.#daemons) {
      daemon.member.thaw()
      if (daemon.isCut) await daemon.toStore.up()
      daemon.isCut = false
    }
    await Promise.all([...this.#daemons.map(({ member }) => member), ...this.#runners].map((each) => each.start()))
    const enough = new AbortController()
    const tooLong = pause(END_MS_MAX, undefined, { signal: enough.signal }).then(() => {
      throw new Fault('deadline_exceeded', { error: 'Turns of the fleet did not end within five minutes.' })
    })
    tooLong.catch(() => undefined) // aborted, or the race has it
    try {
      await Promise.race([Promise.all(this.#turns.map(({ ended }) => ended)), tooLong])
      const clients = this.#daemons.flatMap(({ member: { url } }) =>
        url === undefined ? [] : [new DaemonClient({ url, token: this.#token })],
      )
      const reading = this.#turns.map(({ sessionId }) =>
        Promise.all(clients.map((client) => eventsAt(client, sessionId))),
      )
      const tails = await Promise.race([Promise.all(reading), tooLong])
      const { problems } = await checkStore({ url: this.#storeUrl })
      return check(tails, { damaged: problems.length, ...this.#late })
    } finally {
      enough.abort()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort()
    await Promise.all(this.#returning)
    await this.#stack.disposeAsync()
  }

  // ---- details ----

  async #newTurn(): Promise<void> {
    this.#turns.push(await startTurn(this.#client, this.#options))
  }

  async #actOnDaemon(what: 'kill' | 'stop' | 'drain' | 'cut', which: number): Promise<void> {
    const daemon = this.#daemons[which - 1]
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
      hold: this.#hold,
      isAlone: (name) => !this.#daemons.some((each) => each.member.name !== name && canTakeOver(each)),
      cut: (name) => this.#cutFor(name),
      signal: this.#ending.signal,
    })
    if (late === undefined || late === 'undelivered') return
    this.#late.late += 1
    if (late === 'refused') this.#late.refused += 1
  }

  async #cutFor(name: string): Promise<() => Promise<void>> {
    const daemon = this.#daemons.find(({ member }) => member.name === name)
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
    const runner = this.#runners[which - 1]
    if (runner === undefined) return
    if (what === 'kill-runner') await runner.kill()
    else await runner.stop()
    this.#comesBack(runner, 0) // at another port: it chooses a free one
  }

  /** As a service manager would do. */
  #comesBack(member: Pick<Member, 'start'>, afterMs: number): void {
    const back = (async () => {
      await sleep(afterMs, this.#ending.signal)
      await member.start()
    })()
      .catch((error: unknown) => this.note(error instanceof Error ? error.message : String(error)))
      .finally(() => this.#returning.delete(back))
    this.#returning.add(back)
  }
}

// ---- details ----

/** A folder that the user of PostgreSQL can enter. */
function shared(folder: string): string {
  chmodSync(folder, 0o711)
  return join(folder, 'postgres')
}

const inUse = (): Fault =>
  new Fault('invalid_request', {
    message: {
      happened: 'The database has tables of Breakfall already.',
      action: 'Nothing was started, and nothing in it was changed.',
      advice: 'Create an empty database for this fleet and pass its URL, or leave out --store.',
    },
  })

const portIn = (url: string): readonly number[] => [Number(new URL(url).port)]

/** Also one that was killed: it comes back. */
const canTakeOver = ({ member, isCut }: Daemon): boolean => !isCut && !member.isFrozen

const stateOf = (member: Member, isCut: boolean): string =>
  !member.isRunning ? 'gone' : member.isFrozen ? 'frozen' : isCut ? 'cut off' : 'up'
