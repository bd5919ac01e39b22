/** Body faults for an answer that is not an event stream: the complete body is buffered, then cut. Pure. */
import { argumentFields, type Dialect, dropFinishReason, errorJson, inBandErrorOf, parseJson } from './dialect.ts'
import type { BodyFault } from './fault-kinds.ts'
import type { Instruction } from './stream-cuts.ts'

export function cutWholeBody(fault: BodyFault, dialect: Dialect, body: Buffer): Instruction {
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
    case 'stall_with_pings': // white space would be a legal ping before JSON, but no server sends it: plain silence
      return { forward: half, isHit: true, ending: { do: 'hold', ms: Number(fault['ms']), pingMs: null } }
    case 'pause':
      return { forward: half, isHit: true, ending: { do: 'resume', afterMs: Number(fault['ms']) } }
    case 'in_band_error': {
      const error = inBandErrorOf(fault['error'])
      return { forward: Buffer.from(errorJson(dialect, error, 'Overloaded')), isHit: true, ending: { do: 'end' } }
    }
    case 'cut_tool_arguments':
      return cutToolArguments(fault, body)
  }
}

// ---- details ----

function cutToolArguments(fault: BodyFault, body: Buffer): Instruction {
  const json = parseJson(body.toString('utf8'))
  const fields = json === undefined ? [] : argumentFields(json)
  if (json === undefined || fields.length === 0) return { forward: body, isHit: false, ending: { do: 'end' } }
  for (const field of fields) {
    field.write(fault['keep'] === 'none' ? '' : field.text.slice(0, Math.max(1, Math.floor(field.text.length / 2))))
  }
  if (fault['finish'] === false) dropFinishReason(json)
  return { forward: Buffer.from(JSON.stringify(json)), isHit: true, ending: { do: 'end' } }
}
