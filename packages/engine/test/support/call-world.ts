/**
 * A daemon's calls against a runner and a store of which an order of disturbances decides everything: each request may be refused, lost,
 * answered into the void or late; the daemon may die before and after each request and append, and another takes over; boxes and runners
 * get lost; a cancel may arrive at any moment. Session, ledger, tool calls and cancel are the real ones.
 */
import assert from 'node:assert/strict'
import { classify, Fault, faultFrom, fullPolicy } from '@breakfall/faults'
import type { RunnerClient } from '@breakfall/runner/client'
import {
  type Box,
  type Exec,
  type ExecExit,
  type ExecRequest,
  isKnownEvent,
  parseEvent,
  type SessionEvent,
} from '@breakfall/wire'
import { cancelTurn, endTurn } from '../../src/loop/end-turn.ts'
import { OwnedSession } from '../../src/session/owned-session.ts'
import { recoverTurn } from '../../src/loop/recover.ts'
import { BuiltInTools, CustomTools } from '../../src/tools/built-in-tools.ts'
import { McpTools } from '../../src/tools/mcp.ts'
import type { SessionParts } from '../../src/session/session-parts.ts'
import { ToolCatalog } from '../../src/tools/catalog.ts'
import type { Feed } from '../../src/session/feed.ts'
import type { Feeds } from '../../src/session/feeds.ts'
import type { Folders } from '../../src/session/folders.ts'
import { Observer } from '../../src/session/observer.ts'
import type { LeaseGate } from '../../src/session/ownership.ts'
import { systemClock } from '../../src/clock.ts'
import { singleDaemonCoordination } from '../../src/store/single-daemon.ts'
import type { McpServers } from '../../src/tools/mcp-servers.ts'
import { LOST } from '../../src/runner/joined-runners.ts'
import type { Runners } from '../../src/runner/runners.ts'
import { Secrets } from '../../src/secrets.ts'
import type { RunnerRow } from '../../src/store/sharing.ts'
import type { CancelRequest, SessionRow } from '../../src/rows.ts'
import type { Append, Store, StoredEvent } from '../../src/store/store.ts'
import { next } from '../../src/turn/next.ts'
import { reduce } from '../../src/turn/reduce.ts'
import { EMPTY_FOLD } from '../../src/turn/state.ts'
import { eventsOf } from './events.ts'

export type Order = {
  /** Which of so many things happens. 0: the undisturbed one. */
  readonly pick: (count: number) => number
}

/** Every order with at most so many disturbances, one after another. */
export function* everyOrder(disturbancesMax: number): Generator<Order> {
  const path: { picked: number; readonly count: number }[] = []
  for (;;) {
    let [at, disturbances] = [0, 0]
    yield {
      pick: (count) => {
        if (disturbances === disturbancesMax) return 0
        const step = (path[at++] ??= { picked: 0, count })
        if (step.picked > 0) disturbances += 1
        return step.picked
      },
    }
    for (;;) {
      const last = path.at(-1)
      if (last === undefined) return
      last.picked += 1
      if (last.picked < last.count) break
      path.pop()
    }
  }
}

export class CallWorld {
  readonly #order: Order
  readonly #runners = [new FakeRunner('r1'), new FakeRunner('r2')] as const
  readonly #journal: StoredEvent[] = []
  #row: SessionRow
  #cancel: CancelRequest | null = null
  /** Requests under way: they arrive after the next one, or after everything. */
  #soon: (() => void)[] = []
  #late: (() => void)[] = []
  #moments = 0
  /** How often each command ran. */
  readonly effects = new Map<string, number>()
  /** What disturbed it, in order. */
  readonly story: string[] = []

