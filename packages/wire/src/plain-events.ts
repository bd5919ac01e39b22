/**
 * Reads events in their plainest form: perhaps a name, then one line of data. Nearly all events of a model's stream are like
 * that, and reading only those takes half the time that a parser of the whole format needs.
 *
 * I1  An event is read here only if every reader of the format would read the same. The text has no carriage returns.
 */
import type { SseFrame, SseRead } from './sse-frame.ts'

export type PlainEventHandler = {
  readonly onEvent: (frame: SseFrame) => void
  /** May read events itself, from `from` on. Returns the index after the last. */
  readonly onRun?: ((read: SseRead, from: number) => number) | undefined
}

/** Reads from `start`, where an event begins, up to the first event in another form or cut off. Returns the index of that. */
export function readPlainEvents(read: SseRead, start: number, { onEvent, onRun }: PlainEventHandler): number {
  const { text } = read
  let from = start
  for (;;) {
    if (onRun !== undefined) from = onRun(read, from)
    const nameEnd = isAt(text, from, EVENT) ? text.indexOf('\n', from) : from - 1
    const data = nameEnd + 1
    if (nameEnd < from - 1 || !isAt(text, data, DATA)) return from
    const end = text.indexOf('\n', data)
    if (end === -1 || text.charCodeAt(end + 1) !== LF) return from // I1: more lines follow, or the text is cut
    const to = end + 2
    const event = nameEnd < from ? undefined : text.slice(from + EVENT.length, nameEnd)
    if (event === '') return from
    onEvent({ event, id: undefined, data: text.slice(data + DATA.length, end), source: { read, from, to, events: 1 } })
    from = to
  }
}

// ---- details ----

const EVENT = 'event: '
const DATA = 'data: '
const LF = 0x0a

/** `startsWith` takes several times as long. */
function isAt(text: string, from: number, field: string): boolean {
  for (let at = 0; at < field.length; at++) if (text.charCodeAt(from + at) !== field.charCodeAt(at)) return false
  return true
}
