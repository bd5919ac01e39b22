/**
 * What is written to a child's stdin. A child that does not read it is found out within a limit, and what waits for it is bounded.
 */
import type { Writable } from 'node:stream'
import { Fault } from '@breakfall/faults'
import { afterAwake } from './clock.ts'
import type { Phase } from './report.ts'
import type { ResolvedSpec } from './spec.ts'

export type ChildInput = {
  readonly spec: ResolvedSpec
  readonly stdin: Writable | null
  readonly phase: Phase
  /** It has not read for too long. */
  readonly onStalled: () => void
}

/** Resolves when the system has taken it. Rejects with a fault where the child does not. */
export async function writeInput(data: string | Uint8Array, input: ChildInput): Promise<void> {
  const { stdin, phase } = input
  const { limits, clock, name } = input.spec
  const bytes = Buffer.byteLength(data)
  if (bytes > limits.stdinBytesMax) {
    const error = `${bytes} bytes are too many for the input of ${name} (limits.stdinBytesMax is ${limits.stdinBytesMax}).`
    throw new Fault('payload_too_large', { error, phase })
  }
  if (stdin === null || !stdin.writable) {
    throw new Fault('process_failed', { error: `${name} takes no more input: it is closed.`, phase })
  }
  if (stdin.writableLength + bytes > limits.stdinBytesMax) {
    const error = `${name} does not read its input: ${stdin.writableLength} bytes wait already.`
    throw new Fault('process_hung', { error, phase })
  }
  const taken = Promise.withResolvers<Error | null | undefined>()
  const cancel = afterAwake(clock, limits.stdinStallMs, () => {
    taken.reject(new Fault('process_hung', { error: `${name} has stopped reading its input and is ended.`, phase }))
    input.onStalled()
  })
  stdin.write(data, taken.resolve)
  try {
    const error = await taken.promise
    if (error != null) {
      throw new Fault('process_failed', { error: `${name} takes no more input: it broke.`, cause: error, phase })
    }
  } finally {
    cancel()
  }
}