  constructor(order: Order, workspace: 'host' | 'private') {
    this.#order = order
    const box = workspace === 'host' ? { workspace: '/w' } : {}
    this.#row = {
      id: 's',
      journal: 'j',
      createdAt: AT,
      updatedAt: AT,
      data: { title: null, model: null, box, tools: ['bash'], policy: {}, runnerId: null, boxMade: false },
      epoch: 1,
      lastSeq: 0,
      state: 'busy',
      turnId: TURN,
      quarantined: null,
      owner: null,
      asked: 0,
      seen: 0,
      suspect: 0,
      isDeleting: false,
      turn: null,
    }
    const began = eventsOf([
      { type: 'turn-start', prompt: 'go' },
      { type: 'step-start', step: 1 },
    ])
    for (const { seq, type, ...event } of began)
      this.#journal.push({ seq, type, turnId: TURN, body: JSON.stringify({ seq, type, ...event }) })
    this.#row = { ...this.#row, lastSeq: began.length }
  }

  get events(): readonly SessionEvent[] {
    return this.#journal.map(({ body }) => parseEvent(JSON.parse(body))).filter(isKnownEvent)
  }

  /** Runs the turn to its end, with as many daemons as it takes. */
  async play(): Promise<void> {
    while (!(await this.#daemon())) this.#row = { ...this.#row, epoch: this.#row.epoch + 1 }
    this.#arrive()
    for (const arrive of this.#late) arrive()
  }

  // ---- the daemon ----

  /** False if it died. */
  async #daemon(): Promise<boolean> {
    const fold = this.events.reduce(reduce, EMPTY_FOLD)
    const life: Life = { isOver: false, session: undefined }
    const runners = part<Runners>({ ...this.#runnersFor(life), clock: CLOCK, limits: LIMITS })
    const tools = toolsOver(runners)
    const session = new OwnedSession(this.#parts(life, tools), this.#row, fold, 0)
    life.session = session
    if (this.#cancel !== null) session.rememberCancel(TURN, this.#cancel)
    try {
      if (fold.turn?.calls.length === 0) await session.append(...CALLS)
      else await recoverTurn(session, fold.turn)
      while (session.fold.turn !== null && (await this.#step(life, tools, session)));
      return true
    } catch (thrown) {
      if (life.isOver) return false
      throw thrown
    }
  }

  /** False if no call is left. */
  async #step(life: Life, tools: ToolCatalog, session: OwnedSession): Promise<boolean> {
    const circumstances = { policy: POLICY, request: NO_REQUEST, now: NOW, approvalFor: () => null }
    assert.ok((this.#moments += 1) < MOMENTS_MAX, `it does not end, after ${this.story.join('; ')}`)
    const command = next(session.look(), { ...circumstances, cancel: session.cancelOf(TURN) })
    if (command.do !== 'cancel' && command.do !== 'call') return false
    try {
      if (command.do === 'cancel') await cancelTurn(tools, session, command.cancel, command.open)
      else {
        const performed = await tools.run(session, command.call)
        if (performed.kind === 'give-up' && performed.decision.action === 'stop')
          await endTurn(tools, session, faultFrom(performed.fault))
      }
    } catch (thrown) {
      if (life.isOver) throw thrown
      // As the engine does.
      if (!session.signal.aborted) await endTurn(tools, session, classify(thrown, { boundary: 'daemon' }))
    }
    return true
  }

  #parts(life: Life, { mayHaveLeft }: ToolCatalog): SessionParts {
    const append = (given: Append): Promise<void> => this.#when(life, 'append', APPEND_FATES, () => this.#commit(given))
    return part<SessionParts>({
      store: part<Store>({
        append,
        raiseEpoch: (_row, above) => Promise.resolve(this.#raise(above)),
        lease: singleDaemonCoordination().lease,
      }),
      feeds: part<Feeds>({ own: () => part<Feed>({ publish: nothing }), release: nothing }),
      folders: part<Folders>({ update: nothing }),
      secrets: SECRETS,
      gate: part<LeaseGate>({ isOpen: true, pass: () => Promise.resolve() }),
      policyOf: () => POLICY,
      clock: CLOCK,
      observer: new Observer({ log: LOG }),
      mayHaveLeft,
    })
  }

  #raise(above: number): SessionRow {
    this.#row = { ...this.#row, epoch: above + 1 }
    return this.#row
  }

  #commit({ epoch, after, events, data }: Append): void {
    if (epoch !== this.#row.epoch || after !== this.#row.lastSeq)
      throw new Fault('lease_lost', { boundary: 'journal', errorRaw: 'the append does not fit' })
    this.#journal.push(...events)
    this.#row = { ...this.#row, lastSeq: events.at(-1)?.seq ?? this.#row.lastSeq, data: data ?? this.#row.data }
  }

  // ---- the way to the runner ----

  #runnersFor(life: Life): Partial<Runners> {
    const [first, second] = this.#runners
    return {
      connect: (expect, epoch, _signal, wanted) => {
        const usable = this.#runners.filter(({ id, isLost }) => !isLost && wanted?.without?.has(id) !== true)
        const runner = expect === null ? usable[0] : this.#runners.find(({ id }) => id === expect)
        if (runner === undefined) return Promise.reject(new Fault('runner_not_available'))
        if (runner.isLost) return Promise.reject(lostFault())
        const address = { url: 'http://runner:1', runnerId: runner.id, token: '' }
        return Promise.resolve({ client: part<RunnerClient>(this.#client(life, runner, epoch)), address })
      },
      during: async ({ client, address }, _wanted, call) => {
        try {
          return await call(client)
        } catch (thrown) {
          throw this.#runners.some(({ id, isLost }) => isLost && id === address.runnerId) ? lostFault() : thrown
        }
      },
      replacement: () => Promise.resolve({ from: rowOf(first), to: rowOf(second) }),
      fits: (wanted) =>
        Promise.resolve(this.#runners.some(({ id, isLost }) => !isLost && wanted.without?.has(id) !== true)),
      hasMoved: () => Promise.resolve(false),
      isJoined: () => true,
      leave: () => Promise.resolve(),
      signed: (box) => box,
      forget: nothing,
    }
  }

  #client(life: Life, runner: FakeRunner, epoch: number): Partial<RunnerClient> {
    const ask = async <T>(what: string, boxId: string, signal: AbortSignal | undefined, serve: () => T): Promise<T> => {
      refuseAborted(signal)
      const admitted = (): T => {
        runner.admit(boxId, epoch)
        return serve()
      }
      const answer = await this.#when(life, what, REQUEST_FATES, admitted, { runner, boxId })
      refuseAborted(signal)
      return answer
    }
    const run = (command: string): void => void this.effects.set(command, (this.effects.get(command) ?? 0) + 1)
    return {
      withEpoch: (raised) => part<RunnerClient>(this.#client(life, runner, raised)),
      createBox: ({ id = '', workspace }, o) => ask('create', id, o?.signal, () => runner.create(id, workspace)),
      getBox: (id, o) => ask('look', id, o?.signal, () => runner.box(id).view),
      ownBox: (id, o) => ask('own', id, o?.signal, () => ({ epoch })),
      startExec: (id, request, o) => ask('start', id, o?.signal, () => runner.start(id, request, run)),
      killExec: (id, execId, o) => ask('kill', id, o?.signal, () => runner.kill(id, execId)),
      execEvents: async function* (id, execId, o) {
        const found = await ask('follow', id, o?.signal, () => runner.exec(id, execId)).catch(faultFrom)
        if (found instanceof Fault) yield { type: 'fault', fault: found }
        else if (found.exit !== null) yield { seq: 1, type: 'exit', ...found.exit }
      },
    }
  }

  /** Does it, unless it is disturbed. */
  async #when<T>(
    life: Life,
    what: string,
    fates: readonly Fate[],
    act: () => T,
    at?: { readonly runner: FakeRunner; readonly boxId: string },
  ): Promise<T> {
    assert.ok((this.#moments += 1) < MOMENTS_MAX, `it does not end, after ${this.story.join('; ')}`)
    await Promise.resolve()
    if (life.isOver) throw new Died()
    const possible = fates.filter((fate) => (fate.startsWith('cancelled') ? this.#cancel === null : true))
    const fate = possible[this.#order.pick(possible.length)] ?? 'done'
    if (fate !== 'done') this.story.push(`${what}: ${fate}`)
    const later = (): void => this.#swallow(act)
    switch (fate) {
      case 'done':
        return this.#done(act)
      case 'refused':
        throw new Fault('runner_unreachable', { sideEffects: 'none' })
      case 'unanswered':
        this.#swallow(act)
        throw unanswered()
      case 'late':
        this.#soon.push(later)
        throw unanswered()
      case 'very late':
        this.#late.push(later)
        throw unanswered()
      case 'died before':
        return this.#die(life)
      case 'died after':
        this.#swallow(act)
        return this.#die(life)
      case 'died, late':
        this.#soon.push(later)
        return this.#die(life)
      case 'box lost':
        at?.runner.boxes.delete(at.boxId)
        return this.#done(act)
      case 'runner lost':
        this.#late.push(later)
        if (at?.runner !== this.#runners[0]) throw unanswered()
        at.runner.isLost = true
        throw unanswered()
      case 'cancelled':
        this.#cancelNow(life)
        return this.#done(act)
      case 'cancelled, late':
        this.#soon.push(later)
        this.#cancelNow(life)
        throw unanswered()
    }
  }

  /** What was under way arrives after it. */
  #done<T>(act: () => T): T {
    const arriving = this.#soon
    this.#soon = []
    try {
      return act()
    } finally {
      for (const arrive of arriving) arrive()
    }
  }

  #arrive(): void {
    for (const arrive of this.#soon) arrive()
  }

  /** The answer is lost. */
  #swallow(act: () => unknown): void {
    try {
      act()
    } catch (thrown) {
      if (!(thrown instanceof Fault)) throw thrown
    }
  }

  #die(life: Life): never {
    life.isOver = true
    throw new Died()
  }

  #cancelNow({ session }: Life): void {
    this.#cancel = { actor: 'user', reason: null, at: AT }
    session?.rememberCancel(TURN, this.#cancel)
    session?.interrupt(new Fault('cancelled'))
  }
}

// ---- details ----

const MOMENTS_MAX = 500

type Life = { isOver: boolean; session: OwnedSession | undefined }

class Died extends Error {}

const APPEND_FATES = ['done', 'died before', 'died after', 'cancelled'] as const
const REQUEST_FATES = [
  'done',
  'refused',
  'unanswered',
  'late',
  'very late',
  'died before',
  'died after',
  'died, late',
  'box lost',
  'runner lost',
  'cancelled',
  'cancelled, late',
] as const
type Fate = (typeof REQUEST_FATES)[number]

const AT = '2026-11-15T12:00:00.000Z'
const NOW = Date.parse(AT)
const TURN = 't1'
const POLICY = fullPolicy({ backoffMs: 0, approve: 'never' })
const SECRETS = new Secrets()
const CLOCK = { ...systemClock({ now: () => NOW, dice: () => 0 }), timeout: () => AbortSignal.any([]) }
const LIMITS = { killMsMax: 60_000, checkMs: 1_000 }
const NO_REQUEST = { model: '', contextTokens: null, fixedBytes: 0 }
const CALLS = ['c1', 'c2'].map((id) => {
  const call = { type: 'tool-call', turnId: TURN, step: 1, tool: 'bash' } as const
  return { ...call, callId: id, execId: `${TURN}-1-${id}`, arguments: { command: id } }
})
const nothing = (): undefined => undefined
/** What the code under test uses of it. */
const part = <T>(used: Partial<T>): T => used as T

const LOG = { debug: nothing, info: nothing, warn: nothing, error: nothing }

const toolsOver = (runners: Runners): ToolCatalog =>
  new ToolCatalog({
    builtIn: new BuiltInTools(runners),
    custom: new CustomTools(runners),
    mcp: new McpTools(part<McpServers>({})),
    runners,
    graceMs: 0,
  })

const unanswered = (): Fault => new Fault('runner_unreachable', { sideEffects: 'unknown' })
const noBox = (): Fault => new Fault('box_not_found', { sideEffects: 'none' })

/** As the client of a runner says it. */
function refuseAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new Fault('cancelled', { sideEffects: 'unknown' })
}

const lostFault = (): Fault => new Fault('runner_not_available', { reason: LOST })
const rowOf = ({ id }: FakeRunner): RunnerRow =>
  part<RunnerRow>({ runnerId: id, machine: 'm', workspaces: [], lostBecause: 'silent' })

class FakeRunner {
  readonly id: string
  readonly boxes = new Map<string, { readonly view: Box; readonly execs: Map<string, Exec> }>()
  readonly #epochs = new Map<string, number>()
  readonly #burned = new Set<string>()
  isLost = false

  constructor(id: string) {
    this.id = id
  }

  admit(boxId: string, epoch: number): void {
    const epochSeen = this.#epochs.get(boxId) ?? 0
    if (epoch < epochSeen) throw new Fault('lease_lost', { boundary: 'box', boxId, epochSeen, sideEffects: 'none' })
    this.#epochs.set(boxId, epoch)
  }

  create(id: string, workspace: string | undefined): Box {
    if (this.boxes.has(id)) throw new Fault('box_already_exists', { sideEffects: 'none' })
    const place = { kind: workspace === undefined ? 'private' : 'host', path: '/w' } as const
    const view = { id, state: 'running', workspace: place, isolation: { level: 'bwrap' } } as Box
    this.boxes.set(id, { view, execs: new Map() })
    return view
  }

  box(id: string): { readonly view: Box; readonly execs: Map<string, Exec> } {
    const box = this.boxes.get(id)
    if (box === undefined) throw noBox()
    return box
  }

  exec(boxId: string, execId: string): Exec {
    const exec = this.box(boxId).execs.get(execId)
    if (exec === undefined) throw new Fault('exec_not_found', { sideEffects: 'none' })
    return exec
  }

  /** The command is over at once. */
  start(boxId: string, { execId = '', shell = '' }: ExecRequest, run: (command: string) => void): Exec {
    const { execs } = this.box(boxId)
    const known = execs.get(execId)
    if (known !== undefined) return known
    if (this.#burned.has(execId)) return execOf(boxId, execId, NEVER_RAN)
    run(shell)
    const exec = execOf(boxId, execId, RAN)
    execs.set(execId, exec)
    return exec
  }

  kill(boxId: string, execId: string): Exec {
    const known = this.boxes.get(boxId)?.execs.get(execId)
    if (known !== undefined) return known
    this.#burned.add(execId)
    return execOf(boxId, execId, NEVER_RAN)
  }
}

const EXIT = {
  code: null,
  signal: null,
  signalGuess: null,
  durationMs: 1,
  survivors: [],
  stdoutBytes: 0,
  stderrBytes: 0,
  truncated: false,
  diagnostics: [],
}
const RAN: ExecExit = { ...EXIT, cause: 'exited', started: true, code: 0 }
const NEVER_RAN: ExecExit = { ...EXIT, cause: 'killed', started: false }

const execOf = (boxId: string, execId: string, exit: ExecExit): Exec => ({
  execId,
  boxId,
  state: 'exited',
  command: [],
  startedAt: AT,
  endedAt: AT,
  stdoutBytes: 0,
  stderrBytes: 0,
  lastSeq: 1,
  exit,
})
