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

export type Reply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly fault: FaultReport }

/** `done` are requests that have nothing to return, as most have: first and last id of each run of them. */
export type Replies = { readonly done: readonly number[]; readonly others: readonly Reply[] }

export function packReplies(replies: readonly Reply[]): Replies {
  const done: number[] = []
  const others: Reply[] = []
  for (const reply of replies) {
    if (!('value' in reply) || reply.value !== undefined) others.push(reply)
    else if (done.at(-1) === reply.id - 1) done[done.length - 1] = reply.id
    else done.push(reply.id, reply.id)
  }
  return { done, others }
}

export function* idsOf(done: Replies['done']): Generator<number> {
  for (let at = 0; at < done.length; at += 2) {
    for (let id = done[at] ?? 0; id <= (done[at + 1] ?? 0); id += 1) yield id
  }
}

/**
 * Requests as one flat list. Cloning the objects of an append takes several times as long as cloning the strings and numbers
 * in them, and appends are what there are many of.
 */
export function pack(requests: readonly Request[]): readonly unknown[] {
  const list: unknown[] = []
  for (const { id, op, args } of requests) {
    if (op === 'append') {
      const { sessionId, epoch, after, events, ...rest } = args[0]
      list.push(id, op, sessionId, epoch, after, Object.keys(rest).length > 0 ? rest : null, events.length)
      for (const { seq, type, turnId, body } of events) list.push(seq, type, turnId, body)
    } else {
      list.push(id, op, args)
    }
  }
  return list
}

/** Adds them to those that came before. */
export function unpack(list: readonly unknown[], requests: Request[] = []): Request[] {
  let at = 0
  const next = (): never => list[at++] as never
  while (at < list.length) {
    const id: number = next()
    const op: Operation = next()
    if (op === 'append') {
      const [sessionId, epoch, after, rest] = [next(), next(), next(), next() as object | null]
      const events: StoredEvent[] = []
      for (let left: number = next(); left > 0; left -= 1)
        events.push({ seq: next(), type: next(), turnId: next(), body: next() })
      const append = { sessionId, epoch, after, events }
      requests.push({ id, op, args: [rest === null ? append : { ...append, ...rest }] })
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
