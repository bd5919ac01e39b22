/** What a person looks at on the turn screen: what is selected, what is searched for, and whether it follows the end. */
import { signal } from '@preact/signals'

/** A step, one of its attempts or calls, or a park or takeover by its seq. */
export type Pick = {
  readonly step: number
  readonly attempt?: number | undefined
  readonly call?: string | undefined
  readonly seq?: number | undefined
}

export const picked = signal<Pick | null>(null)

export const isSamePick = (a: Pick | null, b: Pick): boolean =>
  a !== null && a.step === b.step && a.attempt === b.attempt && a.call === b.call && a.seq === b.seq

/** Whether the conversation follows its end. A person who scrolls up, and every jump to a place, ends that at once. */
export const following = signal(true)

/** What is typed into the search field: the fleet asks the daemon for it, a turn searches its fold. */
export const searchText = signal('')
