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
  SessionProcessList,
  SessionQuery,
  StoppedProcess,
  Turn,
  TurnApprove,
  TurnResume,
  Undo,
  Undone,
} from '@breakfall/wire'
import type { DaemonAddress } from './address.ts'
import * as sessions from './calls/sessions.ts'
import * as turns from './calls/turns.ts'
import { ClientCore, type ClientOptions, operation } from './core.ts'
import type { EventsOptions } from './events.ts'
import { followSession } from './follow.ts'
import { read } from './http.ts'
import {
  type DaemonHealth,
  type DaemonModel,
  type DaemonReadiness,
  type DiffQuery,
  isCheckpoints,
  isDaemonList,
  isDiff,
  isHealth,
  isMcpCalled,
  isMcpDetail,
  isMcpList,
  isMcpServer,
  isModel,
  isProcessList,
  isPruned,
  isReadinessBody,
  isReleased,
  isRunnerList,
  isRunnerView,
  isSessionPage,
  isStopped,
  isTicket,
  isTurnPage,
  type SessionPage,
  type TurnPage,
} from './daemon-shapes.ts'
import { isSession, isTurn, type TurnReceipt } from './shapes.ts'

/** The calls that only read. The command line also answers them from a journal on disk. */
export type SessionViewer = Pick<DaemonClient, 'sessionPage' | 'session' | 'turn' | 'turns' | 'events'>

export class DaemonClient {
  readonly #core: ClientCore

  constructor(address: DaemonAddress, options: ClientOptions = {}) {
    this.#core = new ClientCore(address, options)
  }

  get url(): string {
    return this.#core.address.url
  }

