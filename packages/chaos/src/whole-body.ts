/** Body faults for an answer that is no event stream: the body is held until it is whole, then cut. Pure. */
import { argumentPlaces, type Dialect, dropFinishReason, errorJson, type InBandError, parseJson } from './dialect.ts'
import type { BodyFault } from './fault-kinds.ts'
import type { Order } from './surgery.ts'

export function wholeBodyOrder(fault: BodyFault, dialect: Dialect, body: Buffer): Order {
  const half = body.subarray(0, Math.floor(body.length / 2))
  switch (fault.kind) {
    case 'reset':
      return { forward: half, isHit: true, ending: { do: 'reset' } }
    case 'fin':
      return { forward: half, isHit: true, ending: { do: 'fin' } }
    case 'missing_last_chunk':
      return { forward: body, isHit: true, ending: { do: 'fin' } }
    case 'early_end':
    case 'malformed_line':
      return { forward: half, isHit: true, ending: { do: 'end' } }
    case 'stall':
    case 'stall_with_pings': // white space before JSON would be a ping that is allowed, but nobody sends it: plain silence
      return { forward: half, isHit: true, ending: { do: 'hold', ms: Number(fault['ms']), pingMs: null } }
    case 'pause':
      return { forward: half, isHit: true, ending: { do: 'go_on', afterMs: Number(fault['ms']) } }
    case 'in_band_error': {
      const error = fault['error'] as InBandError
      return { forward: Buffer.from(errorJson(dialect, error, 'Overloaded')), isHit: true, ending: { do: 'end' } }
    }
    case 'cut_tool_arguments':
      return cutToolArguments(fault, body)
  }
}

// ---- details ----

function cutToolArguments(fault: BodyFault, body: Buffer): Order {
  const json = parseJson(body.toString('utf8'))
  const places = json === undefined ? [] : argumentPlaces(json)
  if (json === undefined || places.length === 0) return { forward: body, isHit: false, ending: { do: 'end' } }
  for (const place of places) {
    place.write(fault['keep'] === 'none' ? '' : place.text.slice(0, Math.max(1, Math.floor(place.text.length / 2))))
  }
  if (fault['finish'] === false) dropFinishReason(json)
  return { forward: Buffer.from(JSON.stringify(json)), isHit: true, ending: { do: 'end' } }
}
