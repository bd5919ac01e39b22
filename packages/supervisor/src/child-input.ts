/** Writes to a child's stdin. The buffer is bounded, and a child that stops reading is detected within a limit. */
import type { Writable } from 'node:stream'
import { Fault } from '@breakfall/faults'
import { afterAwake } from './clock.ts'
import type { Phase } from './report.ts'
import type { ResolvedSpec } from './spec.ts'

export type ChildInput = {
  readonly spec: ResolvedSpec
  readonly stdin: Writable | null
  readonly phase: Phase
  /** The child has not read for too long. */
  readonly onStalled: () => void
}

/** Resolves when the data has left this process. Rejects with a fault if the child does not take it. */
export function writeInput(data: string | Uint8Array, input: ChildInput): Promise<void> {
  try {
    const taken = written(data, input)
    return taken === undefined ? TAKEN : untilTaken(taken, input)
  } catch (thrown) {
    return Promise.reject(thrown)
  }
}

// ---- details, in the order they are used above ----

const TAKEN = Promise.resolve()

type WriteError = Error | null | undefined

/** Undefined if the pipe had room for all of it, as it usually has: then there is nothing to wait for. */
function written(data: string | Uint8Array, { spec, stdin, phase }: ChildInput): Promise<WriteError> | undefined {
  const { limits, name } = spec
  const bytes = Buffer.byteLength(data)
  if (bytes > limits.stdinBytesMax) {
    const error = `${bytes} bytes are too much input for ${name} (limits.stdinBytesMax is ${limits.stdinBytesMax}).`
    throw new Fault('payload_too_large', { error, phase })
  }
  if (stdin === null || !stdin.writable) {
    throw new Fault('process_failed', { error: `${name} does not accept input: its stdin is closed.`, phase })
  }
  if (stdin.writableLength + bytes > limits.stdinBytesMax) {
    const error = `${name} does not read its input: ${stdin.writableLength} bytes are still waiting.`
    throw new Fault('process_hung', { error, phase })
  }
  const taken = Promise.withResolvers<WriteError>()
  stdin.write(data, taken.resolve)
  return stdin.writableLength === 0 && stdin.errored === null ? undefined : taken.promise
}

async function untilTaken(taken: Promise<WriteError>, { spec, phase, onStalled }: ChildInput): Promise<void> {
  const { limits, clock, name } = spec
  const stalled = Promise.withResolvers<never>()
  const cancel = afterAwake(clock, limits.stdinStallMs, () => {
    stalled.reject(new Fault('process_hung', { error: `${name} stopped reading its input and is being ended.`, phase }))
    onStalled()
  })
  try {
    const error = await Promise.race([taken, stalled.promise])
    if (error != null) {
      throw new Fault('process_failed', {
        error: `${name} does not accept input: its stdin broke.`,
        cause: error,
        phase,
      })
    }
  } finally {
    cancel()
  }
}