  createSession(create: SessionCreate = {}): Promise<Session> {
    return sessions.createSession(this.#core, create)
  }

  session(id: string): Promise<Session> {
    return this.#core.json(operation('GET /v1/sessions/{id}', { id }), isSession, 'a session')
  }

  /** Changes the title, and the model and its provider for the next turn. */
  changeSession(id: string, change: SessionPatch): Promise<Session> {
    return this.#core.json(operation('PATCH /v1/sessions/{id}', { id }, { body: change }), isSession, 'a session')
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
    const given = { ...rest, ...(counts === true ? { counts: 1 } : {}) }
    return this.#core.json(operation('GET /v1/sessions', given), isSessionPage, 'a list of sessions')
  }

  /** A page of the session's turns, newest first. */
  turns(sessionId: string, query: { readonly cursor?: string | undefined } = {}): Promise<TurnPage> {
    const call = operation('GET /v1/sessions/{id}/turns', { id: sessionId, ...query })
    return this.#core.json(call, isTurnPage, 'a list of turns')
  }

  /** All bytes that a tool's command printed and the runner keeps. `from`: how many before them it no longer keeps. */
  async output(
    sessionId: string,
    execId: string,
    stream: 'stdout' | 'stderr',
  ): Promise<ReadableStream<Uint8Array> & { readonly from: number }> {
    const response = await sessions.execOutput(this.#core, sessionId, execId, stream)
    const range = response.headers.get('content-range') ?? 'bytes 0'
    return Object.assign(bytes(response), { from: Number.parseInt(range.slice('bytes '.length), 10) })
  }

  /** The session as NDJSON: a `bundle` line, then its events. `redact: 'text'` leaves out prompts, answers and output. */
  async export(sessionId: string, options: { redact?: 'text' } = {}): Promise<ReadableStream<Uint8Array>> {
    return bytes(await sessions.exportSession(this.#core, sessionId, options))
  }

  /** Ends what runs in the session, and deletes it with its box. `ifEnded`: refused if a turn is unfinished. */
  async deleteSession(id: string, options: { ifEnded?: boolean } = {}): Promise<void> {
    const ifEnded = options.ifEnded === true ? 1 : undefined
    await this.#core.call(operation('DELETE /v1/sessions/{id}', { id, ifEnded }), () => undefined)
  }

  /** Deletes sessions that have ended: those that match every given criterion, or those that were not used for 30 days. */
  prune(request: PruneInput = {}): Promise<Pruned> {
    return this.#core.json(operation('POST /v1/prune', {}, { body: request }), isPruned, 'what it deleted')
  }

  /** Releases the box of an idle session before its time. False if the session is in use or its runner cannot be reached. */
  async releaseBox(sessionId: string): Promise<boolean> {
    const call = operation('POST /v1/sessions/{id}/release', { id: sessionId })
    return (await this.#core.json(call, isReleased, 'whether it released the box')).released
  }

  /** Starts a turn, or queues it. A repeated call with the same key returns the first call's receipt; by default each call has a new key. */
  prompt(
    sessionId: string,
    prompt: string,
    options: { key?: string; queue?: boolean; sameFolder?: SameFolder } = {},
  ): Promise<TurnReceipt> {
    return turns.prompt(this.#core, sessionId, prompt, options)
  }

  turn(id: string): Promise<Turn> {
    return this.#core.json(operation('GET /v1/turns/{id}', { id }), isTurn, 'a turn')
  }

  /** Cancels a turn in any state. Returns the turn while it is ending, or as it ended. */
  cancel(turnId: string, reason?: string): Promise<Turn> {
    return turns.cancel(this.#core, turnId, reason)
  }

  /**
   * Resumes a parked turn now, ends the wait before a retry, or adopts an abandoned one (`live: false`). `provider`: the turn's own
   * one, with a key that its daemon has lost.
   */
  resume(turnId: string, request: TurnResume = {}): Promise<Turn> {
    return turns.resume(this.#core, turnId, request)
  }

  /** Answers a tool call that waits for an approval. */
  approve(turnId: string, request: TurnApprove): Promise<Turn> {
    return turns.approve(this.#core, turnId, request)
  }

  /** The daemons that share the store, also those that died within the last day. */
  daemons(): Promise<DaemonList> {
    return this.#core.json(operation('GET /v1/daemons', {}), isDaemonList, 'a list of daemons')
  }

  /** Makes a daemon hand over its sessions. */
  drainDaemon(bootId: string): Promise<DaemonList> {
    const call = operation('POST /v1/daemons/{bootId}/drain', { bootId })
    return this.#core.json(call, isDaemonList, 'a list of daemons')
  }

  /** The runners that joined. */
  runners(): Promise<RunnerList> {
    return this.#core.json(operation('GET /v1/runners', {}), isRunnerList, 'a list of runners')
  }

  /** `drain`: no more sessions are placed there. `drop`: it is declared lost, and its sessions move. */
  changeRunner(runnerId: string, action: 'drain' | 'drop'): Promise<RunnerView> {
    return this.#core.json(operation(`POST /v1/runners/{id}/${action}`, { id: runnerId }), isRunnerView, 'a runner')
  }

  /** The checkpoints of the session's files, oldest first. */
  checkpoints(sessionId: string): Promise<SessionCheckpoints> {
    const call = operation('GET /v1/sessions/{id}/checkpoints', { id: sessionId })
    return this.#core.json(call, isCheckpoints, 'a list of checkpoints')
  }

  /** What changed since before a turn, or since a checkpoint. Default: since before the last turn that wrote. */
  diff(sessionId: string, query: DiffQuery = {}): Promise<CheckpointDiff> {
    return this.#core.json(
      operation('GET /v1/sessions/{id}/diff', { id: sessionId, ...query }),
      isDiff,
      'a list of files',
    )
  }

  /** The same as a patch. */
  patch(sessionId: string, query: DiffQuery = {}): Promise<string> {
    const headers = { accept: 'text/x-diff' }
    const call = operation('GET /v1/sessions/{id}/diff', { id: sessionId, ...query }, { headers })
    return this.#core.call(call, ({ text }) => text)
  }

  /** Brings the session's files back. It is not repeated if the answer is lost: ask for a preview first. */
  undo(sessionId: string, request: Undo = {}): Promise<Undone> {
    return sessions.undo(this.#core, sessionId, request)
  }

  /** The background processes of all sessions, or of one. */
  processes(session?: string): Promise<SessionProcessList> {
    return this.#core.json(operation('GET /v1/processes', { session }), isProcessList, 'a list of processes')
  }

  /** Stops a background process, by its name or the id of its exec. */
  stopProcess(sessionId: string, process: string): Promise<StoppedProcess> {
    const call = operation('POST /v1/sessions/{id}/processes/{process}/stop', { id: sessionId, process })
    return this.#core.json(call, isStopped, 'a process')
  }

  /** The MCP servers, and how they are. */
  mcpServers(): Promise<McpList> {
    return this.#core.json(operation('GET /v1/mcp', {}), isMcpList, 'a list of MCP servers')
  }

  /** One MCP server, with its tools and its last lines. */
  mcpServer(name: string): Promise<McpDetail> {
    return this.#core.json(operation('GET /v1/mcp/{name}', { name }), isMcpDetail, 'an MCP server')
  }

  restartMcp(name: string): Promise<McpList['servers'][number]> {
    return this.#core.json(operation('POST /v1/mcp/{name}/restart', { name }), isMcpServer, 'an MCP server')
  }

  /** Calls a tool once, outside of any session. It is not called again if the answer is lost. */
  async callMcp(name: string, tool: string, given: Record<string, unknown>): Promise<McpCalled> {
    const body = { tool, arguments: given }
    return read(
      await this.#core.ask(operation('POST /v1/mcp/{name}/call', { name }, { body })),
      isMcpCalled,
      'a result',
    )
  }

  /** The session's events: those in the journal, then live ones. Reconnects automatically; see `EventsOptions`. */
  events(sessionId: string, options: EventsOptions = {}): AsyncGenerator<SessionEvent> {
    return followSession(this.#core, sessionId, options)
  }

  /** A ticket for a browser: `URL/#ticket=TICKET` opens the console once, within two minutes. */
  consoleTicket(): Promise<ConsoleTicket> {
    return this.#core.json(operation('POST /v1/console/tickets', {}), isTicket, 'a ticket')
  }

  health(): Promise<DaemonHealth> {
    return this.#core.json(operation('GET /v1/health', {}), isHealth, 'its health')
  }

  /** Whether it can take prompts, with the result of each check. */
  ready(): Promise<DaemonReadiness> {
    return this.#core.call(operation('GET /v1/ready', {}, { accept: [503] }), (answer) => {
      const { checks } = read(answer, isReadinessBody, 'its readiness')
      return { isReady: answer.ok, checks }
    })
  }

  /** The model server that it asks, and the model of sessions that name none. */
  model(): Promise<DaemonModel> {
    return this.#core.json(operation('GET /v1/model', {}), isModel, 'its model')
  }
}

// ---- details ----

const bytes = ({ body }: Response): ReadableStream<Uint8Array> => body ?? new Blob([]).stream()
