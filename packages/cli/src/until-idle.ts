/** Waits until standard input is closed and no session is busy: then nobody needs this daemon any more. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { DaemonClient } from './daemon-client.ts'

const LOOK_MS = 200

/** `onBusy` is told once where there is work left when the input closes. */
export async function untilIdle(client: DaemonClient, onBusy: () => void): Promise<void> {
  await closedInput()
  for (let looks = 0; ; looks++) {
    const sessions = await client.sessions()
    // A parked turn is on disk and goes on with the next daemon; only work under way keeps this one.
    if (sessions.every((session) => session.state !== 'busy')) return
    if (looks === 0) onBusy()
    await sleep(LOOK_MS)
  }
}

function closedInput(): Promise<void> {
  return new Promise((resolve) => {
    process.stdin.on('end', resolve)
    process.stdin.on('close', resolve)
    process.stdin.on('error', () => resolve())
    process.stdin.resume()
  })
}
