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
export async function writeInput(data: string | Uint8Array, input: ChildInput): Promise<void> {
  const { stdin, phase } = input
  const { limits, clock, name } = input.spec
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
  const taken = Promise.withResolvers<Error | null | undefined>()
  stdin.write(data, taken.resolve)
  if (stdin.writableLength === 0 && stdin.errored === null) return // the pipe had room for all of it
  const cancel = afterAwake(clock, limits.stdinStallMs, () => {
    taken.reject(new Fault('process_hung', { error: `${name} stopped reading its input and is being ended.`, phase }))
    input.onStalled()
  })
  try {
    const error = await taken.promise
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
