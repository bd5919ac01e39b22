/** Loads `later.ts` after the first paint. Until then text is text, and a change is the old lines and the new ones. */
import { signal } from '@preact/signals'
import type * as all from './later.ts'

export type Later = typeof all

export const later = signal<Later | null>(null)

/** Called with every connection: the daemon may have been gone the last time. */
export function loadLater(): void {
  if (later.peek() !== null) return
  import('./later.ts').then(
    (loaded) => {
      later.value = loaded
    },
    () => undefined, // plain text stays readable, and the next connection tries again
  )
}
