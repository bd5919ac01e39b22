/**
 * The embedded store: `node:sqlite` in its own thread, because its API blocks. Calls made in one turn of the event loop travel
 * in one message, or in a few if there are many.
 */
import { extname } from 'node:path'
import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads'
import { Fault, type FaultReport, faultFrom } from '@breakfall/faults'
import { alone, type Alone } from './alone.ts'
import type { FaultGroup, FaultOccurrence, FaultSelection, OccurrenceSelection } from './seen.ts'
import {
  idsOf,
  type Opened,
  pack,
  type Replies,
  type Request,
  type SqliteOptions,
  type StoreCall,
  type WorkerStart,
} from './sqlite-protocol.ts'
import type {
  Append,
  EndedQuery,
  EndedSession,
  KeyRow,
  NewSession,
  SessionHead,
  SessionPage,
  SessionRow,
  SessionSelection,
  Store,
  StoredEvent,
  StoreProblem,
  StoreUsage,
  TurnRow,
  Wait,
  WorkQuery,
} from './store.ts'

export async function openSqliteStore(folder: string, options: SqliteOptions = {}): Promise<Store> {
  const sharing = alone()
  const { port1: near, port2: port } = new MessageChannel()
  const worker = new Worker(new URL(`./sqlite-worker${extname(import.meta.filename)}`, import.meta.url), {
    workerData: { folder, bootId: sharing.lease.bootId, port, options } satisfies WorkerStart,
    transferList: [port],
  })
  const opened = await new Promise<Opened>((resolve, reject) => {
    near.once('message', resolve)
    worker.once('error', reject)
  })
  if (!opened.opened) throw faultFrom(opened.fault)
  return Object.assign(new SqliteStore(worker, near, opened.problems), sharing)
}

// ---- details ----

/** Methods, because a promise of any type must fit: our own thread answers each call with that call's type. */
type Waiting = { resolve(value: unknown): void; reject(fault: Fault): void }

/** This many calls are sent without waiting for more: the thread then works on them while the next ones are made. */
const CALLS_AT_ONCE_MAX = 64

class SqliteStore implements Omit<Store, keyof Alone> {
  readonly problems: readonly StoreProblem[]
  readonly #worker: Worker
  readonly #port: MessageChannel['port1']
  readonly #waiting = new Map<number, Waiting>()
  #outbox: Request[] = []
  #lastId = 0
  #broken: Fault | undefined

  constructor(worker: Worker, port: MessageChannel['port1'], problems: readonly StoreProblem[]) {
    this.problems = problems
    this.#worker = worker
    this.#port = port
    port.on('message', (replies: Replies) => this.#settle(replies))
    worker.on('error', (cause) => this.#break(cause))
    worker.on('exit', () => {
      this.#settleLast()
      this.#break(new Error('the journal thread ended'))
    })
  }

  createSession = (session: NewSession, key?: KeyRow) =>
    this.#call<SessionRow>({ op: 'createSession', args: [session, key] })
  getSession = (id: string) => this.#call<SessionRow | undefined>({ op: 'getSession', args: [id] })
  listSessions = (selection: SessionSelection) => this.#call<SessionPage>({ op: 'listSessions', args: [selection] })
  sessionsOfBox = (boxId: string) => this.#call<readonly SessionRow[]>({ op: 'sessionsOfBox', args: [boxId] })
  endedSessions = (query: EndedQuery) => this.#call<readonly EndedSession[]>({ op: 'endedSessions', args: [query] })
  usage = (unusedBefore: string) => this.#call<StoreUsage>({ op: 'usage', args: [unusedBefore] })
  deleteSession = (id: string, options: { readonly ifIdle?: boolean | undefined } = {}) =>
    this.#call<boolean>({ op: 'deleteSession', args: [id, options] })
  claim = (id: string) => this.#call<SessionRow | undefined>({ op: 'claim', args: [id] })
  claimWork = (query: WorkQuery) => this.#call<readonly SessionRow[]>({ op: 'claimWork', args: [query] })
  raiseEpoch = (session: { readonly id: string; readonly epoch: number }, above: number) =>
    this.#call<SessionRow | undefined>({ op: 'raiseEpoch', args: [session, above] })
  waits = () => this.#call<readonly Wait[]>({ op: 'waits', args: [] })
  wake = (waitFor: string, limit?: number) => this.#call<number>({ op: 'wake', args: [waitFor, limit] })
  heads = (ids: readonly string[]) => this.#call<readonly SessionHead[]>({ op: 'heads', args: [ids] })
  append = (append: Append) => this.#call<void>({ op: 'append', args: [append] })
  read = (sessionId: string, after: number, limit: number, charsMax?: number) =>
    this.#call<readonly StoredEvent[]>({ op: 'read', args: [sessionId, after, limit, charsMax] })
  getTurn = (turnId: string) => this.#call<TurnRow | undefined>({ op: 'getTurn', args: [turnId] })
  listTurns = (sessionId: string, page: { before?: string | undefined; limit: number }) =>
    this.#call<readonly TurnRow[]>({ op: 'listTurns', args: [sessionId, page] })
  getKey = (scope: string, key: string) => this.#call<KeyRow | undefined>({ op: 'getKey', args: [scope, key] })
  faultGroups = (selection: FaultSelection) =>
    this.#call<readonly FaultGroup[]>({ op: 'faultGroups', args: [selection] })
  faultOccurrences = (selection: OccurrenceSelection) =>
    this.#call<readonly FaultOccurrence[]>({ op: 'faultOccurrences', args: [selection] })
  quarantine = (sessionId: string, report: FaultReport) =>
    this.#call<void>({ op: 'quarantine', args: [sessionId, report] })

  async close(): Promise<void> {
    // A thread that breaks while it closes is as closed as it can be.
    if (this.#broken === undefined) await this.#call<void>({ op: 'close', args: [] }).catch(() => undefined)
    this.#broken ??= new Fault('shutting_down', { boundary: 'journal', errorRaw: 'the store is closed' })
    await this.#worker.terminate()
  }

  #call<T>(call: StoreCall): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#broken !== undefined) {
        reject(this.#broken)
        return
      }
      this.#lastId += 1
      this.#waiting.set(this.#lastId, { resolve, reject })
      if (this.#outbox.length === 0) setImmediate(() => this.#send())
      this.#outbox.push({ ...call, id: this.#lastId })
      if (this.#outbox.length >= CALLS_AT_ONCE_MAX) this.#send()
    })
  }

  #send(): void {
    const requests = this.#outbox
    this.#outbox = []
    if (requests.length > 0 && this.#broken === undefined) this.#port.postMessage(pack(requests))
  }

  #settle({ done, others }: Replies): void {
    for (const id of idsOf(done)) this.#take(id)?.resolve(undefined)
    for (const reply of others) {
      if ('fault' in reply) this.#take(reply.id)?.reject(faultFrom(reply.fault))
      else this.#take(reply.id)?.resolve(reply.value)
    }
  }

  /** We may notice the end of the thread before its last replies, and those say what was committed. */
  #settleLast(): void {
    for (;;) {
      const last: { readonly message: Replies } | undefined = receiveMessageOnPort(this.#port)
      if (last === undefined) return
      this.#settle(last.message)
    }
  }

  #take(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    return waiting
  }

  /** Fails all waiting calls at once, and all later ones. */
  #break(cause: Error): void {
    this.#broken ??= new Fault('other', { boundary: 'journal', error: 'the journal has stopped working', cause })
    for (const waiting of this.#waiting.values()) waiting.reject(this.#broken)
    this.#waiting.clear()
  }
}
