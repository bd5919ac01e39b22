/** Time and dice of the page, and what the daemon's clock says. The only file of the console that reads either. */
import { signal } from '@preact/signals'

/** The daemon's clock minus this machine's, as of the last frame that carried a time. */
let offsetMs = 0

export const clock = {
  /** Epoch milliseconds on this machine. */
  local: (): number => Date.now(),
  /** Epoch milliseconds on the daemon's clock: every time in the journal is one of these. */
  server: (): number => Date.now() + offsetMs,
  /** From 0 to 1. */
  random: (): number => Math.random(),
}

export function setServerTime(at: string): void {
  const time = Date.parse(at)
  if (Number.isFinite(time)) offsetMs = time - Date.now()
}

/** The daemon's time, once a second while the page is visible. Countdowns and ages read it, so one timer serves them all. */
export const now = signal(clock.server())

export function startTicking(): void {
  setInterval(() => {
    if (document.visibilityState === 'visible') now.value = clock.server()
  }, 1_000)
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') now.value = clock.server()
  })
}
