/**
 * Decides, block by block, what a body fault does to a streamed answer. No I/O: bytes in, instructions out, which the
 * proxy carries out.
 *
 * I1  A fault that cuts an answer cuts before any event that proves completion, however short the answer is.
 * I2  What is forwarded before the cut is forwarded unchanged, byte for byte.
 */
import {
  type ArgumentField,
  argumentFields,
  type Dialect,
  dropFinishReason,
  errorEvent,
  inBandErrorOf,
  parseJson,
  provesCompletion,
} from './dialect.ts'
import type { BodyFault, BodyKind } from './fault-kinds.ts'
import { type SseBlock, withData } from './sse-blocks.ts'

/** What happens to the connection once the bytes are sent. `resume` waits and then passes the rest. */
export type Ending =
  | { readonly do: 'reset' | 'fin' | 'end' }
  | { readonly do: 'hold'; readonly ms: number; readonly pingMs: number | null }
  | { readonly do: 'resume'; readonly afterMs: number }

export type Instruction = {
  readonly forward: Buffer | null
  /** True if this is the fault that the plan asked for. */
  readonly isHit: boolean
  readonly ending?: Ending
}

export type StreamCut = {
  block(block: SseBlock): Instruction
  /** The upstream's answer is over; `rest` is what follows its last block. */
  end(rest: Buffer): Instruction
}

export function cutFor(fault: BodyFault, dialect: Dialect): StreamCut {
  const { kind } = fault
  if (kind === 'cut_tool_arguments') {
    const ending: Ending = { do: fault['ending'] === 'reset' ? 'reset' : 'end' }
    return cutArguments(fault['finish'] === true, fault['keep'] === 'none', ending)
  }
  if (kind === 'missing_last_chunk') {
    return { block: pass, end: (rest) => ({ forward: rest, isHit: true, ending: { do: 'fin' } }) }
  }
  return cutAt(Number(fault['afterEvents'] ?? 0), (block) => cutInstruction(kind, fault, dialect, block))
}

// ---- details ----

const pass = (block: SseBlock): Instruction => ({ forward: block.bytes, isHit: false })
const passEnd = (rest: Buffer): Instruction => ({ forward: rest, isHit: false, ending: { do: 'end' } })

/** Passes that many events, then gives one instruction. If that does not end the answer, the rest is passed. */
function cutAt(afterEvents: number, instruction: (block: SseBlock | undefined) => Instruction): StreamCut {
  let events = 0
  let isOver = false
  const hit = (block: SseBlock | undefined): Instruction => {
    isOver = true
    return instruction(block)
  }
  return {
    block: (block) => {
      if (isOver || block.data === undefined) return pass(block)
      if (events >= afterEvents || provesCompletion(block.data)) return hit(block) // I1
      events += 1
      return pass(block)
    },
    // A short answer without a terminal event: its end is the last chance to inject the fault.
    end: (rest) => {
      if (isOver) return passEnd(rest)
      return hit(rest.length === 0 ? undefined : { bytes: rest, data: rest.toString('utf8'), event: undefined })
    },
  }
}

type CutKind = Exclude<BodyKind, 'cut_tool_arguments' | 'missing_last_chunk'>

function cutInstruction(kind: CutKind, fault: BodyFault, dialect: Dialect, block: SseBlock | undefined): Instruction {
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
        ending: { do: 'resume', afterMs: Number(fault['ms']) },
      }
    case 'malformed_line':
      return { forward: block ? halved(block) : Buffer.from('data: {"cho\n\n'), isHit: true }
    case 'in_band_error':
      return {
        forward: errorEvent(dialect, inBandErrorOf(fault['error'])),
        isHit: true,
        ending: { do: 'end' },
      }
  }
}

/** Half of the data: neither JSON nor `[DONE]` any more. */
const halved = (block: SseBlock): Buffer => {
  const data = block.data ?? ''
  return withData(block, data.slice(0, Math.max(1, Math.floor(data.length / 2))))
}

/**
 * Halves (or empties) the first chunk of arguments and drops all later ones. Fields that repeat the arguments get what was left
 * of them. `ending` comes in place of the finish reason.
 */
function cutArguments(withFinish: boolean, isEmptied: boolean, ending: Ending): StreamCut {
  let kept: string | undefined
  const cut = ({ text, isRepeat }: ArgumentField): string => {
    if (kept !== undefined) return isRepeat && text.startsWith(kept) ? kept : ''
    kept = isEmptied ? '' : text.slice(0, Math.max(1, Math.floor(text.length / 2)))
    return kept
  }
  return {
    block: (block) => {
      const json = parseJson(block.data)
      const fields = json === undefined ? [] : argumentFields(json).filter((field) => field.text !== '')
      const isEnd = kept !== undefined && provesCompletion(block.data) && fields.every(({ isRepeat }) => isRepeat)
      if (isEnd && !withFinish) return { forward: null, isHit: true, ending }
      if (json === undefined || fields.length === 0) return pass(block)
      for (const field of fields) field.write(cut(field))
      if (!withFinish) dropFinishReason(json) // some servers send the call and the finish reason in one event
      return { forward: withData(block, JSON.stringify(json)), isHit: true }
    },
    end: passEnd,
  }
}
