/** Waits until standard input is closed and no session is busy: then nobody needs this daemon any more. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Daemon } from '@breakfall/daemon'

const LOOK_MS = 200

/** `onBusy` is told once where there is work left when the input closes. */
export async function untilIdle({ sessions }: Daemon, onBusy: () => void): Promise<void> {
  // A parked turn is on disk and is taken up later; only work under way here keeps this one, not what somebody else left.
  const isBusy = (): boolean =>
    [...sessions.loader.all].some((session) => session.view().state === 'busy' && sessions.loader.owns(session.id))
  await closedInput()
  if (isBusy()) onBusy()
  while (isBusy()) await sleep(LOOK_MS)
}

function closedInput(): Promise<void> {
  return new Promise((resolve) => {
    process.stdin.on('end', resolve)
    process.stdin.on('close', resolve)
    process.stdin.on('error', () => resolve())
    process.stdin.resume()
  })
}
