/** Sample sessions, turns and events, and an output that keeps what is written. */
import { PassThrough } from 'node:stream'
import { type Session, type SessionEvent, sessionEventSchema, type Turn, type TurnSummary } from '@breakfall/wire'
import { Output } from '../src/terminal/output.ts'

export const AT = '2026-11-15T12:00:00.000Z'

export const UNKNOWN_USAGE: Turn['usage'] = {
  inputTokens: { value: null, quality: 'unknown' },
  outputTokens: { value: null, quality: 'unknown' },
}

export const aSession = (fields: Partial<Session> = {}): Session => ({
  id: 's1',
  title: 'fix it',
  state: 'idle',
  turnId: null,
  model: 'qwen3',
  boxId: 's1',
  createdAt: AT,
  lastSeq: 3,
  ...fields,
})

export const aTurn = (fields: Partial<Turn> = {}): Turn => ({
  id: 't1',
  sessionId: 's1',
  state: 'parked',
  prompt: 'p',
  steps: 1,
  attempts: 2,
  parked: { category: 'model_unreachable', since: AT, resumeAt: null },
  fault: null,
  result: null,
  usage: UNKNOWN_USAGE,
  startedAt: AT,
  endedAt: null,
  ...fields,
})

export const aSummary = (fields: Partial<TurnSummary> = {}): TurnSummary => ({
  id: 't1',
  state: 'finished',
  prompt: 'p',
  steps: 1,
  attempts: 2,
  faultsSurvived: 0,
  unknownOutcomes: 0,
  startedAt: AT,
  endedAt: AT,
  fault: null,
  parked: null,
  retry: null,
  marks: '-',
  ...fields,
})

let seq = 0

/** Fails if the fields do not make an event. */
export const anEvent = (fields: { type: string } & Record<string, unknown>): SessionEvent =>
  sessionEventSchema.parse({ seq: ++seq, sessionId: 's1', turnId: 't1', at: AT, usage: UNKNOWN_USAGE, ...fields })

/** An output whose streams are one terminal, with colours or without. */
export function capturedOutput(options: { json?: boolean; hasColours?: boolean } = {}): {
  out: Output
  text: () => string
} {
  const { json = false, hasColours = false } = options
  const stream = Object.assign(new PassThrough(), {
    isTTY: hasColours,
    getColorDepth: () => (hasColours ? 8 : 1),
    hasColors: () => hasColours,
  })
  let text = ''
  stream.on('data', (chunk: Buffer) => (text += chunk.toString()))
  return { out: new Output({ json, stdout: stream, stderr: stream }), text: () => text }
}

/** The objects of NDJSON output. */
export const jsonLines = (text: string): readonly Record<string, unknown>[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const value: unknown = JSON.parse(line)
      return { ...(typeof value === 'object' ? value : {}) }
    })
