/** What an API takes for a valid conversation, and the smallest edits that make one of a conversation that is not. */
import type { HistoryCause, HistoryRefusal } from '@breakfall/faults/internal'
import type { History, Note } from './history.ts'

/** What the server said. */
export type Told = HistoryRefusal & {
  /** How often this cause was repaired in this request. */
  readonly times: number
}

export type Repair = (history: History, told: Told, note: Note) => History

export type Grammar = {
  /** Everything that no server of the API takes. Order: ids, calls, results, the rest. The same history if nothing is wrong. */
  readonly mend: (history: History, note: Note) => History
  /** What only some servers refuse, or only the server can see. Done only if it is named. */
  readonly named: Readonly<Partial<Record<HistoryCause, Repair>>>
}

/** Whether the refusal mentions this id, and not a longer id with this in it. */
export function mentions({ texts }: Pick<Told, 'texts'>, id: string | undefined): boolean {
  if (id === undefined || id === '') return false
  return texts.some((text) => {
    for (let at = text.indexOf(id); at !== -1; at = text.indexOf(id, at + 1))
      if (!isInId(text[at - 1]) && !isInId(text[at + id.length])) return true
    return false
  })
}

// ---- details ----

const isInId = (char = ''): boolean => /[\w-]/.test(char)
