/**
 * Appends, read back from the values of the statement that wrote them. Pure. What was acknowledged is kept for half a minute: as a few
 * buffers instead of thousands of objects, it costs the garbage collector nothing.
 */
import { bigintAt, hexAt, indexOfUuid, intAt, textAt, uuidAt } from './binary-array.ts'
import type { Append } from '../store.ts'
import { valuesIn } from './parameters.ts'

/** An append with the hash that its session's journal has afterwards, and those of its events. */
export type Hashed = { readonly append: Append; readonly hashes: readonly string[]; readonly head: string }

/** From the values of a statement for one event each, in their order. */
export function readSingle(sessionId: string, bytes: Buffer): Hashed | undefined {
  const index = indexIn(bytes, sessionId)
  if (index === undefined) return undefined
  const [, epochs = NONE, afters = NONE, , types = NONE, turnIds = NONE, bodies = NONE, heads = NONE] = valuesIn(bytes)
  const after = intAt(afters, index)
  const head = hexAt(heads, index)
  const event = {
    seq: after + 1,
    type: textAt(types, index),
    turnId: uuidAt(turnIds, index),
    body: textAt(bodies, index),
  }
  return { append: { sessionId, epoch: bigintAt(epochs, index), after, events: [event] }, hashes: [head], head }
}

/** From the values of a statement for any number of events each, in their order. */
export function readPlain(sessionId: string, bytes: Buffer): Hashed | undefined {
  const index = indexIn(bytes, sessionId)
  if (index === undefined) return undefined
  const [, epochs = NONE, afters = NONE, counts = NONE, heads = NONE, , , ...ofEvents] = valuesIn(bytes)
  const [seqs = NONE, types = NONE, turnIds = NONE, bodies = NONE, hashes = NONE] = ofEvents
  let first = 0
  for (let before = 0; before < index; before += 1) first += intAt(counts, before)
  const rows = Array.from({ length: intAt(counts, index) }, (_, nr) => first + nr)
  const events = rows.map((row) => ({
    seq: intAt(seqs, row),
    type: textAt(types, row),
    turnId: uuidAt(turnIds, row),
    body: textAt(bodies, row),
  }))
  const append = { sessionId, epoch: bigintAt(epochs, index), after: intAt(afters, index), events }
  return { append, hashes: rows.map((row) => hexAt(hashes, row)), head: hexAt(heads, index) }
}

// ---- details ----

/** Most statements do not concern the session: then only their first value, the sessions, is looked at. */
function indexIn(bytes: Buffer, sessionId: string): number | undefined {
  const [ids = NONE] = valuesIn(bytes, 1)
  return indexOfUuid(ids, sessionId)
}

const NONE = Buffer.alloc(0)
