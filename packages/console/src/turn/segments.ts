/** A turn as lanes of segments in time: what the thread draws. Pure: the end of what still runs comes in as `now`. */
import type { Attempt, Call, Span, Step, TurnView } from '../fold/view.ts'

/** How a stretch of time looks. A wait never looks like work. The legend is made from the same table. */
export const SEGMENT_KINDS = {
  work: 'the model answers',
  tool: 'a tool runs',
  silent: 'the model is silent',
  wait: 'waits before the next attempt',
  park: 'parked',
  gone: 'no daemon ran it',
} as const
export type SegmentKind = keyof typeof SEGMENT_KINDS

export type Segment = {
  readonly key: string
  readonly kind: SegmentKind
  readonly from: number
  readonly to: number
  readonly isOpen: boolean
  readonly attempt: number | null
  readonly callId: string | null
  /** The sentence that names it for a screen reader. */
  readonly name: string
  /** It ends in a fault. */
  readonly scar: 'fault' | 'unknown' | 'takeover' | null
  readonly seq: number
}

export type Lane = {
  readonly key: string
  readonly first: number
  readonly last: number
  readonly label: string
  readonly isFolded: boolean
  readonly segments: readonly Segment[]
}

const SILENT_MS = 2_000 // shorter pauses are how models talk

export function segmentsOf(step: Step, turn: TurnView, now: number, words: Words): readonly Segment[] {
  return [
    ...step.attempts.flatMap((attempt) => attemptSegments(attempt, now, words)),
    ...step.calls.flatMap((call) => callSegments(call, now, words)),
    ...step.parks.map((park): Segment => ({
      key: `park-${park.seq}`,
      kind: 'park',
      from: park.at,
      to: park.endedAt ?? Math.max(now, park.at),
      isOpen: park.endedAt === null && turn.endedAt === null,
      attempt: null,
      callId: null,
      name: words.park(park, (park.endedAt ?? now) - park.at),
      scar: 'fault',
      seq: park.seq,
    })),
    ...step.takeovers.map((gap): Segment => ({
      key: `gone-${gap.seq}`,
      kind: 'gone',
      from: gap.from,
      to: gap.to,
      isOpen: false,
      attempt: null,
      callId: null,
      name: words.gone(gap),
      scar: 'takeover',
      seq: gap.seq,
    })),
  ].sort((a, b) => a.from - b.from)
}

/** The sentences, from `thread/words.ts`; an argument because they are also the inspector's. */
export type Words = {
  attempt(attempt: Attempt, ms: number): string
  silent(attempt: Attempt, ms: number): string
  wait(attempt: Attempt): string
  call(call: Call, ms: number): string
  park(park: Step['parks'][number], ms: number): string
  gone(gap: Step['takeovers'][number]): string
}

// ---- details, in the order they are used above ----

function attemptSegments(attempt: Attempt, now: number, words: Words): readonly Segment[] {
  if (attempt.state === 'waiting') return []
  const base = { attempt: attempt.n, callId: null, seq: attempt.wait?.seq ?? 0 }
  const total = attempt.spans.reduce((sum, span) => sum + lengthOf(span, now), 0)
  const out: Segment[] = []
  attempt.spans.forEach((span, index) => {
    const to = endOf(span, now)
    const isLast = index === attempt.spans.length - 1
    const heard = attempt.heardAt ?? span.from
    const isSilent = isLast && heard >= span.from && to - heard >= SILENT_MS && attempt.state !== 'done'
    const workTo = isSilent ? heard : to
    const key = `attempt-${attempt.n}-${index}`
    const scar = attempt.fault !== null && isLast ? 'fault' : null
    out.push({
      ...base,
      key,
      kind: 'work',
      from: span.from,
      to: workTo,
      isOpen: span.to === null && !isSilent,
      name: words.attempt(attempt, total),
      scar: isSilent ? null : scar,
    })
    if (isSilent) {
      const name = words.silent(attempt, to - heard)
      out.push({
        ...base,
        key: `${key}-silent`,
        kind: 'silent',
        from: workTo,
        to,
        isOpen: span.to === null,
        name,
        scar,
      })
    }
  })
  if (attempt.wait !== null && attempt.wait.delayMs > 0) {
    const { at, until, endedAt, seq } = attempt.wait
    const to = endedAt ?? until
    const name = words.wait(attempt)
    const key = `wait-${seq}`
    out.push({ ...base, key, kind: 'wait', from: at, to: Math.max(at, to), isOpen: to > now, name, scar: null, seq })
  }
  return out
}

function callSegments(call: Call, now: number, words: Words): readonly Segment[] {
  const total = call.spans.reduce((sum, span) => sum + lengthOf(span, now), 0)
  return call.spans.map((span, index) => ({
    key: `call-${call.id}-${index}`,
    kind: 'tool' as const,
    from: span.from,
    to: endOf(span, now),
    isOpen: span.to === null,
    attempt: null,
    callId: call.id,
    name: words.call(call, total),
    scar: call.outcome === 'unknown' ? ('unknown' as const) : null,
    seq: 0,
  }))
}

const endOf = ({ from, to }: Span, now: number): number => Math.max(from, to ?? now)
const lengthOf = (span: Span, now: number): number => endOf(span, now) - span.from
