/**
 * The typed client of a daemon.
 *
 * Every failure is a thrown `Fault`: the daemon's own (from `application/problem+json`), `daemon_unreachable`, or
 * `cancelled` when your signal aborts. Test for one with `isFault(error) && error.category === …`.
 *
 *     const client = new DaemonClient({ url: 'http://127.0.0.1:4711', token })
 *     const session = await client.createSession({ title: 'docs' })
 *     const { turnId, seq } = await client.prompt(session.id, 'make the failing test pass')
 *     for await (const event of client.events(session.id, { after: seq - 1 })) { … }
 */
import { type LoopOptions, type ReportedFault, type RetryPolicy, retryingCall } from '@breakfall/faults/caller'
import type {
  CheckpointDiff,
  ConsoleTicket,
  DaemonList,
  McpCalled,
  McpDetail,
  McpList,
  Pruned,
  PruneInput,
  RunnerList,
  RunnerView,
  SameFolder,
  Session,
  SessionCheckpoints,
  SessionCreate,
  SessionEvent,
  SessionPatch,
  SessionQuery,
  Turn,
  TurnApprove,
  TurnResume,
  Undo,
  Undone,
} from '@breakfall/wire'
import type { DaemonAddress } from './address.ts'
import { type Surroundings, SURROUNDINGS } from './clock.ts'
import { openStream, streamItems, type StreamItem } from './connection.ts'
import { type EventsOptions, readEvents } from './events.ts'
import { CALL_MS, FOREVER, LIVENESS_MS, RECONNECT_POLICY, UNREACHABLE_ATTEMPTS } from './limits.ts'
import { type Answer, type ApiRequest, ask, read, send } from './http.ts'
import {
  type DaemonHealth,
  type DaemonModel,
  type DaemonReadiness,
  type DiffQuery,
  type Guard,
  isDaemonList,
  isCheckpoints,
  isDiff,
  isHealth,
  isMcpCalled,
  isMcpDetail,
  isMcpList,
  isMcpServer,
  isModel,
  isPruned,
  isReadinessBody,
  isReceipt,
  isReleased,
  isRunnerList,
  isRunnerView,
  isSession,
  isSessionPage,
  isTicket,
  isTurn,
  isTurnPage,
  isUndone,
  type SessionPage,
  type TurnPage,
  type TurnReceipt,
} from './shapes.ts'

export type ClientOptions = Partial<Surroundings> & {
  /** False: a call to a daemon that does not answer fails at once. Event streams reconnect in either case. Default: true. */
  readonly retryCalls?: boolean | undefined
  /** When to give up. Default: calls after about half a minute, event streams never. */
  readonly policy?: RetryPolicy | undefined
  /** Called before each retry for the daemon's current address. Default: the address does not change. */
  readonly locate?: ((fault: ReportedFault) => Promise<DaemonAddress>) | undefined
  /** Ends every call and every event stream of this client. */
  readonly signal?: AbortSignal | undefined
  /** How long a call may take, per attempt. */
  readonly callMs?: number | undefined
  /** How long an event stream may be silent. The daemon sends a heartbeat every 15 s. */
  readonly livenessMs?: number | undefined
}

/** The calls that only read. The command line also answers them from a journal on disk. */
export type SessionViewer = Pick<DaemonClient, 'sessionPage' | 'session' | 'turn' | 'turns' | 'events'>

export class DaemonClient {
  #address: DaemonAddress
  readonly #options: ClientOptions
  readonly #surroundings: Surroundings

  constructor(address: DaemonAddress, options: ClientOptions = {}) {
    this.#address = address
    this.#options = options
    this.#surroundings = { ...SURROUNDINGS, ...options }
  }

  get url(): string {
    return this.#address.url
  }

  createSession(create: SessionCreate = {}): Promise<Session> {
    return this.#json({ method: 'POST', path: '/v1/sessions', body: create }, isSession, 'a session')
  }

  session(id: string): Promise<Session> {
    return this.#json({ method: 'GET', path: `/v1/sessions/${segment(id)}` }, isSession, 'a session')
  }

  /** Changes the title, and the model and its provider for the next turn. */
  changeSession(id: string, change: SessionPatch): Promise<Session> {
    return this.#json({ method: 'PATCH', path: `/v1/sessions/${segment(id)}`, body: change }, isSession, 'a session')
  }

