/** What goes between the store and the thread that owns its database. */
import type { MessagePort } from 'node:worker_threads'
import type { FaultReport } from '@breakfall/faults'
import type { Store, StoreProblem } from './store.ts'

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
