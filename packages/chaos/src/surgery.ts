/**
 * Decides, block by block, what a body fault does to an answer. Pure but for its own counters: bytes in, orders out;
 * the proxy carries the orders out.
 *
 * I1  A fault that cuts an answer cuts before any event that proves completion, however short the answer is.
 * I2  What is forwarded before the cut is forwarded as it came, byte for byte.
 */
import {
  argumentPlaces,
  type Dialect,
  dropFinishReason,
  errorEvent,
  type InBandError,
  parseJson,
  provesCompletion,
} from './dialect.ts'
import type { BodyFault, BodyKind } from './fault-kinds.ts'
import { type SseBlock, withData } from './sse-blocks.ts'

/** What happens to the connection once the bytes are out. `go_on` comes after a wait and then passes the rest. */
export type Ending =
  | { readonly do: 'reset' | 'fin' | 'end' }
  | { readonly do: 'hold'; readonly ms: number; readonly pingMs: number | null }
  | { readonly do: 'go_on'; readonly afterMs: number }

export type Order = {
  readonly forward: Buffer | null
  /** True where this order is what the plan asked for. */
  readonly isHit: boolean
  readonly ending?: Ending
}

export type Surgery = {
  block(block: SseBlock): Order
  /** The upstream's answer is over, and this was left of it. */
  end(rest: Buffer): Order
}

export function surgeryFor(fault: BodyFault, dialect: Dialect): Surgery {
  const { kind } = fault
  if (kind === 'cut_tool_arguments') return cutArguments(fault['finish'] === true, fault['keep'] === 'none')
  if (kind === 'missing_last_chunk') {
    return { block: pass, end: (rest) => ({ forward: rest, isHit: true, ending: { do: 'fin' } }) }
  }
  return cutAt(Number(fault['afterEvents'] ?? 0), (block) => cutOrder(kind, fault, dialect, block))
}

// ---- details ----

const pass = (block: SseBlock): Order => ({ forward: block.bytes, isHit: false })
const passEnd = (rest: Buffer): Order => ({ forward: rest, isHit: false, ending: { do: 'end' } })

/** Passes so many events, then gives one order. After an order that does not end the answer, the rest is passed. */
function cutAt(afterEvents: number, order: (block: SseBlock | undefined) => Order): Surgery {
  let events = 0
  let isOver = false
  const hit = (block: SseBlock | undefined): Order => {
    isOver = true
    return order(block)
  }
  return {
    block: (block) => {
      if (isOver || block.data === undefined) return pass(block)
      if (events >= afterEvents || provesCompletion(block.data)) return hit(block) // I1
      events += 1
      return pass(block)
    },
    // An answer without a terminal event of its own, shorter than the cut: its end is the last place to hit.
    end: (rest) => {
      if (isOver) return passEnd(rest)
      return hit(rest.length === 0 ? undefined : { bytes: rest, data: rest.toString('utf8'), event: undefined })
    },
  }
}

type CutKind = Exclude<BodyKind, 'cut_tool_arguments' | 'missing_last_chunk'>

function cutOrder(kind: CutKind, fault: BodyFault, dialect: Dialect, block: SseBlock | undefined): Order {
  switch (kind) {
    case 'reset':
      return { forward: null, isHit: true, ending: { do: 'reset' } }
    case 'fin':
      return { forward: null, isHit: true, ending: { do: 'fin' } }
    case 'early_end':
      return { forward: null, isHit: true, ending: { do: 'end' } }
    case 'stall':
      return { forward: null, isHit: true, ending: { do: 'hold', ms: Number(fault['ms']), pingMs: null } }
    case 'stall_with_pings':
      return {
        forward: null,
        isHit: true,
        ending: { do: 'hold', ms: Number(fault['ms']), pingMs: Number(fault['pingMs']) },
      }
    case 'pause':
      return {
        forward: block?.bytes ?? null,
        isHit: true,
        ending: { do: 'go_on', afterMs: Number(fault['ms']) },
      }
    case 'malformed_line':
      return { forward: block ? halved(block) : Buffer.from('data: {"cho\n\n'), isHit: true }
    case 'in_band_error':
      return {
        forward: errorEvent(dialect, fault['error'] as InBandError),
        isHit: true,
        ending: { do: 'end' },
      }
  }
}

/** Half of the data: no JSON any more, and no `[DONE]` either. */
const halved = (block: SseBlock): Buffer => {
  const data = block.data ?? ''
  return withData(block, data.slice(0, Math.max(1, Math.floor(data.length / 2))))
}

/** The first piece of arguments is halved (or emptied), all later ones are dropped: the calls stay cut to the end. */
function cutArguments(withFinish: boolean, isEmptied: boolean): Surgery {
  let isCut = false
  const cut = (text: string): string => {
    if (isCut || isEmptied || text === '') return ''
    isCut = true
    return text.slice(0, Math.max(1, Math.floor(text.length / 2)))
  }
  let isHit = false
  return {
    block: (block) => {
      const json = parseJson(block.data)
      const places = json === undefined ? [] : argumentPlaces(json).filter((place) => place.text !== '')
      if (json !== undefined && places.length > 0) {
        isHit = true
        for (const place of places) place.write(cut(place.text))
        if (!withFinish) dropFinishReason(json) // Some servers send the call and the finish reason in one event.
        return { forward: withData(block, JSON.stringify(json)), isHit: true }
      }
      if (isHit && !withFinish && provesCompletion(block.data)) {
        return { forward: null, isHit: true, ending: { do: 'end' } }
      }
      return pass(block)
    },
    end: passEnd,
  }
}
