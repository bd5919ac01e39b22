/** What goes between the store and the thread that owns its database. */
import type { MessagePort } from 'node:worker_threads'
import type { FaultReport } from '@breakfall/faults'
import type { Store, StoredEvent, StoreProblem } from './store.ts'

export type SqliteOptions = {
  /** For tests of a full disk: the database may not grow past that many pages. */
  readonly pagesMax?: number | undefined
  readonly reserveBytes?: number | undefined
}

export type WorkerStart = { readonly folder: string; readonly port: MessagePort; readonly options: SqliteOptions }

export type Opened =
  | { readonly opened: true; readonly problems: readonly StoreProblem[] }
  | { readonly opened: false; readonly fault: FaultReport }

export type Operation = Exclude<keyof Store, 'problems'>

export type Request = {
  [Op in Operation]: { readonly id: number; readonly op: Op; readonly args: Parameters<Store[Op]> }
}[Operation]

/** A number alone says that the request with this id is done and has nothing to return. */
export type Reply =
  | number
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly fault: FaultReport }

/**
 * Requests as one flat list. Cloning the objects of an append takes several times as long as cloning the strings and numbers
 * in them, and appends are what there are many of.
 */
export function pack(requests: readonly Request[]): readonly unknown[] {
  const list: unknown[] = []
  for (const { id, op, args } of requests) {
    if (op === 'append') {
      const { sessionId, epoch, after, events, ...rest } = args[0]
      list.push(id, op, sessionId, epoch, after, rest, events.length)
      for (const { seq, type, turnId, body } of events) list.push(seq, type, turnId, body)
    } else {
      list.push(id, op, args)
    }
  }
  return list
}

export function unpack(list: readonly unknown[]): Request[] {
  const requests: Request[] = []
  let at = 0
  const next = (): never => list[at++] as never
  while (at < list.length) {
    const id: number = next()
    const op: Operation = next()
    if (op === 'append') {
      const head = { sessionId: next(), epoch: next(), after: next(), ...(next() as object) }
      const events: StoredEvent[] = []
      for (let left: number = next(); left > 0; left -= 1)
        events.push({ seq: next(), type: next(), turnId: next(), body: next() })
      requests.push({ id, op, args: [{ ...head, events }] })
    } else {
      requests.push({ id, op, args: next() })
    }
  }
  return requests
}

/** Total over the operations: a new one has to say whether it needs a commit. */
const WRITES: Readonly<Record<Operation, boolean>> = {
  createSession: true,
  deleteSession: true,
  claim: true,
  claimUnfinished: true,
  append: true,
  quarantine: true,
  getSession: false,
  listSessions: false,
  read: false,
  getTurn: false,
  getKey: false,
  close: false,
}

export const isWrite = (request: { readonly op: Operation }): boolean => WRITES[request.op]