  /** Every session that meets the query, newest first. With many sessions, read them page by page: `sessionPage`. */
  async sessions(query: Omit<SessionQuery, 'cursor'> = {}): Promise<readonly Session[]> {
    const all: Session[] = []
    for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
      const page: SessionPage = await this.sessionPage(cursor === undefined ? query : { ...query, cursor })
      all.push(...page.sessions)
      cursor = page.next
    }
    return all
  }

  /** One page, newest first. `next` is the cursor of the following one. */
  sessionPage(query: SessionQuery = {}): Promise<SessionPage> {
    const { counts, ...rest } = query
    const given = Object.entries({ ...rest, ...(counts === true ? { counts: 1 } : {}) })
    const path = withQuery('/v1/sessions', given)
    return this.#json({ method: 'GET', path }, isSessionPage, 'a list of sessions')
  }

  /** A page of the session's turns, newest first. */
  turns(sessionId: string, query: { readonly cursor?: string | undefined } = {}): Promise<TurnPage> {
    const path = withQuery(`/v1/sessions/${segment(sessionId)}/turns`, Object.entries(query))
    return this.#json({ method: 'GET', path }, isTurnPage, 'a list of turns')
  }

  /** All bytes that a tool's command printed, from the runner. */
  async output(sessionId: string, execId: string, stream: 'stdout' | 'stderr'): Promise<ReadableStream<Uint8Array>> {
    const path = `/v1/sessions/${segment(sessionId)}/execs/${segment(execId)}/output/${stream}`
    return (await this.#once({ method: 'GET', path })).body ?? new Blob([]).stream()
  }

  /** The session as NDJSON: a `bundle` line, then its events. `redact: 'text'` leaves out prompts, answers and output. */
  async export(sessionId: string, options: { redact?: 'text' } = {}): Promise<ReadableStream<Uint8Array>> {
    const path = withQuery(`/v1/sessions/${segment(sessionId)}/export`, Object.entries(options))
    return (await this.#once({ method: 'GET', path })).body ?? new Blob([]).stream()
  }

  /** Ends what runs in the session, and deletes it with its box. `ifEnded`: refused if a turn is unfinished. */
  async deleteSession(id: string, options: { ifEnded?: boolean } = {}): Promise<void> {
    const path = `/v1/sessions/${segment(id)}${options.ifEnded === true ? '?ifEnded=1' : ''}`
    await this.#call({ method: 'DELETE', path }, () => undefined)
  }

  /** Deletes sessions that have ended: those that match every given criterion, or those that were not used for 30 days. */
  prune(request: PruneInput = {}): Promise<Pruned> {
    return this.#json({ method: 'POST', path: '/v1/prune', body: request }, isPruned, 'what it deleted')
  }

  /** Releases the box of an idle session before its time. False if the session is in use or its runner cannot be reached. */
  async releaseBox(sessionId: string): Promise<boolean> {
    const path = `/v1/sessions/${segment(sessionId)}/release`
    const { released } = await this.#json({ method: 'POST', path, body: {} }, isReleased, 'whether it released the box')
    return released
  }

  /** Starts a turn, or queues it. A repeated call with the same key returns the first call's receipt; by default each call has a new key. */
  prompt(
    sessionId: string,
    prompt: string,
    options: { key?: string; queue?: boolean; sameFolder?: SameFolder } = {},
  ): Promise<TurnReceipt> {
    const { queue, sameFolder } = options
    const request: ApiRequest = {
      method: 'POST',
      path: `/v1/sessions/${segment(sessionId)}/turns`,
      body: { prompt, ...(queue === true ? { queue } : {}), ...(sameFolder === undefined ? {} : { sameFolder }) },
      headers: { 'idempotency-key': options.key ?? this.#surroundings.newKey() },
    }
    return this.#json(request, isReceipt, 'a receipt')
  }

  turn(id: string): Promise<Turn> {
    return this.#json({ method: 'GET', path: `/v1/turns/${segment(id)}` }, isTurn, 'a turn')
  }

  /** Cancels a turn in any state. Returns the turn while it is ending, or as it ended. */
  cancel(turnId: string, reason?: string): Promise<Turn> {
    const body = reason === undefined ? {} : { reason }
    return this.#json({ method: 'POST', path: `/v1/turns/${segment(turnId)}/cancel`, body }, isTurn, 'a turn')
  }

  /**
   * Resumes a parked turn now, ends the wait before a retry, or adopts an abandoned one (`live: false`). `provider`: the turn's own
   * one, with a key that its daemon has lost.
   */
  resume(turnId: string, request: TurnResume = {}): Promise<Turn> {
    return this.#json({ method: 'POST', path: `/v1/turns/${segment(turnId)}/resume`, body: request }, isTurn, 'a turn')
  }

  /** Answers a tool call that waits for an approval. */
  approve(turnId: string, request: TurnApprove): Promise<Turn> {
    return this.#json({ method: 'POST', path: `/v1/turns/${segment(turnId)}/approve`, body: request }, isTurn, 'a turn')
  }

  /** The daemons that share the store, also those that died within the last day. */
  daemons(): Promise<DaemonList> {
    return this.#json({ method: 'GET', path: '/v1/daemons' }, isDaemonList, 'a list of daemons')
  }

  /** Makes a daemon hand over its sessions. */
  drainDaemon(bootId: string): Promise<DaemonList> {
    const path = `/v1/daemons/${segment(bootId)}/drain`
    return this.#json({ method: 'POST', path, body: {} }, isDaemonList, 'a list of daemons')
  }

  /** The runners that joined. */
  runners(): Promise<RunnerList> {
    return this.#json({ method: 'GET', path: '/v1/runners' }, isRunnerList, 'a list of runners')
  }

  /** `drain`: no more sessions are placed there. `drop`: it is declared lost, and its sessions move. */
  changeRunner(runnerId: string, action: 'drain' | 'drop'): Promise<RunnerView> {
    const path = `/v1/runners/${segment(runnerId)}/${action}`
    return this.#json({ method: 'POST', path, body: {} }, isRunnerView, 'a runner')
  }

  /** The checkpoints of the session's files, oldest first. */
  checkpoints(sessionId: string): Promise<SessionCheckpoints> {
    const path = `/v1/sessions/${segment(sessionId)}/checkpoints`
    return this.#json({ method: 'GET', path }, isCheckpoints, 'a list of checkpoints')
  }

  /** What changed since before a turn, or since a checkpoint. Default: since before the last turn that wrote. */
  diff(sessionId: string, query: DiffQuery = {}): Promise<CheckpointDiff> {
    return this.#json({ method: 'GET', path: diffPath(sessionId, query) }, isDiff, 'a list of changed files')
  }

  /** The same as a patch. */
  patch(sessionId: string, query: DiffQuery = {}): Promise<string> {
    const request: ApiRequest = { method: 'GET', path: diffPath(sessionId, query), headers: { accept: 'text/x-diff' } }
    return this.#call(request, ({ text }) => text)
  }

  /** Brings the session's files back. It is not repeated if the answer is lost: ask for a preview first. */
  async undo(sessionId: string, request: Undo = {}): Promise<Undone> {
    const path = `/v1/sessions/${segment(sessionId)}/undo`
    return read(await this.#askOnce({ method: 'POST', path, body: request }), isUndone, 'what it restored')
  }

  /** The MCP servers, and how they are. */
  mcpServers(): Promise<McpList> {
    return this.#json({ method: 'GET', path: '/v1/mcp' }, isMcpList, 'a list of MCP servers')
  }

  /** One MCP server, with its tools and its last lines. */
  mcpServer(name: string): Promise<McpDetail> {
    return this.#json({ method: 'GET', path: `/v1/mcp/${segment(name)}` }, isMcpDetail, 'an MCP server')
  }

  restartMcp(name: string): Promise<McpList['servers'][number]> {
    const path = `/v1/mcp/${segment(name)}/restart`
    return this.#json({ method: 'POST', path, body: {} }, isMcpServer, 'an MCP server')
  }

  /** Calls a tool once, outside of any session. It is not called again if the answer is lost. */
  async callMcp(name: string, tool: string, given: Record<string, unknown>): Promise<McpCalled> {
    const request: ApiRequest = {
      method: 'POST',
      path: `/v1/mcp/${segment(name)}/call`,
      body: { tool, arguments: given },
    }
    return read(await this.#askOnce(request), isMcpCalled, 'the result of a tool')
  }

  /** The session's events: those in the journal, then live ones. Reconnects automatically; see `EventsOptions`. */
  events(sessionId: string, options: EventsOptions = {}): AsyncGenerator<SessionEvent> {
    const signals = [this.#options.signal, options.signal].filter((signal) => signal !== undefined)
    const signal = signals.length > 1 ? AbortSignal.any(signals) : signals[0]
    return readEvents(
      {
        connect: (cursor) => this.#stream(sessionId, cursor, signal),
        retrying: (act, failed) =>
          this.#retrying(act, {
            signal,
            failed,
            policy: this.#options.policy ?? FOREVER,
            onRetry: ({ attempt }) => {
              if (attempt === UNREACHABLE_ATTEMPTS) options.onUnreachable?.(this.url)
            },
          }),
      },
      { ...options, signal },
    )
  }

  /** A ticket for a browser: `URL/#ticket=TICKET` opens the console once, within two minutes. */
  consoleTicket(): Promise<ConsoleTicket> {
    return this.#json({ method: 'POST', path: '/v1/console/tickets', body: {} }, isTicket, 'a ticket')
  }

  health(): Promise<DaemonHealth> {
    return this.#json({ method: 'GET', path: '/v1/health' }, isHealth, 'its health')
  }

  /** Whether it can take prompts, with the result of each check. */
  ready(): Promise<DaemonReadiness> {
    return this.#call({ method: 'GET', path: '/v1/ready', accept: [503] }, (answer) => {
      const { checks } = read(answer, isReadinessBody, 'its readiness')
      return { isReady: answer.ok, checks }
    })
  }

  /** The model server that it asks, and the model of sessions that name none. */
  model(): Promise<DaemonModel> {
    return this.#json({ method: 'GET', path: '/v1/model' }, isModel, 'its model')
  }

  // ---- details, in the order they are used above ----

  #json<T>(request: ApiRequest, guard: Guard<T>, what: string): Promise<T> {
    return this.#call(request, (answer) => read(answer, guard, what))
  }

  /** For what must not be repeated. */
  #askOnce(request: ApiRequest): Promise<Answer> {
    return ask(this.#surroundings.fetch, this.#address, { ...request, signal: this.#options.signal })
  }

  /** For a body that the caller reads. */
  #once(request: ApiRequest): Promise<Response> {
    return send(this.#surroundings.fetch, this.#address, { ...request, signal: this.#options.signal })
  }

  /** Every call is safe to repeat: by its key, by its nature, or because a session without a turn does no harm. */
  #call<T>(request: ApiRequest, result: (answer: Answer) => T): Promise<T> {
    const { signal, callMs = CALL_MS, retryCalls = true } = this.#options
    const once = async (): Promise<T> =>
      result(await ask(this.#surroundings.fetch, this.#address, { ...request, signal, timeoutMs: callMs }))
    return retryCalls ? this.#retrying(once, { signal }) : once()
  }

  #retrying<T>(act: () => Promise<T>, options: CallRetry): Promise<T> {
    const { policy = options.policy ?? RECONNECT_POLICY, locate } = this.#options
    const { now, random, sleep } = this.#surroundings
    return retryingCall(act, {
      ...options,
      policy,
      now,
      dice: random,
      sleep,
      beforeRetry: async (fault) => {
        if (locate !== undefined) this.#address = await locate(fault)
      },
    })
  }

  async *#stream(
    sessionId: string,
    cursor: string | undefined,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<StreamItem> {
    const options = { address: this.#address, livenessMs: this.#options.livenessMs ?? LIVENESS_MS, signal }
    const request: ApiRequest = {
      method: 'GET',
      path: `/v1/sessions/${segment(sessionId)}/events`,
      headers: { accept: 'text/event-stream', ...(cursor === undefined ? {} : { 'last-event-id': cursor }) },
    }
    const response = await openStream(
      (opening) => send(this.#surroundings.fetch, options.address, { ...request, signal: opening }),
      options,
    )
    yield* streamItems(response, options)
  }
}

type CallRetry = Pick<LoopOptions, 'signal' | 'failed' | 'onRetry'> & { readonly policy?: RetryPolicy }

const diffPath = (sessionId: string, query: DiffQuery): string =>
  withQuery(`/v1/sessions/${segment(sessionId)}/diff`, Object.entries(query))

function withQuery(path: string, given: readonly (readonly [string, string | number | undefined])[]): string {
  const query = new URLSearchParams()
  for (const [name, value] of given) if (value !== undefined) query.set(name, String(value))
  return query.size === 0 ? path : `${path}?${query.toString()}`
}

const segment = (text: string): string => encodeURIComponent(text)
