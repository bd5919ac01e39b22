/** Resolves with the first signal, for a server to shut down. The second signal ends the process at once. */
import { EXIT_CODES } from '@breakfall/faults'
import { onSignal } from './signals.ts'

export function untilSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isStopping = false
    onSignal((signal) => {
      if (isStopping) process.exit(EXIT_CODES.cancelled)
      isStopping = true
      resolve(signal)
    })
  })
}
