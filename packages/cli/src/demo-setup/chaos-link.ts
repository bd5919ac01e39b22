/**
 * How the demo's daemon reaches the process that started it: JSON lines, requests on its stdout and answers on its stdin. The fault
 * proxy lives in that process, because the daemon itself is one of the things that get killed.
 */
import { createInterface } from 'node:readline'
import type { DaemonOptions } from '@breakfall/daemon'
import { faultFrom, type FaultReport } from '@breakfall/faults'
import type { ChaosTarget } from '@breakfall/wire'

export type ChaosRequest =
  | { readonly method: 'read' }
  | { readonly method: 'setPlan'; readonly plan: unknown }
  | { readonly method: 'injectNext'; readonly fault: unknown }
  | { readonly method: 'kill'; readonly what: ChaosTarget }

export type ChaosAnswer =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly fault: FaultReport }

/** A line of the daemon's stdout, if it is a request. */
export function chaosRequestIn(line: string): { readonly id: number; readonly request: ChaosRequest } | undefined {
  if (!line.startsWith(REQUEST_START)) return undefined
  const { id, request }: { id: number; request: ChaosRequest } = JSON.parse(line)
  return { id, request }
}

/** The daemon's side. `ended` settles when the process on the other side is gone. */
export function chaosLink(write: (request: object) => void): {
  readonly port: NonNullable<DaemonOptions['chaos']>
  readonly ended: Promise<void>
} {
  const waiting = new Map<number, { take(value: unknown): void; fail(error: unknown): void }>()
  let lastId = 0
  const lines = createInterface({ input: process.stdin })
  lines.on('line', (line) => {
    const answer: ChaosAnswer = JSON.parse(line)
    const waiter = waiting.get(answer.id)
    waiting.delete(answer.id)
    if ('result' in answer) waiter?.take(answer.result)
    else waiter?.fail(faultFrom(answer.fault))
  })
  /** The process on the other side is of the same version: it answers each method with that method's type. */
  const ask = <T>(request: ChaosRequest): Promise<T> =>
    new Promise<T>((take, fail) => {
      lastId += 1
      const waiter: { take(value: unknown): void; fail(error: unknown): void } = { take, fail }
      waiting.set(lastId, waiter)
      write({ event: 'chaos', id: lastId, request })
    })
  return {
    port: {
      read: () => ask({ method: 'read' }),
      setPlan: (plan) => ask({ method: 'setPlan', plan }),
      injectNext: (fault) => ask({ method: 'injectNext', fault }),
      kill: (what) => ask({ method: 'kill', what }),
    },
    ended: new Promise((resolve) => {
      lines.once('close', () => resolve())
    }),
  }
}

// ---- details ----

const REQUEST_START = '{"event":"chaos",'
