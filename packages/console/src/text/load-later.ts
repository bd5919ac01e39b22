/** Loads `later.ts` after the first paint. Until then text is text, and a change is the old lines and the new ones. */
import { signal } from '@preact/signals'
import type * as all from './later.ts'

export type Later = typeof all

export const later = signal<Later | null>(null)

export function loadLater(): void {
  import('./later.ts').then(
    (loaded) => {
      later.value = loaded
    },
    () => undefined, // the daemon was gone just now: plain text stays readable, and the next load tries again
  )
}
