/** What a response with a status other than 2xx means. */
import { classify, type Fault } from '@breakfall/faults'
import { parsedOr } from '../lib/json.ts'
import type { Refusal } from './attempt.ts'

export function refusalFault(refusal: Refusal, signal: AbortSignal, now: number, address: string): Fault {
  return classify(undefined, {
    boundary: 'model',
    phase: 'headers',
    signal,
    address,
    now,
    response: { status: refusal.status, headers: refusal.headers, body: parsedOr(refusal.body.toString('utf8')) },
  })
}
