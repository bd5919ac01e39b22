/** The messages between the store and the thread that owns its database. */
import type { MessagePort } from 'node:worker_threads'
import type { FaultReport } from '@breakfall/faults'
import type { Alone } from './alone.ts'
import type { Append, Store, StoredEvent, StoreProblem } from './store.ts'

export type SqliteOptions = {
  /** For tests of a full disk: the database may not grow past this many pages. */
  readonly pagesMax?: number | undefined
  readonly reserveBytes?: number | undefined
}

export type WorkerStart = {
  readonly folder: string
  /** Of this opening of the store: what an earlier one owned is free. */
  readonly bootId: string
  readonly port: MessagePort
  readonly options: SqliteOptions
}

export type Opened =
  | { readonly opened: true; readonly problems: readonly StoreProblem[] }
  | { readonly opened: false; readonly fault: FaultReport }

type Operation = Exclude<keyof Store, keyof Alone | 'problems'>

/** One call of the store. */
export type StoreCall = {
  [Op in Operation]: { readonly op: Op; readonly args: Parameters<Store[Op]> }
}[Operation]
export type Request = StoreCall & { readonly id: number }

export type Reply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly fault: FaultReport }

/** `done` are requests without a return value, which most are: the first and last id of each run of them. */
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

type AppendRest = Omit<Append, 'sessionId' | 'epoch' | 'after' | 'events'>

/**
 * Requests as lists of strings and numbers. Cloning the objects of an append takes several times as long as cloning the values
 * in them, and appends are by far the most frequent request.
 */
export type Packed = {
  readonly others: Request[]
  /** One entry per append in each list; `counts` is its number of events. */
  readonly appends: {
    readonly ids: number[]
    readonly sessionIds: string[]
    readonly epochs: number[]
    readonly afters: number[]
    readonly counts: number[]
    readonly rests: (AppendRest | null)[]
  }
  /** One entry per event in each list. */
  readonly events: {
    readonly types: string[]
    readonly turnIds: string[]
    readonly bodies: string[]
    readonly seqs: number[]
  }
}

export function pack(requests: readonly Request[]): Packed {
  const packed: Packed = {
    others: [],
    appends: { ids: [], sessionIds: [], epochs: [], afters: [], counts: [], rests: [] },
    events: { types: [], turnIds: [], bodies: [], seqs: [] },
  }
  for (const request of requests) {
    if (request.op !== 'append') packed.others.push(request)
    else packAppend(packed, request.id, request.args[0])
  }
  return packed
}

/** Adds the requests, in the order in which they were made, to those that came before. */
export function unpack({ others, appends, events }: Packed, requests: Request[] = []): Request[] {
  const unpacked: Request[] = [...others]
  let from = 0
  for (const [index, id] of appends.ids.entries()) {
    const to = from + (appends.counts[index] ?? 0)
    const stored: StoredEvent[] = []
    for (; from < to; from += 1) {
      const [seq = 0, type = '', turnId = '', body = ''] = [
        events.seqs[from],
        events.types[from],
        events.turnIds[from],
        events.bodies[from],
      ]
      stored.push({ seq, type, turnId, body })
    }
    const { [index]: sessionId = '' } = appends.sessionIds
    const { [index]: epoch = 0 } = appends.epochs
    const { [index]: after = 0 } = appends.afters
    unpacked.push({ id, op: 'append', args: [{ sessionId, epoch, after, events: stored, ...appends.rests[index] }] })
  }
  requests.push(...(others.length === 0 ? unpacked : unpacked.toSorted((a, b) => a.id - b.id)))
  return requests
}

/** Total over the operations: a new one must say whether it needs a commit. */
const WRITES: Readonly<Record<Operation, boolean>> = {
  createSession: true,
  deleteSession: true,
  claim: true,
  claimWork: true,
  raiseEpoch: true,
  wake: true,
  append: true,
  quarantine: true,
  getSession: false,
  listSessions: false,
  sessionsOfBox: false,
  endedSessions: false,
  usage: false,
  read: false,
  getTurn: false,
  listTurns: false,
  getKey: false,
  faultGroups: false,
  faultOccurrences: false,
  heads: false,
  waits: false,
  close: false,
}

export const isWrite = (request: { readonly op: Operation }): boolean => WRITES[request.op]

// ---- details ----

function packAppend({ appends, events }: Packed, id: number, append: Append): void {
  const { sessionId, epoch, after, events: stored, ...rest } = append
  appends.ids.push(id)
  appends.sessionIds.push(sessionId)
  appends.epochs.push(epoch)
  appends.afters.push(after)
  appends.counts.push(stored.length)
  appends.rests.push(Object.keys(rest).length > 0 ? rest : null)
  for (const { seq, type, turnId, body } of stored) {
    events.seqs.push(seq)
    events.types.push(type)
    events.turnIds.push(turnId)
    events.bodies.push(body)
  }
}
