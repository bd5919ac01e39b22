/** The messages between the store and the thread that owns its database. */
import type { MessagePort } from 'node:worker_threads'
import type { FaultReport } from '@breakfall/faults'
import type { Coordination } from './sharing.ts'
import type { Store, StoreProblem } from './store.ts'

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

/** What the thread does for the store. */
export type Operation = Exclude<keyof Store, keyof Coordination | 'problems' | 'close'>
export type Arguments = { readonly [Op in Operation]: Parameters<Store[Op]> }
export type Results = { readonly [Op in Operation]: Awaited<ReturnType<Store[Op]>> }

/** Every operation as the thread runs it. */
export type Operations = { readonly [Op in Operation]: (...args: Arguments[Op]) => Results[Op] }

/** Total: a new operation must say whether it needs a commit. */
export const ACCESS: Readonly<Record<Operation, 'reads' | 'writes'>> = {
  createSession: 'writes',
  deleteSession: 'writes',
  claim: 'writes',
  claimWork: 'writes',
  raiseEpoch: 'writes',
  wake: 'writes',
  append: 'writes',
  quarantine: 'writes',
  getSession: 'reads',
  listSessions: 'reads',
  sessionsOfBox: 'reads',
  endedSessions: 'reads',
  usage: 'reads',
  read: 'reads',
  getTurn: 'reads',
  listTurns: 'reads',
  getKey: 'reads',
  faultGroups: 'reads',
  faultOccurrences: 'reads',
  heads: 'reads',
  waits: 'reads',
}

export type Call<Op extends Operation = Operation> = {
  [One in Op]: { readonly id: number; readonly op: One; readonly args: Arguments[One] }
}[Op]

/** Calls in their order. Nothing comes after `close`, and its answer is the end of the thread. */
export type Requests = readonly Call[] | 'close'

export type Reply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly fault: FaultReport }
