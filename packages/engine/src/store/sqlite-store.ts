/**
 * The embedded store: `node:sqlite` in its own thread, because its API blocks. Calls made in one turn of the event loop travel
 * in one message, or in a few if there are many.
 */
import { extname } from 'node:path'
import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads'
import { Fault, faultFrom } from '@breakfall/faults'
import { singleDaemonCoordination } from './single-daemon.ts'
import type { Coordination } from './sharing.ts'
import type { Arguments, Opened, Operation, Reply, Results, SqliteOptions, WorkerStart } from './sqlite-protocol.ts'
import type { Store, StoreProblem } from './store.ts'

export async function openSqliteStore(
  folder: string,
  { now, ...options }: SqliteOptions & { readonly now?: (() => number) | undefined } = {},
): Promise<Store> {
  const sharing = singleDaemonCoordination(now)
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

class SqliteStore implements Omit<Store, keyof Coordination> {
  readonly problems: readonly StoreProblem[]
  readonly #port: MessageChannel['port1']
  readonly #ended: Promise<unknown>
  readonly #waiting = new Map<number, Waiting>()
  #outbox: { readonly id: number; readonly op: Operation; readonly args: Arguments[Operation] }[] = []
  #lastId = 0
  #broken: Fault | undefined

  constructor(worker: Worker, port: MessageChannel['port1'], problems: readonly StoreProblem[]) {
    this.problems = problems
    this.#port = port
    this.#ended = new Promise((resolve) => worker.once('exit', resolve))
    port.on('message', (replies: readonly Reply[]) => this.#settle(replies))
    worker.on('error', (cause) => this.#break(cause))
    worker.on('exit', () => {
      this.#settleLast()
      this.#break(new Error('the journal thread ended'))
    })
  }

  createSession = this.#operation('createSession')
  deleteSession = this.#operation('deleteSession')
  claim = this.#operation('claim')
  claimWork = this.#operation('claimWork')
  raiseEpoch = this.#operation('raiseEpoch')
  wake = this.#operation('wake')
  append = this.#operation('append')
  quarantine = this.#operation('quarantine')
  getSession = this.#operation('getSession')
  listSessions = this.#operation('listSessions')
  sessionsOfBox = this.#operation('sessionsOfBox')
  endedSessions = this.#operation('endedSessions')
  usage = this.#operation('usage')
  read = this.#operation('read')
  getTurn = this.#operation('getTurn')
  listTurns = this.#operation('listTurns')
  getKey = this.#operation('getKey')
  faultGroups = this.#operation('faultGroups')
  faultOccurrences = this.#operation('faultOccurrences')
  heads = this.#operation('heads')
  waits = this.#operation('waits')

  /** After everything that was asked before. A thread that breaks meanwhile is as closed as it can be. */
  async close(): Promise<void> {
    if (this.#broken === undefined) {
      this.#send()
      this.#port.postMessage('close')
      this.#broken = new Fault('shutting_down', { boundary: 'journal', errorRaw: 'the store is closed' })
    }
    await this.#ended
  }

  #operation<Op extends Operation>(op: Op): (...args: Arguments[Op]) => Promise<Results[Op]> {
    return (...args) =>
      new Promise((resolve, reject) => {
        if (this.#broken !== undefined) {
          reject(this.#broken)
          return
        }
        this.#lastId += 1
        this.#waiting.set(this.#lastId, { resolve, reject })
        if (this.#outbox.length === 0) setImmediate(() => this.#send())
        this.#outbox.push({ id: this.#lastId, op, args })
        if (this.#outbox.length >= CALLS_AT_ONCE_MAX) this.#send()
      })
  }

  #send(): void {
    const calls = this.#outbox
    this.#outbox = []
    if (calls.length > 0 && this.#broken === undefined) this.#port.postMessage(calls)
  }

  #settle(replies: readonly Reply[]): void {
    for (const reply of replies) {
      const waiting = this.#waiting.get(reply.id)
      this.#waiting.delete(reply.id)
      if ('fault' in reply) waiting?.reject(faultFrom(reply.fault))
      else waiting?.resolve(reply.value)
    }
  }

  /** We may notice the end of the thread before its last replies, and those say what was committed. */
  #settleLast(): void {
    for (;;) {
      const last: { readonly message: readonly Reply[] } | undefined = receiveMessageOnPort(this.#port)
      if (last === undefined) return
      this.#settle(last.message)
    }
  }

  /** Fails all waiting calls at once, and all later ones. */
  #break(cause: Error): void {
    this.#broken ??= new Fault('other', { boundary: 'journal', error: 'the journal has stopped working', cause })
    for (const waiting of this.#waiting.values()) waiting.reject(this.#broken)
    this.#waiting.clear()
  }
}
