/** What an answer with another status than 2xx means. */
import { classify, type Fault } from '@breakfall/faults'
import type { Refusal } from './attempt.ts'

export function refusalFault(refusal: Refusal, signal: AbortSignal, now: number, address: string): Fault {
  return classify(undefined, {
    boundary: 'model',
    phase: 'headers',
    signal,
    address,
    now,
    response: { status: refusal.status, headers: refusal.headers, body: parsed(refusal.body) },
  })
}

// ---- details ----

function parsed(body: Buffer): unknown {
  const text = body.toString('utf8')
  try {
    return JSON.parse(text) as unknown
  } catch {
    return text // a proxy's HTML, or nothing: kept as text
  }
}
