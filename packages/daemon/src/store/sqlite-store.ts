/**
 * The embedded store: `node:sqlite` in a thread of its own, since its API blocks. Calls made in one turn of the event loop
 * go over in one message, or in a few where they are many.
 */
import { MessageChannel, Worker } from 'node:worker_threads'
import { Fault, type FaultReport, faultFrom } from '@breakfall/faults'
import {
  idsOf,
  type Opened,
  type Operation,
  pack,
  type Replies,
  type Request,
  type SqliteOptions,
  type WorkerStart,
} from './sqlite-protocol.ts'
import type { Append, NewSession, Store, StoreProblem } from './store.ts'

export async function openSqliteStore(folder: string, options: SqliteOptions = {}): Promise<Store> {
  const { port1: near, port2: port } = new MessageChannel()
  const worker = new Worker(new URL('./sqlite-worker.ts', import.meta.url), {
    workerData: { folder, port, options } satisfies WorkerStart,
    transferList: [port],
  })
  const opened = await new Promise<Opened>((resolve, reject) => {
    near.once('message', resolve)
    worker.once('error', reject)
  })
  if (!opened.opened) throw faultFrom(opened.fault)
  return new SqliteStore(worker, near, opened.problems)
}

// ---- details ----

type Waiting = { readonly resolve: (value: never) => void; readonly reject: (fault: Fault) => void }

/** So many calls go over without waiting for the rest: the thread then works on the first while the others are being made. */
const CALLS_AT_ONCE_MAX = 64

class SqliteStore implements Store {
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
    worker.on('exit', () => this.#break(new Error('the journal thread ended')))
  }

  createSession = (session: NewSession) => this.#call('createSession', session)
  getSession = (id: string) => this.#call('getSession', id)
  listSessions = (page: { after?: string | undefined; limit: number }) => this.#call('listSessions', page)
  deleteSession = (id: string) => this.#call('deleteSession', id)
  claim = (id: string) => this.#call('claim', id)
  claimUnfinished = () => this.#call('claimUnfinished')
  append = (append: Append) => this.#call('append', append)
  read = (sessionId: string, after: number, limit: number, charsMax?: number) =>
    this.#call('read', sessionId, after, limit, charsMax)
  getTurn = (turnId: string) => this.#call('getTurn', turnId)
  getKey = (scope: string, key: string) => this.#call('getKey', scope, key)
  quarantine = (sessionId: string, report: FaultReport) => this.#call('quarantine', sessionId, report)

  async close(): Promise<void> {
    // The thread ends right after it has closed; its end may be noticed before its last word.
    if (this.#broken === undefined) await this.#call('close').catch(() => undefined)
    this.#broken ??= new Fault('shutting_down', { boundary: 'journal', errorRaw: 'the store is closed' })
    await this.#worker.terminate()
  }

  #call<Op extends Operation>(op: Op, ...args: Parameters<Store[Op]>): ReturnType<Store[Op]> {
    return new Promise((resolve, reject) => {
      if (this.#broken !== undefined) {
        reject(this.#broken)
        return
      }
      this.#lastId += 1
      this.#waiting.set(this.#lastId, { resolve, reject })
      if (this.#outbox.length === 0) setImmediate(() => this.#send())
      this.#outbox.push({ id: this.#lastId, op, args } as unknown as Request)
      if (this.#outbox.length >= CALLS_AT_ONCE_MAX) this.#send()
    }) as ReturnType<Store[Op]>
  }

  #send(): void {
    const requests = this.#outbox
    this.#outbox = []
    if (requests.length > 0 && this.#broken === undefined) this.#port.postMessage(pack(requests))
  }

  #settle({ done, others }: Replies): void {
    for (const id of idsOf(done)) this.#taken(id)?.resolve(undefined as never)
    for (const reply of others) {
      if ('fault' in reply) this.#taken(reply.id)?.reject(faultFrom(reply.fault))
      else this.#taken(reply.id)?.resolve(reply.value as never)
    }
  }

  #taken(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    return waiting
  }

  /** Whoever waits learns it at once; later calls too. */
  #break(cause: Error): void {
    this.#broken ??= new Fault('other', { boundary: 'journal', error: 'the journal has stopped working', cause })
    for (const waiting of this.#waiting.values()) waiting.reject(this.#broken)
    this.#waiting.clear()
  }
}
