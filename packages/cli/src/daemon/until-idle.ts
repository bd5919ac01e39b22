/** Waits until standard input is closed and no session is busy: then this daemon is no longer needed. */
import type { Daemon } from '@breakfall/daemon'
import { sleep } from '@breakfall/faults'

const CHECK_MS = 200

/** Calls `onBusy` once if there is still work when the input closes. */
export async function untilIdle({ sessions }: Daemon, onBusy: () => void): Promise<void> {
  // A parked turn is on disk and resumes later. Only turns that this daemon works on count, not those of another one.
  const isBusy = (): boolean =>
    [...sessions.loader.all].some((session) => session.view().state === 'busy' && sessions.loader.owns(session.id))
  await inputClosed()
  if (isBusy()) onBusy()
  while (isBusy()) await sleep(CHECK_MS)
}

function inputClosed(): Promise<void> {
  return new Promise((resolve) => {
    process.stdin.on('end', resolve)
    process.stdin.on('close', resolve)
    process.stdin.on('error', () => resolve())
    process.stdin.resume()
  })
}
