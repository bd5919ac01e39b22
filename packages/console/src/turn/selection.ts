/** What is selected on the turn screen: a step, one of its attempts or calls, or a park or takeover by its seq. */
import { signal } from '@preact/signals'

export type Pick = {
  readonly step: number
  readonly attempt?: number | undefined
  readonly call?: string | undefined
  readonly seq?: number | undefined
}

export const picked = signal<Pick | null>(null)

export const isSamePick = (a: Pick | null, b: Pick): boolean =>
  a !== null && a.step === b.step && a.attempt === b.attempt && a.call === b.call && a.seq === b.seq
