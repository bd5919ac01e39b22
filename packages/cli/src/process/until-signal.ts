/** Serves until somebody asks us to end. The second time we are asked, we leave at once. */
import { EXIT_CODES } from '@breakfall/faults'
import { onSignal } from './signals.ts'

export function untilAsked(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isAsked = false
    onSignal((signal) => {
      if (isAsked) process.exit(EXIT_CODES.cancelled)
      isAsked = true
      resolve(signal)
    })
  })
}
